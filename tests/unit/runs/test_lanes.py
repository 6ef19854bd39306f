"""Turns at one job on one instance, which come in each other's way."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import come
from tests.simulation.world import NAME, START, slot
from tests.unit.locks import lock_of
from tests.unit.runs.outages import busy

from firecron import Run
from firecron.runs.lane import Lane

NINE = datetime(2026, 11, 18, 9, tzinfo=UTC)


@pytest.mark.parametrize("body", [0, 1])
def test_three_in_line_keep_their_order(body: float) -> None:
    """Ticks that queue with a grace of their own all run, in their order, however many stand behind a long run."""
    fleet = Fleet(overlap="queue", grace=600)
    one = fleet.instance()

    def long(run: Run) -> None:
        fleet.body = lambda run: fleet.world.advance(body)
        for seconds in (60, 120, 180):
            fleet.world.until(seconds)
            assert one.turn(slot(seconds)) == []

    fleet.body = long
    one.turn(slot())
    fleet.world.advance(20)
    assert fleet.slots() == [slot(seconds) for seconds in (0, 60, 120, 180)]


def test_ticks_that_queue_behind_a_foreign_lock_keep_their_order() -> None:
    """Ticks that came while somebody else held the lock run one after another, oldest first."""
    fleet = Fleet("*/10 * * * * *", overlap="queue", grace=60)
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot())
    one.start()
    fleet.body = lambda run: fleet.world.advance(1)
    fleet.world.until(35)
    lease.release()
    fleet.world.until(65)
    assert fleet.slots()[:6] == [slot(seconds) for seconds in (10, 20, 30, 40, 50, 60)]


@pytest.mark.parametrize("by_tick", [False, True])
def test_a_refused_run_by_hand_costs_no_tick(by_tick: bool) -> None:
    """A tick that comes while a run by hand asks for the lock waits for that answer, and runs if it is a refusal."""
    fleet = Fleet()
    one = fleet.instance()
    one.turn(slot(-60))
    one.network.is_down = not by_tick

    def come(method: str, path: str) -> None:
        one.network.before = lambda method, path: None
        assert one.turn(slot()) == []

    one.network.before = come
    wanted = NINE - timedelta(seconds=60) if by_tick else None
    refusal = one.crons.registry.trigger(NAME, slot=wanted).refusal
    assert refusal is not None
    assert refusal.reason == ("slot_done" if by_tick else "unavailable")
    one.network.is_down = False
    fleet.world.advance(1)
    assert fleet.slots() == [slot(-60), slot()]


def test_a_run_by_hand_that_begins_costs_the_tick_that_came() -> None:
    """A tick that comes while a run by hand asks for the lock is skipped once that run has begun."""
    fleet = Fleet()
    one = fleet.instance()

    def come(method: str, path: str) -> None:
        one.network.before = lambda method, path: None
        assert one.turn(slot()) == []

    one.network.before = come
    assert one.crons.registry.trigger(NAME).outcome == "succeeded"
    fleet.world.advance(1)
    assert fleet.slots() == [None]
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot()]


def test_an_older_turn_does_not_take_over_a_newer_one() -> None:
    """A tick that comes to a worker after the one that follows it leaves that one alone."""
    fleet = Fleet("*/20 * * * * *")
    one = fleet.instance()
    fleet.world.until(21)
    newer, older = (one.attempt(slot(seconds)) for seconds in (20, 0))
    one.network.is_down = True
    assert one.go_on(newer) is not None
    assert one.go_on(older) is None
    one.network.is_down = False
    assert one.go_on(newer) is None
    fleet.world.advance(1)
    assert slot(20) in fleet.slots()


def test_every_tick_that_is_displaced_is_said() -> None:
    """A tick that was called, and displaced by a newer one before it got a worker, is skipped and said to be."""
    fleet = Fleet("*/20 * * * * *", overlap="queue")
    one = fleet.instance()
    turns = [one.attempt(slot(seconds)) for seconds in (0, 20, 40)]

    def body(run: Run) -> None:
        fleet.body = lambda run: None
        fleet.world.until(20)
        assert one.go_on(turns[1]) is None

    fleet.body = body
    one.go_on(turns[0])
    fleet.world.skip_to(40_000)  # the crew was busy until now
    one.go_on(turns[2])
    fleet.world.advance(1)
    assert fleet.slots() == [slot(), slot(40)]
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot(20)]


def test_a_takeover_that_fails_is_tried_again_soon() -> None:
    """An instance that can't reach the database when the dead one's lock expires takes the run over seconds after it
    can.
    """
    fleet = Fleet("0 9 * * *", on_abandoned="rerun")
    times: list[float] = []
    fleet.body = lambda run: times.append(fleet.world.mono() / 1000)
    dead, one = fleet.instance(), fleet.instance()
    one.start()
    dead.die_holding(slot())
    one.turn(slot())
    fleet.world.until(30.5)
    one.network.is_down = True
    fleet.world.until(45)
    one.network.is_down = False
    fleet.world.until(100)
    assert len(times) == 1
    assert times[0] < 45 + 15


@pytest.mark.parametrize(("options", "ran"), [({"overlap": "queue"}, True), ({}, False)])
def test_a_queued_tick_waits_out_a_freeze(options: dict[str, object], ran: bool) -> None:
    """A frozen process runs a queued tick as late as it would have queued for it: until the next; others not past
    their grace.
    """
    fleet = Fleet("0 * * * *", **options)
    one = fleet.instance()
    one.start()
    fleet.world.until(3_590)
    one.freeze(100)
    fleet.world.until(4_000)
    assert fleet.slots() == [slot(3_600)] * ran
    assert len(one.said("run.missed")) == (not ran)


def test_what_was_overtaken_is_said_once() -> None:
    """A tick that a newer one has taken over is not said to be skipped again when the job is paused afterwards."""
    fleet = Fleet("*/20 * * * * *")
    one = fleet.instance()
    older, newer = (one.attempt(slot(seconds)) for seconds in (0, 20))
    one.network.is_down = True
    assert one.go_on(older) is not None
    fleet.world.until(20)
    assert one.go_on(newer) is not None
    one.crons.registry.pause(NAME)
    for turn in (older, newer):
        assert one.go_on(turn) is None
    fleet.world.advance(0)
    said = [(event.slug, event.fields["slot"]) for event in one.events if event.slug in ("run.missed", "run.skipped")]
    assert said == [("run.skipped", slot(20)), ("run.missed", slot())]


def test_a_look_for_a_dead_run_waits_its_turn() -> None:
    """A run that died is taken over at its lock's expiry, although a queued tick is given up just then."""
    fleet = Fleet("0,25 * * * * *", overlap="queue", grace=6, on_abandoned="rerun")
    dying, one = fleet.instance(), fleet.instance()
    dying.die_holding(slot())
    turn = one.attempt(slot(25))
    fleet.world.until(25)
    assert one.go_on(turn)
    fleet.world.until(31)
    assert one.go_on(one.attempt(None, insists=True)) is None
    fleet.world.until(31.01)
    assert one.go_on(turn) is None  # its time is over
    fleet.world.advance(0)
    assert [(run.trigger, run.attempt) for run in fleet.runs] == [("rerun", 2)]


