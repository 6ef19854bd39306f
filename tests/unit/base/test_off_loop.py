"""Blocking calls of coroutines: the loop goes on meanwhile, whatever becomes of who waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import NoReturn

import pytest
from tests.unit.threads import PATIENCE

from firecron.base.threads import Submit, off_loop, on_new_thread
from firecron.errors import Unavailable


class Slow:
    """A call that waits to be let go, and may raise then, and a task that is cancelled once the call has begun."""

    def __init__(self, error: Exception | None = None) -> None:
        self._error = error
        self.go_on, self.over = threading.Event(), threading.Event()
        self._begin: Callable[[], object] = lambda: None

    def __call__(self) -> int:
        self._begin()
        assert self.go_on.wait(PATIENCE)
        self.over.set()
        if self._error is not None:
            raise self._error
        return 7

    def cancelled(self, *submit: Submit, unwanted: Callable[[object], object] | None = None) -> None:
        async def main() -> None:
            begun, here = asyncio.Event(), asyncio.get_running_loop()
            self._begin = lambda: here.call_soon_threadsafe(begun.set)
            task = asyncio.create_task(off_loop(self, *submit, unwanted=unwanted))
            await begun.wait()
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())


def test_who_is_cancelled_does_not_wait_for_the_call() -> None:
    """A coroutine that is cancelled ends at once, and the call goes on to its own end."""
    slow = Slow()
    slow.cancelled()
    assert not slow.over.is_set()
    slow.go_on.set()
    assert slow.over.wait(PATIENCE)


class Threads:
    """Calls made by hand, in the order in which they were submitted."""

    def __init__(self) -> None:
        self.submitted: list[Callable[[], object]] = []

    def submit(self, call: Callable[[], object]) -> None:
        self.submitted.append(call)

    def work(self) -> None:
        """Make them, and the calls that come of them."""
        while self.submitted:
            self.submitted.pop(0)()


async def cancelled(call: Callable[[], object], submit: Submit, unwanted: Callable[[object], object] | None) -> None:
    """Begin to wait for the call, and be cancelled."""
    task = asyncio.create_task(off_loop(call, submit, unwanted=unwanted))
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


def unavailable() -> NoReturn:
    raise Unavailable("down")


def test_a_call_returns_and_raises_as_it_does() -> None:
    """What the call returns or raises reaches the coroutine."""
    assert asyncio.run(off_loop(lambda: 7)) == 7
    with pytest.raises(Unavailable, match="down"):
        asyncio.run(off_loop(unavailable))


def test_the_end_of_the_process_waits_for_a_call() -> None:
    """A call's own thread is no daemon, also where the event loop runs on one."""
    seen: list[threading.Thread] = []
    loop = threading.Thread(target=lambda: seen.append(asyncio.run(off_loop(threading.current_thread))), daemon=True)
    loop.start()
    loop.join(PATIENCE)
    assert [thread.daemon for thread in seen] == [False]


def test_a_call_that_has_not_begun_is_dropped(caplog: pytest.LogCaptureFixture) -> None:
    """Who is cancelled before a thread is free needs no call any more, and has no result."""
    made: list[object] = []
    threads = Threads()
    asyncio.run(cancelled(lambda: made.append("call"), threads.submit, lambda result: made.append("unwanted")))
    threads.work()
    assert made == []
    assert caplog.records == []


@pytest.mark.parametrize("is_wanted", [True, False])
def test_a_result_that_nobody_waits_for_is_handed_on(is_wanted: bool) -> None:
    """What a call still returns after its task was cancelled goes to `unwanted`, on a thread and not on the loop."""
    slow, threads, handed = Slow(), Threads(), list[object]()
    calls, before = iter([on_new_thread]), set(threading.enumerate())

    def submit(call: Callable[[], object]) -> None:
        next(calls, threads.submit)(call)

    slow.cancelled(submit, unwanted=None if is_wanted else handed.append)
    [thread] = set(threading.enumerate()) - before
    slow.go_on.set()
    thread.join(PATIENCE)
    assert (len(threads.submitted), handed) == (0 if is_wanted else 1, [])
    threads.work()
    assert handed == ([] if is_wanted else [7])


def test_a_failure_that_nobody_waits_for_is_not_handed_on(caplog: pytest.LogCaptureFixture) -> None:
    """A call that raises has no result, whoever waits for it."""
    slow, handed, before = Slow(Unavailable("down")), list[object](), set(threading.enumerate())
    slow.cancelled(unwanted=handed.append)
    [thread] = set(threading.enumerate()) - before
    slow.go_on.set()
    thread.join(PATIENCE)
    assert handed == []
    assert caplog.records == []


def test_what_nobody_wants_is_handed_on_after_its_threads_were_closed() -> None:
    """The call ends after its pool was shut down: its result, which may be a lease, is not dropped."""
    slow, handed, pool = Slow(), threading.Event(), ThreadPoolExecutor(1)
    slow.cancelled(pool.submit, unwanted=lambda result: handed.set())
    pool.shutdown(wait=False)
    slow.go_on.set()
    assert handed.wait(PATIENCE)
