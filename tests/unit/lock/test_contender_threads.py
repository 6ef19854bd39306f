"""The contender's threads for asyncio, and what is left when something interrupts it."""

from __future__ import annotations

import asyncio
import logging
import threading

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import World
from tests.unit.listeners import recorded
from tests.unit.threads import PATIENCE, ended

from firecron import LockService
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.lock.record import Reason
from firecron.lock.refusal import Refusal
from firecron.store import Node, Snapshot
from firecron.testing import FakeTiming, MemoryStore

THREADS = 16


class Interrupt(BaseException):
    """As a Ctrl-C, but of the test's own."""


def threads(purpose: str) -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith(f"firecron-{purpose}")]


class Busy:
    """As many acquisitions as there are threads for, all of them at the database, which doesn't answer."""

    def __init__(self, one: Instance, go_on: threading.Event) -> None:
        self._arrived = threading.Semaphore(0)
        self._one = one

        def arrive() -> None:
            self._arrived.release()
            assert go_on.wait(PATIENCE)

        one.network.next("swap", before=arrive, times=THREADS)

    def begin(self) -> list[asyncio.Task[Lease | Refusal]]:
        acquire = self._one.locks.acquire_async
        return [asyncio.create_task(acquire(f"busy-{number}", 60)) for number in range(THREADS)]

    async def wait(self) -> None:
        for _ in range(THREADS):
            assert await asyncio.to_thread(self._arrived.acquire, timeout=PATIENCE)


def test_the_wait_for_a_free_thread_is_part_of_the_try(world: World, one: Instance, go_on: threading.Event) -> None:
    """Sixteen tasks acquire at the same time; one more that gets no thread in time asks for nothing any more."""
    busy = Busy(one, go_on)

    async def main() -> None:
        tasks = busy.begin()
        await busy.wait()
        late = asyncio.create_task(one.locks.acquire_async("late", 60))
        await asyncio.sleep(0)  # it is handed in behind the others
        world.advance(one.locks.settings.acquire_timeout + 1)
        go_on.set()
        answer = await late
        assert isinstance(answer, Refusal)
        assert answer.reason == "unavailable"
        await asyncio.gather(*tasks)

    asyncio.run(main())
    assert "late" not in world.store.keys("cron-locks", one.locks.deadline(1))
    one.locks.close()


def test_a_close_waits_for_no_acquisition(one: Instance, go_on: threading.Event) -> None:
    """Closing ends at once though the database doesn't answer, and the threads end when it does."""
    busy = Busy(one, go_on)

    async def main() -> None:
        tasks = busy.begin()
        await busy.wait()
        at_work = threads("acquire")
        closing = threading.Thread(target=one.locks.close)
        closing.start()
        assert await asyncio.to_thread(ended, closing)
        go_on.set()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert await asyncio.to_thread(lambda: all(map(ended, at_work)))

    asyncio.run(main())


def test_an_async_acquisition_is_told(one: Instance) -> None:
    """It emits the same event as any other."""
    assert asyncio.run(one.locks.acquire_async("job", 60))
    assert one.slugs() == ["lock.acquired"]


def test_an_interrupted_telling_of_an_async_acquisition_leaves_no_lease_behind(world: World, one: Instance) -> None:
    """If what hears of it interrupts it, the lock is given back before the interruption goes on."""

    def interrupt(event: Event) -> None:
        if event.slug == "lock.acquired":
            raise Interrupt

    one.locks.events.subscribe(interrupt)
    with pytest.raises(Interrupt):
        asyncio.run(one.locks.acquire_async("job", 60))
    assert world.node() == {}


def test_what_is_not_given_back_is_not_renewed(one: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    """If also the release is interrupted, at its first line, nothing renews the lock any more, so it expires."""

    def interrupt(lease: Lease) -> bool:
        raise Interrupt

    def hear(event: Event) -> None:
        if event.slug == "lock.acquired":
            monkeypatch.setattr(Lease, "release", interrupt)
            raise Interrupt

    one.locks.events.subscribe(hear)
    with pytest.raises(Interrupt):
        one.locks.acquire("job", 60)
    assert one.locks.database.keeper.leases() == []


def test_a_bid_asks_for_what_it_was_told_to(one: Instance) -> None:
    """Without a word about it a lock is neither renewed by itself nor released at once."""
    contender = one.locks.database
    plain, other = contender.bid("job", 60), contender.bid("job", 60, renews=True, momentary=True)
    assert (plain.request.renews, plain.request.momentary) == (False, False)
    assert (other.request.renews, other.request.momentary) == (True, True)


def test_a_try_takes_a_third_of_the_ttl_at_most() -> None:
    """A lock that is had late would be as good as over: so the requests for a short one have little time."""
    timing = FakeTiming()
    left: list[float] = []

    class Noting(MemoryStore):
        def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
            left.append(deadline.remaining())
            return super().swap(path, etag, node, deadline)

    locks = LockService(store=Noting(timing.now), timing=timing, has_threads=False)
    assert locks.acquire("short", 6)
    assert locks.acquire("long", 600)
    assert left == [2, locks.settings.request_timeout]


def test_after_its_longest_time_a_lock_is_lost(one: Instance, world: World) -> None:
    """A limit ends a lock that is renewed, counted from the claim, and not before."""
    contender = one.locks.database
    lease = try_once(contender, contender.bid("job", 60, renews=True, max_runtime=90_000))
    assert isinstance(lease, Lease)
    for seconds, is_lost in ((30, False), (30, False), (29.9, False), (0.2, True)):
        world.advance(seconds)
        contender.keeper.work()
        assert bool(lease.lost) is is_lost


def test_after_a_close_or_a_fork_there_are_other_threads(one: Instance) -> None:
    """What was closed acquires again, and a child never waits for threads that only its parent has."""
    for end in (one.locks.close, one.locks.database.after_fork):
        lease = asyncio.run(one.locks.acquire_async("job", 60))
        assert lease
        lease.release()
        before = threads("acquire")
        end()
        lease = asyncio.run(one.locks.acquire_async("job", 60))
        assert lease
        lease.release()
        assert set(threads("acquire")) - set(before)
    one.locks.close()


def test_who_has_just_released_a_lock_takes_it_in_one_write(one: Instance) -> None:
    """What a release has left is known, so that the next claim is written at once."""
    for _ in range(2):
        lease = one.locks.acquire("job", 60, fenced=True)
        assert lease
        lease.release()
        asked = one.network.requests("cron-locks/")
    assert asked == ["swap", "swap"]


@pytest.mark.parametrize(
    ("reason", "problem", "levels"),
    [
        ("slot_done", None, [logging.INFO, logging.DEBUG]),
        ("slot_early", None, [logging.WARNING, logging.WARNING]),
        ("held", None, [logging.INFO, logging.INFO]),
        ("held", "it is stuck", [logging.WARNING, logging.INFO]),
        ("denied", None, [logging.ERROR, logging.ERROR]),
    ],
)
def test_a_refusal_that_says_something_new_is_told_louder(
    one: Instance, reason: Reason, problem: str | None, levels: list[int]
) -> None:
    """That a tick was run elsewhere is told once, a lock that needs a look is a warning once, all else as ever."""
    heard = recorded(one.locks.events)
    for _ in levels:
        one.locks.database.emit_refusal(Refusal("job", reason, "said", problem=problem))
    assert [event.level for event in heard] == levels
