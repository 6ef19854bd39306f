"""Clocks, waiting, deadlines, and the pauses between tries.

Time and chance are passed in as arguments, so that tests run in virtual time.

Each pause is longer than the one before, up to a limit. A random part spreads contenders. A server may ask for a pause
(`Unavailable.retry_after`). Then the pause is the longer of the two, within what the caller can afford: `heeding` is
the rule, for the tries of one request and for those of a caller that had given up.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Protocol

from firecron.errors import StoreError, Unavailable

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

    def suspended(self) -> float:
        """Return for how long the machine was suspended since its start; 0 if the system doesn't show it."""

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

    def suspended(self) -> float:
        return 0.0 if BOOT_CLOCK is None else (time.clock_gettime_ns(BOOT_CLOCK) - time.monotonic_ns()) / 1e6

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


# --- pauses between tries

# In seconds, and before the random part.
_FIRST = 0.025
_LONGEST = 2.0
# In seconds. Something in between may ask for a day, and nobody should have to wait for that once the database is back.
LONGEST_HEEDED = 300.0


def backoff(tries: int, chance: float) -> float:
    """Return the seconds to wait after the `tries`-th failure.

    `chance` (0 to 1) is random. It spreads the next tries of contenders that failed at the same time.
    """
    longest = min(_LONGEST, _FIRST * 2.0 ** min(tries - 1, 16))
    return longest * (0.5 + 0.5 * chance)


def heeding(pause: float, error: Exception | None, affordable: float = LONGEST_HEEDED) -> float:
    """Return the seconds to wait after a failure: the pause, or what the server has asked for if that is longer.

    It is never longer than the caller can afford because the server has asked for it. Then the caller tries all the
    same. Any `error` but Unavailable asks for nothing.
    """
    asked = error.retry_after if isinstance(error, Unavailable) else None
    return float(max(pause, min(asked or 0.0, affordable)))


def pause_within(left: float, error: StoreError, tries: int, chance: float) -> float:
    """Return the seconds to wait after the `tries`-th failure, if `left` seconds are left for what has failed.

    They are as many as the server has asked for, within a third of what is left: it is tried again all the same.
    """
    return heeding(backoff(tries, chance), error, left / 3)


def wait_or_raise(error: StoreError, tries: int, deadline: Deadline, timing: Timing, chance: float) -> None:
    """Wait after the `tries`-th failure, at least as long as the server has asked for.

    Raise the `error` of the failure if the deadline comes before the next try.
    """
    delay = heeding(backoff(tries, chance), error, inf)
    if delay >= deadline.remaining():
        raise error
    timing.sleep(delay)
