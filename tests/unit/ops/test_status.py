"""The status of jobs that live: what programs write, read as an operator reads it, in virtual time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from jsonschema import validate
from tests.cli.schemas import ROW
from tests.simulation.instance import Instance
from tests.simulation.world import World
from tests.unit.lock.records import DAY, NOW, released_node, slot
from tests.unit.ops.declared import JOB

from firecron import Run, distributed_cron
from firecron.base.clocks import Deadline
from firecron.locks import LockService
from firecron.ops.health import VerdictWord
from firecron.ops.status import NewestEntries, Row, SeenJobs, Status
from firecron.runs.entry import Entry
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

Job = Callable[[Run], None]


class Fleet:
    """A world with instances of one service, and an operator who looks at it."""

    def __init__(self) -> None:
        self.world = World()
        locks = LockService(settings=load(), store=self.world.store, timing=self.world, has_threads=False)
        self.status, self.newest = Status(locks.database), NewestEntries(locks.database)
        self.error: Exception | None = None

    def job(self, name: str = "digest", line: str = "* * * * *", **options: object) -> Job:
        def work(run: Run) -> None:
            if self.error is not None:
                raise self.error

        return distributed_cron(name, line, lock_ttl=30, **options)(work)  # type: ignore[arg-type]  # any options

    def start(self, *jobs: Job) -> Instance:
        instance = Instance(self.world, *jobs).live()
        instance.start()
        # A thread's work, as the world's own is.
        instance.crons.engine.publisher.begin()
        return instance

    def seen(self) -> SeenJobs:
        return self.newest.put_into(self.status.evaluate(self.status.read()))

    def rows(self) -> dict[str, Row]:
        rows = {row.job: row for row in self.seen().rows}
        for row in rows.values():
            validate(row.to_json(), ROW)
        return rows

    def words(self) -> dict[str, VerdictWord]:
        return {name: row.verdict.word for name, row in self.rows().items()}


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_a_job_that_ticks_is_ok(fleet: Fleet) -> None:
    """From its start on, with its next tick, its last run, and the place of its function."""
    fleet.start(fleet.job())
    fleet.world.until(10)
    assert fleet.words() == {"digest": "ok"}
    fleet.world.until(610)
    row = fleet.rows()["digest"]
    assert (row.verdict.word, row.verdict.why) == ("ok", "its last tick 2026-11-18T09:10:00Z succeeded")
    assert row.last is not None
    assert (row.last.outcome, row.next) == ("succeeded", fleet.world.now() + 50_000)
    assert row.declared is not None
    assert "Fleet.job" in row.declared.where


def test_the_last_run_is_a_run(fleet: Fleet) -> None:
    """And no tick that did not run, although its entry is newer."""
    fleet.start(fleet.job())
    fleet.world.until(70)
    skipped = "2026-11-18T09:02:00Z"
    fleet.world.store.set(f"cron-runs/digest/{skipped}", {"outcome": "skipped", "slot": skipped})
    [row] = fleet.newest.put_into(fleet.status.evaluate(fleet.status.read()), {"digest"}).rows
    assert row.last is not None
    assert (row.last.outcome, row.last.slot) == ("succeeded", "2026-11-18T09:01:00Z")


def test_a_job_without_instances_is_unattended_until_one_comes(fleet: Fleet) -> None:
    """Three heartbeats after the last one was seen; the next one makes up for it with the next tick."""
    one = fleet.start(fleet.job())
    fleet.world.until(310)
    one.crash()
    fleet.world.until(380)
    assert fleet.words() != {"digest": "unattended"}
    fleet.world.until(500)
    row = fleet.rows()["digest"]
    assert row.verdict.word == "unattended"
    assert row.to_json()["since"] == "2026-11-18T09:05:00Z"
    fleet.start(fleet.job())
    fleet.world.until(600)
    assert fleet.words() == {"digest": "ok"}


def test_a_job_that_fails_is_told_after_as_many_failures_as_it_says(fleet: Fleet) -> None:
    """And is as it should be after a success, also one by hand."""
    one = fleet.start(fleet.job(alert_after=2), fleet.job("other", alert_after=1))
    fleet.error = ValueError("no mail server")
    fleet.world.until(70)
    assert fleet.words() == {"digest": "ok", "other": "failing"}
    fleet.world.until(130)
    assert fleet.words() == {"digest": "failing", "other": "failing"}
    fleet.error = None
    one.crons.registry.trigger("other")
    assert fleet.words() == {"digest": "failing", "other": "ok"}
    fleet.world.until(190)
    assert fleet.words() == {"digest": "ok", "other": "ok"}


def test_a_job_that_a_new_revision_lacks_is_retired(fleet: Fleet) -> None:
    """Once the old instances have gone; no alarm, and it has no next tick."""
    old = fleet.start(fleet.job(), fleet.job("gone"))
    fleet.world.until(70)
    fleet.start(fleet.job())
    fleet.world.until(140)
    old.crons.stop()
    old.crash()
    fleet.world.until(400)
    assert fleet.words() == {"digest": "ok", "gone": "retired"}
    assert fleet.rows()["gone"].next is None


def test_a_paused_job_is_paused_and_then_not_late(fleet: Fleet) -> None:
    """The ticks that a pause held back are never late, however old they are."""
    one = fleet.start(fleet.job(line="0 * * * *"))
    fleet.world.until(3_000)
    one.crons.registry.pause("digest", everywhere=True)
    fleet.world.until(3_900)
    assert fleet.words() == {"digest": "paused"}
    one.crons.registry.resume("digest", everywhere=True)
    assert fleet.words() == {"digest": "ok"}
    fleet.world.until(7_190)
    assert fleet.words() == {"digest": "ok"}


def test_a_tick_that_nobody_claimed_is_late(fleet: Fleet) -> None:
    """As where every instance of the service is stopped at its time, and comes back after its grace."""
    one = fleet.start(fleet.job(line="0 * * * *"))
    fleet.world.until(3_500)
    one.crons.stop()
    one.crash()
    fleet.world.until(3_690)
    fleet.start(fleet.job(line="0 * * * *"))
    fleet.world.until(3_719)
    assert fleet.words() == {"digest": "ok"}
    fleet.world.until(3_721)
    row = fleet.rows()["digest"]
    assert (row.verdict.word, row.to_json()["due"]) == ("late", "2026-11-18T10:00:00Z")
    fleet.world.until(7_210)
    assert fleet.words() == {"digest": "ok"}


def test_plain_locks_and_leaders_are_no_jobs(fleet: Fleet) -> None:
    """Their nodes are beside the jobs."""
    one = fleet.start(fleet.job())
    fleet.world.until(70)
    assert one.locks.acquire("import", 60)
    seen = fleet.seen()
    assert [row.job for row in seen.rows] == ["digest"]
    assert [view.name for view in seen.others] == ["import"]


# --- the last run of each job


class Reads(MemoryStore):
    """Notes the reads of histories."""

    def __init__(self, timing: FakeTiming) -> None:
        super().__init__(timing.now)
        self.reads: list[str] = []

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        self.reads.append(path.removeprefix("cron-runs/"))
        return super().newest(path, deadline)

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        self.reads.append(f"keys {path}")
        return super().keys(path, deadline)


class Operator:
    """One who looks again and again at jobs that have run at nine."""

    def __init__(self, *names: str) -> None:
        self.timing = FakeTiming(wall=NOW)
        self.store = Reads(self.timing)
        locks = LockService(settings=load(), store=self.store, timing=self.timing, has_threads=False)
        self.status, self.another = Status(locks.database), partial(NewestEntries, locks.database)
        self.newest = self.another()
        self.store.set("cron-groups/own", {"seenAt": NOW + 9 * DAY, "service": "api"})
        for name in names:
            self.ran(name)

    def ran(self, name: str, **fields: object) -> None:
        self.store.set(f"cron-jobs/{name}", {**JOB.to_node(), "since": NOW})
        ended = released_node(slot=slot(), acquiredAt=NOW, releasedAt=NOW + 700, fence=NOW, outcome="succeeded")
        self.store.set(f"cron-locks/{name}", {**ended, **fields})
        self.store.set(
            f"cron-runs/{name}/{slot()}", {"outcome": "succeeded", "slot": slot(), "fence": NOW, "note": "x"}
        )

    def look(self, *named: str) -> tuple[dict[str, Row], list[str]]:
        """The rows, and whose histories were read for them."""
        self.store.reads.clear()
        rows = self.newest.put_into(self.status.evaluate(self.status.read()), named).rows
        for row in rows:
            validate(row.to_json(), ROW)
        return {row.job: row for row in rows}, sorted(self.store.reads)


def test_how_a_run_has_ended_is_in_its_lock() -> None:
    """So no history is read for it. What the lock doesn't say is not known: also which tick it was, if any."""
    operator = Operator("digest", "import")
    rows, reads = operator.look()
    last = rows["digest"].last
    assert last == Entry(
        "", "succeeded", None, None, NOW, NOW + 700, None, None, NOW, instance_id="rev-2", instance="i2"
    )
    assert (last.took, last.to_json()["key"], reads) == (700, None, [])


