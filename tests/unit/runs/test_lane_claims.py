"""The pending claim of a lane, and what its attempts have seen claimed."""

from __future__ import annotations

import math

import pytest
from tests.simulation.world import slot

from firecron import Run, distributed_cron
from firecron.base.instants import to_datetime, to_milliseconds
from firecron.jobs.job import explore
from firecron.jobs.registry import Result
from firecron.lock.blocks import Tries
from firecron.lock.refusal import Refusal
from firecron.runs.lane import Attempt, Lane, PendingClaim


class Followed(Tries):
    """What is heard of a lock, as a test says."""

    def __init__(self, *, is_heard: bool) -> None:
        self._is_heard = is_heard
        self.closed = 0

    @property
    def hears(self) -> bool:
        return self._is_heard

    def seconds(self) -> float:
        return 0.25

    def close(self) -> None:
        self.closed += 1


def attempts() -> tuple[Attempt, Attempt]:
    """Attempts at two ticks of a job."""

    @distributed_cron("job", "* * * * *")
    def work() -> None: ...

    (job,) = explore(work)
    lane = Lane(job.options, 1)
    return Attempt(job, lane, slot(0), 0.0), Attempt(job, lane, slot(60), 0.0)


def refusal(reason: str, tick: str | None = None) -> Refusal:
    return Refusal("job", reason, reason, slot=tick)  # type: ignore[arg-type]  # they are known below


def test_a_claim_for_another_tick_begins_anew_with_its_token() -> None:
    """Neither the end of the other tick's grace, nor its tries, nor its refusal are of this one; what was asked is."""
    older, newer = attempts()
    pending = PendingClaim(older)
    assert pending.tries == 0
    pending.ends, pending.tries, pending.refusal = 5.0, 3, refusal("held")
    pending.in_doubt.append((slot(-60), refusal("held")))
    pending.retarget(newer)
    assert [pending.attempt, pending.ends, pending.tries, pending.refusal] == [newer, None, 0, None]
    assert [due for due, _ in pending.in_doubt] == [slot(-60)]


@pytest.mark.parametrize(
    ("follows", "reason", "hears"),
    [(True, "held", True), (False, "held", False), (True, "unavailable", False), (True, None, False)],
)
def test_only_a_claim_that_was_refused_as_held_hears(follows: bool, reason: str | None, hears: bool) -> None:
    """Before its first try, and while the database does not answer, what is heard of the lock says nothing."""
    pending = PendingClaim(attempts()[0])
    pending.follow = Followed(is_heard=True) if follows else None
    pending.refusal = None if reason is None else refusal(reason)
    assert pending.hears is hears


def test_the_seconds_that_are_left_of_a_grace() -> None:
    """So many as are left until its end; without end as long as that is not known."""
    pending = PendingClaim(attempts()[0])
    assert pending.seconds_left(0.0) == math.inf
    pending.ends = 5_000.0
    assert pending.seconds_left(3_500.0) == 1.5


@pytest.mark.parametrize(
    ("follow", "seconds"),
    [(None, 1.4), (Followed(is_heard=False), 1.4), (Followed(is_heard=True), 0.25)],
)
def test_the_next_try_for_a_held_lock(follow: Followed | None, seconds: float) -> None:
    """It comes by what is heard; if nothing is, after half a second to five, and no later than it was planned."""
    pending = PendingClaim(attempts()[0])
    pending.follow = follow
    assert pending.seconds(lambda: 0.2) == pytest.approx(seconds)
    assert pending.seconds(lambda: 0.2, 9.0) == pytest.approx(seconds)
    assert pending.seconds(lambda: 0.2, 1.0) == pytest.approx(min(seconds, 1.0))


def test_a_lock_is_unfollowed_once() -> None:
    """The stream is closed by the first call. A claim that follows nothing has nothing to close."""
    pending = PendingClaim(attempts()[0])
    pending.unfollow()
    follow = pending.follow = Followed(is_heard=True)
    for _ in range(2):
        pending.unfollow()
    assert [follow.closed, pending.follow] == [1, None]


def test_a_lane_knows_the_newest_tick_that_was_seen_claimed() -> None:
    """Its own runs show it, and refusals; a run by hand and a refusal without a tick show none."""
    attempt, _ = attempts()
    lane = attempt.lane
    results = (
        (Result(None, None, refusal("held")), None),
        (Result(None, None), None),
        (Result(None, None, refusal("slot_done", slot(60))), slot(60)),
        (Result(_run(slot(120)), "succeeded"), slot(120)),
        (Result(_run(None), "succeeded"), slot(120)),
        (Result(None, None, refusal("slot_done", slot(0))), slot(120)),
    )
    for result, newest in results:
        attempt.results[:] = [result]
        lane.see(attempt)
        assert lane.claimed == (None if newest is None else to_milliseconds(newest))


def _run(tick: str | None) -> Run:
    when = None if tick is None else to_datetime(tick)
    return Run("job", slot=when, attempt=1, fence=None, idempotency_key="key", trigger="schedule")
