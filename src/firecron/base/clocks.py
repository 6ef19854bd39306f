"""Clocks, waiting, deadlines, and the pauses between tries.

Time and chance are passed in as arguments, so that tests run in virtual time.

Each pause is longer than the one before, up to a limit. A random part spreads contenders. A server may ask for a pause
(`Unavailable.retry_after`). Then the pause is the longer of the two, within what the caller can afford: `heeding` is
the rule, for the tries of one request and for those of a caller that had given up.

`ServerClock` estimates RTDB's time. A sample is one write of `{".sv": "timestamp"}`. The server takes its time between
the monotonic readings before and after the write, so a sample may be wrong by half of the round trip. The best of
several samples is the estimate; for a time that is only shown, the first one within the margin. It is carried forward
on the monotonic clock. As it ages, it gets worse by the drift that this machine's clock may have.

Promise: a `Moment` from `now` is right to within the margin; otherwise `now` raises `Unavailable`. This machine's wall
clock decides nothing. It is only watched: if it disagrees with the monotonic clock, one of the two was stopped or
stepped (suspend, live migration, a change by hand), and the estimate is made anew.
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


def back_off_within(left: float, error: StoreError, tries: int, chance: float) -> float:
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


# --- RTDB's time


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of RTDB's time, in milliseconds.

    At `taken_at` on the monotonic clock, RTDB's time was the monotonic reading plus `offset`, within `uncertainty`.
    """

    offset: float
    uncertainty: float
    taken_at: float
    wall_offset: float


class ServerClock:
    """Keeps the estimate of RTDB's time.

    `sample` writes a server timestamp and returns it, or raises a StoreError. `estimate` is what is known now.
    """

    def __init__(
        self,
        sample: Callable[[Deadline], int],
        timing: Timing,
        *,
        margin: int,
        samples: int,
        drift: float,
        interval: float,
        request_timeout: float,
    ) -> None:
        self._sample = sample
        self._timing = timing
        self._margin = margin
        self._samples = samples
        self._drift = drift
        self._interval = interval * 1000
        self._request_timeout = request_timeout
        self.estimate: Estimate | None = None
        self._syncing = self._timing.lock()

    def now(self, deadline: Deadline, *, to_show: bool = False) -> Moment:
        """Return the time, and synchronise first if necessary. Raise a StoreError if no estimate is good enough.

        `to_show`: the first sample that is within the margin will do. Ask so only where `peek` knows no time: locks use
        that sample, too, and a better estimate would be lost.
        """
        mono = self._timing.mono()
        if self.estimate is None or not self._is_good(self.estimate, mono):
            try:
                self.synchronise(deadline, to_show=to_show)
            except StoreError:
                # An old estimate stays in use until its uncertainty exceeds the margin, unless a clock was stepped.
                if self.estimate is None or self._is_stepped(self.estimate, self._timing.mono()):
                    raise
            mono = self._timing.mono()
        estimate = self.estimate
        if estimate is None or self._uncertainty(estimate, mono) > self._margin:
            found = "none" if estimate is None else f"{self._uncertainty(estimate, mono):.0f} ms"
            raise Unavailable(
                f"RTDB's time is not known well enough: the uncertainty is {found}, the margin {self._margin} ms; "
                "look for a slow network, or raise FIRECRON_MARGIN in the whole fleet"
            )
        return self._moment(estimate, mono)

    def synchronise(self, deadline: Deadline, *, to_show: bool = False) -> None:
        """Take samples and keep the best one; `to_show`: the first one that is within the margin.

        One thread takes the samples; other threads wait for it. Each waits until its own deadline at most.
        """
        before = self.estimate
        if not self._syncing.acquire(timeout=deadline.remaining()):
            raise Unavailable("RTDB's time was not known within the deadline: another thread is still asking for it")
        try:
            if self.estimate is not before:
                return  # another thread has just synchronised
            self.estimate = self._best_of(deadline, to_show=to_show)
        finally:
            self._syncing.release()

    def observe(self, server: int, sent: float, received: float) -> None:
        """Use the timestamp of another write as a sample, if it gives a better estimate than the present one."""
        found = self._from_sample(server, sent, received)
        current = self.estimate
        if current is None or found.uncertainty <= self._uncertainty(current, received):
            self.estimate = found

    def peek(self) -> Moment | None:
        """Return the time without I/O; None if it is not known, or not well enough."""
        mono, estimate = self._timing.mono(), self.estimate
        if estimate is None or self._uncertainty(estimate, mono) > self._margin or self._is_stepped(estimate, mono):
            return None
        return self._moment(estimate, mono)

    @property
    def uncertainty(self) -> float | None:
        """How wrong the estimate may be now, in milliseconds; None without an estimate."""
        estimate = self.estimate
        return None if estimate is None else self._uncertainty(estimate, self._timing.mono())

    def _uncertainty(self, estimate: Estimate, mono: float) -> float:
        return estimate.uncertainty + max(0.0, mono - estimate.taken_at) * self._drift

    def _moment(self, estimate: Estimate, mono: float) -> Moment:
        server = int(mono + estimate.offset)
        # The server's time is cut to whole milliseconds. The monotonic reading is set back by the same fraction.
        # Otherwise a lease that is aged from this reading would outlast its record by that fraction.
        return Moment(server, min(mono, server - estimate.offset), self._uncertainty(estimate, mono), self._drift)

    def _is_good(self, estimate: Estimate, mono: float) -> bool:
        """Return whether the estimate needs no synchronisation.

        That is so if it is young and within the margin, and no clock was stopped or stepped since.
        """
        return (
            mono - estimate.taken_at < self._interval
            and self._uncertainty(estimate, mono) <= self._margin
            and not self._is_stepped(estimate, mono)
        )

    def _is_stepped(self, estimate: Estimate, mono: float) -> bool:
        """Return whether a clock of this machine was stopped or stepped since the estimate."""
        return abs(self._wall_offset(mono) - estimate.wall_offset) > self._margin / 2

    def _wall_offset(self, mono: float) -> float:
        """Return how far the wall clock is ahead of this reading of the monotonic one. A suspension changes it, too.

        In suspend both clocks go on by what the machine's battery clock shows, mostly in whole seconds: they stay
        together, and may both be wrong by a second.
        """
        return self._timing.wall() - self._timing.suspended() - mono

    def _best_of(self, deadline: Deadline, *, to_show: bool) -> Estimate:
        best: Estimate | None = None
        failure: Unavailable | None = None
        for _ in range(self._samples):
            sent = self._timing.mono()
            try:
                server = self._sample(deadline.within(self._request_timeout))
            except Unavailable as error:
                failure = error
                continue
            found = self._from_sample(server, sent, self._timing.mono())
            if best is None or found.uncertainty < best.uncertainty:
                best = found
            if to_show and self._uncertainty(found, self._timing.mono()) <= self._margin:
                break
        if best is None:
            raise failure or Unavailable
        return best

    def _from_sample(self, server: int, sent: float, received: float) -> Estimate:
        # The timestamp is cut to the millisecond, so the true time is up to 1 ms later. Every Moment is cut likewise.
        return Estimate(
            offset=server + 0.5 - (sent + received) / 2,
            uncertainty=(received - sent) / 2 + 0.5 + 1,
            # The server took its time between sending and receiving, so drift counts from the sending.
            taken_at=sent,
            wall_offset=self._wall_offset(received),
        )
