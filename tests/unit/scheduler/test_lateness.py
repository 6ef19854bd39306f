"""Who looks for late jobs, and when; what is told of them, and how often."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import START, World

from firecron import FireCron, Run, distributed_cron
from firecron.base.events import Event
from firecron.jobs.about import About
from firecron.jobs.job import Job
from firecron.scheduler.lateness import Evaluated, Lateness
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

INTERVAL = 300
ABOUT = About(owner="mail", runbook="https://wiki.example.com/digest")
SIX, TEN = "2026-11-18T06:00:00Z", "2026-11-18T10:00:00Z"


class Bench:
    """An instance, which looks on the test's own thread; `rank`, and what the judge says, are the test's."""

    contenders = 3
    is_full = False

    def __init__(self) -> None:
        self.timing = FakeTiming(wall=START)
        jobs = [distributed_cron(name, "0 9 * * *")(lambda: None) for name in ("digest", "import")]
        crons = FireCron(*jobs, store=MemoryStore(self.timing.now), timing=self.timing, settings=load())
        crons.locks.clock.now(crons.locks.deadline(10))
        self.registry = crons.registry
        self.place: float | None = 0
        self.age = 0.0
        self.looks = 0
        self.is_busy = False
        self.work: list[Callable[[], object]] = []
        self.ages: list[float] = []
        self.asked: list[tuple[list[str], list[str]]] = []
        self.muted = ""
        self.says: list[Evaluated] | None = []
        self.told: list[Event] = []
        crons.events.subscribe(self.told.append)
        self.lateness = Lateness(crons.locks.database, self.registry, self, crons.engine.lanes, self)
        self.lateness.evaluator = self

    def rank(self, what: str) -> float | None:
        return self.place

    def evaluate(
        self, jobs: Mapping[str, Job], claimed: Callable[[str], int | None], told: Collection[str], age: float
    ) -> Sequence[Evaluated] | None:
        self.looks += 1
        self.asked.append((sorted(jobs), sorted(told)))
        self.ages.append(age / 1000)
        return self.says

    def submit(self, work: Callable[[], object]) -> None:
        if self.is_busy:
            self.work.append(work)
        else:
            work()

    def dismiss(self) -> None:
        """As a crew does."""

    def look(self, **late: str | None) -> list[tuple[str, str, object]]:
        """What is told by the next look, when these jobs are late since these ticks."""
        self.says = [
            Evaluated(job, "late" if slot else "ok", slot, self.age, f"because of {slot}", ABOUT, job == self.muted)
            for job, slot in late.items()
        ]
        self.told.clear()
        self.lateness.look_if_due()
        self.timing.advance(INTERVAL)
        return [(event.slug, event.name, event.fields["slot"]) for event in self.told]


def test_a_lateness_is_told_once_and_its_end_once() -> None:
    """However many looks there are meanwhile; a later lateness is told again."""
    bench = Bench()
    found = [bench.look(digest=slot) for slot in (None, SIX, SIX, SIX, None, None, TEN)]
    late, recovered = [("job.late", "digest", SIX)], [("job.recovered", "digest", SIX)]
    assert found == [[], late, [], [], recovered, [], [("job.late", "digest", TEN)]]


def test_the_events_say_why() -> None:
    """The line of the log is a sentence, and the fields are those that alerts use, with what is known of the job."""
    bench = Bench()
    bench.look(digest=SIX)
    (late,) = bench.told
    assert (late.level, late.message) == (30, f'"digest" is late: because of {SIX}')
    about = {"owner": "mail", "runbook": "https://wiki.example.com/digest"}
    assert late.fields == {"slot": SIX, "why": f"because of {SIX}", **about}
    bench.look(digest=None)
    (recovered,) = bench.told
    assert (recovered.level, recovered.message) == (20, '"digest" is not late any more: because of None')
    assert recovered.fields == {"slot": SIX, "was": "late", "verdict": "ok", "why": "because of None", **about}


def test_a_job_that_is_stuck_is_told_once_and_so_is_its_end() -> None:
    """By when it got stuck: the next run that takes too long is told again. One that is late is told as such."""
    bench = Bench()

    def look(verdict: str, since: int | None = None, slot: str | None = None) -> list[tuple[str, object]]:
        bench.says = [Evaluated("digest", verdict, slot, 0.0, "because", ABOUT, since=since)]
        bench.told.clear()
        bench.lateness.look_if_due()
        bench.timing.advance(INTERVAL)
        return [(event.slug, event.fields.get("was")) for event in bench.told]

    stuck = [("job.stuck", None)]
    assert [look("stuck", since) for since in (7, 7, 8, None, None)] == [stuck, [], stuck, stuck, []]
    assert look("running") == [("job.recovered", "stuck")]
    assert "slot" not in bench.told[0].fields
    assert look("stuck", 9) == [("job.stuck", None)]
    assert look("late", slot=SIX) == [("job.late", None)]
    assert look("ok") == [("job.recovered", "late")]


def test_another_lateness_is_told_without_an_end_of_the_first() -> None:
    """A job that was run between two looks, and is late again, is told of as late."""
    bench = Bench()
    bench.look(digest=SIX)
    assert bench.look(digest=TEN) == [("job.late", "digest", TEN)]


def test_of_a_muted_job_nothing_is_told() -> None:
    """Neither that it is late nor that it recovers. Once the mute is over, what was told before counts as told, and its
    end is told; what began meanwhile is told then.
    """
    bench = Bench()
    bench.look(digest=SIX)
    bench.muted = "digest"
    assert [bench.look(digest=slot) for slot in (SIX, None, TEN)] == [[], [], []]
    bench.muted = ""
    assert bench.look(digest=SIX) == []
    bench.muted = "digest"
    assert bench.look(digest=None) == []
    bench.muted = ""
    assert bench.look(digest=None) == [("job.recovered", "digest", SIX)]
    bench.muted = "digest"
    assert [bench.look(digest=slot) for slot in (TEN, TEN)] == [[], []]
    assert bench.asked[-1] == (["digest", "import"], ["digest"]), "it is looked for however long it is late"
    bench.muted = ""
    assert bench.look(digest=TEN) == [("job.late", "digest", TEN)]


def test_only_the_instances_own_jobs_are_looked_for() -> None:
    """Others that share the database speak for theirs; a job that is paused or removed here is not looked for, even
    if it was told of. What was told is looked for again.
    """
    bench = Bench()
    assert bench.look(**{"import": SIX, "digest": SIX}) == [("job.late", "import", SIX), ("job.late", "digest", SIX)]
    bench.registry.pause("import")
    bench.look(digest=SIX)
    bench.registry.remove("digest")
    bench.registry.resume("import")
    bench.look()
    assert bench.asked == [(["digest", "import"], []), (["digest"], ["digest"]), (["import"], [])]


def test_a_database_that_is_away_ends_no_lateness() -> None:
    """A look without an answer tells nothing, and the next one goes on."""
    bench = Bench()
    bench.look(digest=SIX)
    bench.says = None
    bench.told.clear()
    bench.lateness.look_if_due()
    assert (bench.looks, bench.told) == (2, [])
    bench.timing.advance(INTERVAL)
    assert bench.look(digest=SIX) == []
    assert bench.look(digest=None) == [("job.recovered", "digest", SIX)]


@pytest.mark.parametrize(("place", "looks"), [(0.0, 1), (2.9, 1), (3.0, 0), (50.0, 0)])
def test_the_first_three_look(place: float, looks: int) -> None:
    """As soon as their rank is known, and then at the first beat of each interval."""
    bench = Bench()
    bench.place = None
    bench.lateness.look_if_due()
    assert bench.looks == 0
    bench.place = place
    for _ in range(2):
        bench.lateness.look_if_due()
        assert bench.looks == looks
    bench.timing.advance(INTERVAL - 1)
    bench.lateness.look_if_due()
    assert bench.looks == looks
    bench.timing.advance(1)
    for _ in range(2):
        bench.lateness.look_if_due()
        assert bench.looks == 2 * looks


def test_who_becomes_the_first_in_an_interval_waits_for_the_next() -> None:
    """Others were the first at its first beat, and have looked."""
    bench = Bench()
    bench.place = 50
    bench.lateness.look_if_due()
    bench.place = 0
    bench.lateness.look_if_due()
    assert bench.looks == 0
    bench.timing.advance(INTERVAL)
    bench.lateness.look_if_due()
    assert bench.looks == 1


def test_without_a_rank_an_instance_looks_in_each_interval() -> None:
    """In a group whose size is not known, as with FIRECRON_CONTENDERS=0: but not at the start, when a thousand may."""
    bench = Bench()
    bench.place = None
    bench.lateness.look_if_due()
    assert bench.looks == 0
    for looks in (1, 2):
        bench.timing.advance(INTERVAL)
        bench.lateness.look_if_due()
        bench.lateness.look_if_due()
        assert bench.looks == looks


def test_without_rtdbs_time_nobody_looks() -> None:
    """Nobody knows which interval it is, and RTDB is away."""
    bench = Bench()
    bench.timing.advance(10_000)
    bench.lateness.look_if_due()
    assert bench.looks == 0


def test_what_is_late_for_long_was_told() -> None:
    """By those that were the first then: an instance passes over it, unless it has just started."""
    bench = Bench()
    bench.age = INTERVAL * 2_000
    assert bench.look(digest=SIX) == [("job.late", "digest", SIX)]
    bench.look(digest=None)
    assert bench.look(digest=TEN) == []
    assert bench.look(digest=None) == []
    bench.age -= 1
    assert bench.look(digest=TEN) == [("job.late", "digest", TEN)]
    bench.age = INTERVAL * 20_000
    assert bench.look(digest=TEN) == []
    assert bench.look(digest=None) == [("job.recovered", "digest", TEN)]
    assert bench.ages == [math.inf] * 2 + [2 * INTERVAL] * 5


def test_who_has_told_of_a_lateness_looks_for_its_end() -> None:
    """Although others are the first now: nobody else can say that it has ended."""
    bench = Bench()
    bench.look(digest=SIX)
    bench.place = 90
    assert bench.look(digest=SIX) == []
    assert bench.look(digest=None) == [("job.recovered", "digest", SIX)]
    looks = bench.looks
    bench.look(digest=SIX)
    assert bench.looks == looks


def test_after_a_stop_everything_begins_anew() -> None:
    """What was told before is forgotten, and the first look comes at once again. A look that a stop has interrupted
    tells nothing.
    """
    bench = Bench()
    bench.look(digest=SIX)
    bench.lateness.forget()
    assert bench.look(digest=SIX) == [("job.late", "digest", SIX)]
    bench.is_busy = True
    assert bench.look(digest=None) == []
    bench.lateness.forget()
    (read,) = bench.work
    read()
    assert (bench.looks, bench.told) == (3, [])


def test_a_look_that_outlasts_a_stop_tells_nothing() -> None:
    """What was read before the instance began anew is not of its new life."""
    bench = Bench()
    bench.is_busy = True
    bench.look(digest=SIX)
    bench.lateness.forget()
    [work] = bench.work
    work()
    assert (bench.looks, bench.told) == (1, [])


def test_without_a_judge_nobody_looks() -> None:
    """As in an engine of its own, without the operators' room."""
    bench = Bench()
    bench.lateness.evaluator = None
    assert bench.look(digest=SIX) == []


