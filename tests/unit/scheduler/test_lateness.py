"""Who looks for late jobs, and when; what is told of them, and how often."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from firecron import FireCron, distributed_cron
from firecron.base.events import Event
from firecron.scheduler.lateness import Judged, Lateness
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

INTERVAL = 300
NINE, TEN = "2026-11-18T09:00:00Z", "2026-11-18T10:00:00Z"


class Bench:
    """An instance, which looks on the test's own thread; `rank`, and what the judge says, are the test's."""

    contenders = 3
    is_full = False

    def __init__(self) -> None:
        self.timing = FakeTiming()
        jobs = [distributed_cron(name, "0 9 * * *")(lambda: None) for name in ("digest", "import")]
        crons = FireCron(*jobs, store=MemoryStore(self.timing.now), timing=self.timing, settings=load())
        self.registry = crons.registry
        self.place: float | None = 0
        self.looks = 0
        self.says: list[Judged] | None = []
        self.told: list[Event] = []
        crons.events.subscribe(self.told.append)
        self.lateness = Lateness(crons.locks, self.timing, self.registry, self, self)
        self.lateness.judge = self

    def rank(self, what: str) -> float | None:
        return self.place

    def judged(self) -> Sequence[Judged] | None:
        self.looks += 1
        return self.says

    def submit(self, work: Callable[[], object]) -> None:
        work()

    def dismiss(self) -> None:
        """As a crew does."""

    def after_fork(self) -> None:
        """As a crew does."""

    def look(self, **late: str | None) -> list[tuple[str, str, object]]:
        """What is told by the next look, when these jobs are late since these ticks."""
        self.says = [Judged(job, "late" if slot else "ok", slot, f"because of {slot}") for job, slot in late.items()]
        self.told.clear()
        self.lateness.look_if_due()
        self.timing.advance(INTERVAL)
        return [(event.slug, event.name, event.fields["slot"]) for event in self.told]


def test_a_lateness_is_told_once_and_its_end_once() -> None:
    """However many looks there are meanwhile; a later lateness is told again."""
    bench = Bench()
    found = [bench.look(digest=slot) for slot in (None, NINE, NINE, NINE, None, None, TEN)]
    late, recovered = [("job.late", "digest", NINE)], [("job.recovered", "digest", NINE)]
    assert found == [[], late, [], [], recovered, [], [("job.late", "digest", TEN)]]


def test_the_events_say_why() -> None:
    """The line of the log is a sentence, and the fields are those that alerts use."""
    bench = Bench()
    bench.look(digest=NINE)
    (late,) = bench.told
    assert (late.level, late.message) == (30, f'"digest" is late: because of {NINE}')
    assert late.fields == {"slot": NINE, "why": f"because of {NINE}"}
    bench.look(digest=None)
    (recovered,) = bench.told
    assert (recovered.level, recovered.message) == (20, '"digest" is not late any more: because of None')
    assert recovered.fields == {"slot": NINE, "verdict": "ok", "why": "because of None"}


def test_another_lateness_is_told_without_an_end_of_the_first() -> None:
    """A job that was run between two looks, and is late again, is told of as late."""
    bench = Bench()
    bench.look(digest=NINE)
    assert bench.look(digest=TEN) == [("job.late", "digest", TEN)]


def test_only_the_instances_own_jobs_are_told_of() -> None:
    """Others that share the database speak for theirs; a job that is paused here is not looked for."""
    bench = Bench()
    assert bench.look(foreign=NINE) == []
    assert bench.look(**{"import": NINE, "digest": NINE}) == [
        ("job.late", "import", NINE),
        ("job.late", "digest", NINE),
    ]
    bench = Bench()
    bench.registry.remove("digest")
    assert bench.look(digest=NINE) == []


def test_a_database_that_is_away_ends_no_lateness() -> None:
    """A look without an answer tells nothing, and the next one goes on."""
    bench = Bench()
    bench.look(digest=NINE)
    bench.says = None
    bench.told.clear()
    bench.lateness.look_if_due()
    assert (bench.looks, bench.told) == (2, [])
    bench.timing.advance(INTERVAL)
    assert bench.look(digest=NINE) == []
    assert bench.look(digest=None) == [("job.recovered", "digest", NINE)]


@pytest.mark.parametrize(("place", "looks"), [(0.0, 1), (2.9, 1), (3.0, 0), (50.0, 0)])
def test_the_first_three_look(place: float, looks: int) -> None:
    """As soon as their rank is known, and then once in an interval."""
    bench = Bench()
    bench.place = place
    bench.lateness.look_if_due()
    assert bench.looks == looks
    bench.lateness.look_if_due()
    bench.timing.advance(INTERVAL - 1)
    bench.lateness.look_if_due()
    assert bench.looks == looks
    bench.timing.advance(1)
    bench.lateness.look_if_due()
    assert bench.looks == 2 * looks


def test_without_a_rank_an_instance_looks_after_an_interval() -> None:
    """In a group whose size is not known, as with FIRECRON_CONTENDERS=0: a thousand that start together don't look."""
    bench = Bench()
    bench.place = None
    bench.lateness.look_if_due()
    bench.timing.advance(INTERVAL - 1)
    bench.lateness.look_if_due()
    assert bench.looks == 0
    bench.timing.advance(1)
    bench.lateness.look_if_due()
    bench.lateness.look_if_due()
    assert bench.looks == 1


def test_who_has_told_of_a_lateness_looks_for_its_end() -> None:
    """Although others are the first now: nobody else can say that it has ended."""
    bench = Bench()
    bench.look(digest=NINE)
    bench.place = 90
    assert bench.look(digest=NINE) == []
    assert bench.look(digest=None) == [("job.recovered", "digest", NINE)]
    looks = bench.looks
    bench.look(digest=NINE)
    assert bench.looks == looks


def test_after_a_stop_everything_begins_anew() -> None:
    """What was told before is forgotten, and the first look comes at once again."""
    bench = Bench()
    bench.look(digest=NINE)
    bench.lateness.forget()
    assert bench.look(digest=NINE) == [("job.late", "digest", NINE)]


def test_without_a_judge_nobody_looks() -> None:
    """As in an engine of its own, without the operators' room."""
    bench = Bench()
    bench.lateness.judge = None
    assert bench.look(digest=NINE) == []
