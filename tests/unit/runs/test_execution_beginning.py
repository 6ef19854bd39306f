"""What a run knows of what came before it: the tick before, and the newest that succeeded."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from firecron import FireCron, Run, distributed_cron
from firecron.base.instants import to_datetime
from firecron.cron.schedule import Schedule
from firecron.runs.execution import previous_slot
from firecron.testing import Rehearsal

LOCK = "cron-locks/job"


def at(time: str, day: int = 18) -> datetime:
    return to_datetime(f"2026-11-{day}T{time}:00Z")


class Seen:
    """A job that notes what it is told, and fails at some ticks."""

    def __init__(self, *fails_at: str) -> None:
        self.fails_at = {*fails_at}
        self.fences: set[int | None] = set()
        self.runs: list[tuple[datetime | None, datetime | None, datetime | None]] = []

    def __call__(self, run: Run) -> None:
        self.fences.add(run.fence)
        self.runs.append((run.slot, run.previous_slot, run.last_success))
        if run.slot is not None and f"{run.slot:%H:%M}" in self.fails_at:
            raise ValueError("not now")


def rehearsed(seen: Seen, start: str = "2026-11-18T08:59:00Z", **options: Any) -> Rehearsal:
    declared = distributed_cron("job", "0 * * * *", lock_ttl=60, **options)(seen)
    return FireCron(declared, enabled=False).testing(start)


def test_each_run_knows_the_tick_before_it_and_the_last_that_succeeded() -> None:
    """The tick before is the schedule's, the last success is the newest run of a tick that succeeded before this."""
    seen = Seen("10:00", "11:00")
    with rehearsed(seen) as test:
        test.move_to("2026-11-18T13:00:00Z")
        assert test.outcomes("job") == ["succeeded", "failed", "failed", "succeeded", "succeeded"]
        node = test.store.get(LOCK)
        assert isinstance(node, dict)
        assert node["succeededSlot"] == "2026-11-18T13:00:00Z"
    assert seen.runs == [
        (at("09:00"), at("08:00"), None),
        (at("10:00"), at("09:00"), at("09:00")),
        (at("11:00"), at("10:00"), at("09:00")),
        (at("12:00"), at("11:00"), at("09:00")),
        (at("13:00"), at("12:00"), at("12:00")),
    ]


def test_a_run_by_hand_knows_the_newest_tick_and_the_newest_success() -> None:
    """It claims no tick, so the tick before it is the newest up to its start; and its success counts for no tick."""
    seen = Seen("10:00")
    with rehearsed(seen) as test:
        test.move_to("2026-11-18T10:30:00Z")
        seen.runs.clear()
        assert test.run("job").outcome == "succeeded"
        test.move_to("2026-11-18T11:00:00Z")
        assert seen.runs == [(None, at("10:00"), at("09:00")), (at("11:00"), at("10:00"), at("09:00"))]
        seen.runs.clear()
        test.run("job")  # at the very second of a tick
        assert seen.runs == [(None, at("11:00"), at("11:00"))]


def test_all_tries_and_attempts_have_the_same_tick_before_them() -> None:
    """A retry, a tick that is resumed and a run by hand that is resumed have the tick before of the first attempt."""
    seen = Seen("09:00")
    with rehearsed(seen, retries=1, retry_backoff=0) as test:
        test.move_to("2026-11-18T09:20:00Z")
        assert seen.runs == [(at("09:00"), at("08:00"), None)] * 2
        seen.fails_at.clear()
        seen.runs.clear()
        test.move_to("2026-11-18T09:30:00Z")
        assert test.run("job", resume="2026-11-18T09:00:00Z").outcome == "succeeded"
        assert seen.runs == [(at("09:00"), at("08:00"), None)]


def test_a_resumed_run_by_hand_has_the_tick_before_its_first_attempt() -> None:
    """Its key says when it began, so hours later the tick before is the same."""
    seen = Seen()
    error = [ValueError("once")]

    def work(run: Run) -> None:
        seen(run)
        if run.trigger == "manual" and error:
            raise error.pop()

    declared = distributed_cron("job", "0 * * * *", lock_ttl=60)(work)
    with FireCron(declared, enabled=False).testing("2026-11-18T09:10:00Z") as test:
        assert test.run("job").outcome == "failed"
        runs = test.store.get("cron-runs/job")
        assert isinstance(runs, dict)
        (key,) = runs
        test.move_to("2026-11-18T11:10:00Z")
        seen.runs.clear()
        assert test.run("job", resume=key).outcome == "succeeded"
    assert seen.runs == [(None, at("09:00"), at("11:00"))]


