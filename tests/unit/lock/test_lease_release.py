"""Giving a lease back: once, beside a renewal or another release, and whatever goes wrong."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import World
from tests.unit.threads import Watched

from firecron.errors import Denied, Unavailable


def test_a_release_deletes_a_plain_lock(world: World, one: Instance) -> None:
    """A plain lock leaves nothing behind, and is told once."""
    lease = one.acquire()
    assert lease.release() is True
    assert world.node() == {}
    assert one.renew() is None, "the keeper has nothing to keep"
    assert lease.is_held() is False
    world.advance(3600)
    assert lease.lost
    assert not lease.was_lost
    assert one.slugs() == ["lock.acquired", "lock.released"]
    assert repr(lease).startswith("<Lease job released")


def test_a_second_release_does_nothing(world: World, one: Instance) -> None:
    """Only the first release gives the lock back; a later one leaves a successor alone."""
    lease = one.acquire()
    assert lease.release() is True
    other = Instance(world)
    other.acquire()
    before = world.node()
    assert lease.release() is False
    assert world.node() == before
    assert one.slugs().count("lock.released") == 1


def test_two_threads_release_at_once(world: World, one: Instance) -> None:
    """Of two releases at the same time one does it, and the other returns without waiting."""
    lease = one.acquire()
    under_way, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        under_way.set()
        assert go_on.wait(20)

    one.network.next("swap", before=stop)
    with ThreadPoolExecutor(1) as pool:
        first = pool.submit(lease.release)
        assert under_way.wait(20)
        assert lease.release() is False
        go_on.set()
        assert first.result(20) is True
    assert world.node() == {}
    assert one.slugs() == ["lock.acquired", "lock.released"]


def test_a_release_waits_for_a_renewal_under_way(world: World, one: Instance) -> None:
    """The node is as the release left it, also when a renewal was in flight: it is not put back."""
    requesting = Watched()
    one.timing.make_lock = lambda: requesting
    lease = one.acquire()
    renewing, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        renewing.set()
        assert go_on.wait(20)

    one.network.next("swap", before=stop)
    with ThreadPoolExecutor(2) as pool:
        renewal = pool.submit(lease.renew)
        assert renewing.wait(20)
        requesting.wait()
        release = pool.submit(lease.release)
        requesting.wait()
        go_on.set()
        assert renewal.result(20) is True
        assert release.result(20) is True
    assert one.network.methods[-2:] == ["swap", "swap"]
    assert world.node() == {}
    assert not lease.was_lost


def test_a_renewal_that_waited_beside_a_release_sends_nothing(world: World, one: Instance) -> None:
    """Once the release has begun, a renewal that waits for its turn asks the database nothing, whoever comes first."""
    requesting = Watched()
    one.timing.make_lock = lambda: requesting
    lease = one.acquire()
    assert requesting.acquire()
    requesting.wait()
    with ThreadPoolExecutor(2) as pool:
        renewal = pool.submit(lease.renew)
        requesting.wait()
        release = pool.submit(lease.release)
        requesting.wait()
        requesting.release()
        assert renewal.result(20) is False
        assert release.result(20) is True
    assert one.network.methods.count("swap") == 2
    assert world.node() == {}


def test_a_release_does_not_wait_for_a_renewal_for_ever(world: World) -> None:
    """A renewal that hangs costs the release its own deadline, and no more; it is told as a failed release."""
    one = Instance(world, release_timeout=0.05, request_timeout=0.05)
    lease = one.acquire()
    renewing, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        renewing.set()
        assert go_on.wait(20)

    one.network.next("swap", before=stop)
    with ThreadPoolExecutor(1) as pool:
        renewal = pool.submit(lease.renew)
        assert renewing.wait(20)
        assert lease.release() is False
        go_on.set()
        renewal.result(20)
    [told] = [event for event in one.events if event.slug == "lock.release_failed"]
    assert "a renewal under way did not end in time" in told.message


@pytest.mark.parametrize(
    "error", [Unavailable("down"), Denied("no"), ValueError("a bug"), RuntimeError("can't start new thread")]
)
def test_a_release_never_raises(world: World, one: Instance, error: Exception) -> None:
    """Whatever goes wrong in a release is told, with when the lock frees itself, and raised to nobody."""
    lease = one.acquire()
    one.network.next("swap", before=failing(error), times=50)
    assert lease.release() is False
    [told] = [event for event in one.events if event.slug == "lock.release_failed"]
    assert told.level == logging.ERROR
    assert told.message.startswith('Failed to release lock "job": ')
    assert str(error) in told.message
    assert told.message.endswith("It expires at 2026-11-18T09:01:00Z")
    assert not lease.is_held()


@pytest.mark.parametrize(
    ("gone", "why"),
    [({}, "the node was deleted"), ({"expiresAt": 1, "holder": "x", "instanceId": "rev-9"}, "rev-9 holds it now")],
    ids=["deleted", "taken"],
)
def test_a_release_that_finds_the_lock_gone_tells_of_the_loss(
    world: World, one: Instance, gone: object, why: str
) -> None:
    """A holder that learns only from its release that the lock was not its own any more has lost it, and says so."""
    lease = one.acquire()
    world.put(gone)
    assert lease.release() is False
    assert world.node() == gone
    assert lease.lost
    assert lease.was_lost
    [told] = [event for event in one.events if event.slug == "lock.lost"]
    assert why in told.message


def test_releasing_what_is_lost_tells_of_no_second_loss(world: World, one: Instance) -> None:
    """A release after a loss cleans up what is still the holder's, tells of nothing twice, and of no release."""
    lease = one.acquire()
    world.advance(60)
    assert lease.lost
    assert lease.release() is True
    assert world.node() == {}
    assert one.slugs().count("lock.lost") == 1
    gone = one.acquire()
    world.advance(60)
    assert gone.lost
    world.put(None)
    assert gone.release() is False
    assert one.slugs().count("lock.lost") == 2
    assert "lock.released" not in one.slugs()


def test_a_lease_may_be_lost_while_its_release_is_under_way(world: World, one: Instance) -> None:
    """Once the release has begun, the passing of time is no loss: the holder had ended before."""
    lease = one.acquire()
    one.network.next("swap", before=lambda: world.advance(0.5))
    world.advance(58.9)
    assert lease.release() is True
    assert not lease.was_lost
    assert "lock.lost" not in one.slugs()
