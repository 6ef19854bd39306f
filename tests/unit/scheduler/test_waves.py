"""Waves: which ticks an instance asks for at once, which stay open, and when they are judged again."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tests.simulation.world import START, slot

from firecron import distributed_cron
from firecron.base.clocks import Deadline, ServerClock
from firecron.base.flag import begin_child
from firecron.base.threads import Workers
from firecron.base.tickets import Tickets, place_of_tick
from firecron.jobs.job import Job, explore
from firecron.lock.database import Database
from firecron.runs.lane import Attempt
from firecron.runs.lanes import Lanes
from firecron.scheduler.heartbeat import InstanceGroup
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

HEARTBEAT = 30


def make_job(line: str = "* * * * *", called: str = "job", **options: object) -> Job:
    @distributed_cron(called, line, **{"lock_ttl": 30, **options})  # type: ignore[arg-type]  # any options
    def job() -> None: ...

    (found,) = explore(job)
    return found


class Jobs:
    """A registry that has these jobs, and wants those that are not paused."""

    def __init__(self, *jobs: Job) -> None:
        self._jobs = list(jobs)
        self.paused: list[Job] = []

    def jobs(self) -> list[Job]:
        return self._jobs

    def stored_jobs(self) -> list[Job]:
        return []

    def is_wanted(self, job: Job) -> bool:
        return job in self._jobs and job not in self.paused


class NoLeaders:
    def members(self) -> list[tuple[str, ...]]:
        return []


class Room:
    is_full = False


class Bench:
    """The lanes of one instance whose beats are made by hand; `asked` has what it asked for, and when.

    The calls that it wants made later are made as time passes.
    """

    def __init__(self, *jobs: Job, contenders: int = 3) -> None:
        self.timing = FakeTiming(wall=START)
        self.clock = ServerClock(
            lambda deadline: self.timing.now(),
            self.timing,
            margin=1_000,
            samples=1,
            drift=0.0,
            interval=300,
            request_timeout=3,
        )
        self.clock.now(Deadline.after(self.timing, 1))
        self.jobs, self.leaders, self.room = Jobs(*jobs), NoLeaders(), Room()
        self.asked: list[tuple[str, float, bool]] = []
        self._calls: list[tuple[float, Callable[[], None]]] = []
        self.most_calls = 0
        self.looks = 0
        settings = load(contenders=contenders, heartbeat=HEARTBEAT)
        database = Database(
            settings=settings, store=MemoryStore(self.timing.now), timing=self.timing, has_threads=False
        )
        database.clock, database.identity.service = self.clock, "api"
        parts: tuple[Any, Any, Any] = (self.jobs, self.leaders, self.room)  # stand-ins
        self.lanes = Lanes(database, Workers(1))
        self.lanes.agenda = self
        self.lanes.stand = self.stand  # type: ignore[method-assign]  # noted, not done
        self.group = InstanceGroup(database, *parts, self.lanes)
        self.number = 0

    def stand(self, attempt: Attempt) -> None:
        self.asked.append((str(attempt.due)[11:19], round(self.timing.mono() / 1000, 2), attempt.is_later))

    def at(self, instant: int, call: Callable[[], None]) -> None:
        raise AssertionError("no look was planned")

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        # At whole milliseconds, as the ticker makes them.
        self._calls.append((math.floor(self.timing.mono()) + round(seconds * 1000), call))
        self.most_calls = max(self.most_calls, len(self._calls))
        self.looks += 1

    def until(self, seconds: float) -> None:
        """Let time pass, and make the calls that are due."""
        for _ in range(1_000):
            at, call = min(self._calls, key=lambda one: one[0], default=(float("inf"), lambda: None))
            if at > seconds * 1000:
                self.timing.advance(seconds - self.timing.mono() / 1000)
                return
            self._calls.remove((at, call))
            self.timing.advance(max(0.0, at - self.timing.mono()) / 1000)
            call()
        raise AssertionError("the waves never rest")

    def beat(self, more: int | None) -> None:
        """A beat that brings a number so much higher than the one before; None for no number."""
        self.number += more or 0
        self.group.observe_beat(self.group.own(), None if more is None else self.number, self.timing.mono())

    def know(self, size: int) -> None:
        """Two beats, at -30 and at 0 seconds of the bench's own time, which begins with 30."""
        self.beat(1)
        self.until(self.timing.mono() / 1000 + HEARTBEAT)
        self.beat(size)
        assert self.group.size() == size

    def due_with(self, rank: float, job: Job, seconds: float = 60) -> str:
        """Beat so many seconds after nine, and have a tick of the job come then, with about this rank. Return its time.

        The beat brings a number that puts the instance there. The counter leaps, so the size before counts.
        """
        self.until(seconds)
        size, place = self.group.size(), place_of_tick(job.name, slot(seconds))
        assert size is not None
        more = next(
            more
            for more in range(round(size), 100_000)
            if abs(Tickets(HEARTBEAT, self.number + more).distance(place) * size - rank) < 0.4
        )
        self.beat(more)
        assert self.group.size() == size
        self.lanes.due(job, slot(seconds))
        return slot(seconds)[11:19]


