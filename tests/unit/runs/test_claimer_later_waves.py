"""Asking in a later wave: a tick is skipped if its lock was held when it came, as if it had been asked for at once."""

from __future__ import annotations

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron.base.instants import to_text
from firecron.jobs.registry import Result
from firecron.lock.record import LockRecord
from firecron.runs.policy import is_late_for

MARGIN = 1_000


def record(**fields: object) -> LockRecord:
    """A record whose instants are seconds after nine."""
    texts = ("slot", "unfinished", "missedAfter", "missedUntil")
    values = {
        name: slot(value) if name in texts else START + round(value * 1000)
        for name, value in fields.items()
        if isinstance(value, int | float)
    }
    return LockRecord.of(values)


@pytest.mark.parametrize(
    ("fields", "is_late"),
    [
        pytest.param({"slot": 0, "acquiredAt": 0, "expiresAt": 61.001, "releasedAt": 61.001}, True, id="overran"),
        pytest.param({"slot": 0, "acquiredAt": 0, "expiresAt": 61, "releasedAt": 61}, False, id="within a margin"),
        pytest.param({"slot": 0, "acquiredAt": 0, "expiresAt": 30, "releasedAt": 30}, False, id="ended before"),
        pytest.param({"slot": 0, "acquiredAt": 0, "expiresAt": 90, "releasedAt": 30}, True, id="minimum hold"),
        pytest.param({"slot": 0, "acquiredAt": 0, "expiresAt": 62}, True, id="died"),
        pytest.param({"slot": 0, "acquiredAt": 0, "expiresAt": 59}, False, id="died before"),
        pytest.param({"acquiredAt": 50, "expiresAt": 62, "releasedAt": 62}, True, id="by hand, before any tick"),
        pytest.param({"expiresAt": 62, "releasedAt": 62}, True, id="nobody knows since when"),
        pytest.param({"acquiredAt": 60, "expiresAt": 62, "releasedAt": 62}, False, id="by hand, after the tick"),
        pytest.param(
            {"slot": 0, "acquiredAt": 61, "expiresAt": 65, "releasedAt": 65, "missedAfter": 30, "missedUntil": 60.5},
            False,
            id="by hand, and the tick was remembered as free",
        ),
        pytest.param({"slot": 0, "acquiredAt": 61, "expiresAt": 65, "releasedAt": 65}, True, id="a rerun after it"),
        pytest.param({"slot": 60, "acquiredAt": 60, "expiresAt": 65, "releasedAt": 65}, False, id="its own claim"),
        pytest.param({"slot": 0, "acquiredAt": 0, "expiresAt": 0}, False, id="unlocked"),
    ],
)
def test_whether_the_lock_was_held_at_a_tick(fields: dict[str, object], is_late: bool) -> None:
    """The lock has to be held from before the tick, at a minute after nine, until more than a margin after it."""
    assert is_late_for(record(**fields), slot(60), START + 95_000, MARGIN) is is_late


def test_a_lock_that_is_still_held_is_refused_anyway() -> None:
    """Then the record itself refuses, with what an operator has to know; without a record nothing was held."""
    held = record(slot=0, acquiredAt=0, expiresAt=300)
    assert not is_late_for(held, slot(60), START + 95_000, MARGIN)
    assert not is_late_for(None, slot(60), START + 95_000, MARGIN)


def later(instance: Instance, seconds: float) -> list[Result]:
    """A turn for the tick so many seconds after nine, in a later wave."""
    turn = instance.attempt(slot(seconds), is_later=True)
    assert instance.go_on(turn) is None
    return turn.results


def overrun(fleet: Fleet, until: float) -> None:
    """The run of nine o'clock ends so late."""
    fleet.instance().turn(slot())
    released = START + round(until * 1000)
    fleet.world.edit(acquiredAt=START, expiresAt=released, releasedAt=released)


@pytest.mark.parametrize(("until", "reason"), [(62, "held"), (61, None), (30, None)])
def test_a_later_wave_skips_what_was_held(until: float, reason: str | None) -> None:
    """Who asks four seconds after the tick finds the lock free, and skips the tick all the same; the other doesn't."""
    fleet = Fleet()
    overrun(fleet, until)
    one = fleet.instance()
    fleet.world.until(64)
    results = later(one, 60)
    if reason is None:
        assert [result.outcome for result in results] == ["succeeded"]
        return
    assert refusal_of(results).reason == reason
    (event,) = one.said("lock.refused")
    assert event.fields["reason"] == "held"
    assert f"until {to_text(START + 62_000)}" in event.message
    assert fleet.slots() == [slot()]
    one.turn(slot(60))
    assert fleet.slots() == [slot(), slot(60)], "an instance that asks at once, and only then gets an answer, runs it"


