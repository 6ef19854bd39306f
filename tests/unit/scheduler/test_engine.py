"""The engine without threads of its own: when it wants to work next, and what it leaves alone."""

from __future__ import annotations

from contextlib import nullcontext

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.network import failing
from tests.simulation.world import NAME, START, slot

from firecron.errors import Unavailable


@pytest.mark.parametrize(("held", "waits"), [(False, 30), (True, 10)])
def test_it_wants_to_work_when_the_first_thing_is_due(by_hand: None, held: bool, waits: float) -> None:
    """The engine's next work is a tick, a sign of life, or the renewal of a lock that is held, whatever comes first."""
    fleet = Fleet("0 * * * *")
    one = fleet.instance(heartbeat=60)
    engine = one.crons.engine
    fleet.world.machines.clear()
    one.start()
    fleet.world.until(1)
    engine.work()
    with one.locks.hold("other", ttl=30) if held else nullcontext() as lease:
        assert engine.work() == pytest.approx(waits, abs=0.001)
        fleet.world.until(1 + waits)
        engine.work()
        if lease is not None:
            assert lease.expires_at.timestamp() * 1000 == START + 41_000


@pytest.mark.parametrize("once_per_tick", [True, False])
def test_it_looks_back_only_on_what_is_claimed(once_per_tick: bool) -> None:
    """A tick of just before the start is run where ticks are claimed: elsewhere nobody knows whether it has run, and
    nobody is asked.
    """
    fleet = Fleet(once_per_tick=once_per_tick)
    one = fleet.instance()
    one.turn(slot(-60))
    fleet.world.until(10)
    one.network.requests()
    one.start()
    fleet.world.until(20)
    assert fleet.slots()[1:] == [slot()] * once_per_tick
    assert bool(one.network.requests(f"cron-locks/{NAME}")) is once_per_tick


@pytest.mark.parametrize(("overlap", "runs"), [("skip", False), ("queue", True)])
def test_it_looks_back_on_no_tick_that_overlap_has_skipped(overlap: str, runs: bool) -> None:
    """A run held the lock when the tick came, and has ended since: all others have skipped the tick."""
    fleet = Fleet(overlap=overlap)
    one = fleet.instance()
    one.turn(slot(-60))
    ended = START + 5_000
    fleet.world.edit(acquiredAt=START - 60_000, expiresAt=ended, releasedAt=ended)
    fleet.world.until(10)
    one.start()
    fleet.world.until(20)
    assert (slot() in fleet.slots()) is runs


@pytest.mark.parametrize(
    ("entry", "runs"),
    [
        (None, False),
        ({}, True),
        ({"since": START}, False),
        ({"line": "*/2 * * * *"}, False),
        ({"disabled": True}, False),
        ({"ticks": False}, False),
        ({"service": ""}, False),
    ],
)
def test_the_first_tick_of_a_job_is_looked_back_on_if_others_had_the_job(
    entry: dict[str, object] | None, runs: bool
) -> None:
    """A job has never run. Its tick of just before the start is run if the catalogue says that instances ticked for it
    by then: they may be gone, or wait for others to ask.
    """
    fleet = Fleet()
    one = fleet.instance()
    if entry is not None:
        stored = {"line": "* * * * *", "timezone": "UTC", "since": START - 1, "service": "digests", **entry}
        fleet.world.store.set(f"cron-jobs/{NAME}", stored)
    fleet.world.until(10)
    one.crons.engine.publisher.begin()
    one.start()
    fleet.world.until(20)
    assert fleet.slots() == [slot()] * runs


@pytest.mark.parametrize("comes_first", [True, False])
def test_the_catalogue_is_read_once_whoever_comes_first(comes_first: bool) -> None:
    """The look at the catalogue that every start makes tells of the tick, before or after that has asked for its lock.
    It delays no tick, and costs no request.
    """
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.store.set(f"cron-jobs/{NAME}", {"line": "* * * * *", "timezone": "UTC", "since": START - 1})
    fleet.world.until(10)
    if comes_first:
        one.crons.engine.publisher.begin()
    one.start()
    fleet.world.until(20)
    one.crons.engine.publisher.begin()
    fleet.world.until(30)
    assert fleet.slots() == [slot()]
    assert one.network.requests("cron-jobs").count("read") == (2 if comes_first else 1)


def test_a_catalogue_that_does_not_answer_says_nothing_of_a_first_tick() -> None:
    """Then nobody knows that others had the job. The next tick runs in its time, and the first one is not reported as
    missed once the catalogue answers: others may have run it.
    """
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.store.set(f"cron-jobs/{NAME}", {"line": "* * * * *", "timezone": "UTC", "since": START - 1})
    fleet.world.until(10)
    one.network.next("read", before=failing(Unavailable("away")))
    one.crons.engine.publisher.begin()
    one.start()
    fleet.world.until(65)
    assert fleet.slots() == [slot(60)]
    fleet.world.until(330)
    assert "merge" in one.network.requests("cron-jobs")
    assert one.said("run.missed") == []


def test_a_job_that_is_added_with_another_line_is_looked_up_again() -> None:
    """What is known of a job's first line is not believed of its second."""
    fleet = Fleet()
    one = fleet.instance()
    other = fleet.instance("*/2 * * * *")
    fleet.world.store.set(f"cron-jobs/{NAME}", {"line": "* * * * *", "timezone": "UTC", "since": START - 1})
    one.crons.engine.publisher.begin()
    fleet.world.until(10)
    one.crons.registry.remove(NAME)
    one.crons.registry.add(other.job())
    told: list[int | None] = []
    one.crons.engine.publisher.when_known(one.job(), told.append)
    fleet.world.until(20)
    assert told == [None]


def test_a_first_tick_that_comes_while_the_database_is_away_runs_within_its_grace() -> None:
    """An instance has started before the first tick of its job, and learns RTDB's time only after it."""
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.until(54)
    one.timing.step_wall(5)  # so RTDB's time is not known any more
    one.network.is_down = True
    one.start()
    fleet.world.until(65)
    one.network.is_down = False
    fleet.world.until(75)
    assert fleet.slots() == [slot(60)]


def test_no_worker_is_called_after_a_stop() -> None:
    """A run that was left behind ends, and calls the next turn: nobody takes it, and no worker stays for it."""
    fleet = Fleet()
    one = fleet.instance()
    one.start()
    one.crons.stop()
    given: list[object] = []
    one.crew.submit = given.append  # type: ignore[method-assign,assignment]  # noted
    one.crons.engine.lanes.stand(one.attempt(slot(60)))
    assert given == []
    one.start()
    one.crons.engine.lanes.stand(one.attempt(slot(60)))
    assert len(given) >= 1
