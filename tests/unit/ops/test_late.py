"""The look for late jobs: which jobs it judges, what it reads for that, and what it can't overlook."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.lock.records import NOW, released_node

from firecron import FireCron, distributed_cron
from firecron.base.clocks import Deadline
from firecron.base.instants import to_milliseconds, to_text
from firecron.errors import Denied, StoreError, Unavailable
from firecron.jobs.catalogue import declared, group_fields
from firecron.jobs.job import Job
from firecron.ops.health import evaluate
from firecron.ops.late import LateJobs
from firecron.settings import load
from firecron.store import Snapshot
from firecron.testing import FakeTiming, MemoryStore

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
NINE = to_text(NOW)
# After it a tick is late: a minute of grace, and one for the claim.
LATE = 120.001
GROUPS, LOCK, ENTRY = "keys cron-groups", "cron-locks/digest", "cron-jobs/digest"
# What is read of a job that is judged.
JUDGED = [LOCK, ENTRY, "cron-groups", "cron-mutes/digest"]
# What a look reads in any case: whether a group has vanished.
ALWAYS = [GROUPS, "cron-groups/own/seenAt"]


class Counting(MemoryStore):
    """Notes the reads, and fails while it is away."""

    def __init__(self, timing: FakeTiming) -> None:
        super().__init__(timing.now)
        self.reads: list[str] = []
        self.error: StoreError | None = None
        self.denied = ""
        self.before: Callable[[], object] = lambda: None

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        self._note(path)
        if path == LOCK:
            self.before()
        return super().read(path, deadline)

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        self._note(f"keys {path}")
        return super().keys(path, deadline)

    def _note(self, read: str) -> None:
        self.reads.append(read)
        if self.error is not None:
            raise self.error
        if read == self.denied:
            raise Denied("no")


class Bench:
    """An instance at nine, whose group lives; its jobs were declared a day ago, and have run since."""

    def __init__(self, line: str = "0 * * * *", jobs: tuple[str, ...] = ("digest",), **options: object) -> None:
        self.timing = FakeTiming(wall=NOW)
        self.store = Counting(self.timing)
        self.crons = FireCron(store=self.store, timing=self.timing, settings=load(), enabled=True)
        self.since: dict[str, int] = {}
        self.seen: dict[str, int] = {}
        self.told: set[str] = set()
        self.age = math.inf
        self.notes: list[StoreError | None] = []
        for name in jobs:
            self.declare(self.add(name, line, **options), since=NOW - DAY)
            self.store.set(f"cron-locks/{name}", released_node(slot=to_text(NOW - HOUR)))
        self.store.set("cron-groups/own", {"seenAt": NOW + 9 * DAY, "service": "local"})
        self.crons.locks.clock.now(self.crons.locks.deadline(10))
        self.late = LateJobs(self.crons.database, self.since.get, self.notes.append)
        self.store.reads.clear()

    def add(self, name: str, line: str, **options: object) -> Job:
        declared = distributed_cron(name, line, **options)  # type: ignore[arg-type]  # whatever a test gives
        self.crons.registry.add(declared(lambda: None))
        return self.crons.registry.get(name)

    def declare(self, job: Job, *, since: int, **changes: object) -> None:
        """Write the entry of the job into the catalogue, as its own program or another one does."""
        entry = declared(job.options, where="jobs", ticks=True, service="local", revision=None)
        entry = replace(entry, since=since, declared_at=since, **changes)  # type: ignore[arg-type]  # its own fields
        self.store.set(f"cron-jobs/{job.name}", entry.to_node())

    def claim(self, slot: str, name: str = "digest") -> None:
        """Another instance has run this tick."""
        at = to_milliseconds(slot) + 500
        node = released_node(slot=slot, acquiredAt=at, releasedAt=at, expiresAt=at)
        self.store.set(f"cron-locks/{name}", node)

    def look(self, after: float = 0) -> list[tuple[str, str, str | None]] | None:
        """What is said by the look so many seconds later: job, verdict and tick."""
        self.timing.advance(after)
        self.store.reads.clear()
        jobs = {job.name: job for job in self.crons.registry.jobs()}
        found = self.late.evaluate(jobs, self.seen.get, self.told, self.age)
        return None if found is None else [(one.job, one.verdict, one.slot) for one in found]

    @property
    def read(self) -> list[str]:
        """What the last look has read beside the groups."""
        return [path for path in self.store.reads if path not in ALWAYS]


def test_a_job_is_read_once_a_tick_of_it_would_be_late() -> None:
    """Until then nothing is read of it; after it its lock alone, if that shows the tick."""
    bench = Bench()
    assert (bench.look(), bench.store.reads) == ([], [*ALWAYS, LOCK])
    assert (bench.look(LATE - 0.001), bench.store.reads) == ([], ALWAYS)
    bench.claim(NINE)
    assert (bench.look(0.001), bench.read) == ([], [LOCK])
    assert (bench.look(3_599), bench.read) == ([], [])


def test_a_tick_that_is_claimed_during_the_look_is_known() -> None:
    """A read takes its time, and may show a tick that was still to come when the look began."""
    bench = Bench("* * * * *")
    bench.store.before = lambda: bench.timing.advance(60)
    bench.claim(to_text(NOW + MINUTE))
    assert (bench.look(), bench.read) == ([], [LOCK])


def test_a_tick_that_nobody_has_claimed_is_late() -> None:
    """As `firecron status` says, with its age; and it is looked at again until it isn't any more."""
    bench = Bench()
    bench.look()
    for after in (LATE, 1):
        assert bench.look(after) == [("digest", "late", NINE)]
        assert bench.read == JUDGED
    jobs = {"digest": bench.crons.registry.get("digest")}
    (found,) = bench.late.evaluate(jobs, bench.seen.get, (), math.inf) or ()
    assert round(found.age) == 1_001
    assert found.why.startswith("nobody has claimed its tick 2026-11-18T09:00:00Z, although its lock was free")
    bench.claim(NINE)
    assert bench.look() == []


