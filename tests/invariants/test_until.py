"""A job whose schedule has ended: its last tick is a tick as any other, and after it there is none."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from firecron import FireCron, Run, distributed_cron
from firecron.testing import Rehearsal

NINE = datetime(2026, 11, 18, 9, tzinfo=UTC)
HOUR = timedelta(hours=1)
Body = Callable[[Run], object]


def jobs(body: Body, **options: Any) -> FireCron:
    @distributed_cron("digest", "0 * * * *", starting=NINE, until=NINE + 2 * HOUR, lock_ttl=30, **options)
    def digest(run: Run) -> None:
        body(run)

    return FireCron(digest)


def slots(test: Rehearsal) -> list[tuple[object, object]]:
    return [(entry["slot"], entry["outcome"]) for entry in test.history("digest")]


def test_a_job_runs_from_its_first_tick_to_its_last() -> None:
    """Nothing runs before `starting` and after `until`, for however long the program goes on, and nothing is missed."""
    runs: list[str] = []
    crons = jobs(lambda run: runs.append(run.idempotency_key))
    with crons.testing(NINE - 5 * HOUR) as test:
        test.advance(timedelta(days=40))
        assert [event for event in test.events if event.slug == "ticker.failed"] == []
        assert slots(test) == [(f"2026-11-18T{hour:02}:00:00Z", "succeeded") for hour in (9, 10, 11)]
    assert len(runs) == 3
    assert crons.registry.next_slots("digest", 3) == []


@pytest.mark.parametrize(
    ("catch_up", "expected"), [("skip", []), ("once", ["11"]), ("all", ["10", "11"])], ids=["skip", "once", "all"]
)
def test_missed_ticks_are_caught_up_after_the_end(catch_up: str, expected: list[str]) -> None:
    """An outage that outlasts the schedule takes no tick from a job that catches up: no later tick is waited for."""
    with jobs(lambda run: None, catch_up=catch_up).testing(NINE - HOUR) as test:
        test.move_to(NINE)
        test.clock.advance(5 * HOUR)  # the only instance is frozen
        test.advance(HOUR)
        caught = [entry["slot"] for entry in test.history("digest") if entry.get("trigger") == "catch_up"]
    assert caught == [f"2026-11-18T{hour}:00:00Z" for hour in expected]


def test_the_last_tick_waits_for_the_run_before_it() -> None:
    """With overlap="queue" the last tick, which no later one replaces, runs once the run before it has ended."""
    begun: list[str] = []

    def body(run: Run) -> None:
        begun.append(run.idempotency_key)
        if len(begun) == 2:
            test.clock.advance(2 * HOUR)

    with jobs(body, overlap="queue").testing(NINE - HOUR) as test:
        test.advance(timedelta(hours=8))
        assert [key.rpartition("T")[2] for key in begun] == ["09:00:00Z", "10:00:00Z", "11:00:00Z"]


def test_a_last_run_that_died_is_rerun() -> None:
    """With on_abandoned="rerun" the last tick is run again, although no later tick would find it."""
    tries: list[int] = []

    def body(run: Run) -> None:
        tries.append(run.attempt)
        run.step("send", lambda: None)

    with jobs(body, on_abandoned="rerun").testing(NINE + 1.5 * HOUR) as test:
        test.crash_after("send")
        test.advance(2 * HOUR)
        assert tries == [1, 2]
        assert slots(test)[-1] == ("2026-11-18T11:00:00Z", "succeeded")
