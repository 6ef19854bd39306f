"""Locks between real processes: races, sudden death, fork, signals; what blocks answer; work that is done once."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest
from tests.process.lock_children import Child, children
from tests.process.once_rounds import NUMBER, play

from firecron.base.events import Event
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
def test_a_failing_release_masks_nothing(
    rtdb: Rtdb, service: LockService, heard: list[Event], under: Callable[[LockService, Callable[[], object]], object]
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


ROUNDS = 50


def node(rtdb: Rtdb, name: str) -> dict[str, Any]:
    found = rtdb.get(f"/cron-locks/{name}")
    assert isinstance(found, dict), found
    return found


@pytest.fixture
def pair(rtdb: Rtdb) -> Iterator[list[Child]]:
    with children(2) as both:
        yield both


@pytest.fixture
def child(rtdb: Rtdb) -> Iterator[Child]:
    with children(1) as [only]:
        yield only


def test_of_two_processes_one_wins_a_node_that_is_not_there(rtdb: Rtdb, pair: list[Child]) -> None:
    """When both have seen the lock free and both write, exactly one has it, in each of fifty rounds."""
    for number in range(ROUNDS):
        name = f"round-{number}"
        with ExitStack() as ending:
            # A barrier in the server: both writes are there before either is done.
            holds = [ending.enter_context(rtdb.faults.hold(path=f"/cron-locks/{name}", method="PUT")) for _ in pair]
            for contender in pair:
                contender.tell("acquire", name=name, ttl=60)
            for hold in holds:
                hold.wait(40)
        answers = [contender.hear() for contender in pair]
        [winner] = [index for index, answer in enumerate(answers) if "holder" in answer]
        assert answers[1 - winner] == {"reason": "held"}
        assert node(rtdb, name)["holder"] == answers[winner]["holder"]
        assert pair[winner].ask("release", name=name) == {"released": True}
        assert rtdb.get(f"/cron-locks/{name}") is None
    assert rtdb.count(method="PUT", path="/cron-locks/*") == 2 * ROUNDS


def test_a_killed_holders_lock_goes_to_another_when_it_expires(rtdb: Rtdb, pair: list[Child]) -> None:
    """After SIGKILL nobody renews; who waits for the lock has it at its expiry plus the margin, and not before."""
    dying, heir = pair
    renewal = rtdb.faults.hold(path="/cron-locks/job", method="PUT", moment="after", nth=2)
    holder = dying.ask("hold", name="job", ttl=3)["holder"]
    renewal.wait(40)
    dying.process.kill()
    dying.process.wait()
    renewal.release()
    last = node(rtdb, "job")
    assert last["holder"] == holder
    inherited = heir.ask("acquire", name="job", ttl=60, wait=30)
    now = node(rtdb, "job")
    assert now["holder"] == inherited["holder"] != holder
    assert now["acquiredAt"] >= last["expiresAt"] + 500


def test_a_fork_leaves_the_lease_to_the_parent(rtdb: Rtdb, child: Child) -> None:
    """In a forked child the parent's lease is over, and locks of its own are its; the parent's goes on undisturbed."""
    holder = child.ask("hold", name="parents", ttl=6)["holder"]
    child.ask("fork")
    forked = child.forked
    assert forked.ask("look", name="parents") == {"lost": True}
    assert forked.ask("release", name="parents") == {"released": False}
    assert node(rtdb, "parents")["holder"] == holder
    own = forked.ask("hold", name="childs", ttl=6)["holder"]
    assert own != holder
    assert forked.ask("acquire", name="parents", ttl=6) == {"reason": "held"}
    before = {name: node(rtdb, name)["expiresAt"] for name in ("parents", "childs")}
    renewals = {name: rtdb.faults.hold(path=f"/cron-locks/{name}", method="PUT", moment="after") for name in before}
    for name, renewal in renewals.items():
        renewal.wait(40)
        renewal.release()
        assert node(rtdb, name)["expiresAt"] > before[name]
    assert child.ask("look", name="parents") == {"lost": False}
    assert forked.ask("release", name="childs") == {"released": True}
    assert child.ask("release", name="parents") == {"released": True}
    assert rtdb.get("/cron-locks") is None


def test_a_forked_child_has_sockets_of_its_own(rtdb: Rtdb, child: Child) -> None:
    """While the parent's request is under way on a connection from before the fork, the child's gets its own answer."""
    child.ask("acquire", name="parents", ttl=60)
    child.ask("fork")
    hold = rtdb.faults.hold(path="/cron-locks/parents", method="DELETE")
    child.tell("release", name="parents")
    hold.wait(40)
    assert "holder" in child.forked.ask("acquire", name="childs", ttl=60)
    hold.release()
    assert child.hear() == {"released": True}
    assert rtdb.get("/cron-locks/parents") is None
    assert child.forked.ask("release", name="childs") == {"released": True}


@pytest.mark.parametrize(
    ("number", "codes"), [(signal.SIGINT, {-signal.SIGINT, 130}), (signal.SIGTERM, {143})], ids=["SIGINT", "SIGTERM"]
)
def test_a_signal_that_ends_the_block_releases_its_lock(
    rtdb: Rtdb, child: Child, number: signal.Signals, codes: set[int]
) -> None:
    """A KeyboardInterrupt, or the SystemExit of a SIGTERM handler, leaves a held block by way of its release."""
    holder = child.ask("work_under", name="job", ttl=60)["holder"]
    assert node(rtdb, "job")["holder"] == holder
    os.kill(child.process.pid, number)
    assert child.process.wait(40) in codes
    assert rtdb.get("/cron-locks/job") is None


@pytest.mark.skipif(sys.platform != "linux", reason="it asks /proc for the processes of a process")
def test_i51_twenty_processes_do_it_once_although_some_are_killed() -> None:
    """Never do two call at a time, nobody calls after the first record, and all who are left are told the same."""
    played = play(1)
    assert list(played.problems()) == []
    assert len(played.killed) >= 2
    assert len(played.of("told")) + len(played.killed) >= NUMBER
    assert len(played.of("begins")) >= 2, "one was killed at it"