@pytest.mark.parametrize(
    "fields",
    [
        {"outcome": None},
        {"outcome": "well"},
        {"releasedAt": None},
        {"outcome": "failed", "failures": 1},
        {"slot": 7},
        {"paused": True, "pausedAt": NOW - 2 * DAY},
    ],
)
def test_what_the_lock_does_not_say_is_read(fields: dict[str, object]) -> None:
    """How the last run ended, or why the job needs a hand, or a second look."""
    operator = Operator("digest", "import")
    operator.ran("import", **fields)
    rows, reads = operator.look()
    assert reads == ["import"]
    assert rows["import"].last is not None
    assert rows["import"].last.note == "x"


@pytest.mark.parametrize("options", [{"overlap": "allow"}, {"oncePerTick": False}])
def test_a_job_whose_runs_leave_no_trace_is_read(options: dict[str, object]) -> None:
    """Its lock may show a run of long ago."""
    operator = Operator("digest")
    operator.store.set("cron-jobs/digest", {**JOB.to_node(), "since": NOW, **options})
    assert operator.look()[1] == ["digest"]


def test_a_job_that_is_named_is_read_until_its_lock_changes() -> None:
    """What was read stays, also for looks that don't name it."""
    operator = Operator("digest", "import")
    rows, reads = operator.look("digest")
    assert (rows["digest"].last and rows["digest"].last.note, reads) == ("x", ["digest"])
    rows, reads = operator.look()
    assert (rows["digest"].last and rows["digest"].last.note, reads) == ("x", [])
    operator.ran("digest", fence=NOW + 1)
    rows, reads = operator.look()
    assert (rows["digest"].last and rows["digest"].last.note, reads) == (None, [])


