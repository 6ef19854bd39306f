"""The steps of async jobs: awaited, off the loop, and what a cancellation does to them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from firecron import ConfigurationError, FireCron, Run, StepInDoubt, current_run, distributed_cron
from firecron.jobs.registry import Result
from firecron.testing import FakeTiming, MemoryStore

SLOT = datetime(2026, 11, 18, 9, tzinfo=UTC)
STEPS = "cron-steps/job/2026-11-18T09:00:00Z"


class Loop:
    """A job on this thread's own loop, with a store whose requests may be held up."""

    def __init__(self, body: Callable[[Run], Any], **options: Any) -> None:
        self.timing = FakeTiming(wall=SLOT.timestamp() * 1000)
        self.store = MemoryStore(self.timing.now)
        self.runs: list[Run] = []

        @distributed_cron("job", "0 9 * * *", lock_ttl=60, **options)
        async def job(run: Run) -> None:
            self.runs.append(run)
            await body(run)

        self.crons = FireCron(job, enabled=False, store=self.store, timing=self.timing, has_threads=False)

    def run(self) -> Result:
        return self.crons.registry.trigger("job", slot=SLOT)

    def steps(self) -> dict[str, Any]:
        node = self.store.get(STEPS)
        return node if isinstance(node, dict) else {}


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a blocking function waits for; open at the end at the latest."""
    event = threading.Event()
    yield event
    event.set()


async def double(value: int, *, plus: int = 0) -> int:
    await asyncio.sleep(0)
    return 2 * value + plus


class Doubling:
    """An object that is called as an async function is, with a value from the start."""

    def __init__(self, value: int = 3) -> None:
        self.value = value

    async def __call__(self) -> int:
        return await double(self.value)


def test_an_object_with_an_async_call_is_an_async_function_and_its_class_is_none() -> None:
    """The object's call is awaited on the loop. To call the class makes an object, on a thread as all that blocks."""
    made: list[object] = []

    class Noted(Doubling):
        def __init__(self) -> None:
            super().__init__()
            made.append(threading.current_thread())

    async def body(run: Run) -> None:
        assert await run.step("a", Doubling(4)) == 8
        with pytest.raises(ConfigurationError, match="what JSON can say"):
            await run.step("b", Noted)  # type: ignore[misc]  # a checker can't know that the job is async

    assert Loop(body).run().outcome == "succeeded"
    assert made
    assert threading.current_thread() not in made


def test_async_and_blocking_functions_are_awaited() -> None:
    """An async function runs on the loop, a blocking one on a thread that knows its run; both get their arguments."""
    threads: list[object] = []

    def blocking(value: int) -> int:
        run = current_run()
        assert run is not None
        threads.append(threading.current_thread())
        return value + 1

    async def body(run: Run) -> None:
        assert await run.step("a", double, 4, plus=1) == 9
        assert await run.step("b", asyncio.to_thread, blocking, 5) == 6
        assert await run.step("c", blocking, 6) == 7  # type: ignore[misc]  # a checker can't know that the job is async
        assert await run.step("d", lambda: double(1)) == 2
        threads.append(threading.current_thread())

    loop = Loop(body)
    assert loop.run().outcome == "succeeded"
    assert sorted(loop.steps()) == ["a", "b", "c", "d"]
    assert threads[-1] not in threads[:-1]


def test_steps_side_by_side_are_one_each() -> None:
    """A task group and gather take steps as they are."""

    async def body(run: Run) -> None:
        async with asyncio.TaskGroup() as group:
            for number in range(5):
                group.create_task(run.step(f"t{number}", double, number))
        assert await asyncio.gather(*(run.step(f"g{n}", double, n) for n in range(5))) == [0, 2, 4, 6, 8]

    loop = Loop(body)
    assert loop.run().outcome == "succeeded"
    assert len(loop.steps()) == 10


@pytest.mark.parametrize("way", ["dropped", "kept", "left"])
def test_a_step_that_nobody_awaited_fails_the_run(way: str) -> None:
    """It has not been called; the error names it, and no warning is left behind. A task that still runs fails, too."""
    kept: list[object] = []

    async def body(run: Run) -> None:
        step = run.step("forgotten", double, 1)
        if way == "kept":
            kept.append(step)
        if way == "left":
            kept.append(asyncio.ensure_future(step))
            await asyncio.sleep(0)
            return
        del step

    loop = Loop(body)
    result = loop.run()
    assert result.outcome == "failed"
    assert isinstance(result.error, ConfigurationError)
    assert '"forgotten" was' in str(result.error)


def test_an_error_of_the_body_comes_before_a_step_that_was_not_awaited() -> None:
    """The run has failed by it already."""

    async def body(run: Run) -> None:
        coroutine = run.step("forgotten", double, 1)
        assert coroutine is not None
        raise ValueError("mine")

    assert str(Loop(body).run().error) == "mine"


