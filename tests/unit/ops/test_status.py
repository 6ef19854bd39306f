"""The status of jobs that live: what programs write, read as an operator reads it, in virtual time."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from jsonschema import validate
from tests.cli.schemas import ROW
from tests.simulation.instance import Instance
from tests.simulation.world import World

from firecron import Run, distributed_cron
from firecron.locks import LockService
from firecron.ops.health import VerdictWord
from firecron.ops.status import Row, Status
from firecron.settings import load

Job = Callable[[Run], None]


class Fleet:
    """A world with instances of one service, and an operator who looks at it."""

    def __init__(self) -> None:
        self.world = World()
        locks = LockService(settings=load(), store=self.world.store, timing=self.world, has_threads=False)
        self.status = Status(locks.database)
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

    def rows(self) -> dict[str, Row]:
        rows = {row.job: row for row in self.status.jobs().rows}
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
    seen = fleet.status.jobs()
    assert [row.job for row in seen.rows] == ["digest"]
    assert [view.name for view in seen.others] == ["import"]
