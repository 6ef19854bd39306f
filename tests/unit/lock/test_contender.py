"""Contenders: what may be asked for, their threads for asyncio, and what interruptions and many names leave behind."""

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

from firecron.base.clocks import Deadline
from firecron.base.events import Event, LastValues
from firecron.errors import ConfigurationError
from firecron.lock.blocks import release_async, try_once
from firecron.lock.lease import Lease
from firecron.lock.record import Reason
from firecron.lock.refusal import Refusal
from firecron.store import Node, Snapshot
from firecron.testing import MemoryStore

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


def test_what_is_remembered_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names made of data without end cost no memory without end: the oldest is forgotten, and plain locks at once."""
    monkeypatch.setattr(LastValues, "most", 3)
    locks, store, _ = make_service()
    for number in range(5):
        for name in (f"order-{number}", "order-0"):
            lease = locks.acquire(name, 60, fenced=True)
            assert lease
            assert lease.release()
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

        one.network.next("swap", before=arrive, times=_THREADS)

    def begin(self) -> list[asyncio.Task[Lease | Refusal]]:
        acquire = self._one.locks.acquire_async
        return [asyncio.create_task(acquire(f"busy-{number}", 60)) for number in range(_THREADS)]

    async def wait(self) -> None:
        for _ in range(_THREADS):
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


@pytest.mark.parametrize("is_async", [False, True])
def test_an_interrupted_telling_leaves_no_lease_behind(world: World, one: Instance, is_async: bool) -> None:
    """If what hears of an acquisition interrupts it, the lock is given back before the interruption goes on."""

    def interrupt(event: Event) -> None:
        if event.slug == "lock.acquired":
            raise Interrupt

    one.locks.events.subscribe(interrupt)
    with pytest.raises(Interrupt):
        asyncio.run(one.locks.acquire_async("job", 60)) if is_async else one.locks.acquire("job", 60)
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
    assert (plain.renews, plain.momentary) == (False, False)
    assert (other.renews, other.momentary) == (True, True)


def test_a_try_takes_a_third_of_the_ttl_at_most() -> None:
    """A lock that is had late would be as good as over: so the requests for a short one have little time."""
    left: list[float] = []

    class Noting(MemoryStore):
        def swap(self, path: str, etag: str, node: Node, deadline: Deadline) -> str | Snapshot:
            left.append(deadline.remaining())
            return super().swap(path, etag, node, deadline)

    locks = make_service(Noting).locks
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


def test_a_loser_of_a_kept_lock_sends_no_write_in_vain(world: World) -> None:
    """A record with a fence stays. Who was refused by one begins with a read while its lease lasts, which costs no
    further request, and writes at once on a record that it was refused by after its release.
    """
    one, other = Instance(world), Instance(world)
    lease = other.locks.acquire("job", 60, fenced=True)
    assert lease
    assert not one.locks.acquire("job", 60, fenced=True)
    lease.release()
    one.network.requests()
    lease = one.locks.acquire("job", 60, fenced=True)
    assert lease
    assert one.network.requests("cron-locks/") == ["read", "swap"]
    lease.release()


def test_a_loser_of_a_plain_lock_writes_first(world: World) -> None:
    """A plain lock is gone with its release: who was refused by it takes it in one request."""
    one, other = Instance(world), Instance(world)
    lease = other.acquire()
    assert not one.locks.acquire("job", 60)
    lease.release()
    one.network.requests()
    assert one.locks.acquire("job", 60)
    assert one.network.requests("cron-locks/") == ["swap"]


def test_the_record_of_a_done_tick_is_written_over_at_once(world: World) -> None:
    """Who came too late for a tick has seen the record as it stays: it takes the next tick in one request."""
    one, other = Instance(world), Instance(world)
    slots = ["2026-11-18T08:00:00Z", "2026-11-18T08:01:00Z"]
    done = try_once(other.locks.database, other.locks.database.bid("job", 60, slot=slots[0]))
    assert isinstance(done, Lease)
    done.release()
    late = try_once(one.locks.database, one.locks.database.bid("job", 60, slot=slots[0]))
    assert isinstance(late, Refusal)
    assert late.reason == "slot_done"
    one.network.requests()
    assert isinstance(try_once(one.locks.database, one.locks.database.bid("job", 60, slot=slots[1])), Lease)
    assert one.network.requests("cron-locks/") == ["swap"]
