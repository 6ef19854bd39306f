"""A body on the application's loop: a job that blocks it, a loop that is closed, and how the end is waited for."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine

import pytest
from tests.unit.runs.bodies import Passing, body_of, job_of, make_run, running_loop
from tests.unit.threads import PATIENCE

from firecron.runs.body import Body
from firecron.testing import FakeClock


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
            assert body.call() is None


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

    error = body_of(job_of(work), make_run(), loop, timing).call()
    assert str(error) == "the application's event loop was closed during the job"


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
        error = body_of(job_of(work), make_run(), loop, timing).call()
        assert cleaned.is_set()
    assert interrupts == []
    assert type(error) is KeyboardInterrupt


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
        assert Body(job_of(work), make_run(), loop, timing, told.append).call() is None
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
        assert body_of(job_of(work), make_run(), loop, Between()).call() is None
