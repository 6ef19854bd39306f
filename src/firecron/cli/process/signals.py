"""Signals that ask a command to end, noted as they come, and passed on once each.

    with Signals() as signals:
        if signals.pause(5):                   # false as soon as one has come
            with signals.going_to(group.send):
                ...

From the first line of the block on, SIGTERM, SIGINT, SIGHUP and SIGQUIT end nothing by themselves, also where this
process is the first of a container. One that comes before there is anybody to send it to waits. A signal that was
ignored before stays ignored, as `nohup` and a shell's background jobs want it.

Ctrl-Z, and what else a terminal stops a process with, is ignored, by what is started in the block too: a command that
stands still would keep its lock from all others, and a firecron that does would renew nothing.
"""

from __future__ import annotations

import select
import signal
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Self, TypeAlias

if TYPE_CHECKING:
    Handler: TypeAlias = signal.Handlers | int | Callable[[int, FrameType | None], object] | None


def _those_there_are(*names: str) -> tuple[signal.Signals, ...]:
    return tuple(signal.Signals[name] for name in names if name in signal.Signals.__members__)


# Windows has the first two.
FORWARDED = _those_there_are("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
STOPS = _those_there_are("SIGTSTP", "SIGTTIN", "SIGTTOU")


class Signals:
    """A context manager, for the main thread. `received` is the first that came."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._pending: list[int] = []
        self._send: Callable[[int], None] | None = None
        # Reentrant: a handler wakes the main thread, whatever that is doing.
        self._open = threading.RLock()
        self._is_open = False
        self._before: dict[int, Handler] = {}

    def __enter__(self) -> Self:
        self._reads, self._writes = socket.socketpair()
        self._is_open = True
        self._writes.setblocking(False)
        # So that also one that comes just before a pause ends it: Python's own handlers run only after that.
        self._wakes_before = signal.set_wakeup_fd(self._writes.fileno(), warn_on_full_buffer=False)
        for number in FORWARDED:
            if signal.getsignal(number) is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._note)
        for number in STOPS:
            self._before[number] = signal.signal(number, signal.SIG_IGN)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
        signal.set_wakeup_fd(self._wakes_before)
        with self._open:
            self._is_open = False
            self._reads.close()
            self._writes.close()

    def pause(self, seconds: float | None = None) -> bool:
        """Wait so long (None: without limit), or until a signal comes, or `wake`; whether no signal has come."""
        if self.received is None:
            select.select([self._reads], [], [], seconds)
        return self.received is None

    def wake(self) -> None:
        """End the pause of the main thread, now or when it comes; for other threads."""
        with self._open:
            if self._is_open:
                self._writes.send(b"!")

    @contextmanager
    def going_to(self, send: Callable[[int], None]) -> Iterator[None]:
        """Send on what has come, and what comes."""
        self._send = send
        self._deliver()
        try:
            yield
        finally:
            self._send = None

    def _note(self, number: int, frame: FrameType | None) -> None:
        if self.received is None:
            self.received = number
            self.wake()
        self._pending.append(number)
        self._deliver()

    def _deliver(self) -> None:
        while self._send is not None and self._pending:
            self._send(self._pending.pop(0))
