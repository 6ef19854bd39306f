"""The two clocks of this machine, waiting, and deadlines: passed in, so that tests run in virtual time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

# A clock that goes on while the machine sleeps, where there is one: a lease must age in suspend.
# Linux has one by that name, and the monotonic clock of macOS (not the one that `time.monotonic` reads there) is one.
_BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class TimedLock(Protocol):
    """A lock that is waited for no longer than `timeout` seconds."""

    def acquire(self, *, timeout: float) -> bool: ...

    def release(self) -> None: ...


class Timing(Protocol):
    """All that firecron knows of time by itself. In milliseconds, but for `sleep` and `wait`, which take seconds."""

    def mono(self) -> float:
        """A clock that never steps, of no known origin."""

    def wall(self) -> float:
        """This machine's idea of the time. It is compared with nothing but itself."""

    def sleep(self, seconds: float) -> None: ...

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait for a condition that this thread has locked, so long at most (None: without limit)."""

    def lock(self) -> TimedLock:
        """A new lock, whose timeouts are of this time."""


class SystemTiming:
    """The real clocks."""

    def mono(self) -> float:
        return time.monotonic_ns() / 1e6 if _BOOT_CLOCK is None else time.clock_gettime_ns(_BOOT_CLOCK) / 1e6

    def wall(self) -> float:
        return time.time_ns() / 1e6

    def sleep(self, seconds: float) -> None:
        time.sleep(seconds)

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        condition.wait(seconds)

    def lock(self) -> TimedLock:
        return threading.Lock()


class Deadline:
    """The end of an operation, on a monotonic clock in milliseconds."""

    __slots__ = ("_mono", "at")

    def __init__(self, mono: Callable[[], float], at: float) -> None:
        self._mono = mono
        self.at = at

    @classmethod
    def after(cls, timing: Timing, seconds: float) -> Deadline:
        return cls(timing.mono, timing.mono() + seconds * 1000)

    def remaining(self) -> float:
        """Seconds left; 0 when it has passed."""
        return max(0.0, (self.at - self._mono()) / 1000)

    def within(self, seconds: float) -> Deadline:
        """This deadline, or that many seconds from now if it is earlier."""
        return Deadline(self._mono, min(self.at, self._mono() + seconds * 1000))


@dataclass(frozen=True, slots=True)
class Moment:
    """One clock reading: RTDB's time as this instance estimates it, and the monotonic clock that it was carried on.

    The estimate may be wrong by `uncertainty`, and by `drift` more for each millisecond that passes. All in
    milliseconds.
    """

    server: int
    mono: float
    uncertainty: float = 0.0
    drift: float = 0.0
