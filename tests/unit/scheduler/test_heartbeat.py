"""Signs of life: what an instance writes of itself, and when it looks for what others left behind."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import START, slot
from tests.unit.locks import lock_of
from tests.unit.threads import PATIENCE, Resting, ended, named

from firecron import FireCron, Unavailable, distributed_cron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.errors import Denied, StoreError
from firecron.scheduler.heartbeat import Heartbeat
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator.pytest_plugin import Rtdb

THREAD = "firecron-heartbeat"


def new_crons(*providers: object) -> FireCron:
    return FireCron(*providers, settings=load(), enabled=True, has_threads=False)


def nodes(rtdb: Rtdb) -> dict[str, dict[str, object]]:
    found = rtdb.get("/cron-instances")
    assert found is None or isinstance(found, dict)
    return {key: node for key, node in (found or {}).items() if key != "clock"}


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


def test_the_dead_are_removed(rtdb: Rtdb) -> None:
    """Nodes that were not seen for ten beats, or say nothing of it, are removed; the living and locks are not."""
    crons, other = new_crons(), new_crons()
    for each in (crons, other):
        each.engine.heartbeat.beat()
    now = nodes(rtdb)[crons.engine.heartbeat.id]["seenAt"]
    assert isinstance(now, int)
    beats = {"young": 299_000, "dead": 302_000}
    for name, age in beats.items():
        rtdb.set(f"/cron-instances/{name}", {"seenAt": now - age})
    rtdb.set("/cron-instances/odd", {"seenAt": "yesterday"})
    rtdb.set("/cron-instances/leaf", 3)
    # An instance that was frozen has not been seen for long either, and is here.
    rtdb.set(f"/cron-instances/{crons.engine.heartbeat.id}", {"seenAt": now - 302_000})
    rtdb.set("/cron-locks/job", {"expiresAt": 1, "slot": slot()})
    crons.engine.heartbeat.prune(crons.locks.deadline(20))
    assert nodes(rtdb).keys() == {"young", crons.engine.heartbeat.id, other.engine.heartbeat.id}
    assert rtdb.get("/cron-locks/job") == {"expiresAt": 1, "slot": slot()}


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


def bench(fleet: Fleet, rounds: list[float], **settings: Any) -> tuple[Instance, Heartbeat]:
    """An instance, and its heartbeat with rounds that only note when they are made."""
    one = fleet.instance(**settings)

    def make(deadline: Deadline) -> bool:
        rounds.append(fleet.world.mono() / 1000)
        return True

    one.crons.engine.recovery.make = make  # type: ignore[method-assign]  # noted, not made
    return one, one.crons.engine.heartbeat


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


def test_rounds_cost_only_jobs_that_want_them() -> None:
    """A job that neither catches up nor reruns is not looked at in the rounds."""
    for options, reads in (({}, 0), ({"catch_up": "once"}, 1), ({"on_abandoned": "rerun"}, 1), ({"disabled": True}, 0)):
        fleet = Fleet("0 0 * * *", **options)
        one = fleet.instance()
        one.start()
        assert len(one.network.requests("cron-locks")) == reads


class OneWait(FakeTiming):
    """Time whose first wait is noted, and is the last."""

    def __init__(self) -> None:
        super().__init__(wall=START)
        self.waits: list[float | None] = []
        self.then: Callable[[], object] = lambda: None

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.waits.append(seconds)
        self.condition = condition
        self.then()


def test_rounds_put_off_no_beat() -> None:
    """After rounds that took twenty seconds the next beat is ten seconds away."""
    timing = OneWait()
    crons = FireCron(store=MemoryStore(timing.now), timing=timing, settings=load(heartbeat=30), enabled=True)
    heartbeat = crons.engine.heartbeat
    heartbeat.chance = lambda: 1.0

    def make(deadline: Deadline) -> bool:
        timing.advance(20)
        return True

    crons.engine.recovery.make = make  # type: ignore[method-assign]  # noted, not made
    timing.then = heartbeat.leave
    others = named(THREAD)
    heartbeat.start()
    for thread in named(THREAD) - others:
        assert thread.daemon, "it keeps no process from its end"
    assert all(map(ended, named(THREAD) - others))
    heartbeat.wait(timing.mono() + 1)
    assert timing.waits == [10], "and none for a thread that has ended"


def test_trouble_does_not_end_the_heartbeat() -> None:
    """Whatever a beat or the rounds raise, it is told each time, and the thread goes on to the next beat."""
    timing = FakeTiming(wall=START)
    beats = threading.Semaphore(0)
    said: list[Event] = []

    class Broken(MemoryStore):
        def merge(self, path: str, children: Mapping[str, object], deadline: Deadline) -> dict[str, object]:
            beats.release()
            raise ZeroDivisionError

    crons = FireCron(store=Broken(timing.now), timing=timing, settings=load())
    crons.events.subscribe(said.append)
    heartbeat, others = crons.engine.heartbeat, named(THREAD)
    heartbeat.start()
    (thread,) = named(THREAD) - others
    for _ in range(3):
        while not beats.acquire(timeout=0.01):
            timing.advance(30)
    heartbeat.leave()
    assert ended(thread)
    told = [event.fields["why"] for event in said if event.slug == "heartbeat.failed"]
    assert told.count("ZeroDivisionError()") == len(told) - 1 >= 3, "each beat, and the removal at the end"


@pytest.mark.parametrize(("rounds", "left"), [(0, 3), (29, 1), (40, 0)])
def test_the_dead_are_removed_in_the_time_that_rounds_leave(rounds: float, left: float) -> None:
    """To remove dead instances there is the time of one request, or what is left until the next beat."""
    timing = FakeTiming(wall=START)
    deadlines: list[float] = []

    class Noting(MemoryStore):
        def read(self, path: str, deadline: Deadline) -> Snapshot:
            if path == "cron-instances":
                deadlines.append(deadline.remaining())
            return super().read(path, deadline)

    crons = FireCron(store=Noting(timing.now), timing=timing, settings=load(heartbeat=30, request_timeout=3))
    crons.engine.heartbeat.chance = lambda: 1.0

    def make(deadline: Deadline) -> bool:
        timing.advance(rounds)
        return True

    crons.engine.recovery.make = make  # type: ignore[method-assign]  # noted, not made
    crons.engine.heartbeat.work()
    assert deadlines == [left]


def test_who_was_seen_ten_beats_ago_is_not_dead_yet() -> None:
    """To the millisecond: a node is removed when it is older than ten beats."""
    fleet = Fleet()
    one = fleet.instance(heartbeat=30)
    for name, age in (("young", 300_000), ("dead", 300_001)):
        fleet.world.store.set(f"cron-instances/{name}", {"seenAt": START - age})
    one.crons.engine.heartbeat.prune(one.locks.deadline(1))
    assert fleet.world.store.keys("cron-instances", one.locks.deadline(1)) == ["clock", "young"]


def test_the_clocks_node_goes_like_any_other_and_comes_back() -> None:
    """The node that programs ask for the time is removed as well when nobody has asked for ten beats."""
    fleet = Fleet()
    one = fleet.instance(heartbeat=30)
    fleet.world.store.set("cron-instances/clock", {"seenAt": START - 300_001})
    one.crons.engine.heartbeat.prune(one.locks.deadline(1))
    assert fleet.world.store.keys("cron-instances", one.locks.deadline(1)) == []
    one.locks.clock.synchronise(one.locks.deadline(1))
    assert fleet.world.store.keys("cron-instances", one.locks.deadline(1)) == ["clock"]


@pytest.mark.parametrize("node", [None, "leaf"])
def test_nodes_that_are_none_are_left_alone(node: object) -> None:
    """Where there are no instances, or something else is in their place, nothing is removed, and nothing raised."""
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.store.set("cron-instances", node)
    one.crons.engine.heartbeat.prune(one.locks.deadline(1))
    assert fleet.world.store.get("cron-instances") == node


def test_without_the_time_nobody_is_dead() -> None:
    """An instance that has lost RTDB's time removes nobody."""
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.store.set("cron-instances/old", {"seenAt": 1})
    one.timing.step_wall(100)
    one.crons.engine.heartbeat.prune(one.locks.deadline(1))
    assert fleet.world.store.get("cron-instances/old") == {"seenAt": 1}


