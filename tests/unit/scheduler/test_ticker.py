"""The ticker: what it hands over and when, and that nothing ends it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime

import pytest
from tests.simulation.world import START, slot

from firecron import distributed_cron
from firecron.base.clocks import Deadline, ServerClock
from firecron.base.events import Event
from firecron.cron.schedule import Schedule
from firecron.errors import Denied, EmulatorDown, NoCredentials, StoreError, Unavailable
from firecron.jobs.job import Job, explore
from firecron.lock.database import Database
from firecron.scheduler.ticker import Ticker
from firecron.testing import FakeTiming, MemoryStore

PATIENCE = 20


def make_job(line: str = "* * * * *", name: str = "job", **options: object) -> Job:
    @distributed_cron(name, line, **{"lock_ttl": 30, **options})  # type: ignore[arg-type]  # any options
    def job() -> None: ...

    (found,) = explore(job)
    return found


class Bench:
    """A ticker on a clock that is moved by hand; `handed` is what it has handed over, and when."""

    def __init__(self) -> None:
        self.timing = FakeTiming(wall=START)
        self.heard: list[Event] = []
        self.is_down = False
        self.failure: StoreError = Unavailable("down")
        self.error = 0
        self.handed: list[tuple[str, str, object]] = []
        self.looked_back: list[tuple[str, str]] = []
        self.dispatching: Callable[[Job, str], object] = lambda job, tick: None
        self.asking: Callable[[], object] = lambda: None
        self.chance = 0.5
        self.clock = ServerClock(
            self.sample, self.timing, margin=1_000, samples=1, drift=0.0, interval=300, request_timeout=3
        )
        database = Database(
            store=MemoryStore(self.timing.now), timing=self.timing, has_threads=False, chance=lambda: self.chance
        )
        database.clock = self.clock
        database.events.subscribe(self.heard.append)
        self.ticker = Ticker(database, self)

    def sample(self, deadline: Deadline) -> int:
        assert deadline.remaining() > 0
        self.asking()
        if self.is_down:
            raise self.failure
        return self.timing.now() + self.error

    def due(self, job: Job, slot: str) -> None:
        self.handed.append((job.name, slot, self.timing.mono() / 1000))
        self.dispatching(job, slot)

    def look_back(self, job: Job, slot: str) -> None:
        self.looked_back.append((job.name, slot))

    def until(self, seconds: float) -> None:
        """Let the ticker work whenever it wants to, until then."""
        for _ in range(10_000):
            wait = self.ticker.work()
            left = seconds - self.timing.mono() / 1000
            if wait > left:
                self.timing.advance(left)
                return
            self.timing.advance(wait)
        raise AssertionError("the ticker never rests")

    def slots(self) -> list[str]:
        return [tick for _, tick, _ in self.handed]

    def said(self, slug: str) -> list[Event]:
        return [event for event in self.heard if event.slug == slug]


@pytest.fixture
def bench() -> Bench:
    return Bench()


def test_each_tick_is_handed_over_in_its_time(bench: Bench) -> None:
    """Every tick of every job is handed over once, at its time, whatever others there are."""
    bench.ticker.add(make_job("* * * * *", "minutely"))
    bench.ticker.add(make_job("*/20 * * * * *", "often"))
    bench.until(121)
    assert [entry for entry in bench.handed if entry[0] == "minutely"] == [
        ("minutely", slot(seconds), pytest.approx(seconds, abs=0.002)) for seconds in (60, 120)
    ]
    assert [tick for name, tick, _ in bench.handed if name == "often"] == [
        slot(seconds) for seconds in range(20, 121, 20)
    ]
    assert bench.heard == []


def test_it_waits_no_longer_than_half_a_minute(bench: Bench) -> None:
    """However far the next tick is, the ticker looks up now and then, because clocks may have been set."""
    bench.ticker.add(make_job("0 0 1 1 *"))
    assert bench.ticker.work() == 30
    bench.timing.advance(30)
    assert bench.ticker.work() == 30


@pytest.mark.parametrize("chance", [0.0, 0.25, 1.0])
def test_jitter_moves_the_start_and_not_the_slot(bench: Bench, chance: float) -> None:
    """With jitter each tick is handed over up to so much later, as itself, and none is left out or comes twice."""
    bench.chance = chance
    bench.ticker.add(make_job("*/10 * * * * *", jitter=25))
    bench.until(100)
    late = 25 * chance
    assert bench.handed[:6] == [
        ("job", slot(seconds), pytest.approx(seconds + late, abs=0.002)) for seconds in range(10, 70, 10)
    ]


@pytest.mark.parametrize(
    ("line", "grace", "frozen", "asleep", "until", "handed", "coalesced", "missed"),
    [
        # A short freeze leaves nothing out, a longer one all but the newest tick, which is said.
        ("* * * * * *", 20, 0.9, 0.9, 59, range(1, 60), [], []),
        ("*/5 * * * * *", 20, 4.9, 59, 63, [60], [60], []),
        ("* * * * * *", 20, 3_599.5, 1.5, 3_601, [3_601], [3_601], []),
        ("*/10 * * * * *", 20, 3_599.5, 25.5, 3_625, [3_620], [3_620], []),
        # A tick is handed over up to the end of its grace, and is missed after it: of several the newest.
        ("0 * * * *", 20, 3_599.5, 2.5, 3_602, [3_600], [], []),
        ("0 * * * *", 20, 3_599.5, 20.5, 3_620, [3_600], [], []),
        ("0 * * * *", 20, 3_599, 22, 7_300, [7_200], [], [(3_600, 21_000)]),
        ("*/10 * * * * *", 2, 9, 36, 61, [50, 60], [], [(40, 5_000)]),
    ],
)
def test_after_a_freeze_only_the_newest_tick_within_its_grace_is_tried(
    bench: Bench,
    line: str,
    grace: float,
    frozen: float,
    asleep: float,
    until: float,
    handed: Sequence[int],
    coalesced: list[int],
    missed: list[tuple[int, int]],
) -> None:
    """A ticker that wakes late hands over the newest tick alone, and goes on with the next."""
    bench.ticker.add(make_job(line, grace=grace))
    bench.until(frozen)
    bench.handed.clear()
    bench.timing.advance(asleep)
    bench.until(until)
    assert bench.slots() == [slot(seconds) for seconds in handed]
    assert [event.fields["slot"] for event in bench.said("run.coalesced")] == [slot(seconds) for seconds in coalesced]
    told = [(event.fields["slot"], event.fields["late"]) for event in bench.said("run.missed")]
    assert told == [(slot(seconds), late) for seconds, late in missed]
    assert bench.said("ticker.failed") == []


def test_the_time_that_a_dispatch_takes_counts(bench: Bench) -> None:
    """The wait for the next tick begins when all that was due has been handed over."""
    bench.ticker.add(make_job("*/10 * * * * *"))
    bench.dispatching = lambda job, tick: bench.timing.advance(3)
    bench.until(9)
    bench.timing.advance(1)
    assert bench.ticker.work() == 7


def test_a_job_that_goes_while_it_is_planned_does_not_tick(bench: Bench) -> None:
    """A job that is removed before its first tick is planned, or while one is handed over, has no tick after that."""
    bench.ticker.add(make_job("*/10 * * * * *"))
    bench.ticker.remove("job")
    bench.until(15)
    assert bench.slots() == []
    bench.ticker.add(make_job("*/10 * * * * *"))
    bench.dispatching = lambda job, tick: bench.ticker.remove("job")
    bench.until(45)
    assert bench.slots() == [slot(20)]


def test_a_freeze_is_said_once_with_its_remedy(bench: Bench) -> None:
    """Waking more than 5 seconds late is reported once a process, with what to do on Cloud Run."""
    bench.until(1)
    bench.timing.advance(34)
    bench.ticker.work()
    assert bench.said("ticker.stalled") == []
    for _ in range(2):
        bench.timing.advance(36)
        bench.ticker.work()
    (event,) = bench.said("ticker.stalled")
    assert (event.level, event.fields["late"]) == (logging.WARNING, 6_000)
    assert "--min 1" in event.message


@pytest.mark.parametrize("is_at_work", [False, True])
def test_a_stop_leaves_nothing_to_wake_for(bench: Bench, is_at_work: bool) -> None:
    """A stop that comes while the thread looks whether it is late, or while it works, breaks nothing; and the time
    until the next start is no freeze.
    """
    ticker = bench.ticker
    ticker.add(make_job("* * * * * *"))
    bench.until(1)
    stops = [ticker.stop]
    mono = bench.timing.mono

    def stop() -> float:
        if stops:
            stops.pop()()
        return mono()

    if is_at_work:
        bench.dispatching = lambda job, tick: stop()
    else:
        bench.timing.mono = stop  # type: ignore[method-assign]  # the first look at it
    bench.timing.advance(1)
    ticker.work()
    assert not stops
    bench.timing.advance(60)
    ticker.work()
    assert bench.said("ticker.stalled") + bench.said("ticker.failed") == []


def test_without_the_time_it_asks_again_after_growing_pauses(bench: Bench) -> None:
    """While RTDB's time isn't known it is asked for after a third of a second, and then less and less often; what is to
    be called in a while is called once it is known.
    """
    called: list[float] = []
    bench.is_down = True
    bench.ticker.after(5, lambda: called.append(bench.timing.mono()))
    assert [bench.ticker.work() for _ in range(5)] == pytest.approx([0.3, 0.6, 1.2, 1.5, 1.5])
    bench.is_down = False
    bench.ticker.work()
    assert called == [0]


def test_an_outage_is_no_freeze(bench: Bench) -> None:
    """A ticker that waited for RTDB's time was not frozen, however late its ticks are."""
    bench.is_down = True
    bench.ticker.add(make_job())
    bench.until(100)
    bench.is_down = False
    bench.until(130)
    assert bench.said("ticker.stalled") == []
    assert bench.slots() == [slot(120)]