def cancelled_at(state: str, gate: threading.Event, begun: threading.Event) -> tuple[Result, Loop, list[str]]:
    """A run whose task is cancelled once its blocking function, or the request of its step, has begun."""
    calls: list[str] = []

    def blocking() -> str:
        calls.append("called")
        if state == "call":
            begun.set()
            assert gate.wait(20)
        return "done"

    async def body(run: Run) -> None:
        task = asyncio.current_task()
        assert task is not None

        async def cancel() -> None:
            await asyncio.to_thread(begun.wait, 20)
            run.stopping.set()
            task.cancel()
            # The cancellation has been delivered once the task has had its turn.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            gate.set()

        helper = asyncio.ensure_future(cancel())
        try:
            await run.step("a", asyncio.to_thread, blocking, at_most_once=state == "intent")
            calls.append("went on")
        finally:
            await helper

    loop = Loop(body)
    swap = loop.store.swap

    def held_up(path: str, etag: str, node: dict[str, object] | None, deadline: Any) -> Any:
        if path.startswith(STEPS) and state in ("record", "intent"):
            begun.set()
            assert gate.wait(20)
        return swap(path, etag, node, deadline)

    loop.store.swap = held_up  # type: ignore[method-assign]  # to hold up one request
    return loop.run(), loop, calls


@pytest.mark.parametrize("state", ["call", "record"])
def test_a_cancellation_waits_for_a_blocking_call_and_its_record(state: str, gate: threading.Event) -> None:
    """What has returned is recorded; then the body is cancelled, and goes no further."""
    result, loop, calls = cancelled_at(state, gate, threading.Event())
    assert result.outcome == "interrupted"
    assert calls == ["called"]
    assert loop.steps()["a"]["result"] == '"done"'


def test_a_cancellation_before_the_call_leaves_it() -> None:
    """While the intent is written the call has not begun, and does not begin."""
    result, loop, calls = cancelled_at("intent", threading.Event(), threading.Event())
    assert (result.outcome, calls) == ("interrupted", [])
    assert "result" not in loop.steps()["a"]


def test_a_cancellation_reaches_an_async_function() -> None:
    """It is cancelled as any await, and nothing is recorded."""

    async def forever(run: Run) -> None:
        run.stopping.set()
        task = asyncio.current_task()
        assert task is not None
        task.cancel()
        await asyncio.sleep(3600)

    async def body(run: Run) -> None:
        await run.step("a", forever, run)

    loop = Loop(body)
    assert loop.run().outcome == "interrupted"
    assert loop.steps() == {}


def test_a_rerun_reads_once_for_steps_side_by_side() -> None:
    """However many steps begin at once, the steps of the first attempt are read in one request."""
    calls: list[int] = []

    async def charge(number: int) -> int:
        calls.append(number)
        return number

    @distributed_cron("job", "0 9 * * *", lock_ttl=60, on_abandoned="rerun")
    async def job(run: Run) -> None:
        if run.attempt == 1:
            for number in range(3):
                await run.step(f"charge {number}", charge, number)
        await asyncio.gather(*(run.step(f"charge {n}", charge, n) for n in range(3, 6)))
        if run.attempt == 2:
            assert await asyncio.gather(*(run.step(f"charge {n}", charge, n) for n in range(3))) == [0, 1, 2]

    with FireCron(job).testing("2026-11-18T08:59:00Z") as test:
        test.crash_after("charge 2")
        test.move_to("2026-11-18T09:10:00Z")
        assert test.outcomes("job") == ["succeeded"]
    assert sorted(calls) == [0, 1, 2, 3, 4, 5]


def test_a_doubt_is_settled_off_the_loop() -> None:
    """`settle` is awaited in an async job, and `retry` lets the next call be made there as well."""
    tries: list[str] = []

    async def fail() -> str:
        tries.append("called")
        raise TimeoutError

    async def body(run: Run) -> None:
        for name in ("settled", "retried"):
            try:
                await run.step(name, fail, at_most_once=True)
            except StepInDoubt:
                if name == "settled":
                    assert await run.settle(name, "by hand") == "by hand"
                else:
                    run.retry(name)
                    assert await run.step(name, double, 2, at_most_once=True) == 4

    loop = Loop(body, retries=2, retry_backoff=0)
    assert loop.run().outcome == "succeeded"
    assert tries == ["called", "called"]
    assert [loop.steps()[name]["result"] for name in ("settled", "retried")] == ['"by hand"', "4"]


def test_a_doubt_is_settled_once() -> None:
    """A second `settle` before the first is awaited is the second use of a name."""

    async def fail() -> None:
        raise TimeoutError

    async def body(run: Run) -> None:
        try:
            await run.step("a", fail, at_most_once=True)
        except StepInDoubt:
            first = run.settle("a", 1)
            with pytest.raises(ConfigurationError, match="second time"):
                run.settle("a", 2)
            assert await first == 1

    loop = Loop(body, retries=1, retry_backoff=0)
    assert loop.run().outcome == "succeeded"
    assert loop.steps()["a"]["result"] == "1"
