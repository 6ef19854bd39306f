"""Calling a job: on which thread or loop, and how its end is understood."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace

import pytest

from firecron import Cancelled, LeaseLost, Run, Stopping, current_run, distributed_cron
from firecron.base.clocks import SystemTiming, Timing
from firecron.base.tracing import Trace, current_trace, traced
from firecron.jobs.explorer import explore
from firecron.jobs.job import Job
from firecron.runs.body import Body, Ending
from firecron.testing import FakeClock

PATIENCE = 20


def make_run() -> Run:
    return Run("job", slot=None, attempt=1, fence=None, idempotency_key="key", trigger="manual")


def job_of(function: Callable[..., object]) -> Job:
    (job,) = explore(distributed_cron("job", "* * * * *")(function))
    return job


def body_of(job: Job, run: Run, loop: asyncio.AbstractEventLoop | None, timing: Timing | None = None) -> Body[Run]:
    def tell_blocked(blocked: int) -> None:
        raise AssertionError(f"it has blocked nothing, and not for {blocked} ms")

    return Body(job, run, loop, timing or SystemTiming(), tell_blocked)


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An application's loop, on a thread of its own; no callback may fail there."""
    loop = asyncio.new_event_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
    assert failures == []


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

    assert body_of(job_of(work), run, None).call() == Ending("succeeded")
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

    assert body_of(job_of(work), run, loop).call() == Ending("succeeded")
    assert seen[1] is run
    assert (seen[0] is loop) is (loop is not None)


def test_a_loop_that_does_not_run_is_not_used() -> None:
    """Where the application's loop has ended, an async job runs on one of its own, on the thread that calls it."""
    ended = asyncio.new_event_loop()
    ended.close()

    async def work() -> None:
        assert asyncio.get_running_loop() is not ended
        assert threading.current_thread() is caller

    caller = threading.current_thread()
    assert body_of(job_of(work), make_run(), ended).call() == Ending("succeeded")


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
    assert body_of(job_of(hand_out), run, loop).call() == Ending("succeeded")
    assert done == [run, threading.current_thread()]


def test_from_inside_of_a_loop_it_works_as_well() -> None:
    """Called on a thread whose loop is busy with the call, an async job runs elsewhere, and blocks nothing for good."""

    async def work() -> None:
        await asyncio.sleep(0)

    async def main() -> Ending:
        return body_of(job_of(work), make_run(), asyncio.get_running_loop()).call()

    assert asyncio.run(main()) == Ending("succeeded")


def raising(error: BaseException) -> Callable[[], object]:
    def sync() -> None:
        raise error

    return sync


def raising_async(error: BaseException) -> Callable[[], Coroutine[object, object, None]]:
    async def work() -> None:
        raise error

    return work


@pytest.mark.parametrize("make", [raising, raising_async])
@pytest.mark.parametrize(
    ("error", "lost", "stopping", "outcome"),
    [
        (ValueError("no"), False, False, "failed"),
        (ValueError("no"), True, True, "failed"),
        (SystemExit(1), False, False, "failed"),
        (KeyboardInterrupt(), False, False, "failed"),
        (GeneratorExit(), False, False, "failed"),
        (asyncio.CancelledError(), False, False, "failed"),
        (asyncio.CancelledError(), False, True, "interrupted"),
        (asyncio.CancelledError(), True, True, "lost"),
        (Stopping(), False, True, "interrupted"),
        (LeaseLost(), True, False, "lost"),
        # Some other lock's.
        (LeaseLost(), False, False, "failed"),
    ],
)
def test_an_end_is_understood(
    make: Callable[[BaseException], Callable[[], object]],
    loop: asyncio.AbstractEventLoop | None,
    error: BaseException,
    lost: bool,
    stopping: bool,
    outcome: str,
) -> None:
    """Whatever a job raises comes back as an ending; it is `lost` or `interrupted` only where that is so."""
    run = make_run()
    for flag, is_set in ((run.lost, lost), (run.stopping, stopping)):
        if is_set:
            flag.set()
    ending = body_of(job_of(make(error)), run, loop).call()
    assert ending.outcome == outcome
    assert type(ending.error) is type(error)
    if loop is not None:
        assert loop.is_running(), "a job's SystemExit has ended the application"


