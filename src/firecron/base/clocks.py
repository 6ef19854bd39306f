"""Clocks, waiting and deadlines. All of them are passed in as arguments, so that tests run in virtual time."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

# A lease must age while the machine is suspended, so this is a clock that goes on in suspend, where there is one:
# CLOCK_BOOTTIME on Linux. On macOS it is CLOCK_MONOTONIC, which is not the clock that `time.monotonic` reads there.
BOOT_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", getattr(time, "CLOCK_MONOTONIC", None))


class TimedLock(Protocol):
    """A lock whose `acquire` waits `timeout` seconds at most."""

    def acquire(self, *, timeout: float) -> bool: ...

    def release(self) -> None: ...


class Timing(Protocol):
    """Every way in which firecron learns the time or waits.

    Values are milliseconds, except that `sleep` and `wait` take seconds.
    """

    def mono(self) -> float:
        """Return the reading of a clock that never steps. Its origin is unknown."""

    def wall(self) -> float:
        """Return this machine's idea of the time. It is compared only with other readings of the same clock."""

    def sleep(self, seconds: float) -> None: ...

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait for a condition that this thread has locked, for `seconds` at most (None: without limit)."""

    def lock(self) -> TimedLock:
        """Return a new lock whose timeouts are measured on this clock."""


class SystemTiming:
    """The real clocks."""

    def mono(self) -> float:
        return time.monotonic_ns() / 1e6 if BOOT_CLOCK is None else time.clock_gettime_ns(BOOT_CLOCK) / 1e6

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
        """Return the seconds left; 0 after the deadline."""
        return max(0.0, (self.at - self._mono()) / 1000)

    def within(self, seconds: float) -> Deadline:
        """Return this deadline, or the moment `seconds` from now if that is earlier."""
        return Deadline(self._mono, min(self.at, self._mono() + seconds * 1000))


@dataclass(frozen=True, slots=True)
class Moment:
    """One clock reading: RTDB's time as this instance estimates it, and the monotonic clock at the same instant.

    The estimate may be wrong by `uncertainty`. For each millisecond after the reading it may be wrong by `drift` more.
    All values are milliseconds.
    """

    server: int
    mono: float
    uncertainty: float = 0.0
    drift: float = 0.0