def test_the_dead_that_can_not_be_removed_are_told_of() -> None:
    """What keeps an instance from removing the dead is said, and the next rounds are made as ever."""
    fleet = Fleet()
    rounds: list[float] = []
    one, heartbeat = bench(fleet, rounds, recovery_interval=100)
    one.network.before = lambda method, path: setattr(
        one.network, "is_down", (method, path) == ("read", "cron-instances")
    )
    heartbeat.work()
    (event,) = one.said("heartbeat.failed")
    assert "dead instances could not be removed: the network is down" in event.message
    fleet.world.until(100)
    heartbeat.work()
    assert rounds == [0, 100]


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


def test_the_dead_are_looked_for_after_a_round_alone() -> None:
    """A beat is one request, with a round another one, and a third only where somebody has died."""
    fleet = Fleet()
    rounds: list[float] = []
    one, heartbeat = bench(fleet, rounds, recovery_interval=100)
    one.network.requests()
    heartbeat.work()
    assert one.network.requests("cron-instances") == ["merge", "read"]
    heartbeat.work()
    assert one.network.requests("cron-instances") == ["merge"]


class Noting(Resting):
    """Time that is moved by hand, and notes how long is waited for."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float | None] = []

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.waits.append(seconds)
        super().wait(condition, seconds)


class Stuck:
    """A heartbeat whose thread is at the database, which doesn't answer."""

    def __init__(self, go_on: threading.Event) -> None:
        self.timing = timing = Noting()
        timing.advance(5)
        arrived = threading.Event()

        class Silent(MemoryStore):
            def merge(self, path: str, children: Mapping[str, object], deadline: Deadline) -> dict[str, object]:
                arrived.set()
                assert go_on.wait(PATIENCE)
                return super().merge(path, dict(children), deadline)

        self.heartbeat = FireCron(store=Silent(timing.now), timing=timing, settings=load()).engine.heartbeat
        self.heartbeat.start()
        assert arrived.wait(PATIENCE)

    def wait(self, milliseconds: float) -> threading.Thread:
        """Wait for it on another thread."""
        waiting = threading.Thread(target=self.heartbeat.wait, args=(self.timing.mono() + milliseconds,))
        waiting.start()
        return waiting


