"""Long work on the event loop, in slices: other work gets the loop after a few milliseconds."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Generator, Iterator
from typing import TypeVar

from rtdb_emulator.collector import set_aside

T = TypeVar("T")

# Seconds of one slice.
SLICE = 0.005
# The number of bytes that are sent together.
_PIECE = 64 * 1024


async def in_slices(steps: Generator[object, None, T], clock: Callable[[], float] = time.perf_counter) -> T:
    """Run a generator that builds a tree to its end, and return what it returns."""
    until = clock() + SLICE
    while True:
        try:
            next(steps)
        except StopIteration as end:
            set_aside()
            value: T = end.value
            return value
        if clock() >= until:
            set_aside()
            await asyncio.sleep(0)
            until = clock() + SLICE


async def sent_in_slices(
    pieces: Iterator[bytes], clock: Callable[[], float] = time.perf_counter
) -> AsyncIterator[bytes]:
    """Yield the same bytes, in larger pieces."""
    until = clock() + SLICE
    waiting = bytearray()
    for piece in pieces:
        waiting += piece
        if len(waiting) >= _PIECE:
            yield bytes(waiting)
            waiting.clear()
        if clock() >= until:
            await asyncio.sleep(0)
            until = clock() + SLICE
    yield bytes(waiting)
