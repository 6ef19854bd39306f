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
from firecron.base.tickets import Tickets, place_of_tick
from firecron.jobs.job import Job, explore
from firecron.lock.database import Database
from firecron.scheduler.waves import Waves
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

    def is_wanted(self, job: Job) -> bool:
        return job in self._jobs and job not in self.paused


class NoLeaders:
    def members(self) -> list[tuple[str, ...]]:
        return []


class Room:
    is_full = False


class Bench:
    """The waves of one instance whose beats are made by hand; `asked` has what it asked for, and when.

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
        parts: Any = (self.jobs, self.leaders, self.room, self)  # stand-ins
        self.waves = Waves(database, *parts)
        self.number = 0

    def ask(self, job: Job, slot: str, *, is_later: bool) -> None:
        self.asked.append((slot[11:19], round(self.timing.mono() / 1000, 2), is_later))

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
        self.waves.observe_beat(self.waves.own_group(), None if more is None else self.number, self.timing.mono())

    def know(self, size: int) -> None:
        """Two beats, at -30 and at 0 seconds of the bench's own time, which begins with 30."""
        self.beat(1)
        self.until(self.timing.mono() / 1000 + HEARTBEAT)
        self.beat(size)
        assert self.waves.size() == size

    def due_with(self, rank: float, job: Job, seconds: float = 60) -> str:
        """Beat so many seconds after nine, and have a tick of the job come then, with about this rank. Return its time.

        The beat brings a number that puts the instance there. The counter leaps, so the size before counts.
        """
        self.until(seconds)
        size, place = self.waves.size(), place_of_tick(job.name, slot(seconds))
        assert size is not None
        more = next(
            more
            for more in range(round(size), 100_000)
            if abs(Tickets(HEARTBEAT, self.number + more).distance(place) * size - rank) < 0.4
        )
        self.beat(more)
        assert self.waves.size() == size
        self.waves.due(job, slot(seconds))
        return slot(seconds)[11:19]


SIZE = 200


@pytest.mark.parametrize(
    ("rank", "lag"), [(1.5, 0), (4.5, 1), (9.0, 4), (100.0, None)], ids=["first", "second", "third", "none"]
)
def test_an_instance_asks_in_its_wave(rank: float, lag: float | None) -> None:
    """By its rank it asks at once, after one second, after four, or not at all; what came later is marked so."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    when = bench.due_with(rank, job)
    bench.until(90)
    bench.beat(SIZE)
    bench.until(119)
    assert bench.asked == ([] if lag is None else [(when, 60 + lag, lag > 0)])


def test_who_does_not_know_the_size_asks() -> None:
    """Before the second ticket, after a beat without one, and when the last one is too old, a tick is asked for."""
    job = make_job()
    bench = Bench(job)
    bench.waves.due(job, slot(0))
    bench.beat(1)
    bench.waves.due(job, slot(0))
    assert len(bench.asked) == 2
    bench.until(30)
    bench.beat(SIZE)
    bench.due_with(100, job, seconds=60)
    assert len(bench.asked) == 2
    bench.beat(None)
    assert bench.asked[2:] == [("09:01:00", 60, True)], "the beat judges the open tick as well"
    bench.waves.due(job, slot(60))
    assert bench.asked[3:] == [("09:01:00", 60, False)]


def test_an_open_tick_is_asked_for_when_the_beats_stop() -> None:
    """One and a half heartbeats after the last ticket nobody knows who is left, so the instance asks."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.until(119)
    assert bench.asked == [("09:01:00", 105, True)]


def test_an_open_tick_is_watched_as_long_as_it_is_open() -> None:
    """A beat puts the look off, and does not end it: it comes one and a half heartbeats after the last beat of all."""
    job = make_job("1 * * * *", grace=600)
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    for seconds in (90, 120):
        bench.until(seconds)
        bench.beat(SIZE)
    bench.until(300)
    assert bench.asked == [("09:01:00", 165, True)]


def test_an_open_tick_is_asked_for_when_the_group_has_fallen() -> None:
    """A beat that shows that a third is gone is enough; one that shows less is not."""
    job = make_job("1 * * * *", grace=600)
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(180, job)
    for seconds, others, asked in ((90, 140, []), (120, 134, []), (150, 133, [("09:01:00", 150, True)])):
        bench.until(seconds)
        bench.beat(others)
        assert bench.asked == asked