def test_of_many_jobs_without_a_lock_those_with_a_history_are_read() -> None:
    """Most of them have never run: which ones is one request. Of a few each is asked."""
    operator = Operator("digest")
    names = [f"new-{number}" for number in range(9)]
    for name in names[:8]:
        operator.store.set(f"cron-jobs/{name}", {**JOB.to_node(), "since": NOW})
    assert operator.look()[1] == names[:8]
    operator.newest = operator.another()
    operator.ran(names[8])
    operator.store.set(f"cron-locks/{names[8]}", None)
    rows, reads = operator.look()
    assert reads == ["keys cron-runs", names[8]]
    assert [name for name, row in rows.items() if row.last is None] == names[:8]
    assert operator.look()[1] == []


def test_until_an_entry_comes_the_lock_tells_of_the_run() -> None:
    """The entry of a run is written after the release: until then the newest is that of the run before."""
    operator = Operator("digest")
    operator.look("digest")
    operator.ran("digest", fence=NOW + 1, outcome="cancelled")
    rows, reads = operator.look("digest")
    assert (rows["digest"].last and rows["digest"].last.outcome, reads) == ("cancelled", ["digest"])
    entry = {"outcome": "cancelled", "slot": slot(), "fence": NOW + 1, "note": "y"}
    operator.store.set(f"cron-runs/digest/{slot()}", entry)
    operator.timing.advance(0.3)
    rows, reads = operator.look("digest")
    assert (rows["digest"].last and rows["digest"].last.note, reads) == ("y", ["digest"])