def test_a_tick_that_was_seen_claimed_is_not_looked_for() -> None:
    """Every try of this instance shows which tick was claimed last, by whomever."""
    bench = Bench()
    bench.look()
    bench.claim(NINE)
    bench.seen["digest"] = NOW
    assert (bench.look(LATE), bench.read) == ([], [])
    bench.seen["digest"] = NOW - HOUR
    assert (bench.look(3_600), bench.read) == ([("digest", "late", to_text(NOW + HOUR))], JUDGED)


def test_what_was_due_before_the_declaration_is_not_late() -> None:
    """A job that has never run is late after its first tick. The publisher knows since when; else the entry says it."""
    for since, reads in ((NOW - 1, [LOCK]), (None, JUDGED)):
        bench = Bench()
        bench.store.set(LOCK, None)
        bench.declare(bench.crons.registry.get("digest"), since=NOW - 1)
        if since is not None:
            bench.since["digest"] = since
        bench.look()
        assert bench.read == reads
        assert (bench.look(LATE - 0.001), bench.read) == ([], [])
        assert bench.look(0.001) == [("digest", "late", NINE)]


def test_a_job_that_was_muted_counts_as_late_from_then_on() -> None:
    """Who tells of late jobs passes over what is late for long, because somebody has told of it: not so here. Rules
    that don't know mutes mute nothing.
    """
    bench = Bench()
    bench.store.set("cron-mutes/digest", {"until": NOW + HOUR, "by": "ann"})
    for after, is_muted, age in ((LATE, True, None), (HOUR / 1000, False, LATE * 1000)):
        bench.timing.advance(after)
        (late,) = (
            bench.late.evaluate({"digest": bench.crons.registry.get("digest")}, bench.seen.get, (), math.inf) or ()
        )
        assert (late.verdict, late.is_muted) == ("late", is_muted)
        assert late.age == age if age is not None else late.age < 0
    bench.store.set("cron-mutes/digest/until", NOW + DAY)
    bench.store.denied = "cron-mutes/digest"
    (late,) = bench.late.evaluate({"digest": bench.crons.registry.get("digest")}, bench.seen.get, (), math.inf) or ()
    assert not late.is_muted