@pytest.mark.parametrize(
    ("failure", "what"),
    [
        (Unavailable("it failed"), "RTDB unreachable"),
        (Denied("it failed"), "RTDB denies access"),
        (NoCredentials("it failed"), "No credentials for RTDB"),
        (EmulatorDown("it failed"), "Emulator not running"),
    ],
)
def test_why_the_time_is_unknown_is_said(bench: Bench, failure: StoreError, what: str) -> None:
    """Only a database that can't be reached is called unreachable."""
    bench.is_down, bench.failure = True, failure
    bench.ticker.work()
    (event,) = bench.said("clock.unavailable")
    expected = f"{what} - its time is not known, so no job can run. Jobs will NOT run. it failed"
    assert event.message == expected


@pytest.mark.parametrize(("asked", "pause"), [(0.01, 0.3), (7.0, 7.0), (3_600.0, 30.0)])
def test_the_time_is_asked_for_again_when_the_database_asks_for_it(bench: Bench, asked: float, pause: float) -> None:
    """A pause that the database asks for is kept, up to half a minute: without the time nothing runs."""
    bench.is_down, bench.failure = True, Unavailable("later", retry_after=asked)
    assert bench.ticker.work() == pytest.approx(pause)


def test_the_time_may_be_unknown_at_first(bench: Bench) -> None:
    """Without RTDB's time nothing is handed over, which is an ERROR once; when it comes, ticks come with it."""
    bench.is_down = True
    bench.ticker.add(make_job())
    bench.until(90)
    assert bench.handed == []
    assert [event.level for event in bench.said("clock.unavailable")][:2] == [logging.ERROR, logging.DEBUG]
    assert bench.ticker.work() == 1.5
    bench.is_down = False
    bench.until(121)
    assert bench.slots() == [slot(120)]
    assert len(bench.said("clock.available")) == 1


