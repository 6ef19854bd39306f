"""Contenders: what may be asked for, and what an interruption, a cancellation and many names leave behind."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import World
from tests.unit.listeners import recorded
from tests.unit.lock.services import make_service
from tests.unit.threads import PATIENCE, ended

from firecron import LockService
from firecron.base.events import Event
from firecron.base.last_values import LastValues
from firecron.errors import ConfigurationError
from firecron.lock.blocks import release_async
from firecron.testing import FakeTiming, MemoryStore

# As many as release for asyncio at the same time.
_THREADS = 16

WAYS: dict[str, Callable[[Instance, str, float], object]] = {
    "acquire": lambda one, name, ttl: one.locks.acquire(name, ttl),
    "hold": lambda one, name, ttl: one.locks.hold(name, ttl),
    "with_lock": lambda one, name, ttl: one.locks.with_lock(name, lambda: None, ttl),
    "bid": lambda one, name, ttl: one.locks.database.bid(name, ttl),
}


WRONG = {
    "a bad name": ("a/b", 60.0, "can't name a lock"),
    "no name": ("", 60.0, "can't name a lock"),
    "a ttl in milliseconds": ("job", 300_000.0, "Is it in milliseconds"),
    "a ttl of nothing": ("job", 0.0, "too short"),
    "a negative ttl": ("job", -1.0, "too short"),
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
@pytest.mark.parametrize(("name", "ttl", "said"), WRONG.values(), ids=WRONG.keys())
def test_what_can_not_be_asked_for_is_refused(
    world: World, way: Callable[[Instance, str, float], object], name: str, ttl: float, said: str
) -> None:
    """A wrong name or ttl is an error at once, in every way to ask, and nothing is sent."""
    one = Instance(world)
    with pytest.raises(ConfigurationError, match=said):
        way(one, name, ttl)
    assert one.network.calls == []


def test_an_interrupted_telling_leaves_no_lease_behind() -> None:
    """If what hears of an acquisition interrupts it, the lock is given back before the interruption goes on."""
    timing = FakeTiming()
    store = MemoryStore(timing.now)
    locks = LockService(store=store, timing=timing, has_threads=False)

    def interrupt(event: Event) -> None:
        if event.slug == "lock.acquired":
            raise KeyboardInterrupt

    locks.events.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        locks.acquire("job", 60)
    assert store.get("cron-locks/job") is None


def test_what_is_remembered_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names made of data without end cost no memory without end: the oldest is forgotten, and plain locks at once."""
    monkeypatch.setattr(LastValues, "most", 3)
    locks, store = make_service()
    for number in range(5):
        lease = locks.acquire(f"order-{number}", 60, fenced=True)
        assert lease
        assert lease.release()
        again = locks.acquire("order-0", 60, fenced=True)
        assert again
        assert again.release()
    assert list(locks.database.known) == ["order-3", "order-4", "order-0"]
    plain = locks.acquire("plain", 60)
    assert plain
    assert plain.release()
    assert list(locks.database.known) == ["order-4", "order-0"]
    heard = recorded(locks.events)
    for number in (0, 1, 2, 3, 3, 0):
        store.set(f"cron-locks/stuck-{number}", {"expiresAt": 1e15})
        assert not locks.acquire(f"stuck-{number}", 60)
    told, again_told = logging.WARNING, logging.INFO
    assert [event.level for event in heard] == [told, told, told, told, again_told, told]


def test_a_release_is_done_although_its_task_is_cancelled(world: World, one: Instance, go_on: threading.Event) -> None:
    """A task that is cancelled while its release waits for a free thread ends at once, and the release comes later."""
    leases = [one.acquire(f"busy-{number}") for number in range(_THREADS)]
    last = one.acquire()
    one.network.next("swap", before=lambda: go_on.wait(PATIENCE), times=_THREADS)

    async def main() -> None:
        busy = [asyncio.create_task(release_async(one.locks.database, lease)) for lease in leases]
        task = asyncio.create_task(release_async(one.locks.database, last))
        await asyncio.sleep(0)  # all are handed in, in this order
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go_on.set()
        await asyncio.gather(*busy)

    asyncio.run(main())
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("firecron-release")]
    one.locks.close()
    assert all(map(ended, threads))
    assert world.node() == {}
