"""The work under a lock, in asyncio: renewed while it blocks, cancelled with its lease, and never masked."""

from __future__ import annotations

import asyncio
import functools

import pytest
from tests.process.test_lock_async import BOUND, NAME, PATH, TTL, Bench, ended

from firecron.errors import LeaseLost
from firecron.lock.lease import Lease
from firecron.lock.refusal import NotAcquired, Refusal
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture
def bench(rtdb: Rtdb) -> Bench:
    return Bench(rtdb)


def let_renew(bench: Bench) -> None:
    """Let a third of the ttl pass, and wait for the renewal."""
    before = bench.node
    bench.renewed.clear()
    bench.timing.advance(TTL / 3)
    assert bench.renewed.wait(BOUND)
    after = bench.node
    assert before is not None
    assert after is not None
    assert after == {**before, "expires": after["expires"], "expiresAt": after["expiresAt"]}
    assert after["expiresAt"] >= before["expiresAt"] + TTL * 1000 / 3


def test_a_body_that_blocks_the_event_loop_is_renewed(bench: Bench) -> None:
    """While an async body blocks the loop its lock is renewed all the same, time and again."""

    async def main() -> None:
        async with bench.service.hold(NAME, TTL) as lease:
            for _ in range(3):  # without an await: the loop stands still
                let_renew(bench)
            assert not lease.lost

    asyncio.run(main())
    assert bench.node is None


def test_a_body_that_blocks_its_thread_is_renewed(bench: Bench) -> None:
    """While a sync body blocks its thread its lock is renewed, in `hold` and in `with_lock`."""

    def body() -> None:
        for _ in range(2):
            let_renew(bench)

    with bench.service.hold(NAME, TTL):
        body()
    assert bench.service.with_lock(NAME, body, TTL) is None
    assert bench.node is None


def test_a_lease_from_acquire_is_not_renewed_by_itself(bench: Bench) -> None:
    """A lease from `acquire` lasts its ttl: it is not renewed when one beside it is, and at its end it is lost."""
    lease = bench.service.acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    before = bench.node
    with bench.service.hold("beside", TTL):
        for _ in range(2):
            bench.renewed.clear()
            bench.timing.advance(TTL / 3)
            assert bench.renewed.wait(BOUND)  # the one that ends first would have come first
            assert bench.node == before
        assert not lease.lost
        bench.timing.advance(TTL / 3)
        assert lease.lost
    assert bench.node == before


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


def test_a_refused_block_is_not_entered(bench: Bench) -> None:
    """`async with` raises NotAcquired with the refusal, and its body never runs."""
    theirs = bench.taken_by_another()

    async def main() -> None:
        async with bench.service.hold(NAME, TTL):
            raise AssertionError("the body ran without its lock")

    with pytest.raises(NotAcquired) as caught:
        asyncio.run(main())
    assert caught.value.refusal.reason == "held"
    assert str(caught.value) == caught.value.refusal.message
    assert bench.node == theirs


def test_a_lost_lease_cancels_an_async_function(bench: Bench) -> None:
    """When its lease is lost the function under `with_lock` is cancelled, and LeaseLost is raised; the node stays."""
    seen: list[str] = []

    async def main() -> None:
        begun = asyncio.Event()

        async def work() -> None:
            begun.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                seen.append("cancelled")
                raise

        task = asyncio.ensure_future(bench.service.with_lock(NAME, work, TTL))
        await begun.wait()
        bench.taken_by_another()
        bench.timing.advance(TTL / 3)
        assert isinstance(await ended(task), LeaseLost)

    asyncio.run(main())
    assert seen == ["cancelled"]
    assert bench.node is not None
    assert bench.node["holder"] == "another"
    assert bench.slugs.count("lock.lost") == 1


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
