"""Work under a lock: one block and one try for each hold, nothing that runs later, and what cancellations leave."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import World
from tests.unit.listeners import recorded
from tests.unit.lock.services import make_service

from firecron import LockService
from firecron.errors import LeaseLost
from firecron.lock.blocks import Hold
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal


def test_i02_a_hold_is_for_one_block() -> None:
    """Two blocks can't share one hold, whose token would make them pass for each other."""
    hold = make_service().locks.hold("job", 60)
    with hold, pytest.raises(RuntimeError, match="call hold\\(\\) again"), hold:
        raise AssertionError("a second block ran under the first one's lock")


ran: list[str] = []


def generates() -> Iterator[int]:
    ran.append("generator")
    yield 1


async def generates_async() -> AsyncIterator[int]:
    ran.append("async generator")
    yield 1


async def returns_a_generator() -> Iterator[int]:
    return generates()


GENERATORS: dict[str, Callable[[], Any]] = {
    "generator function": generates,
    "async generator function": generates_async,
    "partial": functools.partial(generates),
    "async function that returns a generator": returns_a_generator,
    "returns a generator": lambda: (number for number in range(1)),
    "returns an async generator": lambda: (number async for number in generates_async()),
}
BEFOREHAND = [GENERATORS[name] for name in ("generator function", "async generator function", "partial")]


@pytest.mark.parametrize("function", GENERATORS.values(), ids=GENERATORS.keys())
def test_a_generator_is_not_run_without_the_lock(function: Callable[[], Any]) -> None:
    """A body that would only run when its caller iterates is refused, and the lock is free again. What is known to be a
    generator function beforehand costs no request.
    """
    locks, store, _ = make_service()
    heard = recorded(locks.events)
    ran.clear()
    with pytest.raises(TypeError, match="body would run later, without the lock"):
        asyncio.run(_awaited(locks, function))
    locks.close()
    assert ran == []
    assert store.get("cron-locks/job") is None
    assert (heard == []) is (function in BEFOREHAND)


async def _awaited(locks: LockService, function: Callable[[], Any]) -> object:
    return await locks.with_lock("job", function, 60)


def test_with_lock_holds_for_a_minute_by_default() -> None:
    """Without a ttl the lease of `with_lock` lasts a minute, as a job's does."""
    locks, store, _ = make_service()
    record = locks.with_lock("job", lambda: store.get("cron-locks/job"))
    assert isinstance(record, dict)
    assert record["expiresAt"] - record["acquiredAt"] == 60_000


class Interrupt(BaseException):
    """As a Ctrl-C, but of the test's own."""


def interrupt(*arguments: object) -> object:
    raise Interrupt


async def nothing() -> None: ...


@pytest.mark.parametrize("fn", [lambda: None, nothing], ids=["function", "async function"])
def test_with_lock_tries_once(world: World, one: Instance, fn: Callable[[], object]) -> None:
    """A function is called at once or not at all."""
    other = Instance(world)
    assert other.locks.acquire("job", 60)
    one.network.requests()
    answer = one.locks.with_lock("job", fn)
    if asyncio.iscoroutine(answer):
        answer = asyncio.run(answer)
    assert isinstance(answer, Refusal)
    assert one.network.requests("cron-locks") == ["swap"]
    one.locks.close()


def test_a_future_is_refused_as_a_coroutine_is(world: World, one: Instance) -> None:
    """Whatever would have to be awaited would run without the lock, which is given back."""
    loop = asyncio.new_event_loop()
    with pytest.raises(TypeError, match="returned an awaitable"):
        one.locks.with_lock("job", loop.create_future)
    loop.close()
    assert world.node() == {}


def test_an_async_block_is_for_one_use(world: World, one: Instance) -> None:
    """The second use of a hold is an error, and the first one's lock is given back."""

    async def main() -> None:
        hold = one.locks.hold("job", 60)
        async with hold:
            with pytest.raises(RuntimeError, match=r"call hold\(\) again"):
                await hold.__aenter__()

    asyncio.run(main())
    assert world.node() == {}
    one.locks.close()


@pytest.mark.parametrize(
    ("is_lost", "is_cancelled", "error"),
    [(True, False, LeaseLost), (True, True, asyncio.CancelledError), (False, True, asyncio.CancelledError)],
)
def test_a_cancellation_is_told_from_a_loss(
    world: World, one: Instance, is_lost: bool, is_cancelled: bool, error: type[BaseException]
) -> None:
    """Who cancels the task gets what a cancellation raises, also where the lease is lost at the same time."""

    async def main() -> None:
        begun = asyncio.Event()

        async def work() -> None:
            begun.set()
            await asyncio.Event().wait()

        task = asyncio.ensure_future(one.locks.with_lock("job", work))
        await begun.wait()
        if is_lost:
            [lease] = one.locks.database.keeper.leases()
            lease.lose("for the test")
        if is_cancelled:
            task.cancel()
        with pytest.raises(error):
            await task

    asyncio.run(main())
    one.locks.close()


def test_work_that_cancels_itself_has_lost_nothing(world: World, one: Instance) -> None:
    """A cancellation that comes from inside of the work is that, and no loss of the lock."""

    async def work() -> None:
        raise asyncio.CancelledError

    async def main() -> None:
        with pytest.raises(asyncio.CancelledError):
            await one.locks.with_lock("job", work)

    asyncio.run(main())
    assert world.node() == {}
    one.locks.close()


def test_an_interruption_between_the_lock_and_the_block_gives_the_lock_back(
    world: World, one: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """If Ctrl-C comes when the lock is had and the block has not begun, nobody else has to wait for it."""
    monkeypatch.setattr(Hold, "_enter", interrupt)  # just after the lock is had
    with pytest.raises(Interrupt), one.locks.hold("job", 60):
        raise AssertionError("the block began")
    assert world.node() == {}
    assert one.locks.database.keeper.leases() == []


def test_what_a_block_could_not_release_is_not_renewed(one: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ctrl-C comes in the release at the end of a block, the lock expires."""
    with pytest.raises(Interrupt), one.locks.hold("job", 60):
        monkeypatch.setattr(Lease, "release", interrupt)
    assert one.locks.database.keeper.leases() == []