@pytest.mark.parametrize("error", [-3_600_000, -1_500, 3_600_000])
def test_a_jump_of_the_clock_hands_no_tick_over_twice(bench: Bench, error: int) -> None:
    """Whatever RTDB's time jumps by, ticks handed over only rise, one at a time."""
    bench.ticker.add(make_job("*/10 * * * * *"))
    bench.until(31)
    before = len(bench.handed)
    bench.error = error
    bench.timing.step_wall(error / 1000)
    bench.error = 0
    bench.until(60)
    handed = bench.slots()
    assert handed == sorted(set(handed))
    assert len(handed) - before <= 4


def test_jobs_come_and_go(bench: Bench) -> None:
    """A job that is removed ticks no more; added again, also as the same object, each of its ticks comes once."""
    job = make_job("*/10 * * * * *")
    bench.ticker.add(job)
    bench.until(11)
    bench.ticker.remove("job")
    bench.until(25)
    bench.ticker.add(job)
    bench.ticker.add(make_job("*/10 * * * * *", "other"))
    bench.until(41)
    assert [tick for name, tick, _ in bench.handed if name == "job"] == [slot(10), slot(30), slot(40)]
    bench.ticker.remove("job")
    bench.ticker.remove("nobody")
    bench.ticker.add(make_job("*/20 * * * * *"))
    bench.until(61)
    assert [tick for name, tick, _ in bench.handed if name == "job"][3:] == [slot(60)]