@pytest.mark.parametrize("make", [raising, raising_async])
@pytest.mark.parametrize(
    ("error", "cancelled", "lost", "stopping", "outcome"),
    [
        (Cancelled(), True, False, False, "cancelled"),
        (Cancelled(), True, False, True, "cancelled"),
        (Cancelled(), False, False, False, "failed"),  # some other lock's
        (Cancelled(), True, True, False, "cancelled"),
        (asyncio.CancelledError(), True, False, False, "cancelled"),
        (asyncio.CancelledError(), True, False, True, "cancelled"),
        (asyncio.CancelledError(), True, True, False, "lost"),
        (Stopping(), True, False, True, "interrupted"),
        (ValueError("its own"), True, False, False, "failed"),
    ],
)
def test_the_end_of_a_cancelled_run_is_understood(
    make: Callable[[BaseException], Callable[[], object]],
    error: BaseException,
    cancelled: bool,
    lost: bool,
    stopping: bool,
    outcome: str,
) -> None:
    """Who ends by the cancel is `cancelled`; who raises something else has its own outcome."""
    run = make_run()
    for flag, is_set in ((run.cancelled, cancelled), (run.lost, lost), (run.stopping, stopping)):
        if is_set:
            flag.set()
    ending = body_of(job_of(make(error)), run, None).call()
    assert (ending.outcome, type(ending.error)) == (outcome, type(error))


def test_what_surroundings_swallow_is_a_failure_all_the_same() -> None:
    """A job whose surroundings suppress what it raised has failed, and nothing is noted of how they were left."""
    error = ValueError("no")
    job = replace(job_of(raising(error)), around=lambda: (lambda run: suppress(ValueError),))
    assert body_of(job, make_run(), None).call() == Ending("failed", error)
    assert not hasattr(error, "__notes__")


def called(body: Body[Run], then: Callable[[], object] = lambda: None) -> tuple[threading.Thread, list[Ending]]:
    """The body, called on another thread, and what comes then."""
    endings: list[Ending] = []

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
    assert [ending.outcome for ending in endings] == ["interrupted"]


def test_a_body_that_is_cancelled_before_it_begins_does_not_run(loop: asyncio.AbstractEventLoop | None) -> None:
    """A cancellation that comes before the call is not lost."""
    ran: list[int] = []

    async def work() -> None:
        ran.append(1)

    run = make_run()
    run.lost.set()
    body = body_of(job_of(work), run, loop)
    body.cancel()
    assert body.call().outcome == "lost"
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
    assert endings == [Ending("succeeded")]
    body.cancel()  # too late, and without effect


def test_a_sync_body_is_not_cancelled() -> None:
    """Nothing happens to a sync function; it may look at its run."""

    def work() -> None:
        body.cancel()

    body = body_of(job_of(work), make_run(), None)
    assert body.call() == Ending("succeeded")


def test_a_body_beside_a_running_loop_has_its_callers_context() -> None:
    """Called where a loop is busy with that very call, an async job knows the trace that its caller is part of."""
    traces: list[object] = []

    async def work() -> None:
        traces.append(current_trace.get())

    async def main() -> Ending:
        return body_of(job_of(work), make_run(), None).call()

    with traced(Trace("1" * 32)):
        assert asyncio.run(main()) == Ending("succeeded")
    assert traces == [Trace("1" * 32)]


class Passing(FakeClock):
    """Time that passes for whoever waits, once it has `begun` and up to a moment. Who waits from then on has `then`
    called, and waits really, unless that is the end of it.
    """

    def __init__(self, until: float, then: Callable[[], object]) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.until = until * 1000
        self._then = then

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        assert self.begun.wait(PATIENCE)
        if self.mono() < self.until:
            super().wait(condition, seconds)
        elif not self._then():
            condition.wait(PATIENCE)


class Blocking:
    """The application's loop, and a job that blocks it for so many seconds; `told` is what is said of it."""

    def __init__(self, seconds: float) -> None:
        self.told: list[int] = []
        self.told_while_blocked: list[int] = []
        self._go_on = threading.Event()
        self._timing = Passing(seconds, self._unblock)

    def block(self) -> None:
        self._timing.begun.set()
        assert self._go_on.wait(PATIENCE)

    def _unblock(self) -> None:
        if not self._go_on.is_set():
            self.told_while_blocked += self.told
        self._go_on.set()

    def run(self, work: Callable[[], Coroutine[object, object, None]]) -> None:
        with running_loop() as loop:
            body = Body(job_of(work), make_run(), loop, self._timing, self.told.append)
            assert body.call() == Ending("succeeded")


