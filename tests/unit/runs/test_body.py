"""Calling a job: on which thread or loop, and how its end is understood."""

from __future__ import annotations

import asyncio
import threading
import traceback
from collections.abc import Callable, Coroutine, Iterator
from concurrent.futures import CancelledError as CancelledFuture
from contextlib import suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from operator import truediv

import pytest
from tests.unit.runs.bodies import body_of, job_of, make_run, raising, running_loop
from tests.unit.threads import PATIENCE

from firecron import Cancelled, FireCron, LeaseLost, Run, Stopping, current_run, distributed_cron
from firecron.base.tracing import Trace, current_trace, traced
from firecron.runs.body import Body, outcome_of


@pytest.fixture(params=["own loop", "application's loop"])
def loop(request: pytest.FixtureRequest) -> Iterator[asyncio.AbstractEventLoop | None]:
    if request.param == "own loop":
        yield None
        return
    with running_loop() as found:
        yield found


def test_a_sync_function_is_called_on_this_thread() -> None:
    """A sync function runs on the thread that calls it, with its Run at hand, and nothing of it is left behind."""
    seen: list[object] = []
    run = make_run()
    left: ContextVar[str] = ContextVar("left", default="nothing")

    def work() -> None:
        seen.extend([threading.current_thread(), current_run()])
        left.set("by the job")

    assert body_of(job_of(work), run, None).call() is None
    assert seen == [threading.current_thread(), run]
    assert current_run() is None
    assert left.get() == "nothing"


def test_an_async_function_runs_on_the_applications_loop(loop: asyncio.AbstractEventLoop | None) -> None:
    """An async function runs on the application's loop if there is one that runs, and else on a loop of its own."""
    seen: list[object] = []
    run = make_run()

    async def work() -> None:
        await asyncio.sleep(0)
        seen.extend([asyncio.get_running_loop(), current_run()])

    assert body_of(job_of(work), run, loop).call() is None
    assert seen[1] is run
    assert (seen[0] is loop) is (loop is not None)


def test_a_traceback_begins_with_the_jobs_own_code(loop: asyncio.AbstractEventLoop | None) -> None:
    """The frames of firecron that have called the job are left out, unless there are no others."""

    def inner() -> None:
        raise ValueError("its own")

    async def work() -> None:
        inner()

    for function in (inner, work):
        error = body_of(job_of(function), make_run(), loop).call()
        assert error is not None
        names = [frame.name for frame in traceback.extract_tb(error.__traceback__)]
        assert names == (["inner"] if function is inner else ["work", "inner"])
    without_frame = body_of(job_of(partial(truediv, 1, 0)), make_run(), loop).call()
    assert without_frame is not None
    assert traceback.extract_tb(without_frame.__traceback__)[-1].name == "call"


def test_a_loop_that_does_not_run_is_not_used() -> None:
    """Where the application's loop has ended, an async job runs on one of its own, on the thread that calls it."""
    ended = asyncio.new_event_loop()
    ended.close()

    async def work() -> None:
        assert asyncio.get_running_loop() is not ended
        assert threading.current_thread() is caller

    caller = threading.current_thread()
    assert body_of(job_of(work), make_run(), ended).call() is None


def test_a_coroutine_that_a_sync_function_hands_out_is_awaited(loop: asyncio.AbstractEventLoop | None) -> None:
    """What a sync function returns to await has run to its end when the call is over, on a loop of the calling thread:
    the function itself was called there.
    """
    done: list[object] = []

    async def work() -> None:
        await asyncio.sleep(0)
        done.extend([current_run(), threading.current_thread()])

    def hand_out() -> object:
        return work()

    run = make_run()
    assert body_of(job_of(hand_out), run, loop).call() is None
    assert done == [run, threading.current_thread()]


def test_a_coroutine_that_a_sync_function_hands_out_awaits_its_steps() -> None:
    """Its job was declared as a sync one, but its steps are those of an async function: they are awaited."""
    found: list[int] = []

    async def double(value: int) -> int:
        return 2 * value

    async def work(run: Run) -> None:
        found.append(await run.step("a", double, 4))

    def hand_out(run: Run) -> object:
        return work(run)

    job = distributed_cron("job", "0 * * * *", lock_ttl=60)(hand_out)
    with FireCron(job, enabled=False).testing("2026-11-18T08:59:00Z") as test:
        test.move_to("2026-11-18T09:00:00Z")
        assert test.outcomes("job") == ["succeeded"]
    assert found == [8]


def test_from_inside_of_a_loop_it_works_as_well() -> None:
    """Called on a thread whose loop is busy with the call, an async job runs elsewhere, and blocks nothing for good."""

    async def work() -> None:
        await asyncio.sleep(0)

    async def main() -> BaseException | None:
        return body_of(job_of(work), make_run(), asyncio.get_running_loop()).call()

    assert asyncio.run(main()) is None


def raising_async(error: BaseException) -> Callable[[], Coroutine[object, object, None]]:
    async def work() -> None:
        raise error

    return work