def test_a_beat_lowers_the_rank() -> None:
    """Where the group shrinks by less than a third, those whose rank is low enough now ask."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(14, job)
    bench.until(90)
    bench.beat(150)
    assert bench.asked == [("09:01:00", 90, True)]


@pytest.mark.parametrize(
    ("line", "options"),
    [
        ("*/30 * * * * *", {}),
        ("* * * * *", {"grace": 59}),
        ("* * * * *", {"jitter": 1}),
        ("* * * * *", {"overlap": "queue"}),
        ("* * * * *", {"overlap": "allow"}),
        ("* * * * *", {"once_per_tick": False}),
    ],
)
def test_what_is_asked_for_at_once(line: str, options: dict[str, Any]) -> None:
    """Ticks with less time than two heartbeats, and jobs of which a later instance could not tell what has run."""
    job = make_job(line, **options)
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.until(60)
    assert bench.asked == [("09:01:00", 60, False)]


def test_a_tick_whose_time_is_not_known_is_asked_for_at_once() -> None:
    """Without RTDB's time nobody knows how long the tick may start, so it is not left open."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.timing.step_wall(100)
    bench.until(60)
    assert bench.asked == [("09:01:00", 60, False)]


@pytest.mark.parametrize(("line", "grace"), [("* * * * *", 600), ("1-59/2 * * * *", 60)], ids=["next tick", "grace"])
def test_a_tick_is_over_with_its_grace_or_the_next_tick(line: str, grace: float) -> None:
    """Whatever a beat shows, a tick that may not start any more is not asked for."""
    job = make_job(line, grace=grace)
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.until(90)
    bench.beat(SIZE)
    bench.until(120)
    bench.beat(None)
    assert bench.asked == []


def test_a_tick_is_asked_for_until_its_end() -> None:
    """In the last second of its time it is still asked for."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(100, job)
    bench.until(90)
    bench.beat(SIZE)
    bench.until(119)
    bench.beat(None)
    assert bench.asked == [("09:01:00", 119, True)]


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
    bench.waves.due(job, newer)
    bench.beat(None)
    assert bench.asked == [(newer[11:19], 60, False)]


def test_jobs_do_not_stand_in_each_others_way() -> None:
    """Of jobs that come at one instant each has a place of its own, and each is asked for once."""
    jobs = [make_job(called=f"job{number}") for number in range(400)]
    bench = Bench(*jobs)
    bench.know(SIZE)
    bench.until(60)
    for job in jobs:
        bench.waves.due(job, slot(60))
    at_once = len(bench.asked)
    assert 1 <= at_once <= 20, "about six: three of two hundred"
    bench.until(74)
    bench.beat(None)
    assert len(bench.asked) == len(jobs)


def test_a_tick_is_asked_for_once() -> None:
    """After it was asked for, neither its wave nor a beat asks again."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.due_with(4.5, job)
    bench.beat(None)
    bench.until(119)
    bench.beat(None)
    assert len(bench.asked) == 1


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
        bench.waves.due(one, slot(60))
    assert len(bench.asked) == 2


def test_another_set_of_jobs_is_another_group() -> None:
    """With a job more or less, or one paused here, the size is not known until the second ticket of that group."""
    job, other = make_job(), make_job(called="other")
    bench = Bench(job, other)
    bench.know(SIZE)
    bench.jobs.paused.append(other)
    bench.until(60)
    bench.beat(SIZE)
    assert bench.waves.size() is None
    bench.until(90)
    bench.beat(SIZE)
    assert bench.waves.size() == SIZE


def test_who_takes_no_ticket() -> None:
    """No ticket is taken without a free worker; where all are to ask, a ticket says nothing. The group is the same."""
    bench = Bench(make_job())
    own_group = bench.waves.own_group()
    assert own_group.takes_ticket
    bench.room.is_full = True
    assert bench.waves.own_group() == replace(own_group, takes_ticket=False)
    everybody = Bench(make_job(), contenders=0)
    for _ in range(3):
        everybody.beat(1)
        everybody.until(everybody.timing.mono() / 1000 + HEARTBEAT)
    assert everybody.waves.size() is None


def test_what_is_forgotten_is_not_asked_for() -> None:
    """After a stop or a fork no open tick is left, and the size is not known."""
    job = make_job()
    for is_fork in (False, True):
        bench = Bench(job)
        bench.know(SIZE)
        bench.due_with(4.5, job)
        (begin_child if is_fork else bench.waves.forget)()
        bench.beat(None)
        bench.until(119)
        assert bench.asked == []
        assert bench.waves.size() is None


def test_a_look_does_not_come_too_early() -> None:
    """A tick that comes between two milliseconds is looked at after its wave's time, and not again and again before."""
    job = make_job()
    bench = Bench(job)
    bench.know(SIZE)
    bench.until(60.0003)
    bench.due_with(4.5, job, seconds=60.0003)
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
