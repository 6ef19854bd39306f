"""Ticks that queue for a lock: how long each waits, for whom, and which of them."""

from __future__ import annotations

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.world import NAME, START, slot

from firecron import Lease, Run
from firecron.lock.blocks import try_once


@pytest.mark.parametrize(("released", "starts"), [(20, True), (55, True), (61, False)])
def test_a_queued_tick_waits_until_the_next(released: float, starts: bool) -> None:
    """With overlap="queue" a tick that finds the lock held polls until it is free, or the next tick has come."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot(-60))
    fleet.world.at(released, lease.release)
    one.turn(slot())
    assert fleet.slots() == ([slot()] if starts else [])
    assert fleet.world.mono() <= 60_001
    assert len(one.said("run.skipped")) == (not starts)
    if starts:
        began = fleet.world.history()[slot()]["startedAt"]
        assert START + released * 1000 <= began <= START + released * 1000 + 5_000  # type: ignore[operator]  # a number


@pytest.mark.parametrize(("grace", "starts"), [(100, True), (30, False)])
def test_a_grace_that_was_given_ends_the_queue(grace: int, starts: bool) -> None:
    """A queued tick waits as long as the grace that the job was declared with, whatever comes in between."""
    fleet = Fleet(overlap="queue", grace=grace)
    one, other = fleet.instance(), fleet.instance()
    lease = try_once(other.locks.database, other.locks.database.bid(NAME, 30, renews=True))
    assert isinstance(lease, Lease)
    fleet.world.at(80, lease.release)
    one.turn(slot())
    assert bool(fleet.runs) is starts


def test_a_queued_tick_ends_when_another_took_it() -> None:
    """A tick that somebody else ran meanwhile is done, also for who queues for it."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot(-60))
    fleet.world.at(10, lease.release)
    fleet.world.at(10, lambda: other.turn(slot()))
    assert refusal_of(one.turn(slot())).reason == "slot_done"
    assert fleet.slots() == [slot()]


@pytest.mark.parametrize(("ends", "ran"), [(70, [slot(60)]), (125, [])])
def test_a_queued_tick_waits_for_the_run_on_its_own_instance(ends: float, ran: list[str]) -> None:
    """A tick queues for the run before it here as well, without a request or a thread, and runs after it, if it is
    not over by then.
    """
    fleet = Fleet(overlap="queue")
    one = fleet.instance()

    def body(run: Run) -> None:
        fleet.body = lambda run: None
        one.network.requests()
        assert one.turn(slot(60)) == []
        assert one.network.requests("cron-locks/") == []
        fleet.world.until(ends)

    fleet.body = body
    one.turn(slot())
    fleet.world.advance(1)
    assert fleet.slots() == [slot(), *ran]
    assert [event.fields["slot"] for event in one.said("run.missed")] == [slot(60)] * (not ran)


@pytest.mark.parametrize(("options", "ran"), [({}, [120]), ({"grace": 600}, [60, 120])])
def test_of_the_ticks_that_queue_the_newest_stands_in_line(options: dict[str, object], ran: list[float]) -> None:
    """Behind a long run the newest tick waits, and the one before it is skipped; all wait, in their order, where they
    have a grace of their own.
    """
    fleet = Fleet("* * * * *", overlap="queue", **options)
    one = fleet.instance()

    def body(run: Run) -> None:
        fleet.body = lambda run: None
        for seconds in (60, 120):
            fleet.world.until(seconds)
            assert one.turn(slot(seconds)) == []

    fleet.body = body
    one.turn(slot())
    fleet.world.advance(1)
    assert fleet.slots() == [slot(), *map(slot, ran)]
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot(60)] * (60 not in ran)


