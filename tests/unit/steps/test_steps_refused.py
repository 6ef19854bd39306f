"""What is no step, or no step any more: it is refused, and not called."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.world import slot
from tests.unit.steps.sync_jobs import STEPS, Calls, run_once

from firecron import ConfigurationError, LeaseLost, Run, Stopping


def test_a_name_is_used_once_in_a_try() -> None:
    """The second use is an error before anything is called: a loop would get its first page for ever."""
    calls = Calls()

    def body(run: Run) -> None:
        run.step("page", calls, 1)
        run.step("page", calls, 2)

    result = run_once(body)
    assert isinstance(result.error, ConfigurationError)
    assert "second time" in str(result.error)
    assert calls.seen == [1]


def test_a_step_begins_with_a_check() -> None:
    """A run that should end does so at its next step, and a recorded step makes no difference."""

    def body(run: Run) -> None:
        run.step("a", Calls(), 1)
        run.stopping.set()
        with pytest.raises(Stopping):
            run.step("b", Calls(), 1)
        run.step("c", Calls(), 1)

    assert run_once(body).outcome == "interrupted"


def test_an_async_function_is_no_step_of_a_sync_job() -> None:
    """Nothing would await it: the error comes before the call, or, where it is hidden, after it."""

    async def work() -> int:
        return 1

    def hidden() -> object:
        return work()

    class Called:
        async def __call__(self) -> int:
            return 1

    asked = ((work, "is given the async function"), (Called(), "is given the async function"))
    for function, said in (*asked, (hidden, "returned an awaitable"), (Called, "what JSON can say")):

        def body(run: Run, function: Callable[[], object] = function) -> None:
            run.step("a", function)

        result = run_once(body)
        assert isinstance(result.error, ConfigurationError)
        assert said in str(result.error)


@pytest.mark.parametrize("options", [{"overlap": "allow"}, {"once_per_tick": False}], ids=str)
def test_a_job_without_lease_or_fence_has_no_steps(options: dict[str, Any]) -> None:
    """Its runs can't tell a zombie's record from their own."""
    result = run_once(lambda run: run.step("a", dict), **options)
    assert isinstance(result.error, ConfigurationError)
    assert "no steps" in str(result.error)


def test_a_step_can_begin_only_while_the_body_runs() -> None:
    """A thread that is left behind can't go on after the lock is free, and its run has failed."""
    fleet = Fleet()
    begun, go_on = threading.Event(), threading.Event()
    errors: list[BaseException] = []

    def wait() -> None:
        begun.set()
        assert go_on.wait(20)

    def late(run: Run) -> None:
        try:
            run.step("a", wait)
        except BaseException as error:
            errors.append(error)

    def body(run: Run) -> None:
        thread = threading.Thread(target=late, args=(run,))
        thread.start()
        threads.append(thread)
        assert begun.wait(20)

    threads: list[threading.Thread] = []
    fleet.body = body
    try:
        (result,) = fleet.instance().turn(slot())
    finally:
        go_on.set()
        for thread in threads:
            thread.join()
    assert result.outcome == "failed"
    assert 'step "a" was still running' in str(result.error)
    assert isinstance(errors[0], LeaseLost)
    with pytest.raises(ConfigurationError, match="has ended"):
        fleet.runs[0].step("b", dict)


def test_what_is_no_function_is_refused() -> None:
    """A call in place of the function is a common mistake: `run.step("a", work())`."""
    result = run_once(lambda run: run.step("a", {"result": 1}))  # type: ignore[call-overload]  # that is the mistake
    assert isinstance(result.error, ConfigurationError)
    assert 'pass the function and its arguments, run.step("a", function, argument)' in str(result.error)


def test_a_coroutine_in_place_of_its_function_is_refused() -> None:
    """It is closed, so Python doesn't say besides that it was never awaited."""

    async def fetch() -> None: ...

    result = run_once(lambda run: run.step("a", fetch()))  # type: ignore[call-overload]  # that is the mistake
    assert "pass the function and its arguments" in str(result.error)


def test_a_malformed_step_is_an_error_and_not_called() -> None:
    """A node that was edited by hand says nothing of whether it was called."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    one.die_holding(slot())
    fleet.world.store.set(f"{STEPS}/a", {"fence": "x"})
    fleet.world.until(40)
    calls = Calls()
    fleet.body = lambda run: run.step("a", calls, 1)
    (result, *_) = other.turn(None)
    assert (result.outcome, calls.seen) == ("failed", [])
    assert "startedAt" in str(result.error)