def test_a_success_of_an_older_tick_lowers_nothing() -> None:
    """A tick that is resumed after later ones knows of no success before it, and leaves the newest one as it is."""
    seen = Seen("09:00")
    with rehearsed(seen) as test:
        test.move_to("2026-11-18T10:30:00Z")
        seen.fails_at.clear()
        seen.runs.clear()
        assert test.run("job", resume="2026-11-18T09:00:00Z").outcome == "succeeded"
        test.move_to("2026-11-18T11:00:00Z")
    assert seen.runs == [(at("09:00"), at("08:00"), None), (at("11:00"), at("10:00"), at("10:00"))]


def test_a_tick_that_has_succeeded_is_none_before_itself() -> None:
    """Where the history missed the success of a tick that is resumed once more, the tick itself doesn't count."""
    seen = Seen()
    with rehearsed(seen) as test:
        test.move_to("2026-11-18T10:30:00Z")
        test.store.set("cron-runs/job/2026-11-18T10:00:00Z", {"outcome": "failed", "attempt": 1})
        seen.runs.clear()
        assert test.run("job", resume="2026-11-18T10:00:00Z").outcome == "succeeded"
    assert seen.runs == [(at("10:00"), at("09:00"), None)]


@pytest.mark.parametrize("options", [{"overlap": "allow"}, {"once_per_tick": False}], ids=str)
def test_a_job_whose_runs_leave_no_trace_knows_of_no_success(options: dict[str, Any]) -> None:
    """A run that holds no lock, or claims no tick, is not seen to succeed; what is left of before counts as none."""
    seen = Seen()
    with rehearsed(seen, **options) as test:
        before = "2026-11-18T07:00:00Z"
        test.store.set(LOCK, {"expiresAt": 1, "fence": 7, "slot": before, "succeededSlot": before})
        test.move_to("2026-11-18T10:00:00Z")
        test.run("job")
    assert {success for _, _, success in seen.runs} == {None}
    assert (None in seen.fences) == ("once_per_tick" in options)
    assert {previous for _, previous, _ in seen.runs} == {at("08:00"), at("09:00"), at("10:00")}


@pytest.mark.parametrize(
    ("schedule", "slot", "previous"),
    [
        (Schedule("0 9 * * *"), "2026-11-18T09:00:00Z", at("09:00", 17)),
        (Schedule("0 9 * * *"), "2026-11-18T09:00:01Z", at("09:00")),
        (Schedule("30 2 29 2 *"), "2028-02-29T02:30:00Z", datetime(2024, 2, 29, 2, 30, tzinfo=UTC)),
        # The night when the clocks go back: 02:30 comes once, on the first pass.
        (Schedule("30 2 * * *", "Europe/Berlin"), "2026-10-26T01:30:00Z", datetime(2026, 10, 25, 0, 30, tzinfo=UTC)),
        (Schedule(every=2700, starting=at("08:15")), "2026-11-18T09:00:00Z", at("08:15")),
        (Schedule(every=2700, starting=at("09:00")), "2026-11-18T09:00:00Z", None),
    ],
    ids=str,
)
def test_the_tick_before(schedule: Schedule, slot: str, previous: datetime | None) -> None:
    """The tick before a slot is the newest one of the schedule that is older, if there is any."""
    assert previous_slot(schedule, slot, slot) == previous


def test_a_run_made_by_hand_has_what_it_is_given() -> None:
    """In a test of a job a Run can have any tick before it."""
    run = Run(
        "job",
        slot=at("09:00"),
        attempt=1,
        fence=None,
        idempotency_key="x",
        trigger="schedule",
        previous_slot=at("08:00"),
        last_success=at("07:00"),
    )
    assert (run.previous_slot, run.last_success) == (at("08:00"), at("07:00"))
    bare = Run("job", slot=None, attempt=1, fence=None, idempotency_key="x", trigger="manual")
    assert (bare.previous_slot, bare.last_success) == (None, None)