SIZE = 200
LONG: dict[str, Any] = {"line": "1 * * * *", "grace": 600}


@pytest.mark.parametrize(
    ("options", "rank", "beats", "asked"),
    [
        # By its rank an instance asks at once, after one second, after four, or not at all.
        ({}, 1.5, [(90, SIZE), (119,)], (60, False)),
        ({}, 4.5, [(90, SIZE), (119,)], (61, True)),
        ({}, 9.0, [(90, SIZE), (119,)], (64, True)),
        ({}, 100, [(90, SIZE), (119,)], None),
        # Ticks with less time than two heartbeats, and jobs of which a later instance could not tell what has run.
        ({"line": "*/30 * * * * *"}, 100, [], (60, False)),
        *(({option: value}, 100, [], (60, False)) for option, value in (("grace", 59), ("jitter", 1))),
        *(({"overlap": overlap}, 100, [], (60, False)) for overlap in ("queue", "allow")),
        ({"once_per_tick": False}, 100, [], (60, False)),
        # One and a half heartbeats after the last ticket nobody knows who is left.
        ({}, 100, [(119,)], (105, True)),
        (LONG, 100, [(90, SIZE), (120, SIZE), (300,)], (165, True)),
        # A beat that shows that a third is gone is enough, and one that shows less is not, but it lowers the rank.
        (LONG, 180, [(90, 140), (120, 134)], None),
        (LONG, 180, [(90, 140), (120, 134), (150, 133)], (150, True)),
        ({}, 14, [(90, 150)], (90, True)),
        # A tick is asked for until its last second, and no more with its grace over, or the next tick.
        ({}, 100, [(90, SIZE), (119, None)], (119, True)),
        ({"grace": 600}, 100, [(90, SIZE), (120, None)], None),
        ({"line": "1-59/2 * * * *", "grace": 60}, 100, [(90, SIZE), (120, None)], None),
        # It is asked for once.
        ({}, 4.5, [(60, None), (119, None)], (60, True)),
    ],
)
def test_when_an_instance_asks_for_a_tick(
    options: dict[str, Any], rank: float, beats: list[Any], asked: tuple[float, bool] | None
) -> None:
    """A tick that comes at 60 seconds is asked for then, in a later wave, after a beat, or never."""
    job = make_job(**options)
    bench = Bench(job)
    bench.know(SIZE)
    when = bench.due_with(rank, job)
    for seconds, *more in beats or [(60,)]:
        bench.until(seconds)
        for number in more:
            bench.beat(number)
    assert bench.asked == ([] if asked is None else [(when, *asked)])


def test_who_does_not_know_the_size_asks() -> None:
    """Before the second ticket, after a beat without one, and when the last one is too old, a tick is asked for."""
    job = make_job()
    bench = Bench(job)
    bench.lanes.due(job, slot(0))
    bench.beat(1)
    bench.lanes.due(job, slot(0))
    assert len(bench.asked) == 2
    bench.until(30)
    bench.beat(SIZE)
    bench.due_with(100, job, seconds=60)
    assert len(bench.asked) == 2
    bench.beat(None)
    assert bench.asked[2:] == [("09:01:00", 60, True)], "the beat judges the open tick as well"
    bench.lanes.due(job, slot(60))
    assert bench.asked[3:] == [("09:01:00", 60, False)]


def test_a_tick_whose_time_is_not_known_is_asked_for_at_once() -> None:
    """Without RTDB's time nobody knows how long the tick may start, so it is not left open."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.timing.step_wall(100)
    bench.until(60)
    assert bench.asked == [("09:01:00", 60, False)]


def test_a_tick_stays_open_while_the_time_is_not_known_any_more() -> None:
    """When it ends is known since it came: it is left to others until then."""
    job = make_job(grace=600)
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.until(61)
    bench.timing.step_wall(100)
    for seconds in (90, 120):
        bench.until(seconds)
        bench.beat(SIZE)
    assert bench.asked == []


def test_a_tick_after_a_stop_is_not_left_open() -> None:
    """It is asked for at once, and that finds the stop."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.lanes.stopping.set()
    bench.due_with(100, job)
    assert [time for time, _, _ in bench.asked] == ["09:01:00"]


def test_a_newer_tick_takes_the_place_of_an_open_one() -> None:
    """Only the newest tick of a job is judged."""
    job = make_job(grace=600)
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.until(90)
    bench.beat(SIZE)
    bench.due_with(100, job, seconds=120)
    bench.until(121)
    bench.beat(None)
    assert bench.asked == [("09:02:00", 121, True)]