@pytest.mark.parametrize("make", [raising, raising_async])
def test_what_a_job_raises_ends_nothing_but_its_call(
    make: Callable[[BaseException], Callable[[], object]], loop: asyncio.AbstractEventLoop | None
) -> None:
    """Whatever it is comes back as an error, and neither the calling thread nor the application's loop ends by it."""
    for error in (ValueError(), SystemExit(1), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()):
        assert type(body_of(job_of(make(error)), make_run(), loop).call()) is type(error)
        assert loop is None or loop.is_running()


FLAGS = ("lost", "cancelled", "stopping")


@pytest.mark.parametrize(
    ("error", "flags", "outcome"),
    [
        (None, FLAGS, "succeeded"),
        (ValueError(), FLAGS, "failed"),
        (SystemExit(1), FLAGS, "failed"),
        (asyncio.CancelledError(), (), "failed"),
        (asyncio.CancelledError(), ("stopping",), "interrupted"),
        (asyncio.CancelledError(), ("cancelled", "stopping"), "cancelled"),
        (asyncio.CancelledError(), FLAGS, "lost"),
        (CancelledFuture(), ("stopping",), "interrupted"),
        (Stopping(), FLAGS, "interrupted"),
        (Stopping(), (), "interrupted"),
        (LeaseLost(), FLAGS, "lost"),
        (LeaseLost(), ("cancelled", "stopping"), "failed"),  # some other lock's
        (Cancelled(), FLAGS, "cancelled"),
        (Cancelled(), ("lost", "stopping"), "failed"),  # some other lock's
    ],
)
def test_an_end_is_understood(error: BaseException | None, flags: tuple[str, ...], outcome: str) -> None:
    """Who ends by a loss, a cancel or a stop has that outcome, in this order; all other errors are the job's own."""
    run = make_run()
    for name in flags:
        getattr(run, name).set()
    assert outcome_of(run, error) == outcome


def test_what_contexts_swallow_is_a_failure_all_the_same() -> None:
    """A job whose contexts suppress what it raised has failed, and nothing is noted of how they were left."""
    error = ValueError("no")
    job = replace(job_of(raising(error)), around=lambda: (lambda run: suppress(ValueError),))
    assert body_of(job, make_run(), None).call() is error
    assert not hasattr(error, "__notes__")


def called(
    body: Body[Run], then: Callable[[], object] = lambda: None
) -> tuple[threading.Thread, list[BaseException | None]]:
    """The body, called on another thread, and what comes then."""
    endings: list[BaseException | None] = []

    def call() -> None:
        endings.append(body.call())
        then()

    thread = threading.Thread(target=call)
    thread.start()
    return thread, endings


def test_a_cancelled_body_ends_when_it_has_ended(loop: asyncio.AbstractEventLoop | None) -> None:
    """A body that is cancelled is over only when it has cleaned up: its lock must not be released before."""
    begun, cleaning, cleaned = threading.Event(), threading.Event(), threading.Event()
    go_on: list[Callable[[], object]] = []

    async def work() -> None:
        let_go = asyncio.Event()
        here = asyncio.get_running_loop()
        go_on.append(lambda: here.call_soon_threadsafe(let_go.set))
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cleaning.set()
            await let_go.wait()
            cleaned.set()

    run = make_run()
    body = body_of(job_of(work), run, loop)
    was_cleaned: list[bool] = []
    thread, endings = called(body, lambda: was_cleaned.append(cleaned.is_set()))
    assert begun.wait(PATIENCE)
    run.stopping.set()
    body.cancel()
    assert cleaning.wait(PATIENCE)
    # Once is enough: another one would end the cleaning.
    body.cancel()
    assert endings == []
    assert not cleaned.is_set()
    go_on[0]()
    thread.join(PATIENCE)
    assert was_cleaned == [True]
    assert [outcome_of(run, error) for error in endings] == ["interrupted"]


def test_a_body_that_is_cancelled_before_it_begins_does_not_run(loop: asyncio.AbstractEventLoop | None) -> None:
    """A cancellation that comes before the call is not lost."""
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    run = make_run()
    run.lost.set()
    body = body_of(job_of(work), run, loop)
    body.cancel()
    assert outcome_of(run, body.call()) == "lost"
    assert ran == []


def test_a_body_that_ignores_its_cancellation_goes_on(loop: asyncio.AbstractEventLoop | None) -> None:
    """A body that catches its cancellation and comes to its end has succeeded."""
    begun = threading.Event()

    async def work() -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            return

    body = body_of(job_of(work), make_run(), loop)
    thread, endings = called(body)
    assert begun.wait(PATIENCE)
    body.cancel()
    thread.join(PATIENCE)
    assert endings == [None]
    body.cancel()  # too late, and without effect


def test_a_sync_body_is_not_cancelled() -> None:
    """Nothing happens to a sync function; it may look at its run."""

    def work() -> None:
        body.cancel()

    body = body_of(job_of(work), make_run(), None)
    assert body.call() is None


def test_a_body_beside_a_running_loop_has_its_callers_context() -> None:
    """Called where a loop is busy with that very call, an async job knows the trace that its caller is part of."""
    traces: list[object] = []

    async def work() -> None:
        traces.append(current_trace.get())

    async def main() -> BaseException | None:
        return body_of(job_of(work), make_run(), None).call()

    with traced(Trace("1" * 32)):
        assert asyncio.run(main()) is None
    assert traces == [Trace("1" * 32)]
