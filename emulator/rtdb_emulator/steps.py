"""Long work in steps, so that others can work meanwhile: in slices of the event loop, out of the collector's sight.

Work is a generator that yields after about a millisecond. Between two steps anything may happen: a commit, the end of a
listener. So steps read what never changes, such as the nodes of one commit, and what they make is seen by others when
it is whole. On the event loop works run in slices of a few milliseconds, and take turns: however many there are, other
work waits for one slice.
"""

from __future__ import annotations

import asyncio
import gc
import time
from asyncio import AbstractEventLoop, Lock
from collections.abc import AsyncIterator, Callable, Generator, Iterator, Sequence
from threading import Event
from typing import Final, Generic, TypeVar, final
from weakref import WeakKeyDictionary

T = TypeVar("T")

# Keys that are put into a dict between two steps.
_GATHERED = 5_000
_END = object()


def at_once(steps: Generator[object, None, T]) -> T:
    """Run a generator to its end, and return what it returns."""
    while True:
        try:
            next(steps)
        except StopIteration as end:
            value: T = end.value
            return value


def has_more(steps: Generator[object]) -> bool:
    """Do one step, and return whether there are more."""
    return next(steps, _END) is not _END


def gathering(keys: Sequence[str]) -> Generator[None, None, dict[str, None]]:
    """Return the keys as those of a dict, which is made in steps."""
    gathered: dict[str, None] = {}
    for start in range(0, len(keys), _GATHERED):
        gathered.update(dict.fromkeys(keys[start : start + _GATHERED]))
        yield
    return gathered


@final
class Later(Generic[T]):
    """A value that is made in steps, once for all that want it. The steps are for one thread."""

    __slots__ = ("_error", "_steps", "_value")

    def __init__(self, steps: Generator[object, None, T]) -> None:
        self._steps: Generator[object, None, T] | None = steps
        self._error: Exception | None = None
        self._value: T

    def making(self) -> Generator[None, None, T]:
        """Make the value in steps, and return it. Several may do so at once: each makes a part.

        Raises what a step raises, to each of them.
        """
        while self._steps is not None:
            try:
                next(self._steps)
            except StopIteration as end:
                self._value, self._steps = end.value, None
            except Exception as error:
                self._error, self._steps = error, None
            else:
                yield
        if self._error is not None:
            raise self._error
        return self._value

    @property
    def value(self) -> T:
        """The value. What isn't made is made at once."""
        return at_once(self.making())


# --- slices of the event loop

# Seconds of one slice.
SLICE = 0.005
# The number of bytes that are sent together.
_PIECE = 64 * 1024

_turns: WeakKeyDictionary[AbstractEventLoop, Lock] = WeakKeyDictionary()


async def in_slices(steps: Generator[object, None, T], clock: Callable[[], float] = time.perf_counter) -> T:
    """Run a generator to its end, and return what it returns."""
    while True:
        async with _turn():
            until = clock() + SLICE
            try:
                next(steps)
                while clock() < until:
                    next(steps)
            except StopIteration as end:
                value: T = end.value
                return value
            finally:
                _set_aside()
            await asyncio.sleep(0)


async def made_in_slices(
    pieces: Iterator[bytes], clock: Callable[[], float] = time.perf_counter
) -> AsyncIterator[bytes]:
    """Make bytes piece by piece, and yield many pieces together."""
    is_over = False
    while not is_over:
        made = bytearray()
        async with _turn():
            until = clock() + SLICE
            for piece in pieces:
                made += piece
                if len(made) >= _PIECE or clock() >= until:
                    break
            else:
                is_over = True
            _set_aside()
            await asyncio.sleep(0)
        if made:
            yield bytes(made)


def _turn() -> Lock:
    """Return what a work holds during its slice, and until other work had the loop."""
    return _turns.setdefault(asyncio.get_running_loop(), Lock())


async def sent_in_slices(
    body: bytes | bytearray, clock: Callable[[], float] = time.perf_counter
) -> AsyncIterator[bytes]:
    """Yield the same bytes in pieces."""
    until = clock() + SLICE
    for start in range(0, len(body), _PIECE):
        yield bytes(body[start : start + _PIECE])
        if clock() >= until:
            await asyncio.sleep(0)
            until = clock() + SLICE


# --- Python's collector of cyclic garbage
#
# A full collection visits all objects that could be in a cycle, and so every node of a tree. With 200,000 nodes that
# holds everybody up for tens of milliseconds, and an import needs several: there is one whenever the objects have
# become a quarter more. All of them are in vain. Nodes are immutable, so they are in no cycle, and their count of
# references frees them.
#
# So the command, whose process is the emulator's own (`own_process`), lets the collector look at new objects only, and
# sets aside (`_set_aside`) what is left of them after each slice. What is set aside is still freed by its count of
# references. A cycle in it is not: that costs a few objects for each connection that was open during an import. In a
# process of others, such as a test's, whose cycles are not ours to keep, none of this happens. Nodes that come by many
# small writes stay in sight.

# Objects of these generations are new: none of them is as old as two collections.
_NEW: Final = 1

_is_ours = Event()


def own_process() -> None:
    """Say that this process is the emulator's own, and set aside what there is."""
    _is_ours.set()
    gc.freeze()


def _set_aside() -> None:
    """Keep the collector from looking again at the objects that there are now, if the process is the emulator's own."""
    if _is_ours.is_set():
        gc.collect(_NEW)
        gc.freeze()