def test_one_look_is_enough_and_none_behind_a_body() -> None:
    """Looks that come while a turn waits cost one request in all; behind a body that began since, none."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot(-60))
    turn = one.attempt(slot())
    assert one.go_on(turn)
    for _ in range(3):
        assert one.go_on(one.attempt(None, insists=True)) is None
    one.network.requests()
    one.crons.engine.lanes.play(Lane.leave, turn)
    fleet.world.advance(0)
    assert one.network.requests("cron-locks") == ["read"]
    lease.release()
    turn = one.attempt(slot(60))
    fleet.world.until(60)

    def body(run: Run) -> None:
        one.network.requests()

    fleet.body = body
    come(one.crons.engine, turn)
    assert one.crons.engine.lanes.enter(turn)
    assert one.go_on(one.attempt(None, insists=True)) is None
    one.crons.engine.lanes.play(Lane.wait, turn, None)
    assert one.go_on(turn) is None
    fleet.world.advance(0)
    assert fleet.slots() == [slot(60)]
    assert one.network.requests("cron-locks") == ["swap"]


def test_i07_after_a_run_by_hand_there_is_one_place_still() -> None:
    """A run by hand gives back the one place it took: a second body of the job beside a first is refused."""
    fleet = Fleet()
    one = fleet.instance()
    one.crons.registry.trigger(NAME)
    seen: list[object] = []
    fleet.body = lambda run: seen.append(one.crons.registry.trigger(NAME).refusal)
    one.turn(slot())
    assert "still runs on this instance" in str(seen[0])
    assert len(fleet.runs) == 2


def test_a_turn_that_was_overtaken_leaves_the_newer_one_alone() -> None:
    """A queued tick's timer that fires after a newer tick took its place, beside a run by hand, costs no tick."""
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot())
    older = one.attempt(slot(60))
    fleet.world.until(60)
    assert one.go_on(older)
    newer = one.attempt(slot(120))
    fleet.world.until(120)
    assert one.go_on(newer)
    lease.release()

    def by_hand(run: Run) -> None:
        fleet.body = lambda run: None
        assert one.go_on(older) is None

    fleet.body = by_hand
    one.crons.registry.trigger(NAME)
    assert one.go_on(newer) is None
    fleet.world.advance(0)
    assert fleet.slots() == [None, slot(120)]