def test_a_newer_tick_that_is_asked_for_at_once_ends_an_open_one() -> None:
    """After it the older one is not asked for any more, not even before it was looked at for the first time."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    distance = Tickets(HEARTBEAT, bench.number).distance
    newer = next(slot(at) for at in range(120, 6_000_000, 60) if distance(place_of_tick(job.name, slot(at))) < 2 / SIZE)
    bench.lanes.due(job, newer)
    bench.beat(None)
    assert bench.asked == [(newer[11:19], 60, False)]


def test_jobs_do_not_stand_in_each_others_way() -> None:
    """Of jobs that come at one instant each has a place of its own, and each is asked for once."""
    jobs = [make_job(called=f"job{number}") for number in range(400)]
    bench = Bench(*jobs)
    bench.know(SIZE)
    bench.until(60)
    for job in jobs:
        bench.lanes.due(job, slot(60))
    at_once = len(bench.asked)
    assert 1 <= at_once <= 20, "about six: three of two hundred"
    bench.until(74)
    bench.beat(None)
    assert len(bench.asked) == len(jobs)


def test_open_ticks_are_asked_for_as_they_came() -> None:
    """Where a beat lets several go, the oldest goes first, whichever job had a tick here first."""
    job, others = make_job(), [make_job("1 * * * * *", called=f"job{number}") for number in range(20)]
    bench = Bench(job, *others)
    for one in others:
        bench.lanes.lane(one)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.until(61)
    for one in others:
        bench.lanes.due(one, slot(61))
    bench.beat(None)
    later = [time for time, _, is_later in bench.asked if is_later]
    assert later == sorted(later)
    assert set(later) == {"09:01:00", "09:01:01"}


def test_a_job_that_the_ticket_is_not_for_is_asked_for() -> None:
    """A job that came after the last beat, or was paused then, may be wanted by nobody else."""
    job, new, paused = make_job(), make_job(called="new"), make_job(called="paused")
    bench = Bench(job, paused)
    bench.jobs.paused.append(paused)
    bench.know(SIZE)
    bench.jobs.paused.clear()
    bench.jobs.jobs().append(new)
    bench.until(60)
    for one in (new, paused):
        bench.lanes.due(one, slot(60))
    assert len(bench.asked) == 2


def test_another_set_of_jobs_is_another_group() -> None:
    """With a job more or less, or one paused here, the size is not known until the second ticket of that group."""
    job, other = make_job(), make_job(called="other")
    bench = Bench(job, other)
    bench.know(SIZE)
    bench.jobs.paused.append(other)
    bench.until(60)
    bench.beat(SIZE)
    assert bench.group.size() is None
    bench.until(90)
    bench.beat(SIZE)
    assert bench.group.size() == SIZE


def test_who_takes_no_ticket() -> None:
    """No ticket is taken without a free worker; where all are to ask, a ticket says nothing. The group is the same."""
    bench = Bench(make_job())
    own_group = bench.group.own()
    assert own_group.takes_ticket
    bench.room.is_full = True
    assert bench.group.own() == replace(own_group, takes_ticket=False)
    everybody = Bench(make_job(), contenders=0)
    for _ in range(3):
        everybody.beat(1)
        everybody.until(everybody.timing.mono() / 1000 + HEARTBEAT)
    assert everybody.group.size() is None


def test_what_is_forgotten_is_not_asked_for() -> None:
    """After a stop or a fork no open tick is left, and the size is not known."""
    job = make_job()
    for is_fork in (False, True):
        bench = Bench(job)
        bench.know(SIZE)
        bench.due_with(4.5, job)
        (begin_child if is_fork else bench.lanes.forget_tickets)()
        assert bench.group.size() is None
        bench.beat(None)
        bench.until(119)
        assert bench.asked == []


@pytest.mark.parametrize(("came", "judged"), [(60.0003, 60.0003), (60.0008, 60.0019)])
def test_a_look_does_not_come_too_early(came: float, judged: float) -> None:
    """A tick that comes, or is judged, between two milliseconds is looked at after its wave's time, and once."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.until(came)
    bench.due_with(4.5, job, seconds=came)
    bench.timing.advance(judged - came)
    bench.until(119)
    assert [(lag, is_later) for _, lag, is_later in bench.asked] == [(61, True)]
    assert bench.looks == 2


def test_a_long_wait_plans_one_look_at_a_time() -> None:
    """A tick that stays open for hours costs one planned look, not one for each beat."""
    job = make_job("1 9 * * *", grace=7_200)
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    for beats in range(1, 100):
        bench.until(60 + beats * 30)
        bench.beat(SIZE)
    assert bench.asked == []
    assert bench.most_calls <= 2