def test_an_instance_tells_of_a_tick_that_nobody_has_claimed() -> None:
    """Its jobs' tick of this morning, long before it started, is late; after a run by hand it isn't any more."""
    world = World()
    runs: list[Run] = []

    @distributed_cron("digest", "0 6 * * *")
    def work(run: Run) -> None:
        runs.append(run)

    declared = {"line": "0 6 * * *", "timezone": "UTC", "since": START - 86_400_000, "grace": 60}
    world.store.set("cron-jobs/digest", declared)
    one = Instance(world, work).live()
    one.start()
    world.until(200)
    (late,) = one.said("job.late")
    assert (late.name, late.fields["slot"]) == ("digest", "2026-11-18T06:00:00Z")
    world.until(1_000)
    assert len(one.said("job.late")) == 1
    one.crons.registry.trigger("digest")
    world.until(1_700)
    (recovered,) = one.said("job.recovered")
    assert (recovered.fields["slot"], recovered.fields["verdict"]) == (late.fields["slot"], "ok")
    assert len(runs) == 1


def test_the_looks_of_a_fleet_are_few() -> None:
    """Of twelve three look in each interval of five minutes, and a lateness is told by the first of them, and then by
    those of the next interval.
    """
    world = World()
    world.store.set("cron-jobs/digest", {"line": "0 6 * * *", "timezone": "UTC", "since": START - 86_400_000})
    fleet = [Instance(world, distributed_cron("digest", "0 6 * * *")(lambda: None)).live() for _ in range(12)]
    for instance in fleet:
        instance.start()
    world.until(3_600)
    looks = [instance.network.calls.count(("read", "cron-locks/digest")) for instance in fleet]
    told = [len(instance.said("job.late")) for instance in fleet]
    assert 2 <= sum(told) <= 9
    assert max(told) == 1
    # The others had their turns, too, and those that have told of it look for its end in each interval.
    assert 3 * 12 <= sum(looks) <= (3 + sum(told)) * 13, (looks, told)
