"""Signs of life: what an instance writes of itself, and when its rounds are made."""

from __future__ import annotations

import logging
import threading
import time

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.network import failing
from tests.simulation.world import START
from tests.unit.scheduler.beats import bench, new_crons, nodes

from firecron import FireCron, Unavailable, distributed_cron
from firecron.base.clocks import Deadline
from firecron.base.flag import begin_child
from firecron.errors import Denied, StoreError
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb


@distributed_cron("job", "0 0 * * *", lock_ttl=30)
def job() -> None: ...


def test_an_instance_says_what_it_is(rtdb: Rtdb) -> None:
    """A beat writes when the instance was seen and begun, whose it is, and what it has; later beats keep the start."""
    crons = new_crons(job)
    beginnings = set()
    for _ in range(3):
        crons.engine.heartbeat.beat()
        ((key, node),) = nodes(rtdb).items()
        assert key == crons.engine.heartbeat.id
        instance, _, suffix = key.partition("-")
        assert (len(instance), len(suffix)) == (12, 6)
        assert node.keys() == {"seenAt", "startedAt", "instanceId", "jobs", "running"}
        assert (node["instanceId"], node["jobs"], node["running"]) == ("local", 1, 0)
        assert isinstance(node["seenAt"], int)
        beginnings.add(node["startedAt"])
    assert len(beginnings) == 1


def test_a_beat_brings_the_time(rtdb: Rtdb) -> None:
    """An instance that beats needs no other sample of RTDB's clock."""
    crons = new_crons()
    assert crons.locks.clock.peek() is None
    crons.engine.heartbeat.beat()
    moment = crons.locks.clock.peek()
    assert moment is not None
    assert moment.server == pytest.approx(time.time() * 1000, abs=2_000)
    assert rtdb.count() == 1


def test_the_node_goes_with_its_instance(rtdb: Rtdb) -> None:
    """A stop removes the instance's own node, and no other's."""
    one, other = FireCron(enabled=True, settings=load()), new_crons()
    other.engine.heartbeat.beat()
    beaten = threading.Event()

    def rounds(deadline: Deadline) -> bool:
        beaten.set()
        return True

    one.engine.recovery.make = rounds  # type: ignore[method-assign]  # noted, not made
    with one:
        assert beaten.wait(20)
        assert nodes(rtdb).keys() == {one.engine.heartbeat.id, other.engine.heartbeat.id}
    assert nodes(rtdb).keys() == {other.engine.heartbeat.id}


def test_rounds_are_made_at_the_start_and_every_so_often() -> None:
    """An instance looks around when it starts and every recovery_interval, whatever its beats."""
    fleet = Fleet()
    rounds: list[float] = []
    one, _ = bench(fleet, rounds, recovery_interval=100, heartbeat=30)
    one.start()
    fleet.world.until(250)
    assert rounds == [0, 120, 240]


def test_rounds_wait_for_the_time() -> None:
    """Without RTDB's time there are no rounds, and with the first beat that brings it they are made."""
    fleet = Fleet()
    rounds: list[float] = []
    one, heartbeat = bench(fleet, rounds)
    one.timing.step_wall(100)
    one.network.is_down = True
    heartbeat.work()
    assert rounds == []
    assert len(one.said("heartbeat.failed")) == 1
    one.network.is_down = False
    heartbeat.work()
    assert rounds == [0]


def test_a_cause_is_a_warning_once() -> None:
    """The same cause is DEBUG until a beat went well in between, and always while RTDB's time is not known."""
    fleet = Fleet()
    one, heartbeat = bench(fleet, [])

    def levels(error: str | None, beats: int) -> list[int]:
        before = len(one.said("heartbeat.failed"))
        for _ in range(beats):
            if error is not None:
                one.network.next("merge", before=failing(Unavailable(error)))
            heartbeat.work()
        return [event.level for event in one.said("heartbeat.failed")][before:]

    assert levels("down", 2) == [logging.WARNING, logging.DEBUG]
    assert levels("slow", 1) == [logging.WARNING]
    assert levels(None, 1) == []
    assert levels("slow", 2) == [logging.WARNING, logging.DEBUG]
    one.timing.step_wall(100)
    assert levels("gone", 1) == [logging.DEBUG]


def test_rounds_cost_only_jobs_that_want_them() -> None:
    """A job that neither catches up nor reruns is not looked at in the rounds."""
    for options, reads in (({}, 0), ({"catch_up": "once"}, 1), ({"on_abandoned": "rerun"}, 1), ({"disabled": True}, 0)):
        fleet = Fleet("0 0 * * *", **options)
        one = fleet.instance()
        one.start()
        assert len(one.network.requests("cron-locks")) == reads


def test_a_round_that_failed_is_followed_by_nothing() -> None:
    """After an error of the rounds the dead are left to the next beat: nothing else is asked for."""
    fleet = Fleet()
    rounds: list[float] = []
    one, heartbeat = bench(fleet, rounds)

    def fail(deadline: Deadline) -> bool:
        raise Unavailable("slow")

    one.crons.engine.recovery.make = fail  # type: ignore[method-assign]  # as with a database that is slow
    one.network.requests()
    heartbeat.work()
    assert one.network.requests("cron-instances") == ["merge"]
    (event,) = one.said("heartbeat.failed")
    assert "goes on at the next beat: slow" in event.message


@pytest.mark.parametrize(("error", "made"), [(Denied("no"), [0.0]), (Unavailable("down"), [])])
def test_rounds_are_made_where_the_database_answers(error: StoreError, made: list[float]) -> None:
    """A beat that is refused says that the database is there, and the rounds may be allowed."""
    fleet = Fleet()
    rounds: list[float] = []
    one, heartbeat = bench(fleet, rounds)
    one.network.next("merge", before=failing(error))
    heartbeat.work()
    assert rounds == made


def test_a_slow_beat_is_a_poor_sample_of_the_time() -> None:
    """What a beat brings is as uncertain as it took long: half of the time between the asking and the answer."""
    fleet = Fleet()
    one = fleet.instance()
    one.locks.clock.estimate = None  # a better sample would stay
    one.network.before = lambda method, path: fleet.world.skip_to(fleet.world.mono() + 600)
    one.crons.engine.heartbeat.beat()
    assert one.locks.clock.uncertainty == pytest.approx(300, abs=5)
    moment = one.locks.clock.peek()
    assert moment is not None
    assert moment.server == pytest.approx(START + 600, abs=301)


def test_a_beat_is_made_when_it_is_due() -> None:
    """However often it is asked to, an instance without threads beats once a period."""
    fleet = Fleet()
    one = fleet.instance(heartbeat=30)
    one.network.requests()
    waits = [one.crons.engine.heartbeat.work_if_due() for _ in range(3)]
    assert waits == [30] * 3
    assert one.network.requests("cron-instances/") == ["merge"]
    fleet.world.advance(10)
    assert one.crons.engine.heartbeat.work_if_due() == 20


def test_a_forked_child_is_an_instance_of_its_own() -> None:
    """After a fork there is another node, which began then; the parent's stays as it is."""
    fleet = Fleet()
    one = fleet.instance()
    heartbeat = one.crons.engine.heartbeat
    heartbeat.beat()
    parent = heartbeat.id
    fleet.world.until(50)
    begin_child()
    heartbeat.beat()
    started = {key: fleet.world.store.get(f"cron-instances/{key}/startedAt") for key in (parent, heartbeat.id)}
    assert started == {parent: START, heartbeat.id: START + 50_000}