def test_a_call_comes_in_its_time(bench: Bench) -> None:
    """What is to be called at an instant is called then, once, also if that has passed."""
    calls: list[tuple[str, float]] = []
    bench.until(1)
    bench.ticker.at(START + 10_000, lambda: calls.append(("later", bench.timing.mono() / 1000)))
    bench.ticker.at(START, lambda: calls.append(("past", bench.timing.mono() / 1000)))
    bench.until(20)
    assert calls == [("past", 1.0), ("later", pytest.approx(10, abs=0.002))]


def test_one_jobs_trouble_is_no_others(bench: Bench) -> None:
    """A dispatch, a call or a schedule that raises is reported, and all else goes on."""

    def raising(*arguments: object) -> None:
        raise ZeroDivisionError

    for name in ("a", "broken", "z"):
        bench.ticker.add(make_job("*/10 * * * * *", name))
    bench.dispatching = lambda job, tick: raising() if job.name == "broken" else None
    bench.ticker.at(START + 10_000, raising)
    bench.until(21)
    assert [name for name, _, _ in bench.handed] == ["a", "broken", "z"] * 2
    assert [event.name for event in bench.said("ticker.failed")] == ["broken", "ticker", "broken"]


class Spent(Schedule):
    """A schedule that has no tick later than half a minute after nine."""

    def next_after(self, instant: datetime) -> datetime | None:
        if instant.timestamp() * 1000 >= START + 30_000:
            raise OverflowError
        return super().next_after(instant)


def test_a_schedule_that_breaks_ends_its_job_alone(bench: Bench) -> None:
    """A schedule that raises is reported, and costs its own job's ticks and no other's."""
    job = make_job("*/10 * * * * *", "spent")
    bench.ticker.add(replace(job, options=replace(job.options, schedule=Spent("*/10 * * * * *"))))
    bench.ticker.add(make_job("*/10 * * * * *", "whole"))
    bench.until(41)
    names = [name for name, _, _ in bench.handed]
    assert (names.count("spent"), names.count("whole")) == (3, 4)
    assert [event.name for event in bench.said("ticker.failed")] == ["spent"]


def test_after_a_stop_it_plans_anew(bench: Bench) -> None:
    """What was planned before a stop is no tick after it: a start later on neither bursts, nor calls it a freeze."""
    calls: list[str] = []
    bench.ticker.add(make_job("0 * * * *"))
    bench.until(10)
    bench.ticker.at(START + 100_000, lambda: calls.append("forgotten"))
    bench.ticker.stop()
    bench.timing.advance(3_600)
    bench.until(3_700)
    assert (bench.handed, bench.heard, calls) == ([], [], [])
    bench.until(7_201)
    assert bench.slots() == [slot(7_200)]