class Guarded(Lane):
    """A lane that may be changed only while the places' lock is held, and so may its sets."""

    lock: threading.Lock | None = None

    def __setattr__(self, name: str, value: object) -> None:
        assert Guarded.lock is None or Guarded.lock.locked(), f"{name} was changed without the lock"
        super().__setattr__(name, GuardedSet(value) if isinstance(value, set) else value)


class GuardedSet(set[object]):
    def add(self, item: object) -> None:
        assert Guarded.lock is None or Guarded.lock.locked(), f"{item} was added without the lock"
        super().add(item)

    def discard(self, item: object) -> None:
        assert Guarded.lock is None or Guarded.lock.locked(), f"{item} was taken out without the lock"
        super().discard(item)


def test_lanes_are_changed_under_the_lock_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever turns, runs by hand and stops do, no lane is changed by a thread that doesn't hold the lock."""
    monkeypatch.setattr("firecron.runs.lanes.Lane", Guarded)
    fleet = Fleet(overlap="queue")
    one, other = fleet.instance(), fleet.instance()
    monkeypatch.setattr(Guarded, "lock", lock_of(one.crons.engine.lanes))
    lease = other.locks.acquire(NAME, 90)
    assert lease
    one.start()
    fleet.world.until(70)
    lease.release()
    fleet.world.until(130)
    one.crons.registry.trigger(NAME)
    one.crons.engine.lanes.look_again(one.job(), START + 140_000)
    one.network.requests()
    fleet.world.until(150)
    assert one.network.requests("cron-locks") == ["read"]
    one.network.is_down = True
    assert one.crons.registry.trigger(NAME, slot=NINE + timedelta(seconds=130)).refusal is not None
    one.network.is_down = False
    one.crons.registry.trigger(NAME, slot=NINE + timedelta(seconds=130))
    one.crons.stop()
    assert fleet.slots() == [slot(60), slot(120), None, slot(130)]


def test_a_newer_tick_in_line_inherits_the_token() -> None:
    """A tick whose claim may have landed, and that a run by hand has put back in line, is found by the newer tick that
    takes its place there.
    """
    fleet = Fleet("*/20 * * * * *", overlap="queue")
    one = fleet.instance()
    one.network.lose_reply()

    def unread(method: str, path: str) -> None:
        if path.startswith("cron-locks") and method == "read":
            busy(method, path)

    one.network.before = unread
    older = one.attempt(slot())
    assert one.go_on(older)
    place = one.crons.engine.lanes.attempt(one.job(), None, "manual", is_patient=False)
    assert one.crons.engine.lanes.reserve(place)
    assert one.go_on(older) is None
    fleet.world.until(20)
    assert one.go_on(one.attempt(slot(20))) is None
    one.network.before = lambda method, path: None
    one.crons.engine.lanes.vacate(place)
    fleet.world.advance(0)
    assert fleet.slots() == [slot(), slot(20)]
    assert one.said("run.skipped") == one.said("run.missed") == []