def test_the_end_of_its_thread_is_waited_for_as_long_as_there_is_time(go_on: threading.Event) -> None:
    """Without time there is no wait, and with some no longer one; it is over as soon as the node is removed."""
    stuck = Stuck(go_on)
    stuck.heartbeat.leave()
    assert ended(stuck.wait(0))
    waiting = stuck.wait(1)
    stuck.timing.rests()
    assert stuck.timing.waits == [pytest.approx(0.001)]
    stuck.timing.advance(0.002)
    assert ended(waiting)
    waiting = stuck.wait(10_000)
    stuck.timing.rests()
    go_on.set()
    assert ended(waiting)


def test_a_forked_child_waits_for_no_heartbeat_of_its_parent(go_on: threading.Event) -> None:
    """The parent's thread isn't there in a child, nor is whoever held its lock at the fork."""
    stuck = Stuck(go_on)
    assert lock_of(stuck.heartbeat, "_changed").acquire(timeout=1)
    stuck.heartbeat.after_fork()
    assert ended(stuck.wait(10_000))
    go_on.set()


def test_a_slow_beat_is_a_poor_sample_of_the_time() -> None:
    """What a beat brings is as uncertain as it took long: half of the time between the asking and the answer."""
    fleet = Fleet()
    one = fleet.instance()
    one.locks.clock._estimate = None  # a better sample would stay
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
    heartbeat.after_fork()
    heartbeat.beat()
    started = {key: fleet.world.store.get(f"cron-instances/{key}/startedAt") for key in (parent, heartbeat.id)}
    assert started == {parent: START, heartbeat.id: START + 50_000}


def test_an_instance_that_starts_again_keeps_its_node() -> None:
    """A start while the thread of before comes to its end makes rounds at once, and the node stays until the stop."""
    timing = OneWait()
    store = MemoryStore(timing.now)
    crons = FireCron(store=store, timing=timing, settings=load(), enabled=True)
    heartbeat = crons.engine.heartbeat
    rounds: list[object] = []

    def make(deadline: Deadline) -> bool:
        rounds.append(store.get(f"cron-instances/{heartbeat.id}"))
        return True

    crons.engine.recovery.make = make  # type: ignore[method-assign]  # noted, not made
    others = named(THREAD)
    first: list[threading.Thread] = []

    def again() -> None:
        first.append(threading.current_thread())
        timing.then = then_leave
        timing.advance(1)
        heartbeat.leave()
        crons.engine.recovery.start()
        heartbeat.start()

    def then_leave() -> None:
        timing.then = lambda: None
        timing.condition.release()
        try:
            assert ended(first[0])
        finally:
            timing.condition.acquire()
        assert store.get(f"cron-instances/{heartbeat.id}") is not None
        rounds.append("still there")
        heartbeat.leave()

    timing.then = again
    crons.engine.recovery.start()
    heartbeat.start()
    while threads := named(THREAD) - others:
        assert all(map(ended, threads))
    assert len(rounds) == 3
    assert rounds[-1] == "still there"
    assert store.get(f"cron-instances/{heartbeat.id}") is None
