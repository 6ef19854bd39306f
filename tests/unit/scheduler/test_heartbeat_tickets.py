"""Beats that take tickets: one write for both, rules that are older, and what a large group does by chance."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import START
from tests.stores.least_privilege import RULES

from firecron import FireCron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.cli.commands.doctor import adapted
from firecron.cron.schedule import Schedule
from firecron.errors import Denied, Unavailable
from firecron.jobs.catalogue import digest
from firecron.settings import load
from firecron.testing import FakeTiming
from rtdb_emulator.pytest_plugin import Rtdb

HOUR = 3_600_000
# What a group tells of the job that the instances have.
TOLD = {"jobs": "job", "schedules": digest(Schedule("* * * * *"))}


def groups(fleet: Fleet) -> dict[str, dict[str, object]]:
    found = fleet.world.store.get("cron-groups")
    return found if isinstance(found, dict) else {}


def test_a_beat_takes_a_ticket_in_the_same_write() -> None:
    """Instances with the same jobs share a counter, and each beat of one is one request and one more."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    for beats in (1, 2):
        for each in (one, other):
            each.crons.engine.heartbeat.beat()
        ((name, counter),) = groups(fleet).items()
        assert (counter["beats"], counter["seenAt"]) == (2 * beats, fleet.world.now())
        assert len(name) == 16
        fleet.world.advance(30)
    assert one.network.requests() == ["merge", "merge"]


def test_the_size_is_known_with_the_second_beat() -> None:
    """Each instance learns from its own two tickets how many there are, with a prefix as well."""
    fleet = Fleet()
    instances = [fleet.instance(prefix="ops/cron") for _ in range(5)]
    for _ in range(2):
        fleet.world.advance(30)
        for each in instances:
            each.crons.engine.heartbeat.beat()
    assert [each.crons.engine.group.size() for each in instances] == [5] * 5
    assert fleet.world.store.keys("ops/cron", instances[0].locks.deadline(1)) == ["cron-groups", "cron-instances"]


def test_a_stop_and_a_fork_end_what_was_known() -> None:
    """Whoever starts again, or is another process, has no ticket yet."""
    fleet = Fleet()
    ends: list[Callable[[Instance], object]] = [lambda one: one.crons.stop(), lambda one: begin_child()]
    for end in ends:
        one = fleet.instance()
        for _ in range(2):
            fleet.world.advance(30)
            one.crons.engine.heartbeat.beat()
        assert one.crons.engine.group.size() is not None
        end(one)
        assert one.crons.engine.group.size() is None


@pytest.mark.parametrize("error", [Unavailable("down"), Denied("no")])
def test_a_beat_that_fails_leaves_the_size_unknown(error: Exception) -> None:
    """Whatever became of the beat, its instance asks for every tick until it has two tickets again."""
    fleet = Fleet()
    one = fleet.instance()
    heartbeat, group = one.crons.engine.heartbeat, one.crons.engine.group

    def fail() -> None:
        raise error

    sizes = []
    for fails in (False, False, True, False, False):
        if fails:
            one.network.next(
                "merge", before=fail, times=2 if isinstance(error, Denied) else 1
            )  # with its ticket, and without
        heartbeat.beat()
        sizes.append(group.size())
        fleet.world.advance(30)
    assert sizes == [None, 1, None, None, 1]


def test_a_beat_tells_who_would_run_what() -> None:
    """A group's node says once which jobs of which service it runs, and when it was first seen; no request more."""
    fleet = Fleet()
    one, other = fleet.instance(heartbeat=20), fleet.instance(heartbeat=20)
    one.crons.engine.heartbeat.beat()
    (counter,) = groups(fleet).values()
    told = {**TOLD, "service": "local", "heartbeat": 20}
    assert counter == {"beats": 1, "seenAt": fleet.world.now(), **told}
    began = fleet.world.now()
    fleet.world.advance(10)
    other.crons.engine.heartbeat.beat()
    fleet.world.advance(10)
    one.crons.engine.heartbeat.beat()
    (counter,) = groups(fleet).values()
    assert counter == {"beats": 3, "seenAt": fleet.world.now(), "firstSeenAt": began, **told}
    fleet.world.store.set("cron-groups", {name: {"beats": 9} for name in groups(fleet)})
    one.crons.engine.heartbeat.beat()
    (counter,) = groups(fleet).values()
    assert counter == {"beats": 10, "seenAt": fleet.world.now()}, "told once"
    assert one.network.requests() == ["merge"] * 3


def test_an_instance_without_a_free_worker_is_seen() -> None:
    """It takes no ticket, but its group lives, and nobody takes its jobs for unattended."""
    fleet = Fleet()
    one = fleet.instance()
    one.crew.is_full = True
    one.crons.engine.heartbeat.beat()
    (counter,) = groups(fleet).values()
    assert counter == {"seenAt": fleet.world.now(), **TOLD, "service": "local", "heartbeat": 30}
    one.crew.is_full = False
    for _ in range(2):
        fleet.world.advance(30)
        one.crons.engine.heartbeat.beat()
    (counter,) = groups(fleet).values()
    assert (counter["beats"], counter["firstSeenAt"]) == (2, fleet.world.now() - 30_000)


