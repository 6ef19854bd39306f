"""The signals that ask a command to end: each is noted when it arrives, and passed on once.

    with Signals() as signals:
        if signals.pause(5):                   # false as soon as a signal has arrived
            with signals.going_to(group.send):
                ...

Inside the block, SIGTERM, SIGINT, SIGHUP and SIGQUIT don't end this process by themselves. That also holds for the
first process of a container. A signal that arrives before `going_to` waits until then. A signal that was ignored before
stays ignored, as `nohup` and a shell's background jobs require.

Ctrl-Z, and the other signals by which a terminal stops a process, are ignored by this process and by the processes that
the block starts. A stopped command would keep its lock from all others, and a stopped firecron would not renew it.
"""

from __future__ import annotations

import os
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


# Windows has only the first two.
FORWARDED = _those_there_are("SIGTERM", "SIGINT", "SIGHUP", "SIGQUIT")
STOPS = _those_there_are("SIGTSTP", "SIGTTIN", "SIGTTOU")


class Signals:
    """A context manager for the main thread. `received` is the number of the first signal, or None."""

    def __init__(self) -> None:
        self.received: int | None = None
        self._pending: list[int] = []
        self._send: Callable[[int], None] | None = None
        # Reentrant: a handler interrupts the main thread at any line, and calls `wake` on it.
        self._open = threading.RLock()
        self._is_open = False
        self._before: dict[int, Handler] = {}

    def __enter__(self) -> Self:
        self._reads, self._writes = socket.socketpair()
        self._is_open = True
        self._writes.setblocking(False)
        # A signal that arrives just before a pause has to end the pause too. Python's own handler runs only after it.
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
        """Wait until a signal arrives, `wake` is called or the time is over; return whether no signal has arrived.

        `seconds` is the longest wait. None waits without limit.
        """
        if self.received is None and select.select([self._reads], [], [], seconds)[0]:
            self._reads.recv(4096)  # else a pause after a `wake` would end at once, and so would all later ones
        return self.received is None

    def wake(self) -> None:
        """End the main thread's pause, or its next one if it is not pausing. Other threads call this."""
        with self._open:
            if self._is_open:
                self._writes.send(b"!")

    @contextmanager
    def going_to(self, send: Callable[[int], None]) -> Iterator[None]:
        """Pass on each signal with `send`: those that have arrived, and those that arrive in the block."""
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


def ending_at_second() -> Callable[[int], None]:
    """Return a function to pass signals on to: at the second one it ends this process, without any cleaning up."""
    heard: list[int] = []

    def hear(number: int) -> None:
        heard.append(number)
        if len(heard) > 1:
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)
            os._exit(128 + number)  # the first process of a container is not ended by a signal's default

    return hear