def test_the_least_pause_of_a_queue_is_half_a_second(fleet: Fleet) -> None:
    """A tick that queues asks again after half a second at the soonest, and five at the latest."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    other.hold(slot(-60))
    for chance, pause in ((0.0, 0.5), (1.0, 5.0)):
        one.chance.value = chance
        assert one.claim(slot()) == pause


def test_a_tick_that_was_never_asked_for_is_missed(fleet: Fleet) -> None:
    """What became of the tick before says nothing of the next, whose time is over before its first try."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    other.hold(slot(-60))
    assert one.go_on(one.attempt(slot()))
    fleet.world.until(121)
    assert one.go_on(one.attempt(slot(60))) is None
    fleet.world.advance(0)
    assert [
        (event.slug, event.fields["slot"]) for event in one.events if event.slug in ("run.skipped", "run.missed")
    ] == [("run.skipped", slot()), ("run.missed", slot(60))]


def test_the_time_and_the_answer_come_with_one_try(fleet: Fleet) -> None:
    """Who learns RTDB's time with a refusal, and is in time, tries again after a pause, and not at once."""
    asked: list[int] = []
    for is_known in (True, False):
        fleet = Fleet(overlap="queue")
        one, other = fleet.instance(), fleet.instance()
        other.hold(slot(-60))
        if not is_known:
            one.timing.step_wall(3_600)
        assert one.go_on(one.attempt(slot()))
        asked.append(len(one.network.requests("cron-locks/")))
    assert asked[0] == asked[1]


@pytest.mark.parametrize(("overlap", "length", "hears"), [("cancel_previous", 20, True), ("queue", 7, False)])
def test_no_instance_calls_a_tick_skipped_that_another_has_run(overlap: str, length: float, hears: bool) -> None:
    """A tick that waited in vain here, because another instance was sooner, is done: its last refusal is older."""
    fleet = Fleet("*/5 * * * * *", overlap=overlap)
    instances = [fleet.instance(hears=hears) for _ in range(3)]

    def body(run: Run) -> None:
        for _ in range(2 * int(length)):
            run.check()
            fleet.world.advance(0.5)

    fleet.body = body
    for one in instances:
        one.start()
    fleet.world.until(62)
    skipped = {key for key, outcome in fleet.world.outcomes().items() if outcome == "skipped"}
    assert bool(skipped) is (overlap == "queue")
    for one in instances:
        assert {event.fields["slot"] for event in one.said("run.skipped")} <= skipped
        assert one.said("run.missed") == []
    assert sum(len(one.said("lock.refused")) for one in instances) >= 10


@pytest.mark.parametrize("ran", [True, False])
def test_the_end_of_a_grace_looks_at_the_node_once_more(ran: bool) -> None:
    """A tick whose grace ends between two looks is skipped only if no other instance has claimed it since the last."""
    fleet = Fleet(overlap="queue", grace=10)
    one, other = fleet.instance(), fleet.instance()
    one.chance.value = 0.5  # so it polls every 2.75 s
    lease = other.keep(ttl=30)
    if ran:
        fleet.world.at(9.5, lease.release)
        fleet.world.at(9.6, lambda: other.hold(slot()))
    assert one.turn(slot()) == []
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [] if ran else [slot()]
    assert [event.fields["reason"] for event in one.said("lock.refused")] == ["slot_done" if ran else "held"]


def test_a_queued_tick_is_given_up_although_the_time_is_not_known() -> None:
    """The end of its grace is on this machine's clock: the tick is reported, though nobody can tell the node's time."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    other.hold(slot(-60))
    one.chance.value = 0.9  # it asks every 4.55 seconds: for the last time at 59.15

    def forget_the_time() -> None:
        one.locks.clock.estimate = None

    fleet.world.at(59.5, forget_the_time)
    one.turn(slot())
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot()]


def test_a_claim_that_is_dropped_without_doubts_asks_nothing() -> None:
    """Its tick was told of already, and of no other one is it open what became of it."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    other.hold(slot(-60))
    turn = one.attempt(slot())
    assert one.go_on(turn) is not None
    assert turn.lane.pending is not None
    one.network.requests()
    one.runner.drop(turn.lane.pending)
    assert one.network.requests() == []
