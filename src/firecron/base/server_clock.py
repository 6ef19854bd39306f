"""RTDB's time, as this instance estimates it.

A sample is one write of `{".sv": "timestamp"}`: the server's time lies between the monotonic readings before and
after it, so half of the round trip is how wrong the sample can be. The best of several is kept, and carried forward
on the monotonic clock; with age it gets worse by the drift that this machine's clock may have.

Promises: a `Moment` that `now` gives is right to within the margin, or there is none (`Unavailable`). This machine's
wall clock decides nothing: it is only watched, because when it and the monotonic clock disagree, one of them was
stopped or stepped (suspend, live migration, a hand on the clock), and it is time to ask again.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from firecron.base.clocks import Deadline, Moment, Timing
from firecron.errors import StoreError, Unavailable


@dataclass(frozen=True, slots=True)
class Estimate:
    """RTDB's time is the monotonic clock plus `offset`, give or take `uncertainty`, when it was taken (all in ms)."""

    offset: float
    uncertainty: float
    taken_at: float
    wall_offset: float

    def uncertainty_at(self, mono: float, drift: float) -> float:
        return self.uncertainty + max(0.0, mono - self.taken_at) * drift


class ServerClock:
    """Keeps the estimate. `sample` writes a server timestamp and returns it, or raises a StoreError."""

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
        """The time, synchronised first if it must be. Raises a StoreError where there is no estimate good enough."""
        mono = self._timing.mono()
        if self._estimate is None or not self._is_good(self._estimate, mono):
            try:
                self.synchronise(deadline)
            except StoreError:
                # An estimate that is merely old goes on until its drift has eaten the margin.
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
        """Take samples and keep the best. One thread does it, others wait for it, all no longer than their deadline."""
        before = self._estimate
        if not self._syncing.acquire(timeout=deadline.remaining()):
            raise Unavailable("RTDB's time was not known within the deadline: another thread is still asking for it")
        try:
            if self._estimate is not before:
                return  # another thread has just done it
            self._estimate = self._best_of(deadline)
        finally:
            self._syncing.release()

    def note(self, server: int, sent: float, received: float) -> None:
        """Use a timestamp that some other write brought along, if it makes for a better estimate than the present
        one.
        """
        found = self._from_sample(server, sent, received)
        current = self._estimate
        if current is None or found.uncertainty <= current.uncertainty_at(received, self._drift):
            self._estimate = found

    def peek(self) -> Moment | None:
        """The time, if it is known without asking: no I/O. None where it isn't, or not well enough."""
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
        """How wrong the estimate may be by now, in ms; None where there is none."""
        estimate = self._estimate
        return None if estimate is None else estimate.uncertainty_at(self._timing.mono(), self._drift)

    def after_fork(self) -> None:
        """In a forked child: a thread that the child doesn't have may have been synchronising."""
        self._syncing = self._timing.lock()

    def _moment(self, estimate: Estimate, mono: float) -> Moment:
        server = int(mono + estimate.offset)
        # The server's time is whole milliseconds; the monotonic reading is set back by what was cut off, or a lease
        # that is aged from it would outlast its record by that much.
        return Moment(
            server, min(mono, server - estimate.offset), estimate.uncertainty_at(mono, self._drift), self._drift
        )

    def _is_good(self, estimate: Estimate, mono: float) -> bool:
        """Whether it can be used without asking again: young, tight, and no clock has been stopped or stepped since."""
        return (
            mono - estimate.taken_at < self._interval
            and estimate.uncertainty_at(mono, self._drift) <= self._margin
            and not self._is_stepped(estimate, mono)
        )

    def _is_stepped(self, estimate: Estimate, mono: float) -> bool:
        """Whether a clock of this machine has been stopped or stepped since the estimate."""
        return abs(self._timing.wall() - mono - estimate.wall_offset) > self._margin / 2

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
        # The timestamp is cut to the millisecond, so the true time is up to one later; and so is every Moment.
        return Estimate(
            offset=server + 0.5 - (sent + received) / 2,
            uncertainty=(received - sent) / 2 + 0.5 + 1,
            # Somewhere between the two, so the clock may have drifted since the sending.
            taken_at=sent,
            wall_offset=self._timing.wall() - received,
        )
