"""Invariants of fences and of a store that is down, closed, edited or crowded."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress

import firebase_admin
import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import START, World
from tests.unit.listeners import broken_listener

from firecron import Lease, LockService, NotAcquired, Refusal
from firecron.errors import Unavailable
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb


def by_release(world: World, lease: Lease) -> None:
    assert lease.release()


def by_expiry(world: World, lease: Lease) -> None:
    world.advance(61)


def by_unlock(world: World, lease: Lease) -> None:
    world.edit(expiresAt=0)


def by_an_unfenced_holder(world: World, lease: Lease) -> None:
    assert lease.release()
    plain = Instance(world).acquire()
    assert plain.fence is None or plain.fence == lease.fence
    assert plain.release()


@pytest.mark.parametrize("end", [by_release, by_expiry, by_unlock, by_an_unfenced_holder])
def test_i29_fences_rise(world: World, end: Callable[[World, Lease], None]) -> None:
    """However the last holder ended, and within the same millisecond too, the next fence is higher."""
    instances = [Instance(world), Instance(world)]
    fences: list[int] = []
    for number in range(6):
        lease = instances[number % 2].acquire(fenced=True)
        assert lease.fence is not None
        fences.append(lease.fence)
        end(world, lease)
    assert fences == sorted(set(fences))


def test_i29_a_fence_rises_also_over_one_in_the_future(world: World) -> None:
    """A fence that is ahead of this instance's time is exceeded by one."""
    world.put({"expiresAt": 1, "releasedAt": 1, "fence": int(START) + 500})
    assert Instance(world).acquire(fenced=True).fence == int(START) + 501


def test_i29_a_fence_rises_over_a_deletion(world: World) -> None:
    """When the node was deleted, the time takes over: after twice the uncertainty the next fence is higher."""
    one, other = Instance(world), Instance(world)
    first = one.acquire(fenced=True)
    world.put(None)
    world.advance(2 * 0.0015)
    second = other.acquire(fenced=True)
    assert first.fence is not None
    assert second.fence is not None
    assert second.fence > first.fence


# For a database that does not answer. One that does may take its time on a busy machine.
QUICK = {"acquire_timeout": 0.2, "request_timeout": 0.2, "release_timeout": 0.2}


def down(rtdb: Rtdb) -> None:
    rtdb.faults.drop_request(times=None)


def closed_by_rules(rtdb: Rtdb) -> None:
    rtdb.set_rules({"rules": {".read": False, ".write": False}})


def malformed(rtdb: Rtdb) -> None:
    rtdb.set("/cron-locks/job", {"expiresAt": "soon"})


STORES: list[tuple[Callable[[Rtdb], None], str, dict[str, float]]] = [
    (down, "unavailable", QUICK),
    (closed_by_rules, "denied", {}),
    (malformed, "malformed", {}),
]


@pytest.mark.parametrize(("break_store", "reason", "settings"), STORES, ids=[case[1] for case in STORES])
def test_i31_down_denied_and_malformed_are_told_apart_and_nothing_runs(
    rtdb: Rtdb,
    request: pytest.FixtureRequest,
    break_store: Callable[[Rtdb], None],
    reason: str,
    settings: dict[str, float],
) -> None:
    """Three troubles of the store are three reasons; each is an ERROR, refuses, runs nothing and leaves the node."""
    # As nobody: rules don't bind the emulator's owner.
    options = {"databaseURL": rtdb.url, "databaseAuthVariableOverride": None}
    app = firebase_admin.initialize_app(options=options, name=rtdb.namespace)
    request.addfinalizer(lambda: firebase_admin.delete_app(app))
    break_store(rtdb)
    before = rtdb.get("/cron-locks")
    locks = LockService(app, load(**settings))
    called: list[str] = []
    levels: list[int] = []
    locks.events.subscribe(lambda event: levels.append(event.level))
    answer = locks.acquire("job", 60)
    assert isinstance(answer, Refusal)
    assert answer.reason == reason
    assert "Job will NOT run" in answer.message
    assert levels == [logging.ERROR]
    assert isinstance(locks.with_lock("job", lambda: called.append("run")), Refusal)
    with pytest.raises(NotAcquired), locks.hold("job", 60):
        called.append("run")
    assert called == []
    assert rtdb.get("/cron-locks") == before


def crowd(world: World, one: Instance) -> None:
    """Somebody always writes between the look and the write."""
    numbers = iter(range(1, 10_000))
    world.put({"note": 0})
    one.network.next("swap", before=lambda: world.edit(note=next(numbers)), times=1_000)