def test_what_was_told_is_judged_in_each_look() -> None:
    """Nobody else can say that it has ended. Of a job whose entry was removed nothing is said."""
    bench = Bench()
    bench.claim(NINE)
    bench.look(LATE)
    bench.told = {"digest"}
    assert bench.look() == [("digest", "ok", None)]
    assert bench.read == JUDGED
    bench.store.set(ENTRY, None)
    assert bench.look() == []


def test_what_others_have_told_is_not_looked_for() -> None:
    """Only ticks that are late for less than the age are judged, whatever is known of those before; and what was told
    here.
    """
    bench = Bench()
    bench.age = 10 * MINUTE
    assert (bench.look(), bench.read) == ([], [])
    assert bench.look(LATE + 599.998) == [("digest", "late", NINE)]
    assert (bench.look(0.002), bench.read) == ([], [])
    bench.told = {"digest"}
    assert bench.look() == [("digest", "late", NINE)]


def test_nothing_is_judged_of_a_job_that_remembers_no_tick() -> None:
    """With once_per_tick=False."""
    bench = Bench(once_per_tick=False)
    assert (bench.look(10 * LATE), bench.read) == ([], [])


# --- what could be overlooked


def other(bench: Bench, line: str = "*/5 * * * *", /, **fields: object) -> None:
    """Another version of the program has declared the job with this line, and its group was seen at nine."""
    job = distributed_cron("digest", line)(lambda: None)
    crons = FireCron(job, store=MemoryStore(bench.timing.now), timing=bench.timing, settings=load())
    options = crons.registry.get("digest").options
    bench.declare(crons.registry.get("digest"), since=NOW)
    node = {**group_fields({"digest": options.schedule}, "local", 30.0), "seenAt": NOW, **fields}
    bench.store.set("cron-groups/other", node)


def test_a_job_of_a_group_that_has_vanished_is_judged_by_the_catalogue() -> None:
    """Nobody else looks for the ticks of its schedule any more. That goes on when the group's node is pruned, and ends
    when the entry says the own schedule again.
    """
    bench = Bench("0 0 * * *")
    bench.claim(to_text(NOW - 9 * HOUR))
    bench.look()
    other(bench)
    assert (bench.look(89), bench.read) == ([], ["cron-groups/other/seenAt"])
    bench.timing.advance(1_000)
    for node in (bench.store.get("cron-groups/other"), None):
        bench.store.set("cron-groups/other", node)
        assert bench.look() == [("digest", "late", to_text(NOW + 5 * MINUTE))]
        assert bench.look() == [("digest", "late", to_text(NOW + 5 * MINUTE))]
        assert "cron-groups/other" not in bench.read, "its jobs are known"
    bench.declare(bench.crons.registry.get("digest"), since=NOW + 20 * MINUTE)
    assert bench.look() == [("digest", "ok", None)]
    assert (bench.look(), bench.read) == ([], [])


def test_a_job_that_is_not_declared_any_more_is_left_by_nobody() -> None:
    """Its entry was removed after its group had vanished: nothing says by which other schedule it was to run."""
    bench = Bench("0 0 * * *")
    bench.claim(to_text(NOW - 9 * HOUR))
    bench.look()
    other(bench)
    bench.store.set(ENTRY, None)
    assert (bench.look(1_000), bench.look(), bench.read) == ([], [], ["cron-groups/other/seenAt"])


def test_a_group_that_is_back_looks_for_its_own_jobs() -> None:
    """Its instances were restarted."""
    bench = Bench("0 0 * * *")
    bench.claim(to_text(NOW - 9 * HOUR))
    other(bench)
    assert bench.look(1_000) == [("digest", "late", to_text(NOW + 5 * MINUTE))]
    bench.store.set("cron-groups/other/seenAt", NOW + 1_000_000)
    assert (bench.look(), bench.read) == ([], ["cron-groups/other/seenAt"])
    bench.store.set("cron-groups/other/seenAt", NOW)
    assert bench.look() == [("digest", "late", to_text(NOW + 5 * MINUTE))]


