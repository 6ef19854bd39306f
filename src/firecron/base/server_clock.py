"""RTDB's time, as this instance estimates it.

A sample is one write of `{".sv": "timestamp"}`. The server takes its time between the monotonic readings before and
after the write, so a sample may be wrong by half of the round trip. The best of several samples is the estimate. It is
carried forward on the monotonic clock. As it ages, it gets worse by the drift that this machine's clock may have.

Promise: a `Moment` from `now` is right to within the margin; otherwise `now` raises `Unavailable`. This machine's wall
clock decides nothing. It is only watched: if it disagrees with the monotonic clock, one of the two was stopped or
stepped (suspend, live migration, a change by hand), and the estimate is made anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firecron.base.clocks import Deadline, Moment, Timing
from firecron.errors import StoreError, Unavailable


@dataclass(frozen=True, slots=True)
class Estimate:
    """An estimate of RTDB's time, in milliseconds.

    At `taken_at` on the monotonic clock, RTDB's time was the monotonic reading plus `offset`, within `uncertainty`.
    """

    offset: float
    uncertainty: float
    taken_at: float
    wall_offset: float

    def uncertainty_at(self, mono: float, drift: float) -> float:
        return self.uncertainty + max(0.0, mono - self.taken_at) * drift


class ServerClock:
    """Keeps the estimate of RTDB's time.

    `sample` writes a server timestamp and returns it, or raises a StoreError.
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
        self._estimate: Estimate | None = None
        self._syncing = self._timing.lock()

    def now(self, deadline: Deadline) -> Moment:
        """Return the time, and synchronise first if necessary. Raise a StoreError if no estimate is good enough."""
        mono = self._timing.mono()
        if self._estimate is None or not self._is_good(self._estimate, mono):
            try:
                self.synchronise(deadline)
            except StoreError:
                # An old estimate stays in use until its uncertainty exceeds the margin, unless a clock was stepped.
                if self._estimate is None or self._is_stepped(self._estimate, self._timing.mono()):
                    raise
            mono = self._timing.mono()
        estimate = self._estimate
        if estimate is None or estimate.uncertainty_at(mono, self._drift) > self._margin:
            found = "none" if estimate is None else f"{estimate.uncertainty_at(mono, self._drift):.0f} ms"
            raise Unavailable(
                f"RTDB's time is not known well enough: the uncertainty is {found}, the margin {self._margin} ms; "
                "look for a slow network, or raise FIRECRON_MARGIN in the whole fleet"
            )
        return self._moment(estimate, mono)

    def synchronise(self, deadline: Deadline) -> None:
        """Take samples and keep the best one.

        One thread takes the samples; other threads wait for it. Each waits until its own deadline at most.
        """
        before = self._estimate
        if not self._syncing.acquire(timeout=deadline.remaining()):
            raise Unavailable("RTDB's time was not known within the deadline: another thread is still asking for it")
        try:
            if self._estimate is not before:
                return  # another thread has just synchronised
            self._estimate = self._best_of(deadline)
        finally:
            self._syncing.release()

    def note(self, server: int, sent: float, received: float) -> None:
        """Use the timestamp of another write as a sample, if it gives a better estimate than the present one."""
        found = self._from_sample(server, sent, received)
        current = self._estimate
        if current is None or found.uncertainty <= current.uncertainty_at(received, self._drift):
            self._estimate = found

    def peek(self) -> Moment | None:
        """Return the time without I/O; None if it is not known, or not well enough."""
        mono, estimate = self._timing.mono(), self._estimate
        if (
            estimate is None
            or estimate.uncertainty_at(mono, self._drift) > self._margin
            or self._is_stepped(estimate, mono)
        ):
            return None
        return self._moment(estimate, mono)

    @property
    def uncertainty(self) -> float | None:
        """How wrong the estimate may be now, in milliseconds; None without an estimate."""
        estimate = self._estimate
        return None if estimate is None else estimate.uncertainty_at(self._timing.mono(), self._drift)

    def after_fork(self) -> None:
        """Replace the lock in a forked child: a thread that only the parent has may be synchronising."""
        self._syncing = self._timing.lock()

    def _moment(self, estimate: Estimate, mono: float) -> Moment:
        server = int(mono + estimate.offset)
        # The server's time is cut to whole milliseconds. The monotonic reading is set back by the same fraction.
        # Otherwise a lease that is aged from this reading would outlast its record by that fraction.
        return Moment(
            server, min(mono, server - estimate.offset), estimate.uncertainty_at(mono, self._drift), self._drift
        )

    def _is_good(self, estimate: Estimate, mono: float) -> bool:
        """Return whether the estimate needs no synchronisation.

        That is so if it is young and within the margin, and no clock was stopped or stepped since.
        """
        return (
            mono - estimate.taken_at < self._interval
            and estimate.uncertainty_at(mono, self._drift) <= self._margin
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

    def _best_of(self, deadline: Deadline) -> Estimate:
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