def test_all_ask_where_the_setting_says_so() -> None:
    """With contenders=0 tickets say nothing, and every beat comes a whole period after the one before."""
    fleet = Fleet()
    one = fleet.instance(contenders=0)
    one.crons.engine.heartbeat.chance = lambda: 0.0
    for _ in range(3):
        one.crons.engine.heartbeat.work()
        assert one.crons.engine.heartbeat.work_if_due() == 30
        fleet.world.advance(30)
    ((_, counter),) = groups(fleet).items()
    assert counter["jobs"] == "job"
    assert one.crons.engine.group.size() is None


@pytest.mark.parametrize(("chance", "second"), [(0.0, 15), (0.5, 22.5), (1.0, 30)])
def test_the_second_beat_comes_sooner(chance: float, second: float) -> None:
    """It comes after half a period to a whole one, so that instances that start together don't beat together."""
    fleet = Fleet()
    one = fleet.instance()
    heartbeat = one.crons.engine.heartbeat
    heartbeat.chance = lambda: chance
    heartbeat.work()
    assert heartbeat.work_if_due() == pytest.approx(second)
    fleet.world.advance(second)
    assert heartbeat.work_if_due() == pytest.approx(30)


@pytest.mark.parametrize(("late", "contenders", "next_one"), [(1.5, 3, 30), (1.6, 3, 18), (300, 3, 18), (300, 0, 30)])
def test_the_beat_after_a_late_one_comes_sooner(late: float, contenders: int, next_one: float) -> None:
    """Instances that were frozen together beat together once, and not again: what comes after a late beat is spread."""
    fleet = Fleet()
    one = fleet.instance(contenders=contenders)
    heartbeat = one.crons.engine.heartbeat
    heartbeat.chance = lambda: 1.0
    heartbeat.work()
    fleet.world.advance(30 + late)
    heartbeat.chance = lambda: 0.2
    assert heartbeat.work_if_due() == pytest.approx(next_one)
    fleet.world.advance(next_one)
    assert heartbeat.work_if_due() == pytest.approx(30)


def test_instances_that_were_frozen_together_find_the_size_again() -> None:
    """However the beats of one moment follow each other, the sizes are right from the second beat after it on."""
    fleet = Fleet()
    instances = [fleet.instance() for _ in range(8)]
    beats = [each.crons.engine.heartbeat for each in instances]
    sizes: list[float] = []
    for number, heartbeat in enumerate(beats):
        heartbeat.chance = lambda number=number: number / 8  # type: ignore[misc]  # its own number
    for second in range(240):
        frozen = 95 <= second < 140
        # Threads that wake at one moment run in another order each time.
        order = range(8) if second // 30 % 2 else reversed(range(8))
        for number in [] if frozen else order:
            beats[number].work_if_due()
        fleet.world.advance(1)
        if second >= 220:
            sizes += [each.crons.engine.group.size() or 0.0 for each in instances]
    assert all(6 <= size <= 10 for size in sizes)


def old_rules() -> dict[str, object]:
    """The rules from before there were tickets."""
    rules = adapted(RULES.read_text("utf-8"), "", "firecron")["rules"]
    assert isinstance(rules, dict)
    return {"rules": {name: block for name, block in rules.items() if name != "cron-groups"}}


def new_crons(events: list[Event], timing: FakeTiming | None = None) -> FireCron:
    crons = FireCron(settings=load(uid="firecron"), enabled=True, has_threads=False, timing=timing)
    crons.events.subscribe(events.append)
    return crons


def test_rules_without_counters_let_a_beat_through(rtdb: Rtdb) -> None:
    """A refused ticket costs one request more, once an interval: beats go on, and a WARNING says what to deploy."""
    rtdb.set_rules(old_rules())
    events: list[Event] = []
    timing = FakeTiming(wall=START)
    crons = new_crons(events, timing)
    heartbeat = crons.engine.heartbeat
    for requests in (2, 3, 4):
        assert heartbeat.beat()
        assert rtdb.count() == requests
    assert rtdb.get(f"/cron-instances/{heartbeat.id}") is not None
    heartbeat.prune(crons.locks.deadline(20))
    (event,) = events
    assert (event.slug, event.level) == ("heartbeat.no_ticket", logging.WARNING)
    assert "firecron rules" in event.message
    timing.advance(300)
    assert heartbeat.beat()
    assert events == [event], "once"
    rtdb.set_rules(RULES)
    timing.advance(299)
    assert heartbeat.beat()
    assert rtdb.get("/cron-groups") is None
    timing.advance(1)
    assert heartbeat.beat()
    assert rtdb.get("/cron-groups") is not None


