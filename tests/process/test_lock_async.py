"""The lock in asyncio: what tasks that wait or are cancelled leave behind, and the work under it, never masked."""

from __future__ import annotations

import asyncio
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest

from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator.pytest_plugin import Rtdb

NAME = "job"
PATH = f"/cron-locks/{NAME}"
TTL = 60

# Seconds; nothing here takes a tenth of it.
BOUND = 40

# At least as many as the service has for asyncio.
THREADS = 20


class Bench:
    """A service on the test's database, and the events that it emits."""

    def __init__(self, rtdb: Rtdb) -> None:
        self.rtdb = rtdb
        self.timing = FakeTiming(base=real_clock)
        settings = load(
            request_timeout=20, acquire_timeout=20, release_timeout=20, clock_drift=1e-6, clock_interval=86_400
        )
        self.service = LockService(settings=settings, timing=self.timing)
        self.service.clock.now(Deadline.after(self.timing, BOUND))
        self.released = threading.Event()
        self.slugs: list[str] = []
        self.service.events.subscribe(self.hear)

    def hear(self, event: Event) -> None:
        self.slugs.append(event.slug)
        match event.slug:
            case "lock.released":
                self.released.set()

    @property
    def node(self) -> dict[str, Any] | None:
        node = self.rtdb.get(PATH)
        assert node is None or isinstance(node, dict)
        return node

    def taken_by_another(self) -> dict[str, object]:
        """A record of somebody else's, which lasts for long."""
        now = self.service.clock.now(Deadline.after(self.timing, BOUND)).server
        record: dict[str, object] = {"acquiredAt": now, "expiresAt": now + 3_600_000, "holder": "another"}
        self.rtdb.set(PATH, record)
        return record


@pytest.fixture
def bench(rtdb: Rtdb) -> Iterator[Bench]:
    made = Bench(rtdb)
    yield made
    made.service.close()


async def on_thread(wait: Callable[[float], object]) -> None:
    """Wait for something outside the event loop, which goes on meanwhile."""
    await asyncio.to_thread(wait, BOUND)


async def ended(task: asyncio.Task[Any]) -> BaseException | None:
    """How a task ended; it is not waited for without bound."""
    await asyncio.wait([task], timeout=BOUND)
    assert task.done()
    return asyncio.CancelledError() if task.cancelled() else task.exception()


def test_a_release_goes_on_when_its_task_is_cancelled_again(bench: Bench) -> None:
    """A task that is cancelled while it releases ends at once, and the release is completed on its thread."""

    async def main() -> None:
        hold = bench.rtdb.faults.hold(path=PATH, method="DELETE")
        async with asyncio.timeout(BOUND):
            task = asyncio.create_task(entered_and_left(bench))
            await on_thread(hold.wait)
            task.cancel()
            assert isinstance(await ended(task), asyncio.CancelledError)
            assert bench.node is not None
            hold.release()
            await on_thread(bench.released.wait)
        assert bench.node is None

    asyncio.run(main())


def test_a_release_does_not_wait_for_those_who_acquire(bench: Bench) -> None:
    """A release whose task is cancelled is done while all threads that acquire are busy."""

    async def main() -> None:
        leave = asyncio.Event()
        entered = asyncio.Event()

        async def body() -> None:
            async with bench.service.hold(NAME, TTL):
                entered.set()
                await leave.wait()

        task = asyncio.create_task(body())
        await entered.wait()
        hold = bench.rtdb.faults.hold(path="/cron-locks/busy-*", method="PUT", times=None)
        busy = [asyncio.create_task(bench.service.acquire_async(f"busy-{number}", TTL)) for number in range(THREADS)]
        await on_thread(hold.wait)
        leave.set()
        await asyncio.sleep(0)  # all tasks have their turn: the body is left, and its release is handed in
        task.cancel()
        assert isinstance(await ended(task), asyncio.CancelledError)
        await on_thread(bench.released.wait)
        assert bench.node is None
        hold.release()
        await asyncio.gather(*busy)

    asyncio.run(main())


async def entered_and_left(bench: Bench) -> None:
    async with bench.service.hold(NAME, TTL):
        pass