@pytest.mark.parametrize(
    ("line", "seconds", "looked_back"),
    [
        ("* * * * *", 30, [slot()]),
        ("* * * * *", 0, [slot()]),
        ("*/10 * * * * *", 35, [slot(30)]),
        ("0 9 * * *", 60, [slot()]),
        ("0 9 * * *", 60.001, []),
        ("0 8 * * *", 0, []),
    ],
)
def test_it_looks_back_on_the_tick_before(line: str, seconds: float, looked_back: list[str]) -> None:
    """Of a job that is new here the newest tick within its grace is looked back on, once, and the next is planned."""
    bench = Bench()
    bench.timing.advance(seconds)
    bench.ticker.add(make_job(line))
    bench.until(seconds)
    bench.until(seconds + 120)
    assert bench.looked_back == [("job", tick) for tick in looked_back]
    assert all(tick > slot(seconds) for _, tick, _ in bench.handed)


def test_a_stop_while_it_asks_for_the_time_leaves_the_plans_to_the_next_start(bench: Bench) -> None:
    """The thread that ends plans nothing and looks back on nothing; the next one does."""
    bench.asking = bench.ticker.stop
    bench.ticker.add(make_job("* * * * *"))
    bench.ticker.work()
    assert (bench.ticker.planned, bench.looked_back) == (0, [])
    bench.asking = lambda: None
    bench.ticker.work()
    assert (bench.ticker.planned, bench.looked_back) == (1, [("job", slot())])


def test_after_a_stop_it_wakes_for_nothing_of_before(bench: Bench) -> None:
    """A tick that was planned before a stop, of a job that is gone since, wakes nobody."""
    bench.ticker.add(make_job("*/10 * * * * *"))
    bench.until(1)
    bench.ticker.stop()
    bench.ticker.remove("job")
    assert bench.ticker.work() == 30


@pytest.mark.parametrize(
    ("line", "added", "known", "handed", "looked_back", "missed"),
    [
        ("* * * * *", 54, 65, [slot(60)], [], []),
        ("* * * * *", 59.999, 65, [slot(60)], [], []),
        ("* * * * *", 60, 65, [], [slot(60)], []),
        ("* * * * *", 54, 125, [slot(120)], [], []),
        ("1 9 * * *", 54, 119.5, [slot(60)], [], []),
        ("1 9 * * *", 54, 121, [], [], [slot(60)]),
        ("1 9 * * *", 61, 121, [], [], []),
    ],
)
def test_a_tick_is_a_jobs_own_from_the_time_when_it_was_added(
    line: str, added: float, known: float, handed: list[str], looked_back: list[str], missed: list[str]
) -> None:
    """RTDB's time becomes known only after a tick: what counts is whether the job was added before the tick."""
    bench = Bench()
    bench.is_down = True
    bench.ticker.begin()
    bench.timing.advance(added)
    bench.ticker.add(make_job(line))
    bench.until(known)
    bench.is_down = False
    bench.until(known + 3)
    assert (bench.slots(), bench.looked_back) == (handed, [("job", tick) for tick in looked_back])
    assert [event.fields["slot"] for event in bench.said("run.missed")] == missed


@pytest.mark.parametrize("stops", [False, True])
def test_no_job_is_added_before_its_instance_ticks(bench: Bench, stops: bool) -> None:
    """A job that waits for the start of its instance, or for another start, has no ticks of its own until then."""
    bench.ticker.add(make_job("* * * * *"))
    if stops:
        bench.ticker.begin()
        bench.until(30)
        bench.ticker.stop()
    bench.is_down = True
    bench.timing.advance(62 - bench.timing.mono() / 1000)
    bench.ticker.begin()
    bench.until(65)
    bench.is_down = False
    bench.until(70)
    assert (bench.handed, bench.looked_back[-1:]) == ([], [("job", slot(60))])


def test_a_job_that_is_added_again_is_new(bench: Bench) -> None:
    """A job that was removed and comes back has no tick of before, although it has not been planned yet."""
    job = make_job("* * * * *")
    bench.is_down = True
    bench.ticker.begin()
    bench.ticker.add(job)
    bench.ticker.remove("job")
    bench.timing.advance(62)
    bench.ticker.add(job)
    bench.is_down = False
    bench.until(70)
    assert bench.handed == []
    assert set(bench.looked_back) == {("job", slot(60))}