@pytest.mark.parametrize(
    ("until", "waits", "overlap", "reason"),
    [
        pytest.param(62, 4, "skip", "held", id="held as it came"),
        pytest.param(61, 4, "skip", None, id="free within a margin"),
        pytest.param(61.9, 1, "skip", "held", id="no wait: still held"),
        pytest.param(62, 4, "queue", None, id="it would have waited for the lock, too"),
    ],
)
def test_a_tick_that_waits_for_a_worker_skips_what_was_held(
    until: float, waits: float, overlap: str, reason: str | None
) -> None:
    """A worker is free only after the other instance's run has ended: the tick is skipped, as it was elsewhere."""
    fleet = Fleet(overlap=overlap)
    overrun(fleet, until)
    one = fleet.instance()
    fleet.world.until(60)
    turn = one.attempt(slot(60))
    fleet.world.until(60 + waits)
    assert one.go_on(turn) is None
    if reason is None:
        assert fleet.slots() == [slot(), slot(60)]
    else:
        assert refusal_of(turn.results).reason == reason
        assert fleet.slots() == [slot()]


def test_a_later_wave_is_told_that_a_tick_is_done() -> None:
    """The claim of the tick itself, or of a later one, is no lock that was held."""
    fleet = Fleet(grace=300)
    fleet.instance().turn(slot(60))
    fleet.world.until(64)
    for seconds in (0, 60):
        assert refusal_of(later(fleet.instance(), seconds)).reason == "slot_done"


def test_a_later_wave_reruns_what_was_abandoned_and_skips_its_tick() -> None:
    """A dead run that held the lock at the tick is begun again; the tick itself was skipped, also after the rerun."""
    fleet = Fleet(on_abandoned="rerun", lock_ttl=65)
    fleet.instance().die_holding(slot())
    one = fleet.instance()
    fleet.world.until(70)
    rerun, refused = later(one, 60)
    assert rerun.run is not None
    assert (rerun.run.trigger, rerun.outcome) == ("rerun", "succeeded")
    assert refused.refusal is not None
    assert refused.refusal.reason == "held"
    assert fleet.slots() == [slot()]


def test_a_later_wave_catches_up_and_skips_its_tick() -> None:
    """A tick that was missed is caught up by a later wave; its own tick, at which the lock was held, is not run."""
    fleet = Fleet(catch_up="all")
    fleet.instance().turn(slot())
    # Nobody runs the tick a minute later, and a run by hand holds the lock over the next one.
    fleet.world.until(123)
    fleet.world.edit(
        missedAfter=slot(30),
        missedUntil=slot(90),
        acquiredAt=START + 90_000,
        expiresAt=START + 122_000,
        releasedAt=START + 122_000,
    )
    caught_up, refused = later(fleet.instance(), 120)
    assert caught_up.run is not None
    assert caught_up.run.trigger == "catch_up"
    assert refused.refusal is not None
    assert refused.refusal.reason == "held"
    assert fleet.slots() == [slot(), slot(60)]
    assert fleet.world.node(NAME)["slot"] == slot(60)


def test_a_later_wave_that_comes_after_the_grace_still_reruns_what_was_abandoned() -> None:
    """It learns RTDB's time with its try: its own tick is missed, whatever held the lock then."""
    fleet = Fleet(on_abandoned="rerun")
    fleet.instance().die_holding(slot())
    one = fleet.instance()
    fleet.world.until(121)
    one.timing.step_wall(3_600)
    (rerun,) = later(one, 60)
    assert rerun.run is not None
    assert (rerun.run.trigger, rerun.outcome) == ("rerun", "succeeded")
    assert fleet.slots() == [slot()]
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot(60)]


@pytest.mark.parametrize(
    ("until", "jitter", "ran"),
    [(62, 0, []), (62, 38, []), (62, 39.5, [slot(60)]), (61, 0, [slot(60)]), (30, 0, [slot(60)])],
)
def test_a_tick_that_the_ticker_brings_late_is_skipped_if_the_lock_was_held(
    until: float, jitter: float, ran: list[str]
) -> None:
    """So it is if RTDB's time was not known as the tick came: the run before it has ended by then. What jitter and a
    margin may have put off is not late.
    """
    fleet = Fleet(grace=300, jitter=jitter)
    overrun(fleet, until)
    one = fleet.instance()
    fleet.world.until(100)
    one.locks.database.clock.now(one.locks.database.deadline())
    one.crons.engine.lanes.due(one.job(), slot(60))
    fleet.world.advance(1)
    assert fleet.slots()[1:] == ran