@pytest.mark.parametrize("moment", ["before", "after"])
@pytest.mark.parametrize("way", ["acquire_async", "hold", "with_lock"])
def test_a_cancelled_acquire_leaves_no_lock_behind(bench: Bench, moment: Literal["before", "after"], way: str) -> None:
    """What an acquire gets whose task was cancelled in mid-flight is released, and nothing runs under it."""
    ran: list[str] = []

    async def body() -> None:
        ran.append("the body")

    async def enter() -> None:
        match way:
            case "acquire_async":
                await bench.service.acquire_async(NAME, TTL)
            case "hold":
                async with bench.service.hold(NAME, TTL):
                    await body()
            case "with_lock":
                await bench.service.with_lock(NAME, body, TTL)

    async def main() -> None:
        hold = bench.rtdb.faults.hold(path=PATH, method="PUT", moment=moment)
        task = asyncio.create_task(enter())
        await on_thread(hold.wait)
        task.cancel()
        assert isinstance(await ended(task), asyncio.CancelledError)
        hold.release()
        await on_thread(bench.released.wait)
        assert bench.node is None

    asyncio.run(main())
    assert ran == []


def test_an_acquire_that_waits_is_cancelled_at_once(bench: Bench) -> None:
    """A task that waits for a held lock can be cancelled between its looks, and leaves the record as it is."""
    theirs = bench.taken_by_another()

    async def main() -> None:
        hold = bench.rtdb.faults.hold(path=PATH, method="PUT")
        task = asyncio.create_task(bench.service.acquire_async(NAME, TTL, wait=3600))
        await on_thread(hold.wait)
        hold.release()
        task.cancel()
        assert isinstance(await ended(task), asyncio.CancelledError)

    asyncio.run(main())
    assert bench.node == theirs


def test_many_wait_at_once(bench: Bench) -> None:
    """Tasks by the dozen that want one lock have it one after the other, and the loop runs on meanwhile."""
    inside = most = 0

    async def work() -> None:
        nonlocal inside, most
        inside += 1
        most = max(most, inside)
        await asyncio.sleep(0)
        inside -= 1

    async def turn() -> None:
        async with bench.service.hold(NAME, 3600, wait=3600):
            await work()

    async def main() -> None:
        await asyncio.wait_for(asyncio.gather(*(turn() for _ in range(12))), BOUND)

    asyncio.run(main())
    assert most == 1
    assert bench.node is None


def test_an_async_function_under_a_lock(bench: Bench) -> None:
    """`with_lock` awaits an async function under the lock and returns its result, also one that is wrapped."""

    async def double(number: int) -> int:
        assert bench.node is not None
        return 2 * number

    async def main() -> None:
        assert await bench.service.with_lock(NAME, functools.partial(double, 21), TTL) == 42
        assert bench.node is None

    asyncio.run(main())


def test_a_refused_async_function_is_not_called(bench: Bench) -> None:
    """While another holds the lock `with_lock` returns the Refusal, and the function never begins."""
    theirs = bench.taken_by_another()
    called: list[str] = []

    async def work() -> None:
        called.append("work")

    async def main() -> Refusal | None:
        return await bench.service.with_lock(NAME, work, TTL)

    refusal = asyncio.run(main())
    assert isinstance(refusal, Refusal)
    assert (refusal.reason, refusal.holder) == ("held", "another")
    assert called == []
    assert bench.node == theirs


def test_a_cancelled_with_lock_cancels_its_function(bench: Bench) -> None:
    """Whoever cancels `with_lock` cancels the function under it, gets CancelledError, and the lock is released."""
    seen: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            finally:
                seen.append("ended while held" if bench.node else "ended too late")

        task = asyncio.ensure_future(bench.service.with_lock(NAME, work, TTL))
        await begun.wait()
        task.cancel()
        assert isinstance(await ended(task), asyncio.CancelledError)
        assert seen == ["ended while held"]
        assert bench.node is None

    asyncio.run(main())


@pytest.mark.parametrize("way", ["async with", "with_lock"])
def test_a_failing_release_masks_no_async_error(bench: Bench, way: str) -> None:
    """What the body raises comes through though the release fails, which is told as an event of its own."""
    bench.rtdb.faults.answer(429, headers={"Retry-After": "3600"}, path=PATH, method="DELETE", times=None)

    async def work() -> None:
        raise ZeroDivisionError("the body's own")

    async def main() -> None:
        if way == "with_lock":
            await bench.service.with_lock(NAME, work, TTL)
        else:
            async with bench.service.hold(NAME, TTL):
                await work()

    with pytest.raises(ZeroDivisionError, match="the body's own"):
        asyncio.run(main())
    assert bench.slugs[-1] == "lock.release_failed"
    assert bench.node is not None
