"""The lock service: what a hold, an interruption and a close leave behind."""

from __future__ import annotations

import asyncio
import functools
import logging
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import World
from tests.unit.listeners import recorded
from tests.unit.threads import PATIENCE, ended

from firecron import LockService
from firecron.base.clocks import SystemTiming
from firecron.base.events import Event
from firecron.base.recent import Recent
from firecron.errors import ConfigurationError
from firecron.settings import EMULATOR_HOST, load
from firecron.testing import FakeTiming, MemoryStore

# As many as release for asyncio at the same time.
_THREADS = 16


def test_i02_a_hold_is_for_one_block() -> None:
    """Two blocks can't share one hold, whose token would make them pass for each other."""
    timing = FakeTiming()
    locks = LockService(store=MemoryStore(timing.now), timing=timing, has_threads=False)
    hold = locks.hold("job", 60)
    with hold, pytest.raises(RuntimeError, match="call hold\\(\\) again"), hold:
        raise AssertionError("a second block ran under the first one's lock")


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


def test_closing_ends_the_threads() -> None:
    """A closed service has no keeper's thread any more, and acquires again if it is asked to."""
    timing = SystemTiming()
    locks = LockService(store=MemoryStore(lambda: int(timing.wall())), timing=timing)
    for _ in range(2):
        before = set(threading.enumerate())
        lease = locks.acquire("job", 60)
        assert lease
        lease.release()
        [keeper] = set(threading.enumerate()) - before
        locks.close()
        keeper.join(10)
        assert not keeper.is_alive()


def make_service() -> tuple[LockService, MemoryStore]:
    timing = FakeTiming()
    store = MemoryStore(timing.now)
    return LockService(store=store, timing=timing, has_threads=False), store


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


def test_what_is_remembered_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Names made of data without end cost no memory without end: the oldest is forgotten, and plain locks at once."""
    monkeypatch.setattr(Recent, "most", 3)
    locks, store = make_service()
    for number in range(5):
        lease = locks.acquire(f"order-{number}", 60, fenced=True)
        assert lease
        assert lease.release()
        again = locks.acquire("order-0", 60, fenced=True)
        assert again
        assert again.release()
    assert list(locks.contender.known) == ["order-3", "order-4", "order-0"]
    plain = locks.acquire("plain", 60)
    assert plain
    assert plain.release()
    assert list(locks.contender.known) == ["order-4", "order-0"]
    heard = recorded(locks.events)
    for number in (0, 1, 2, 3, 3, 0):
        store.set(f"cron-locks/stuck-{number}", {"expiresAt": 1e15})
        assert not locks.acquire(f"stuck-{number}", 60)
    told, again_told = logging.WARNING, logging.INFO
    assert [event.level for event in heard] == [told, told, told, told, again_told, told]


async def _acquired(locks: LockService, **durations: Any) -> None:
    await locks.acquire_async("job", **durations)
    locks.close()


CALLS: dict[str, Callable[..., object]] = {
    "acquire": lambda locks, **durations: locks.acquire("job", **durations),
    "acquire_async": lambda locks, **durations: asyncio.run(_acquired(locks, **durations)),
    "hold": lambda locks, **durations: locks.hold("job", **durations),
    "with_lock": lambda locks, **durations: locks.with_lock("job", lambda: None, **durations),
}
ASKED = [(call, argument) for call in CALLS for argument in ("ttl", "wait", "hold_at_least")][:-2]


@pytest.mark.parametrize(("call", "argument"), ASKED)
def test_a_bare_number_that_may_be_milliseconds_is_asked_about(call: str, argument: str) -> None:
    """A duration of a lock that is hardly meant in seconds gets a WARNING that says what to write; a timedelta gets
    none.
    """
    hours = timedelta(seconds=60_000)
    said: list[list[tuple[str, int, str]]] = []
    for duration in (60_000, hours):
        locks, _ = make_service()
        heard = recorded(locks.events)
        CALLS[call](locks, **{"ttl": hours, argument: duration})
        said.append([(event.name, event.level, event.message) for event in heard if event.slug == "lock.suspicious"])
    message = (
        f'Lock "job": {argument}=60000 is 16.7 hours. Is it in milliseconds? Then write {argument}=60. If not, write '
        "timedelta(seconds=60000)"
    )
    assert said == [[("job", logging.WARNING, message)], []]


def test_a_number_is_asked_about_once() -> None:
    """The same number of another lock, or of the same one again, is not asked about anew; another number is."""
    locks, _ = make_service()
    heard = recorded(locks.events)
    for name, ttl in (("job", 60_000), ("job", 60_000), ("other", 60_000), ("other", 30_000)):
        locks.acquire(name, ttl)
    said = [event.message.split(" is ")[0] for event in heard if event.slug == "lock.suspicious"]
    assert said == ['Lock "job": ttl=60000', 'Lock "other": ttl=30000']


def test_a_wait_without_end_is_refused_and_not_asked_about() -> None:
    """What is no duration at all is the refusal that it was, whatever the number."""
    locks, _ = make_service()
    for wait in (10**400, float("inf")):
        with pytest.raises(ConfigurationError, match="too long"):
            locks.acquire("job", 60, wait=wait)


@pytest.mark.parametrize(("host", "is_warned_of"), [("proxy.example.org", True), ("shop.firebaseio.com", False)])
def test_a_token_for_a_host_that_is_none_of_firebases_is_warned_of(
    monkeypatch: pytest.MonkeyPatch, host: str, is_warned_of: bool
) -> None:
    """Connecting names the host that the access token goes to, once, and whoever hears of it may connect as well."""
    for variable in (EMULATOR_HOST, "FIREBASE_CONFIG"):
        monkeypatch.delenv(variable, raising=False)
    locks = LockService(settings=load(database_url=f"https://{host}"))
    heard: list[Event] = []

    def hear(event: Event) -> None:
        locks.connect()
        heard.append(event)

    locks.events.subscribe(hear)
    for _ in range(2):
        locks.connect()
    assert [(event.slug, event.level) for event in heard] == [("database.unknown_host", logging.WARNING)] * is_warned_of
    assert all(f"host is {host!r}" in event.message for event in heard)


def test_with_lock_holds_for_a_minute_by_default() -> None:
    """Without a ttl the lease of `with_lock` lasts a minute, as a job's does."""
    timing = FakeTiming()
    store = MemoryStore(timing.now)
    locks = LockService(store=store, timing=timing, has_threads=False)
    record = locks.with_lock("job", lambda: store.get("cron-locks/job"))
    assert isinstance(record, dict)
    assert record["expiresAt"] - record["acquiredAt"] == 60_000


def test_a_release_is_done_although_its_task_is_cancelled(world: World, one: Instance, go_on: threading.Event) -> None:
    """A task that is cancelled while its release waits for a free thread ends at once, and the release comes later."""
    leases = [one.acquire(f"busy-{number}") for number in range(_THREADS)]
    last = one.acquire()
    one.network.next("swap", before=lambda: go_on.wait(PATIENCE), times=_THREADS)

    async def main() -> None:
        busy = [asyncio.create_task(one.locks.contender.release_async(lease)) for lease in leases]
        task = asyncio.create_task(one.locks.contender.release_async(last))
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