@pytest.mark.parametrize(
    ("fields", "judges"),
    [
        ({}, True),
        ({"jobs": None, "schedules": None}, True),
        ({"schedules": None}, True),
        ({"heartbeat": 3_600}, False),
        ({"jobs": "import", "schedules": "abcd"}, False),
        ({"seenAt": None}, False),
        ({"seenAt": "soon"}, False),
    ],
)
def test_a_group_counts_as_vanished_if_it_says_so(fields: dict[str, object], judges: bool) -> None:
    """One with slow heartbeats lives, and one without the job left none. One that doesn't say which jobs it had, or by
    which schedules, may have had any.
    """
    bench = Bench("0 0 * * *")
    bench.claim(to_text(NOW - 9 * HOUR))
    bench.look()
    other(bench, **fields)
    assert bench.look(1_000) == ([("digest", "late", to_text(NOW + 5 * MINUTE))] if judges else [])


def test_a_group_with_the_same_schedule_leaves_nothing() -> None:
    """Its jobs are judged by the own schedule anyway."""
    bench = Bench("0 0 * * *")
    bench.claim(to_text(NOW - 9 * HOUR))
    bench.look()
    other(bench, "0 0 * * *")
    assert (bench.look(1_000), bench.read) == ([], ["cron-groups/other/seenAt", "cron-groups/other"])
    assert (bench.look(), bench.read) == ([], ["cron-groups/other/seenAt"])


def test_what_another_version_has_declared_decides() -> None:
    """A tick that is late by the own schedule alone is no alarm, as `firecron status` says none."""
    bench = Bench()
    bench.look()
    other(bench, "0 0 * * *", seenAt=NOW + DAY)
    assert bench.look(LATE) == [("digest", "ok", None)]
    assert (bench.look(), bench.read) == ([], ["cron-groups/other/seenAt"])


def test_a_job_that_is_declared_anew_is_another_one() -> None:
    """It was removed and added with another line: nothing is known of it."""
    bench = Bench("0 0 * * *")
    bench.claim(to_text(NOW - 9 * HOUR))
    assert (bench.look(), bench.look(LATE), bench.read) == ([], [], [])
    bench.crons.registry.remove("digest")
    bench.declare(bench.add("digest", "0 9 * * *"), since=NOW - HOUR)
    assert bench.look() == [("digest", "late", NINE)]


def paused(bench: Bench, *, until: bool) -> None:
    bench.store.set(f"{LOCK}/{'paused' if until else 'resumedAt'}", True if until else bench.timing.now())
    if not until:
        bench.store.set(f"{LOCK}/paused", None)


def test_a_pause_holds_ticks_back() -> None:
    """The lock of a job that is paused is read once a tick. After the pause its next tick counts."""
    bench = Bench()
    paused(bench, until=True)
    assert bench.look(LATE) == [("digest", "paused", None)]
    assert (bench.look(3_599), bench.read) == ([], [])
    assert bench.look(1) == [("digest", "paused", None)]
    bench.timing.advance(60)
    paused(bench, until=False)
    assert bench.look() == []
    assert bench.look(3_600) == [("digest", "late", to_text(NOW + 2 * HOUR))]


def test_what_a_run_has_skipped_is_not_late() -> None:
    """A run of hours holds the lock over the next ticks, and ends."""
    bench = Bench()
    held = released_node(slot=to_text(NOW - HOUR), releasedAt=None, expiresAt=NOW + DAY, unfinished=to_text(NOW - HOUR))
    bench.store.set(LOCK, held)
    assert bench.look(LATE) == [("digest", "running", None)]
    bench.timing.advance(1_000)
    bench.store.set(LOCK, {**held, "releasedAt": bench.timing.now(), "expiresAt": bench.timing.now()})
    assert (bench.look(), bench.read) == ([], [])
    assert bench.look(3_600) == [("digest", "late", to_text(NOW + HOUR))]


