"""Invariants of keeping a lease: a loss is told, a renewal goes on and revives nothing, requests are bounded."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import START, World

from firecron import Lease, LeaseLost, LockService
from firecron.errors import Unavailable
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore


def test_i13_losing_a_lease_is_loud_and_reaches_the_job(world: World) -> None:
    """A lost lease sets the flag, calls who asked, raises in `check` and logs an ERROR; the keeper finds out."""
    one = Instance(world)
    lease = one.keep(ttl=60)
    heard: list[str] = []
    lease.when_lost(lambda: heard.append("told"))
    lease.check()
    lost = lease.lost
    one.network.next("swap", before=failing(Unavailable("down")), times=1_000)
    one.network.next("read", before=failing(Unavailable("down")), times=1_000)
    one.outlive()
    assert lost.is_set()
    assert heard == ["told"]
    with pytest.raises(LeaseLost):
        lease.check()
    assert [event.level for event in one.events if event.slug == "lock.lost"] == [logging.ERROR]


def test_i13_an_async_job_is_cancelled(world: World) -> None:
    """An async body under `with_lock` is cancelled when its lease is lost, and the caller gets LeaseLost."""
    one = Instance(world)
    cancelled: list[bool] = []

    async def body() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> None:
        work = asyncio.ensure_future(one.locks.with_lock("job", body, 60))
        await started.wait()
        world.advance(59)
        one.renew()
        with pytest.raises(LeaseLost):
            await work

    started = asyncio.Event()
    asyncio.run(main())
    one.locks.close()
    assert cancelled == [True]


class Blocked:
    """A job that blocks while the keeper's own thread has to renew."""

    def __init__(self) -> None:
        self.timing = FakeTiming()
        self.store = MemoryStore(self.timing.now)
        self.locks = LockService(settings=load(), store=self.store, timing=self.timing)
        self.renewed = threading.Semaphore(0)
        self.locks.events.subscribe(lambda event: self.renewed.release() if event.slug == "lock.renewed" else None)

    def body(self, lease: Lease) -> None:
        for number in range(1, 6):
            self.timing.advance(20)
            # The thread is blocked here, in nothing that knows of the lock.
            assert self.renewed.acquire(timeout=20)
            node = self.store.get("cron-locks/job")
            assert isinstance(node, dict)
            assert node["expiresAt"] == START + number * 20_000 + 60_000
        assert not lease.lost


def test_i14_renewal_goes_on_while_the_job_blocks_its_thread() -> None:
    """A body that never yields is renewed all the while."""
    blocked = Blocked()
    with blocked.locks.hold("job", 60) as lease:
        blocked.body(lease)
    assert blocked.store.get("cron-locks/job") is None


def test_i14_renewal_goes_on_while_the_job_blocks_the_event_loop() -> None:
    """An async body that blocks its loop is renewed all the while: no renewal needs the loop."""
    blocked = Blocked()

    async def main() -> None:
        async with blocked.locks.hold("job", 60) as lease:
            blocked.body(lease)

    asyncio.run(main())
    blocked.locks.close()
    assert blocked.store.get("cron-locks/job") is None


def released(world: World, lease: Lease) -> None:
    world.edit(releasedAt=int(START))


def unlocked(world: World, lease: Lease) -> None:
    world.edit(expiresAt=0)


def expired(world: World, lease: Lease) -> None:
    world.edit(expiresAt=int(START) + 20_000)


def deleted(world: World, lease: Lease) -> None:
    world.put(None)


def paused_in_its_place(world: World, lease: Lease) -> None:
    world.put({"paused": True})


@pytest.mark.parametrize("end", [released, unlocked, expired, deleted, paused_in_its_place])
def test_i14_a_renewal_revives_nothing(world: World, end: Callable[[World, Lease], None]) -> None:
    """What was released, unlocked, expired or deleted is found by the next renewal, lost, and left as it is."""
    one = Instance(world)
    lease = one.keep(ttl=60)
    end(world, lease)
    before = world.node()
    world.advance(20)
    assert one.renew() is None
    assert lease.lost
    assert world.node() == before


def test_i14_a_renewal_after_the_release_revives_nothing(world: World) -> None:
    """A lease that its holder gave back is not renewed, also when its renewal was due."""
    one = Instance(world)
    lease = one.keep(ttl=60)
    world.advance(20)
    assert lease.release()
    assert one.renew() is None
    assert lease.keep(3) is lease.renew() is False
    assert not lease.was_lost
    assert "lock.lost" not in one.slugs()
    assert world.node() == {}


def test_i15_one_slow_request_can_not_eat_the_lease(world: World) -> None:
    """Each request of a renewal has a third of what is left of the lease at most, however slow the ones before were."""
    one = Instance(world, request_timeout=8, release_timeout=8)
    lease = one.keep(ttl=12)
    one.locks.clock.now(one.locks.deadline(8))

    def hang() -> None:
        left.append((lease.ends - one.timing.mono()) / 1000)
        world.advance(one.network.allowed[-1])
        raise Unavailable("timed out")

    left: list[float] = []
    one.network.allowed.clear()
    one.network.next("swap", before=hang, times=1_000)
    one.network.next("read", before=hang, times=1_000)
    one.outlive()
    assert lease.lost
    assert len(left) >= 5
    # Less than a microsecond off: the clock of the test is one of floating point.
    assert all(allowed <= rest / 3 + 1e-6 for allowed, rest in zip(one.network.allowed, left, strict=True))


def test_i15_a_request_of_a_renewal_by_hand_has_a_third_of_the_lease(world: World) -> None:
    """Also where the holder would wait longer, each request gets a third of what is left of the lease."""
    one = Instance(world, request_timeout=8, release_timeout=8)
    lease = one.acquire(ttl=13)
    one.network.next("swap", before=failing(Unavailable("once")))
    one.network.allowed.clear()
    assert lease.renew()
    assert one.network.allowed[0] == pytest.approx(4, abs=0.001)
    assert all(allowed <= 4 for allowed in one.network.allowed)


def test_i15_a_renewal_goes_on_for_as_long_as_its_lease_at_most(world: World) -> None:
    """Whoever renews by hand, with little of the lease left, is told before its end that it could not be done."""
    one = Instance(world)
    lease = one.acquire(ttl=60)
    world.advance(58)
    one.network.next("swap", before=failing(Unavailable("down")), times=1_000)
    with pytest.raises(Unavailable, match="down"):
        lease.renew()
    assert lease.is_held()
    assert not lease.lost


def test_i15_an_acquire_has_a_third_of_its_ttl(world: World) -> None:
    """What takes longer than a third of the ttl to acquire is given up: too little of the lease would be left."""
    one = Instance(world)
    one.locks.clock.now(one.locks.deadline(8))
    one.network.allowed.clear()
    one.acquire(ttl=6)
    assert one.network.allowed == [2]
    one.acquire("longer", ttl=60)
    assert one.network.allowed[1:] == [3]
