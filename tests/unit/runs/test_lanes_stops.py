"""Stops, pauses and removals in the middle of turns: nothing begins after them, and nothing is in the way later."""

from __future__ import annotations

import threading
from datetime import UTC, datetime

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.world import NAME, START, slot
from tests.unit.runs.outages import busy

from firecron import FireCron, Run, distributed_cron
from firecron.errors import FirecronError, Stopping
from firecron.runs.lane import Attempt
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

NINE = datetime(2026, 11, 18, 9, tzinfo=UTC)
LONG_AGO = {
    "acquiredAt": START - 3_600_000,
    "expiresAt": START - 3_590_000,
    "releasedAt": START - 3_590_000,
    "holder": "another",
    "slot": slot(-3_600),
}


@pytest.mark.parametrize("options", [{}, {"overlap": "queue", "grace": 60}])
def test_a_start_after_a_stop_in_a_rerun_ticks_on(options: dict[str, object]) -> None:
    """A stop that comes while a turn has more to claim leaves nothing in the way of the ticks after the next start."""
    fleet = Fleet("* * * * *", on_abandoned="rerun", **options)
    dead, one = fleet.instance(), fleet.instance()
    dead.die_holding(slot())
    fleet.world.until(100)

    def ended(run: Run) -> None:
        fleet.body = lambda run: None
        one.crons.stop()

    fleet.body = ended
    one.turn(slot(60))
    assert fleet.slots() == [slot()]
    one.start()
    fleet.world.until(260)
    assert fleet.slots() == [slot(), slot(60), slot(120), slot(180), slot(240)]


def test_a_stop_takes_those_in_line_along() -> None:
    """A tick that stood in line at a stop doesn't run after the next start: by then the look back is what counts."""
    fleet = Fleet(overlap="queue")
    one = fleet.instance()

    def ended(run: Run) -> None:
        fleet.body = lambda run: None
        assert one.turn(slot(60)) == []
        one.crons.stop()

    fleet.world.until(60)
    fleet.body = ended
    one.turn(slot())
    assert fleet.slots() == [slot()]
    fleet.world.until(125)
    one.start()
    fleet.world.until(130)
    assert fleet.slots() == [slot(), slot(120)]


@pytest.mark.parametrize("action", ["pause", "remove"])
def test_what_is_taken_off_the_schedule_does_not_start(action: str) -> None:
    """A tick that waits for the lock, or for the database, is given up when the job is paused here or removed."""
    for overlap in ("queue", "skip"):
        fleet = Fleet(overlap=overlap)
        one, other = fleet.instance(), fleet.instance()
        one.start()
        fleet.world.until(59)
        lease = other.hold(slot()) if overlap == "queue" else None
        one.network.before = busy if overlap == "skip" else one.network.before
        fleet.world.until(62)
        getattr(one.crons.registry, action)(NAME)
        one.network.before = lambda method, path: None
        if lease is not None:
            lease.release()
        fleet.world.until(100)
        assert fleet.slots() == []
        assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot(60)]


def test_a_pause_ends_catching_up() -> None:
    """After a pause in the middle of a catch-up the run under way comes to its end, and no other begins."""
    fleet = Fleet(catch_up="all", grace=1)
    fleet.world.put(LONG_AGO)
    one = fleet.instance()
    fleet.body = lambda run: one.crons.registry.pause(NAME)
    one.start()
    fleet.world.until(30)
    assert len(fleet.runs) == 1


@pytest.mark.parametrize("how", ["told", "stopped"])
def test_a_trigger_claims_no_more_once_the_instance_stops(how: str) -> None:
    """Who catches up before the tick that was asked for begins no further run after a stop."""
    fleet = Fleet(catch_up="all", grace=1)
    fleet.world.put(LONG_AGO)
    one = fleet.instance()

    def body(run: Run) -> None:
        one.crons.stop()
        if how == "told":
            run.check()

    fleet.body = body
    fleet.world.until(5)
    with pytest.raises(Stopping):
        one.crons.registry.trigger(NAME, slot=NINE, source="http")
    assert len(fleet.runs) == 1


def test_a_job_that_comes_again_has_its_own_places() -> None:
    """After a job is removed, one of the same name has as many places as it wants."""
    fleet = Fleet()
    one = fleet.instance()
    one.turn(slot())
    one.crons.registry.remove(NAME)

    @distributed_cron(NAME, "* * * * *", overlap="allow")
    def work() -> None:
        """Nothing."""

    one.crons.registry.add(work)
    assert one.crons.engine.lanes.lane(one.job()).free == 3


def test_a_run_by_hand_does_not_slip_through_a_stop(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stop that has returned is not followed by the body of a run that was asked for just before."""
    timing = FakeTiming(wall=START)
    began: list[int] = []
    job = distributed_cron(NAME, "* * * * *")(lambda: began.append(1))
    crons = FireCron(job, store=MemoryStore(timing.now), timing=timing, settings=load())
    places = crons.engine.lanes
    reserve = places.reserve
    asked, go_on = threading.Event(), threading.Event()

    def slowly(place: Attempt) -> bool:
        asked.set()
        assert go_on.wait(20)
        return reserve(place)

    monkeypatch.setattr(places, "reserve", slowly)
    failures: list[FirecronError] = []

    def by_hand() -> None:
        try:
            crons.registry.trigger(NAME)
        except FirecronError as error:
            failures.append(error)

    runs = threading.Thread(target=by_hand)
    runs.start()
    assert asked.wait(20)
    stops = threading.Thread(target=crons.stop)
    stops.start()
    assert crons.engine.runner.stopping.wait(20)
    assert stops.is_alive(), "the stop waits for whoever is about to run"
    go_on.set()
    for thread in (runs, stops):
        thread.join(20)
        assert not thread.is_alive()
    assert (began, failures) == ([1], [])


def test_a_stop_frees_the_lane_of_a_turn_that_waits() -> None:
    """After a stop while a queued tick waits, the next start's ticks run."""
    fleet = Fleet(overlap="queue", grace=600)
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot())
    turn = one.attempt(slot(60))
    fleet.world.until(60)
    assert one.go_on(turn)
    one.crons.stop()
    lease.release()
    one.start()
    fleet.world.until(125)
    assert fleet.slots()[-1] == slot(120)


def test_a_stop_in_the_middle_of_a_try_frees_the_lane() -> None:
    """A turn that was trying at a stop, and has nobody left to call it, is in the way of no tick after the next
    start.
    """
    fleet = Fleet(overlap="queue", grace=600)
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot())
    fleet.world.until(60)

    def stop(method: str, path: str) -> None:
        one.network.before = lambda method, path: None
        one.crons.stop()

    one.network.before = stop
    assert one.go_on(one.attempt(slot(60)))
    lease.release()
    one.start()
    fleet.world.until(125)
    assert fleet.slots()[-1] == slot(120)
