"""A newer tick takes over what waits: with which token, and what is said of a tick whose claim is in doubt."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.network import failing
from tests.simulation.world import NAME, START, slot
from tests.unit.runs.outages import busy, mend, up

from firecron.errors import Denied


@pytest.mark.parametrize("is_trying", [False, True])
def test_a_newer_tick_takes_over_what_waits(is_trying: bool) -> None:
    """Of the ticks that can't be claimed while the database is down the newest is tried on, the one before is missed;
    the same if it comes in the middle of a try.
    """
    fleet = Fleet("*/20 * * * * *")
    one = fleet.instance()
    older, newer = (one.attempt(slot(seconds)) for seconds in (0, 20))
    one.network.is_down = True

    def come(method: str, path: str) -> None:
        one.network.before = lambda method, path: None
        fleet.world.until(20)
        assert one.go_on(newer) is None

    if is_trying:
        one.network.before = come
    assert one.go_on(older) is not None
    mend(one)
    fleet.world.until(20)
    if not is_trying:
        assert one.go_on(newer) is None
    assert one.go_on(older) is None
    fleet.world.advance(1)
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]
    assert fleet.slots() == [slot(20)]
    assert one.said("run.skipped") == []


def test_what_takes_over_has_the_same_token() -> None:
    """A claim whose reply was lost is won by the tick that took over, which runs the slot claimed first, then its
    own.
    """
    fleet = Fleet("*/5 * * * * *")
    one = fleet.instance()
    older = one.attempt(slot())
    one.network.lose_reply()
    one.network.before = lambda method, path: setattr(one.network, "is_down", method == "read")
    assert one.go_on(older) is not None
    mend(one)
    fleet.world.until(max(5, fleet.world.mono() / 1000))
    newer = one.attempt(slot(5))
    assert one.go_on(newer) is None
    assert fleet.slots() == [slot(), slot(5)]


def test_two_claims_of_one_millisecond_are_told_apart() -> None:
    """A claim whose reply was lost is won by a newer tick, which reads the same time after RTDB's was estimated anew:
    the slot is run that was written.
    """
    fleet = Fleet("*/5 * * * * *", catch_up="all")
    one, other = fleet.instance(), fleet.instance()
    fleet.world.until(5)
    one.network.lose_reply()
    one.network.next("read", before=failing(Denied("no")))
    one.chance.value = 0.0
    assert one.go_on(one.attempt(slot()))
    clock = one.locks.database.clock
    assert clock.estimate is not None
    clock.estimate = replace(clock.estimate, offset=clock.estimate.offset - (fleet.world.mono() - 5_000))
    assert one.go_on(one.attempt(slot(5))) is None
    assert fleet.slots() == [slot(), slot(5)]
    other.turn(slot(5))
    assert fleet.slots() == [slot(), slot(5)]


def test_a_tick_of_before_the_start_is_taken_over_without_a_word() -> None:
    """The others report a tick from before this instance had the job, also if a newer one takes its claim over."""
    fleet = Fleet("*/20 * * * * *", grace=60)
    one = fleet.instance()
    one.network.lose_reply()
    one.network.before = lambda method, path: setattr(one.network, "is_down", method == "read")
    fleet.world.put({"holder": "another", "slot": slot(-20), "acquiredAt": 1, "expiresAt": 2, "releasedAt": 2})
    assert one.go_on(one.attempt(slot(), looks_back=True))
    fleet.world.put({"holder": "another", "slot": slot(-20), "acquiredAt": 1, "expiresAt": 2, "releasedAt": 2})
    mend(one)
    fleet.world.until(20)
    assert one.go_on(one.attempt(slot(20))) is None
    assert fleet.slots() == [slot(20)]
    assert one.said("run.missed") == one.said("run.skipped") == []


def test_a_run_by_hand_between_two_tries_ends_the_claim() -> None:
    """A tick that waits for its next try is skipped if the job's body runs here by then."""
    fleet = Fleet()
    one = fleet.instance()
    one.network.is_down = True
    turn = one.attempt(slot())
    assert one.go_on(turn) is not None
    up(one)
    goes_on: list[float | None] = []
    fleet.body = lambda run: goes_on.append(one.go_on(turn))
    one.crons.registry.trigger(NAME)
    assert (fleet.slots(), goes_on) == ([None], [None])
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot()]


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_claim_whose_reply_was_lost_is_what_it_was(fleet: Fleet, is_ours: bool) -> None:
    """A tick whose claim is found by the next tick's turn runs as a tick of the schedule, and is not called missed; a
    claim that never landed is.
    """
    one = fleet.instance()
    one.network.lose_reply()

    def before(method: str, path: str) -> None:
        if path.startswith("cron-locks") and (method == "read" or not is_ours):
            busy(method, path)

    one.network.before = before
    first = one.attempt(slot())
    assert one.go_on(first)
    fleet.world.until(20)
    second = one.attempt(slot(60))
    assert one.go_on(second)
    assert one.said("run.missed") == []
    mend(one)
    fleet.world.until(25 if is_ours else 61)
    one.go_on(second)
    fleet.world.until(61)
    one.go_on(second)
    triggers = [run.trigger for run in fleet.runs]
    missed = [event.fields["slot"] for event in one.said("run.missed")]
    assert (triggers, missed) == ((["schedule", "schedule"], []) if is_ours else (["schedule"], [slot()]))
    assert fleet.slots()[-1] == slot(60)