@pytest.mark.parametrize(
    "fields",
    [
        {"slot": "2026-11-18"},
        {"slot": 7},
        {"slot": to_text(NOW + 3 * DAY)},
        {"attempt": -1},
        {"expiresAt": NOW + 9 * DAY},
    ],
)
def test_what_was_due_while_nobody_could_claim_is_late_afterwards(fields: dict[str, object]) -> None:
    """A lock that is malformed or stuck is read in each look, until it is mended."""
    bench = Bench()
    bench.look()
    good = released_node(slot=to_text(NOW - HOUR))
    bench.store.set(LOCK, {**good, "releasedAt": None, **fields})
    assert bench.look(LATE) == [("digest", "stuck", None)]
    assert bench.look(300) == [("digest", "stuck", None)]
    bench.store.set(LOCK, good)
    assert bench.look() == [("digest", "late", NINE)]


def test_a_lock_that_was_deleted_is_late_at_its_next_tick() -> None:
    """The ticks that were seen claimed were claimed, whatever was deleted since, and so if the slot is set back."""
    for node in (None, released_node(slot=to_text(NOW - 5 * HOUR))):
        bench = Bench()
        bench.claim(NINE)
        bench.look(LATE)
        bench.store.set(LOCK, node)
        assert (bench.look(), bench.read) == ([], [])
        assert [found[:2] for found in bench.look(3_600) or ()] == [("digest", "late")]


def test_a_slot_ahead_hides_no_later_tick() -> None:
    """Nothing is known of ticks to come: an operator may set the slot back before them."""
    bench = Bench()
    bench.store.set(f"{LOCK}/slot", to_text(NOW + 20 * HOUR))
    assert bench.look() == [("digest", "ok", None)]
    bench.store.set(f"{LOCK}/slot", to_text(NOW - HOUR))
    assert bench.look(LATE) == [("digest", "late", NINE)]
    bench.seen["digest"] = NOW + 20 * HOUR
    assert bench.look(3_600) == [("digest", "late", NINE)]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.sampled_from(["claim", "seen", "pause", "hold", "miss"]), min_size=1, max_size=30), st.randoms())
def test_a_look_that_remembers_says_what_one_that_knows_nothing_says(events: list[str], random: object) -> None:
    """Whatever becomes of the ticks of a job: the same job is late, since the same tick, as by all that is stored."""
    bench = Bench("*/10 * * * *", grace=90)
    job = bench.crons.registry.get("digest")
    resume: Callable[[], None] = lambda: None  # noqa: E731
    for number, event in enumerate(events):
        tick = to_text(NOW + 10 * number * MINUTE)
        resume()
        resume = lambda: None  # noqa: E731
        if event in ("claim", "seen"):
            bench.claim(tick)
        if event == "seen":
            bench.seen["digest"] = to_milliseconds(tick)
        elif event == "pause":
            paused(bench, until=True)
            resume = lambda: paused(bench, until=False)  # noqa: E731
        elif event == "hold":
            now, end = bench.timing.now(), bench.timing.now() + 10 * MINUTE - 1
            held = released_node(slot=tick, acquiredAt=now, releasedAt=None, expiresAt=end)
            bench.store.set(LOCK, held)
            resume = lambda: bench.store.set(LOCK, {**held, "releasedAt": end, "expiresAt": end})  # noqa: E731, B023
        for _ in range(2):
            found = bench.look(299.5)
            entry = declared(job.options, where="jobs", ticks=True, service="local", revision=None)
            entry = replace(entry, since=NOW - DAY)
            said = evaluate(entry, bench.store.get(LOCK), None, bench.timing.now(), 1_000)
            late = [one for one in found or () if one[1] == "late"]
            assert late == ([] if said.due is None else [("digest", "late", to_text(said.due))])
        bench.timing.advance(1)


# --- reading


@pytest.mark.parametrize(("number", "at_once"), [(50, False), (51, True)])
def test_few_nodes_are_read_one_by_one(number: int, at_once: bool) -> None:
    """And many in one reply, with all others that are there; their entries, too."""
    names = tuple(f"job-{index:03}" for index in range(number))
    bench = Bench(jobs=names)
    bench.look()
    one_by_one = [f"cron-locks/{name}" for name in names]
    assert bench.read == (["cron-locks"] if at_once else one_by_one)
    assert [found[1] for found in bench.look(LATE) or ()] == ["late"] * number
    assert bench.read[1 if at_once else number] == ("cron-jobs" if at_once else f"cron-jobs/{names[0]}")


