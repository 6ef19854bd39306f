"""Dead instances: which nodes are removed, when they are looked for, and what that may cost."""

from __future__ import annotations

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.world import START, slot
from tests.unit.scheduler.beats import bench, new_crons, nodes

from firecron import FireCron
from firecron.base.clocks import Deadline
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore
from rtdb_emulator.pytest_plugin import Rtdb

HOUR = 3_600_000


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


@pytest.mark.parametrize("above", ["cron-mutes", "cron-hold"])
def test_mutes_and_holds_that_are_over_are_removed(above: str) -> None:
    """An hour and a margin after their end, to the millisecond, or once a hold was taken back; nothing else is."""
    fleet = Fleet()
    one = fleet.instance()
    untils = {"lasts": START + 1, "young": START - HOUR - 1_000, "over": START - HOUR - 1_001, "back": 0, "odd": "soon"}
    for name, until in untils.items():
        fleet.world.store.set(f"{above}/{name}", {"until": until})
    one.crons.engine.heartbeat.prune(one.locks.deadline(1))
    assert fleet.world.store.keys(above, one.locks.deadline(1)) == ["lasts", "odd", "young"]
    fleet.world.store.set(above, "typed")
    one.crons.engine.heartbeat.prune(one.locks.deadline(1))
    assert fleet.world.store.get(above) == "typed"


@pytest.mark.parametrize("number", [2, 3])
def test_a_mute_that_is_made_anew_while_the_last_one_is_removed_stays(number: int) -> None:
    """Before its node is read again, or after that: it is deleted only as it was read."""
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.store.set("cron-mutes/job", {"until": 1})
    requests = list[str]()

    def before(method: str, path: str) -> None:
        if path.startswith("cron-mutes"):
            requests.append(method)
            if len(requests) == number:
                fleet.world.store.set("cron-mutes/job", {"until": START + HOUR})

    one.network.before = before
    one.crons.engine.heartbeat.prune(one.locks.deadline(1))
    assert fleet.world.store.get("cron-mutes/job") == {"until": START + HOUR}
    assert len(requests) == number


def test_rules_that_know_no_mutes_don_t_keep_a_fleet_from_removing_holds() -> None:
    """What they refuse is left alone, without a word: whoever mutes a job hears of it."""
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.store.set("cron-hold/00ffa1b2c3d4", {"until": 1})
    one.network.before = lambda method, path: setattr(one.network, "is_denied", path == "cron-mutes")
    one.crons.engine.heartbeat.prune(one.locks.deadline(1))
    assert fleet.world.store.get("cron-hold") is None
    assert one.events == []


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