def test_i25_what_was_in_doubt_is_said_once_it_is_known(fleet: Fleet) -> None:
    """A tick whose claim may have landed is called missed as soon as an answer shows that it did not."""
    one = fleet.instance()
    one.network.before = busy
    assert one.go_on(one.attempt(slot()))
    fleet.world.until(20)
    second = one.attempt(slot(60))
    assert one.go_on(second)
    assert one.said("run.missed") == []
    mend(one)
    fleet.world.put({"paused": True})
    assert one.go_on(second) is None
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]


def test_i25_what_is_in_doubt_to_the_end_is_said_at_the_end(fleet: Fleet) -> None:
    """Where the database stays away, each tick of a turn is called missed once, also one that may have been claimed."""
    one = fleet.instance()
    one.network.before = busy
    assert one.go_on(one.attempt(slot()))
    fleet.world.until(60)
    second = one.attempt(slot(60))
    assert one.go_on(second)
    fleet.world.until(121)
    assert one.go_on(second) is None
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot(), slot(60)]
    assert [event.fields["slot"] for event in one.said("run.delayed")] == [slot(), slot(60)]


def test_i25_a_tick_that_another_holder_keeps_out_is_skipped(fleet: Fleet) -> None:
    """A tick whose write was not answered, and that then finds another holder, is skipped once the next tick's answer
    shows that nobody has claimed it.
    """
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    one.network.before = busy
    first = one.attempt(slot())
    assert one.go_on(first)
    mend(one)
    lease = other.locks.acquire(NAME, 90)
    assert lease
    assert one.go_on(first)
    one.network.before = busy
    fleet.world.until(20)
    second = one.attempt(slot(60))
    assert one.go_on(second)
    assert one.said("run.skipped") == []
    mend(one)
    assert one.go_on(second)
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot()]


def test_i25_a_tick_that_was_not_asked_for_is_in_no_doubt(fleet: Fleet) -> None:
    """A tick for which RTDB was not even asked for its time is missed as soon as a newer one comes."""
    one = fleet.instance()
    one.network.is_down = True
    one.timing.step_wall(3_600)
    assert one.locks.clock.peek() is None
    for seconds in (0, 60):
        fleet.world.until(seconds)
        assert one.go_on(one.attempt(slot(seconds)))
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]


def test_i25_each_tick_of_a_turn_may_be_the_one_that_was_claimed(fleet: Fleet) -> None:
    """Of three ticks that shared a token the second was claimed: it runs, and is not called missed; the first is."""
    fleet = Fleet("*/20 * * * * *")
    one = fleet.instance()
    one.network.before = busy
    assert one.go_on(one.attempt(slot()))

    def unread(method: str, path: str) -> None:
        if path.startswith("cron-locks") and method == "read":
            busy(method, path)

    one.network.lose_reply()
    one.network.before = unread
    fleet.world.until(20)
    assert one.go_on(one.attempt(slot(20)))
    one.network.before = busy
    fleet.world.until(40)
    third = one.attempt(slot(40))
    assert one.go_on(third)
    mend(one)
    one.go_on(third)
    assert fleet.slots() == [slot(20), slot(40)]
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot()]
    assert one.said("lock.refused") == []


def test_i25_a_tick_that_was_too_early_is_in_no_doubt() -> None:
    """Nothing was written for it, so it is given up as soon as a newer one takes its claim over."""
    fleet = Fleet("*/5 * * * * *")
    one = fleet.instance()
    assert one.go_on(one.attempt(slot(5)))
    one.network.before = busy
    assert one.go_on(one.attempt(slot(10)))
    assert [event.fields["reason"] for event in one.said("lock.refused")] == ["slot_early"]
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot(5)]


@pytest.mark.parametrize(
    ("refused", "claimed", "reason", "report"),
    [
        pytest.param("held", -60, "held", ["run.skipped"], id="held, and claimed by nobody"),
        pytest.param("held", 0, "slot_done", [], id="held, and then claimed"),
        pytest.param("held", 60, "slot_done", [], id="held, and a later one claimed"),
        pytest.param("unavailable", 0, "slot_done", [], id="not answered, and claimed"),
        pytest.param("unavailable", 60, "unavailable", ["run.missed"], id="not answered, and a later one claimed"),
    ],
)
def test_i25_what_others_have_claimed_decides_a_doubt(
    refused: str, claimed: float, reason: str, report: list[str]
) -> None:
    """A tick in doubt is not reported if another instance has claimed it, or, if it was held, a later one."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    if refused == "held":
        other.hold(slot(-60))
        other.crash()
    else:
        one.network.before = busy
    assert one.go_on(one.attempt(slot()))
    mend(one)
    ended = {"holder": "another", "acquiredAt": START, "expiresAt": START + 20, "releasedAt": START + 20}
    fleet.world.put({**ended, "slot": slot(claimed)})
    one.events.clear()
    one.go_on(one.attempt(slot(60)))
    first = next(event for event in one.events if event.slug.startswith("lock."))
    assert (first.name, first.fields["reason"]) == (NAME, reason)
    reports = [event for event in one.events if event.slug in ("run.skipped", "run.missed")]
    assert [(event.slug, event.fields["slot"]) for event in reports] == [(slug, slot()) for slug in report]


def test_a_tick_that_the_database_kept_out_is_missed_whatever_the_others_did(fleet: Fleet) -> None:
    """This instance could not start it, and to know that takes no look at the node."""
    one, other = fleet.instance(), fleet.instance()
    turn = one.attempt(slot())
    one.network.before = busy
    assert one.go_on(turn)
    other.turn(slot())
    mend(one)
    fleet.world.until(61)
    one.network.requests()
    assert one.go_on(turn) is None
    assert (one.slugs("run.missed"), one.said("lock.refused")) == (["run.missed"], [])
    assert one.network.requests("cron-locks/") == []
