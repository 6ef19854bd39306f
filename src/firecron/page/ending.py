"""The end of this process, as soon as its server learns of it: then streams have to end, or the server waits for them.

uvicorn, and others, finish the responses that are open before they tell the application to stop. A stream would delay
the stop of the jobs until it ends by itself. ASGI tells an application nothing of this, so the signal's handler is
asked: it is called as before, and the streams end. A signal without a handler in Python ends the process by itself.

Only the main thread can do this. A server on another thread gets no signals: what stops it also has to end the page.
"""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from functools import partial
from types import FrameType
from typing import Protocol, TypeAlias
from weakref import WeakSet

Handler: TypeAlias = Callable[[int, FrameType | None], object]

_SIGNALS = tuple(signal.Signals[name] for name in ("SIGTERM", "SIGINT") if name in signal.Signals.__members__)


class Endable(Protocol):
    """Something that has to end before the process can."""

    def end(self) -> None:
        """End at once. Called by a signal's handler, so it must not wait for a lock."""


_endable: WeakSet[Endable] = WeakSet()


class _Watched:
    """The handler of a signal, and the handler before it."""

    def __init__(self, before: Handler) -> None:
        self.before = before

    def __call__(self, number: int, frame: FrameType | None) -> object:
        for one in list(_endable):
            one.end()
        return self.before(number, frame)


def end_with_process(one: Endable) -> None:
    """Call `end` once this process is asked to end, for as long as the thing lives. A second call costs little.

    The server's handlers may come and go, so this is called at each request.
    """
    _endable.add(one)
    if threading.current_thread() is not threading.main_thread():
        return
    for number in _SIGNALS:
        handler = signal.getsignal(number)
        if callable(handler) and not isinstance(handler, _Watched) and not _is_pythons(handler):
            signal.signal(number, _Watched(handler))


def _is_pythons(handler: Handler) -> bool:
    """Return whether a handler is Python's own, or asyncio's: these end the program without waiting for responses."""
    runner = getattr(handler.func, "__self__", None) if isinstance(handler, partial) else None
    return handler is signal.default_int_handler or isinstance(runner, asyncio.Runner)
