"""An event loop in virtual time, for async jobs.

asyncio's own loop does all but the waiting: that is the greenlet's.
"""

from __future__ import annotations

import asyncio
from asyncio import base_events
from collections.abc import Coroutine
from contextlib import suppress
from typing import Any, TypeVar

from tests.simulation.greenlets import Thread, current
from tests.simulation.machines import SECOND

T = TypeVar("T")


class Loop(base_events.BaseEventLoop):
    """A loop of the thread that runs it."""

    def __init__(self) -> None:
        super().__init__()
        self._scheduler = current()
        self._selector = _Waiting(self)
        self.thread: Thread | None = None
        self.is_woken = False

    def time(self) -> float:
        scheduler = current()
        machine = scheduler.machine
        return (scheduler.now if machine is None else machine.mono(scheduler.now)) / SECOND

    def is_closed(self) -> bool:
        # Whoever waits for its end in a run that is being cleaned up must not wait on.
        return super().is_closed() or self._scheduler.is_closing

    def _write_to_self(self) -> None:
        """Wake the loop: another thread has given it something to do."""
        self.is_woken = True
        if self.thread is not None:
            current().wake(self.thread)

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if not self._scheduler.is_closing:  # what ends all threads is nobody's error
            super().call_exception_handler(context)

    def _process_events(self, event_list: object) -> None:
        """Do nothing: there are no sockets."""


class _Waiting:
    """What the loop takes for its selector."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop

    def select(self, timeout: float | None) -> list[object]:
        scheduler, loop = current(), self._loop
        if timeout == 0 or loop.is_woken:
            scheduler.point()
        else:
            loop.thread = scheduler.thread
            scheduler.block(None if timeout is None else scheduler.after(timeout) - scheduler.now)
        loop.thread, loop.is_woken = None, False
        return []


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a coroutine on a loop of its own, as `asyncio.run` does."""
    loop = Loop()
    try:
        return loop.run_until_complete(main)
    finally:
        left = asyncio.all_tasks(loop)
        if current().is_closing:
            for task in left:
                _end(task)
        elif left:
            for task in left:
                task.cancel()
            loop.run_until_complete(asyncio.wait(left))
        loop.close()


def _end(task: asyncio.Task[Any]) -> None:
    """End a task whose loop runs no more: else it would go on when it is collected, in another run."""
    with suppress(BaseException):
        task.get_coro().close()