def test_i32_contention_is_bounded_by_the_deadline(world: World) -> None:
    """A lock that others change all the time is given up at the deadline, after tries further and further apart."""
    one = Instance(world, acquire_timeout=8)
    one.locks.clock.now(one.locks.deadline(8))
    crowd(world, one)
    refusal = one.refused()
    assert refusal.reason == "unavailable"
    assert world.mono() <= 8_000
    assert world.mono() > 8_000 - 2_000
    assert 5 <= one.network.methods.count("swap") <= 40
    pauses = one.timing.pauses
    assert max(pauses) <= 2
    assert max(pauses[:3]) < min(pauses[-2:])


@pytest.mark.parametrize("act", [Lease.renew, Lease.release])
def test_i32_a_renewal_or_release_that_is_always_overtaken_is_a_few_requests(
    world: World, act: Callable[[Lease], bool]
) -> None:
    """A node that changes before each write costs a few requests until the deadline, not thousands; the error says
    what may be in between.
    """
    one = Instance(world, acquire_timeout=8, release_timeout=8)
    lease = one.acquire()
    one.network.calls.clear()
    numbers = iter(range(10_000))
    one.network.next("swap", before=lambda: world.edit(note=next(numbers)), times=10_000)
    told = ""
    try:
        assert act(lease) is False
    except Unavailable as error:
        told = str(error)
    else:
        [event] = [event for event in one.events if event.slug == "lock.release_failed"]
        told = event.message
    assert "a proxy in between weakens ETags" in told
    assert 5 <= len(one.network.calls) <= 40
    assert max(one.timing.pauses[:2]) < min(one.timing.pauses[-2:])
    assert 6_000 < world.mono() <= 8_000


def test_i32_those_who_failed_together_come_again_apart(world: World) -> None:
    """The same number of failures gives two instances different pauses."""
    pauses: list[list[float]] = []
    for _ in range(2):
        one = Instance(world)
        crowd(world, one)
        one.refused()
        pauses.append(one.timing.pauses[:5])
    assert all(mine != theirs for mine, theirs in zip(*pauses, strict=True))


def test_i32_a_server_that_asks_to_be_left_alone_is(world: World) -> None:
    """A Retry-After within the deadline is waited for; one beyond it ends the try at once."""
    one = Instance(world, acquire_timeout=8)
    one.network.next("swap", before=failing(Unavailable("429", retry_after=3)))
    assert one.acquire().release()
    assert one.timing.pauses == [3]
    one.network.next("swap", before=failing(Unavailable("429", retry_after=3_600)))
    assert one.refused().reason == "unavailable"
    assert one.timing.pauses == [3]


class Broken(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        raise OSError("the disk is full")


def test_i33_listeners_and_log_handlers_that_raise_break_nothing(
    world: World, request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """With a listener and a log handler that raise at every event, a lock goes through its whole life."""
    logger, broken = logging.getLogger("firecron"), Broken()
    logger.addHandler(broken)
    request.addfinalizer(lambda: logger.removeHandler(broken))
    one, other = Instance(world), Instance(world)
    for instance in (one, other):
        instance.locks.events.subscribe(broken_listener)
    with one.locks.hold("job", 60) as lease:
        assert other.refused().reason == "held"
        world.advance(20)
        one.renew()
        one.network.next("swap", before=failing(Unavailable("slow")), times=100)
        world.advance(20)
        one.renew()
        one.network.mend()
        assert lease.is_held()
    assert world.node() == {}
    lost = one.keep()
    lost.when_lost(failing(ValueError("a callback")))
    world.advance(59)
    one.renew()
    assert lost.lost
    assert lost.release()
    heard = {"lock.acquired", "lock.renewal_failed", "lock.released", "lock.lost", "listener.failed"}
    assert heard <= set(one.slugs())


@pytest.mark.parametrize("left", [{}, {"paused": True}, {"note": "deleted by hand"}], ids=["all", "paused", "a note"])
def test_i37_a_deleted_node_is_not_recreated(world: World, left: object) -> None:
    """An operator deletes the node: the holder learns it with its next renewal, and puts nothing back."""
    one = Instance(world)
    lease = one.keep()
    heard = threading.Event()
    lease.when_lost(heard.set)
    world.put(left)
    assert not lease.lost
    world.advance(20)
    one.renew()
    assert lease.lost
    assert heard.is_set()
    [told] = [event for event in one.events if event.slug == "lock.lost"]
    assert "deleted" in told.message
    assert lease.release() is False
    assert world.node() == left
    world.advance(3600)
    one.renew()
    assert world.node() == left


def test_i37_a_node_deleted_between_the_look_and_the_write_is_not_recreated(world: World) -> None:
    """Also a renewal, or a release, that is under way when the node is deleted, puts nothing back."""
    one = Instance(world)
    for act in (Lease.renew, Lease.release):
        lease = one.acquire(fenced=True)
        one.network.next("swap", before=lambda: world.put(None))
        with suppress(Unavailable):
            assert act(lease) is False
        assert lease.lost
        assert world.node() == {}
