"""Work under a lock: one block for each hold, and nothing that would run later, without the lock."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import pytest
from tests.unit.listeners import recorded
from tests.unit.lock.services import make_service

from firecron import LockService
from firecron.testing import FakeTiming, MemoryStore


def test_i02_a_hold_is_for_one_block() -> None:
    """Two blocks can't share one hold, whose token would make them pass for each other."""
    timing = FakeTiming()
    locks = LockService(store=MemoryStore(timing.now), timing=timing, has_threads=False)
    hold = locks.hold("job", 60)
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
    "returns a generator": lambda: (number for number in range(1)),
    "returns an async generator": lambda: (number async for number in generates_async()),
}


@pytest.mark.parametrize("function", GENERATORS.values(), ids=GENERATORS.keys())
def test_a_generator_is_not_run_without_the_lock(function: Callable[[], Any]) -> None:
    """A body that would only run when its caller iterates is refused, and the lock is free again."""
    locks, store = make_service()
    ran.clear()
    with pytest.raises(TypeError, match="body would run later, without the lock"):
        locks.with_lock("job", function, 60)
    assert ran == []
    assert store.get("cron-locks/job") is None


@pytest.mark.parametrize("function", [generates, generates_async, functools.partial(generates)])
def test_a_generator_function_is_refused_before_the_lock_is_taken(function: Callable[[], Any]) -> None:
    """What is known to be a generator function beforehand costs no request."""
    locks, _ = make_service()
    heard = recorded(locks.events)
    with pytest.raises(TypeError, match="body would run later, without the lock"):
        locks.with_lock("job", function, 60)
    assert heard == []


def test_a_generator_that_an_async_function_returns_is_refused() -> None:
    """What an async function returns is looked at too."""
    locks, store = make_service()
    with pytest.raises(TypeError, match="body would run later, without the lock"):
        asyncio.run(_awaited(locks))
    locks.close()
    assert store.get("cron-locks/job") is None


async def _awaited(locks: LockService) -> object:
    return await locks.with_lock("job", returns_a_generator, 60)


def test_with_lock_holds_for_a_minute_by_default() -> None:
    """Without a ttl the lease of `with_lock` lasts a minute, as a job's does."""
    timing = FakeTiming()
    store = MemoryStore(timing.now)
    locks = LockService(store=store, timing=timing, has_threads=False)
    record = locks.with_lock("job", lambda: store.get("cron-locks/job"))
    assert isinstance(record, dict)
    assert record["expiresAt"] - record["acquiredAt"] == 60_000
