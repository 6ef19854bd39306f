"""A process that dies at a step of a rehearsal, and the process that goes on after it."""

from __future__ import annotations

from typing import Any

import pytest

from firecron import ConfigurationError, FireCron, Run, StepInDoubt, distributed_cron

JOB = "invoices"
SIX = "2026-11-18T06:00:00Z"


class Invoices:
    """A job that charges three customers, and what it has called."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.cleaned = 0

    @distributed_cron(JOB, "0 6 * * *", lock_ttl=60, on_abandoned="rerun", retries=3)
    def run(self, run: Run) -> None:
        try:
            for customer in (41, 42, 43):
                run.step(f"charge {customer}", self.charge, customer)
        except Exception:
            self.cleaned += 1  # a process that is killed doesn't come here
            raise

    def charge(self, customer: int) -> None:
        self.calls.append(customer)


@pytest.mark.parametrize(("recorded", "calls"), [(True, [41, 42, 43]), (False, [41, 42, 42, 43])])
def test_a_rerun_goes_on_where_the_process_died(recorded: bool, calls: list[int]) -> None:
    """A step that was recorded is not called again; one that was only called is. Retries don't begin after death."""
    invoices = Invoices()
    with FireCron(invoices).testing("2026-11-18T05:59:00Z") as test:
        test.crash_after("charge 42", recorded=recorded)
        test.move_to("2026-11-18T06:00:30Z")
        assert test.outcomes(JOB) == []
        test.move_to("2026-11-18T06:10:00Z")
        assert test.outcomes(JOB) == ["succeeded"]
        assert [event.slug for event in test.events if event.slug.startswith("run.")] == [
            "run.started",
            "run.started",
            "run.succeeded",
        ]
    assert invoices.calls == calls
    assert invoices.cleaned == 0


def test_the_lock_of_a_dead_process_stays_held_until_it_expires() -> None:
    """Nothing releases it, and nobody renews it; after that somebody else may have it."""
    with FireCron(Invoices()).testing("2026-11-18T05:59:00Z") as test:
        test.crash_after("charge 41")
        test.move_to(SIX)
        node: Any = test.store.get(f"cron-locks/{JOB}")
        assert "releasedAt" not in node
        test.move_to("2026-11-18T06:00:59Z")
        assert test.store.get(f"cron-locks/{JOB}") == node
        assert test.run(JOB).refusal is not None


def test_a_process_may_die_again_and_again() -> None:
    """Each call of crash_after is one death, at whichever attempt comes to its step."""
    invoices = Invoices()
    with FireCron(invoices).testing("2026-11-18T05:59:00Z") as test:
        test.crash_after("charge 41")
        test.crash_after("charge 42", recorded=False)
        test.move_to("2026-11-18T06:10:00Z")
        assert test.outcomes(JOB) == ["succeeded"]
    assert invoices.calls == [41, 42, 42, 43]


def test_a_run_by_hand_that_dies_can_be_resumed_once_its_tick_is_known() -> None:
    """`run` says that it was abandoned; of a tick, `resume` goes on where it died."""
    invoices = Invoices()
    with FireCron(invoices).testing("2026-11-18T05:50:00Z") as test:
        test.crash_after("charge 43")
        assert test.run(JOB).outcome == "abandoned"
        test.crash_after("charge 42")
        test.move_to("2026-11-18T06:00:30Z")
        test.store.set(f"cron-locks/{JOB}/expiresAt", 0)
        test.store.set(f"cron-runs/{JOB}/{SIX}", {"outcome": "failed", "attempt": 1})
        result = test.run(JOB, resume=SIX)
        assert (result.outcome, result.run and result.run.attempt) == ("succeeded", 2)
    assert invoices.calls == [41, 42, 43, 41, 42, 43]


def test_a_step_in_doubt_can_be_rehearsed() -> None:
    """With at_most_once, a death between call and record leaves the step in doubt."""
    doubts: list[StepInDoubt] = []

    @distributed_cron(JOB, "0 6 * * *", lock_ttl=60, on_abandoned="rerun")
    def payout(run: Run) -> None:
        try:
            run.step("pay/out", dict, at_most_once=True)
        except StepInDoubt as doubt:
            doubts.append(doubt)
            run.settle("pay/out", {"paid": True})

    with FireCron(payout).testing("2026-11-18T05:59:00Z") as test:
        test.crash_after("pay/out", recorded=False)
        test.move_to("2026-11-18T06:10:00Z")
        assert test.outcomes(JOB) == ["succeeded"]
    assert [doubt.attempt for doubt in doubts] == [1]


def test_an_async_job_dies_as_well() -> None:
    """The crash reaches a step that is awaited, and those beside it."""
    calls: list[str] = []

    async def note(name: str) -> None:
        calls.append(name)

    @distributed_cron(JOB, "0 6 * * *", lock_ttl=60, on_abandoned="rerun")
    async def job(run: Run) -> None:
        for name in "abc":
            await run.step(name, note, name)

    with FireCron(job).testing("2026-11-18T05:59:00Z") as test:
        test.crash_after("b")
        test.move_to("2026-11-18T06:10:00Z")
        assert test.outcomes(JOB) == ["succeeded"]
    assert calls == ["a", "b", "c"]


def test_a_crash_that_never_came_is_an_error() -> None:
    """A step that is misspelt would make a test of nothing; but the test's own failure comes first."""

    def never_reached(failure: Exception | None) -> None:
        with FireCron(Invoices()).testing("2026-11-18T05:59:00Z") as test:
            test.crash_after("charge 44")
            test.move_to("2026-11-18T06:10:00Z")
            if failure is not None:
                raise failure

    with pytest.raises(ConfigurationError, match=r'crash_after\("charge 44"\) was never reached'):
        never_reached(None)
    with pytest.raises(KeyError):
        never_reached(KeyError())
    with FireCron(Invoices()).testing() as test, pytest.raises(ConfigurationError, match="name of a step"):
        test.crash_after("")