@pytest.mark.parametrize(("seconds", "told"), [(2, []), (5, [5_000])])
@pytest.mark.parametrize("goes_on", [False, True])
def test_a_job_that_blocks_the_loop_is_told_of(seconds: int, told: list[int], goes_on: bool) -> None:
    """A job that keeps the application's loop from everything else for seconds is told of, with how long."""
    blocking = Blocking(seconds)

    async def work() -> None:
        await asyncio.sleep(0)
        blocking.block()
        for _ in range(3 * goes_on):
            await asyncio.sleep(0)

    blocking.run(work)
    assert blocking.told == told


def test_a_job_that_may_never_give_the_loop_back_is_told_of() -> None:
    """A loop that is blocked for half a minute is told of while it is."""
    blocking = Blocking(32)

    async def work() -> None:
        blocking.block()

    blocking.run(work)
    assert blocking.told_while_blocked[0] == 30_000


def test_a_job_beside_what_blocks_the_loop_is_not_told_of() -> None:
    """Where something else blocks the loop, the job that waits for it is not the one to be told of."""
    blocking = Blocking(5)

    async def work() -> None:
        loop = asyncio.get_running_loop()
        unblocked = loop.create_future()
        loop.call_soon(lambda: (blocking.block(), unblocked.set_result(None)))  # type: ignore[func-returns-value]  # both
        await unblocked

    blocking.run(work)
    assert blocking.told == []


def test_a_loop_that_is_closed_under_the_job_is_a_failure() -> None:
    """A job whose loop is stopped and closed while it waits has failed: nobody knows how far it came."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    def close() -> bool:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
        return True

    timing = Passing(0, close)

    async def work() -> None:
        timing.begun.set()
        await asyncio.Event().wait()

    ending = body_of(job_of(work), make_run(), loop, timing).call()
    assert ending.outcome == "failed"
    assert str(ending.error) == "the application's event loop was closed during the job"


def test_ctrl_c_waits_for_the_end_of_an_async_function() -> None:
    """Ctrl-C on the thread that waits cancels the function, and is its error only once that has cleaned up, whatever
    else interrupts the thread meanwhile.
    """
    cleaned = threading.Event()
    interrupts: list[type[BaseException]] = [SystemExit, KeyboardInterrupt]
    let_go: list[Callable[[], object]] = []

    async def work() -> None:
        is_interrupted_again = asyncio.Event()
        here = asyncio.get_running_loop()
        let_go.append(lambda: here.call_soon_threadsafe(is_interrupted_again.set))
        timing.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            await is_interrupted_again.wait()
            cleaned.set()

    def interrupt() -> None:
        if interrupts:
            if len(interrupts) == 1:
                let_go[0]()
            raise interrupts.pop()

    timing = Passing(0, interrupt)
    with running_loop() as loop:
        ending = body_of(job_of(work), make_run(), loop, timing).call()
        assert cleaned.is_set()
    assert interrupts == []
    assert (ending.outcome, type(ending.error)) == ("failed", KeyboardInterrupt)


def test_a_job_that_begins_late_blocks_only_from_then_on() -> None:
    """Of a job that waited for a busy loop, only the time is told for which it blocked the loop itself."""
    told: list[int] = []
    waits, go_on = threading.Event(), threading.Event()

    class Late(Passing):
        def wait(self, condition: threading.Condition, seconds: float | None) -> None:
            waits.set()
            super().wait(condition, seconds)

    timing = Late(5.9, go_on.set)

    def be_busy() -> None:
        assert waits.wait(PATIENCE)
        timing.advance(0.9)

    async def work() -> None:
        timing.begun.set()
        assert go_on.wait(PATIENCE)

    with running_loop() as loop:
        loop.call_soon_threadsafe(be_busy)
        assert Body(job_of(work), make_run(), loop, timing, told.append).call() == Ending("succeeded")
    assert told == [5_000]


def test_an_end_that_comes_between_two_looks_is_not_waited_for() -> None:
    """Where the job ends just as its thread has looked for its end, that thread doesn't wait: nobody would wake it."""
    begun, go_on, ended = threading.Event(), threading.Event(), threading.Event()

    class Between(FakeClock):
        def mono(self) -> float:
            if begun.is_set() and threading.current_thread() is caller and not go_on.is_set():
                go_on.set()
                assert ended.wait(PATIENCE)
            return super().mono()

        def wait(self, condition: threading.Condition, seconds: float | None) -> None:
            assert not ended.is_set()
            begun.wait(PATIENCE)

    async def work() -> None:
        task = asyncio.current_task()
        assert task is not None
        task.add_done_callback(lambda _: ended.set())
        begun.set()
        assert go_on.wait(PATIENCE)

    caller = threading.current_thread()
    with running_loop() as loop:
        assert body_of(job_of(work), make_run(), loop, Between()).call() == Ending("succeeded")