def test_a_small_part_is_read_one_by_one() -> None:
    """Of 1,200 jobs up to sixty; and a look gives way to other threads now and then."""
    names = tuple(f"job-{index:04}" for index in range(1_200))
    bench = Bench(jobs=names)
    began = bench.timing.mono()
    bench.look()
    assert bench.read == ["cron-locks"]
    assert round(bench.timing.mono() - began, 3) == 12.0, "a millisecond after each 200 of both lists"
    bench.seen |= dict.fromkeys(names[60:], NOW)
    assert len(bench.look(LATE) or ()) == 60
    assert bench.read[:60] == [f"cron-locks/{name}" for name in names[:60]]
    bench.seen = dict.fromkeys(names[61:], NOW)
    bench.late = LateJobs(bench.crons.database, bench.since.get, bench.notes.append)
    bench.look()
    assert bench.read[0] == "cron-locks"


def test_many_groups_are_read_in_one_reply() -> None:
    """Up to fifty one by one: of each the last sign of life alone."""
    bench = Bench("0 0 * * *")
    bench.claim(to_text(NOW - 9 * HOUR))
    for number in range(49):
        bench.store.set(f"cron-groups/{number}", {"seenAt": NOW})
    bench.look()
    assert len(bench.store.reads) == 52
    other(bench)
    assert bench.look(1_000) == [("digest", "late", to_text(NOW + 5 * MINUTE))]
    assert bench.store.reads[:2] == [GROUPS, "cron-groups"]


def test_a_database_that_is_away_says_nothing() -> None:
    """Neither that a job is late nor that it isn't. Whoever is told of looks learns of it, and of its end."""
    bench = Bench()
    bench.store.error = Unavailable("away")
    assert bench.look(LATE) is None
    assert bench.notes == [bench.store.error]
    bench.store.error = None
    assert bench.look() == [("digest", "late", NINE)]
    assert bench.notes[1:] == [None]


def test_rules_that_are_older_than_the_groups_hide_no_lateness() -> None:
    """Nobody knows who has a job, and its ticks are judged all the same."""
    bench = Bench()
    bench.store.denied = GROUPS
    assert bench.look(LATE) == [("digest", "late", NINE)]
    assert bench.notes == [None]


# --- stuck

# A minute more than the run is expected to take.
LONG = 660.0


def running(bench: Bench, slot: str, *, over: bool = False) -> None:
    """A run of this tick holds the lock, or has just released it."""
    at = to_milliseconds(slot) + 500
    held: dict[str, object] = {"slot": slot, "unfinished": slot, "acquiredAt": at, "expiresAt": at + 9 * HOUR}
    ended = released_node(slot=slot)
    bench.store.set("cron-locks/digest", ended if over else {**ended, **held, "releasedAt": None})


def test_a_run_that_takes_too_long_is_found() -> None:
    """Of a job that says how long a run takes: the lock of a tick that was claimed is read until it is released, and
    judged once it is held for too long.
    """
    bench = Bench(expected_runtime=600)
    bench.look()
    bench.seen["digest"] = NOW
    running(bench, NINE)
    assert bench.look(300) == []
    assert bench.read == [LOCK]
    assert bench.look(LONG - 300) == [("digest", "stuck", None)]
    assert bench.read == JUDGED
    running(bench, NINE, over=True)
    bench.told = {"digest"}
    assert bench.look(60) == [("digest", "ok", None)]
    bench.told = set()
    assert bench.look(300) == []
    assert bench.read == []


def test_the_lock_is_read_once_for_each_tick() -> None:
    """A run that has ended is not looked at again before the next tick was claimed."""
    bench = Bench(expected_runtime=600)
    bench.look()
    for _ in range(2):
        bench.seen["digest"] = NOW
        running(bench, NINE, over=True)
        bench.look(1)
    assert bench.read == []


def test_a_job_that_says_nothing_of_its_runs_is_never_stuck_by_them() -> None:
    """Nothing more is read of it than before."""
    bench = Bench()
    bench.look()
    bench.seen["digest"] = NOW
    running(bench, NINE)
    assert bench.look(300) == []
    assert bench.read == []
