"""Blocks and functions under a lock: what they answer, and that nothing hides what the work itself raised."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from firecron.base.events import Event
from firecron.errors import LeaseLost
from firecron.lock.lease import Lease
from firecron.lock.refusal import NotAcquired, Refusal
from firecron.locks import LockService
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

NAME = "job"
PATH = f"/cron-locks/{NAME}"
TTL = 60


@pytest.fixture
def service(rtdb: Rtdb) -> LockService:
    return LockService(settings=load(request_timeout=20, acquire_timeout=20, release_timeout=20))


@pytest.fixture
def heard(service: LockService) -> list[Event]:
    events: list[Event] = []
    service.events.subscribe(events.append)
    return events


@contextmanager
def by_hold(service: LockService) -> Iterator[None]:
    with service.hold(NAME, TTL):
        yield


def under_hold(service: LockService, work: Callable[[], object]) -> object:
    with by_hold(service):
        return work()


def under_with_lock(service: LockService, work: Callable[[], object]) -> object:
    return service.with_lock(NAME, work, TTL)


WAYS = [under_hold, under_with_lock]


@pytest.mark.parametrize("under", WAYS)
def test_the_work_runs_under_the_lock(
    rtdb: Rtdb, service: LockService, under: Callable[[LockService, Callable[[], object]], object]
) -> None:
    """The lock is held while the work runs, its result comes back, and the lock is gone when it has."""

    def work() -> object:
        assert rtdb.get(PATH) is not None
        return ["a result"]

    for _ in range(2):
        assert under(service, work) == ["a result"]
        assert rtdb.get(PATH) is None


@pytest.mark.parametrize("under", WAYS)
@pytest.mark.parametrize("error", [ZeroDivisionError, KeyboardInterrupt, SystemExit, GeneratorExit])
def test_what_ends_the_work_releases_the_lock(
    rtdb: Rtdb,
    service: LockService,
    under: Callable[[LockService, Callable[[], object]], object],
    error: type[BaseException],
) -> None:
    """Whatever the work raises, also what ends a process, comes through, and the lock is released."""

    def work() -> None:
        raise error("the work's own")

    with pytest.raises(error, match="the work's own"):
        under(service, work)
    assert rtdb.get(PATH) is None


@pytest.mark.parametrize("under", WAYS)
def test_a_failing_release_masks_nothing(
    rtdb: Rtdb,
    service: LockService,
    heard: list[Event],
    under: Callable[[LockService, Callable[[], object]], object],
) -> None:
    """Result or exception of the work come through a release that fails, which is told as an event of its own."""
    rtdb.faults.answer(429, headers={"Retry-After": "3600"}, path=PATH, method="DELETE", times=None)
    assert under(service, lambda: "a result") == "a result"
    assert [event.slug for event in heard] == ["lock.acquired", "lock.release_failed"]
    assert rtdb.get(PATH) is not None
    rtdb.set(PATH, None)

    def work() -> None:
        raise ZeroDivisionError("the work's own")

    with pytest.raises(ZeroDivisionError, match="the work's own") as caught:
        under(service, work)
    assert caught.value.__context__ is None
    assert heard[-1].slug == "lock.release_failed"
    assert rtdb.get(PATH) is not None


def test_a_refused_block_is_not_entered(rtdb: Rtdb, service: LockService) -> None:
    """`with` raises NotAcquired, whose refusal tells who is in the way, and its body never runs."""
    with service.hold(NAME, TTL) as lease:
        before = rtdb.get(PATH)
        with pytest.raises(NotAcquired) as caught, service.hold(NAME, TTL):
            raise AssertionError("the body ran without its lock")
        refusal = caught.value.refusal
        assert (refusal.reason, refusal.holder) == ("held", lease.holder)
        assert str(caught.value) == refusal.message
        assert rtdb.get(PATH) == before
    assert rtdb.get(PATH) is None


def test_a_refused_function_is_not_called(rtdb: Rtdb, service: LockService) -> None:
    """`with_lock` returns the Refusal and doesn't call the function; the Refusal is false, a Lease is true."""
    called: list[str] = []
    with service.hold(NAME, TTL) as lease:
        assert lease
        before = rtdb.get(PATH)
        answer = service.with_lock(NAME, lambda: called.append("work"), TTL)
        assert isinstance(answer, Refusal)
        assert not answer
        assert answer.holder == lease.holder
        assert rtdb.get(PATH) == before
    assert called == []


def test_an_unknown_state_runs_nothing(rtdb: Rtdb, service: LockService) -> None:
    """Where it isn't known who holds the lock nothing runs, and NotAcquired has the store's error as its cause."""
    rtdb.faults.answer(429, headers={"Retry-After": "3600"}, path=PATH, times=None)
    with pytest.raises(NotAcquired) as caught, service.hold(NAME, TTL):
        raise AssertionError("the body ran without its lock")
    assert caught.value.refusal.reason == "unavailable"
    assert caught.value.__cause__ is caught.value.refusal.error is not None


def test_a_function_that_returns_something_to_await_is_refused(rtdb: Rtdb, service: LockService) -> None:
    """A sync function that returns a coroutine is a TypeError that says what to do, and the lock is released."""

    async def work() -> None:
        raise AssertionError("it ran without its lock")

    def starts_work() -> object:
        return work()

    with pytest.raises(TypeError, match="the async function itself"):
        service.with_lock(NAME, starts_work, TTL)
    assert rtdb.get(PATH) is None


def test_a_block_is_for_one_use_at_a_time(rtdb: Rtdb, service: LockService) -> None:
    """A block that was never entered can't be left."""
    with pytest.raises(RuntimeError, match=NAME):
        service.hold(NAME, TTL).__exit__(None, None, None)
    assert rtdb.get() is None


@pytest.mark.parametrize("renews", [True, False])
def test_who_hears_of_a_loss_sees_it(rtdb: Rtdb, service: LockService, renews: bool) -> None:
    """When the loss of a lease is told its flag is set already, however long the telling takes."""
    lease = service.acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    seen: list[bool] = []
    service.events.subscribe(lambda event: seen.append(bool(lease.lost)) if event.slug == "lock.lost" else None)
    rtdb.set(PATH, None)
    assert not (lease.renew() if renews else lease.release())
    assert seen == [True]


def test_a_lease_that_is_lost_tells_the_work(rtdb: Rtdb, service: LockService, heard: list[Event]) -> None:
    """When the node is deleted under a block, its next renewal tells the lease, whose check raises; it stays away."""
    with service.hold(NAME, TTL) as lease:
        lease.check()
        told: list[str] = []
        lease.when_lost(lambda: told.append("lost"))
        rtdb.set(PATH, None)
        assert not lease.renew()
        assert told == ["lost"]
        lease.when_lost(lambda: told.append("lost already"))
        assert told == ["lost", "lost already"]
        with pytest.raises(LeaseLost):
            lease.check()
    assert [event.slug for event in heard] == ["lock.acquired", "lock.lost"]
    assert rtdb.get(PATH) is None