def test_the_shipped_rules_let_a_beat_through(rtdb: Rtdb) -> None:
    """As the user of the rules, beats take tickets, and what no instance has used for an hour is removed."""
    rtdb.set_rules(RULES)
    events: list[Event] = []
    crons = new_crons(events)
    for _ in range(2):
        assert crons.engine.heartbeat.beat()
    now = crons.locks.clock.peek()
    assert now is not None
    for name, age in (("0" * 16, HOUR + 2_000), ("1" * 16, HOUR - 2_000)):
        rtdb.set(f"/cron-groups/{name}", {"beats": 1, "seenAt": now.server - age})
    crons.engine.heartbeat.prune(crons.locks.deadline(20))
    found = rtdb.get("/cron-groups")
    assert isinstance(found, dict)
    assert "0" * 16 not in found
    assert found.pop("1" * 16)["beats"] == 1
    assert [counter["beats"] for counter in found.values()] == [2]
    assert events == []


def test_counters_are_pruned_to_the_millisecond() -> None:
    """A margin after the hour, because the rules judge by another clock; without tickets, too."""
    for contenders, left in ((3, ["young"]), (0, ["young"])):
        fleet = Fleet()
        one = fleet.instance(contenders=contenders)
        for name, age in (("young", HOUR + 1_000), ("dead", HOUR + 1_001)):
            fleet.world.store.set(f"cron-groups/{name}", {"beats": 1, "seenAt": START - age})
        one.crons.engine.heartbeat.prune(one.locks.deadline(1))
        assert fleet.world.store.keys("cron-groups", one.locks.deadline(1)) == left


class Large:
    """One instance of a large group: the others' beats are made by raising the counter. Chances are set by the test."""

    def __init__(self, *, makes_rounds: bool = False) -> None:
        self.fleet = Fleet("0 0 * * *", on_abandoned="rerun")
        self.one: Instance = self.fleet.instance(recovery_interval=300, heartbeat=30)
        # The looks for asks have tests of their own.
        self.one.crons.engine.asks.look_if_due = lambda: None  # type: ignore[method-assign]  # looks no more
        self.chances: list[float] = []
        self.rounds: list[float] = []
        self.one.crons.engine.heartbeat.chance = lambda: self.chances.pop(0) if self.chances else 1.0
        self.has_looked_at_locks = False
        if not makes_rounds:
            self.one.crons.engine.recovery.make = self._make  # type: ignore[method-assign]  # noted, not made

    def _make(self, deadline: Deadline) -> bool:
        self.rounds.append(self.fleet.world.mono() / 1000)
        return True

    def beat(self, others: int, *chances: float) -> bool:
        """Let a period pass, in which so many others beat. Return whether this instance then looked for the dead."""
        self.fleet.world.advance(30)
        for name, counter in groups(self.fleet).items():
            beats = counter["beats"]
            assert isinstance(beats, int)
            self.fleet.world.store.set(f"cron-groups/{name}/beats", beats + others)
        self.one.network.requests()
        self.chances = list(chances)
        self.one.crons.engine.heartbeat.work()
        calls = list(self.one.network.calls)
        self.has_looked_at_locks = ("read", "cron-locks/job") in calls
        return ("read", "cron-instances") in calls


def test_a_large_group_makes_its_rounds_by_chance() -> None:
    """All make one at the start; then 12 of 200 in an interval make one, and one of 200 a period looks for the dead."""
    large = Large()
    assert large.beat(199)
    assert large.rounds == [30]
    assert not large.beat(199, 0.0061, 0.0051)
    assert large.rounds == [30]
    assert not large.beat(199, 0.0059, 0.0051)
    assert large.rounds == [30, 90]
    assert large.beat(199, 0.0061, 0.0049)
    assert large.rounds == [30, 90]
    for _ in range(12):
        assert not large.beat(199)
    assert large.rounds == [30, 90], "the clock makes none"


def test_a_group_that_has_lost_a_third_is_looked_at_at_once() -> None:
    """Each time that a third is gone, and not when less is, or when it has grown."""
    large = Large()
    for others in (199, 199, 179, 300):
        large.beat(others)
    assert large.rounds == [30]
    large.beat(119)
    assert len(large.rounds) == 2
    large.beat(119)
    assert len(large.rounds) == 2
    large.beat(69)
    assert len(large.rounds) == 3


def test_a_small_group_makes_its_rounds_by_the_clock() -> None:
    """Up to a dozen, and where the size is not known, each instance makes its own."""
    for others in (0, 11):
        large = Large()
        for _ in range(11):
            large.beat(others)
        assert large.rounds == [30, 330]
    large = Large()
    for beats in range(22):
        if beats == 15:
            begin_child()
        large.beat(199)
    assert large.rounds == [30, 480], "a doubt lets the clock decide"


def test_rounds_that_were_broken_off_go_on() -> None:
    """In a large group, too, a round that met a failure goes on after the next beat, and the first round is owed."""
    large = Large(makes_rounds=True)

    def fail() -> None:
        raise Unavailable("down")

    looks = []
    for fails, chance in (
        (True, 1.0),
        (True, 1.0),
        (False, 1.0),
        (False, 1.0),
        (True, 0.0),
        (False, 1.0),
        (False, 1.0),
    ):
        if fails:
            large.one.network.next("read", before=fail)
        large.beat(199, chance)
        looks.append(large.has_looked_at_locks)
    assert looks == [True, True, True, False, True, True, False]
