"""A lease: what its holder can see of it, that its end is told once, and that it is given back once."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import World
from tests.unit.threads import Watched

from firecron import Cancelled, Lease, LeaseLost
from firecron.base.clocks import TimedLock
from firecron.base.flag import Flag
from firecron.errors import Denied, Unavailable

NINE = datetime(2026, 11, 18, 9, 0, tzinfo=UTC)


def after(lease: Lease, seconds: float, world: World) -> Lease:
    world.advance(seconds)
    return lease


def test_a_lease_is_true_and_shows_what_it_is(world: World, one: Instance) -> None:
    """A lease is true, and its properties are those of the record."""
    lease = one.acquire(fenced=True)
    node = world.node()
    assert lease
    assert node
    assert lease.name == "job"
    assert (lease.holder, lease.fence) == (node["holder"], node["fence"])
    assert (lease.slot, lease.attempt) == (None, None)
    assert lease.expires_at.timestamp() * 1000 == node["expiresAt"]
    assert repr(lease) == "<Lease job held until 2026-11-18T09:01:00Z>"


def test_lost_is_a_flag_and_an_event(world: World, one: Instance) -> None:
    """`lost` is false and can be waited for; when the keeper loses the lease, whoever waits wakes."""
    lease = one.keep(ttl=60)
    assert not lease.lost
    assert not lease.lost.is_set()
    assert not lease.lost.wait(0)
    lease.check()
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(lease.lost.wait, 20)
        world.advance(59)
        one.renew()
        assert waiting.result(20)
    assert lease.lost
    with pytest.raises(LeaseLost, match="another instance may be at work"):
        lease.check()


def test_a_lease_is_lost_once(world: World, one: Instance) -> None:
    """However many notice the end, it is told once, as an ERROR that says why."""
    lease = after(one.acquire(), 60, world)
    for _ in range(3):
        assert lease.lost
        lease.lose("said again")
        assert one.renew() is None
    [told] = one.said("lock.lost")
    assert told.level == logging.ERROR
    assert told.message == 'Lock "job" lost: its lease ran out and was not renewed'
    assert told.fields["holder"] == lease.holder


@pytest.mark.parametrize(
    "end", [lambda lease: lease.lose("lost"), lambda lease: lease.release()], ids=["lost", "released"]
)
def test_nobody_finds_a_lease_that_is_neither_held_nor_lost(one: Instance, end: Callable[[Lease], object]) -> None:
    """The flag is set before all else: another thread may look just then, long after the lease's end."""
    lease = one.acquire()
    was_held: list[bool] = []

    class Looked(Flag):
        def set(self) -> None:
            was_held.append(lease.is_held())
            super().set()

    vars(lease)["_lost"] = Looked()
    end(lease)
    assert lease.lost
    assert was_held == [True]


def test_what_is_lost_before_its_end_is_kept_no_more(world: World, one: Instance) -> None:
    """The keeper has nothing to do with a lease whose loss its holder found out."""
    lease = one.acquire()
    world.put(None)
    assert lease.renew() is False
    assert one.renew() is None


@pytest.mark.parametrize("seconds", [59, 3600])
def test_what_is_lost_is_not_renewed(world: World, one: Instance, seconds: float) -> None:
    """After its end a lease stays lost, also while the record is still there, and RTDB isn't asked for that."""
    lease = after(one.acquire(ttl=60), seconds, world)
    before = world.node(), len(one.network.calls)
    assert lease.renew() is False
    assert lease.lost
    assert (world.node(), len(one.network.calls)) == before


@pytest.mark.parametrize("error", [Unavailable("down"), Denied("no")])
def test_a_renewal_that_is_not_known_raises(world: World, one: Instance, error: Exception) -> None:
    """Where RTDB can't say, the lease goes on until its end, and the caller hears why."""
    lease = one.acquire(ttl=60)
    one.network.next("swap", before=failing(error), times=50)
    with pytest.raises(type(error) if isinstance(error, Unavailable) else (Denied, Unavailable)):
        lease.renew()
    assert lease.is_held()


def test_listeners_hear_of_the_loss_once(world: World, one: Instance) -> None:
    """A listener is called when the lease is lost; one that comes later, at once; each once."""
    lease = one.acquire()
    heard: list[str] = []
    lease.when_lost(lambda: heard.append("early"))
    assert heard == []
    after(lease, 60, world)
    assert lease.lost
    assert heard == ["early"]
    lease.when_lost(lambda: heard.append("late"))
    lease.lose("again")
    assert heard == ["early", "late"]


def test_the_flag_is_set_when_listeners_hear(world: World, one: Instance) -> None:
    """Who is told of the loss sees it."""
    lease = one.acquire()
    seen: list[bool] = []
    lease.when_lost(lambda: seen.append(lease.lost.is_set()))
    after(lease, 60, world)
    assert lease.lost
    assert seen == [True]


def test_a_release_is_no_loss_to_listeners(world: World, one: Instance) -> None:
    """Listeners of a lease that was given back hear nothing, also after its expiry."""
    lease = one.acquire()
    heard: list[str] = []
    lease.when_lost(lambda: heard.append("lost"))
    lease.release()
    after(lease, 3600, world)
    lease.lose("too late")
    lease.when_lost(lambda: heard.append("later"))
    assert heard == []
    assert "lock.lost" not in one.slugs()


@pytest.mark.parametrize("error", [None, Unavailable("down")])
def test_after_its_release_a_lease_is_trusted_no_more(world: World, one: Instance, error: Exception | None) -> None:
    """From the release on `lost` is true and `check()` raises, also while the release is under way or has failed."""
    lease = one.acquire()
    lease.check()
    seen: list[bool] = []
    one.network.next("swap", before=lambda: seen.append(bool(lease.lost)))
    if error is not None:
        one.network.next("swap", after=failing(error), times=50)
        one.network.next("read", before=failing(error), times=50)
        world.put(None)
    lease.release()
    assert seen == [True]
    assert lease.lost
    assert lease.lost.wait(0)
    with pytest.raises(LeaseLost):
        lease.check()


def ends_by_release(world: World, one: Instance, lease: Lease) -> None:
    world.put(None)
    assert lease.release() is False


def ends_by_keeper(world: World, one: Instance, lease: Lease) -> None:
    world.advance(60)
    assert one.renew() is None


@pytest.mark.parametrize("end", [ends_by_release, ends_by_keeper])
def test_a_listener_that_raises_breaks_nothing(
    world: World, one: Instance, end: Callable[[World, Instance, Lease], None]
) -> None:
    """A callback that raises, as one into a closed event loop does, is told as itself, and the next one is called."""
    lease = one.acquire()
    heard: list[str] = []
    lease.when_lost(failing(RuntimeError("Event loop is closed")))
    lease.when_lost(lambda: heard.append("next"))
    end(world, one, lease)
    lease.when_lost(failing(RuntimeError("Event loop is closed")))
    assert heard == ["next"]
    told = one.said("listener.failed")
    assert len(told) == 2
    assert all("Event loop is closed" in event.message and event.level == logging.ERROR for event in told)


def test_in_a_forked_child_a_lease_is_over_without_a_word(world: World, one: Instance) -> None:
    """A child sees its parent's lease as lost, can't release it, and says nothing."""
    lease = one.acquire()
    before, said = world.node(), len(one.events)
    one.locks.database.after_fork()
    assert lease.lost
    assert lease.release() is False
    assert lease.renew() is False
    after(lease, 60, world)
    lease.lose("said")
    assert world.node() == before
    assert len(one.events) == said


def test_no_thread_of_a_child_trusts_the_lease_while_another_one_ends_it(
    one: Instance, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whoever looks at that moment finds it over."""
    lease = one.acquire()
    one.locks.database.after_fork()
    seen: list[bool] = []
    make = one.locks.database.timing.lock

    def looking() -> TimedLock:
        monkeypatch.setattr(one.locks.database.timing, "lock", make)
        seen.extend([lease.is_held(), bool(lease.lost)])
        return make()

    monkeypatch.setattr(one.locks.database.timing, "lock", looking)
    assert lease.lost
    assert seen == [False, True]


def asked(one: Instance, lease: Lease) -> bool:
    """Ask the lease's holder to stop, as an operator does."""
    assert lease.fence is not None
    return one.locks.database.cancel(lease.name, lease.holder, lease.fence, "w" * 501)


def test_a_cancelled_lease_is_told_at_its_renewal_and_stays_good(world: World, one: Instance) -> None:
    """The renewal finds the cancel: the flag is set, `check` raises, and the lease is trusted and renewed as before."""
    lease, heard = one.acquire(fenced=True), [0]
    lease.when_cancelled(lambda: heard.append(1))
    assert asked(one, lease)
    lease.check()
    assert (bool(lease.cancelled), heard) == (False, [0])
    world.advance(30)
    for _ in range(2):
        assert lease.renew()
        assert (bool(lease.cancelled), bool(lease.lost), heard) == (True, False, [0, 1])
        world.advance(30)
    assert world.node()["cancel"] == lease.fence
    with pytest.raises(Cancelled, match="end it cleanly"):
        lease.check()
    [told] = one.said("lock.cancelled")
    assert told.fields["why"] == lease.why_cancelled == "w" * 500
    lease.when_cancelled(lambda: heard.append(2))
    assert heard == [0, 1, 2]
    assert lease.release()
    assert not lease.was_lost


def test_a_cancel_that_cost_its_renewal_the_reply_is_found(world: World, one: Instance) -> None:
    """A renewal that was written without a reply reads the node back, and finds the cancel in it."""
    lease = one.acquire(fenced=True)
    assert asked(one, lease)
    one.network.lose_reply()
    world.advance(30)
    assert lease.renew()
    assert lease.cancelled


def test_a_reason_that_is_no_text_is_none(world: World, one: Instance) -> None:
    """An operator may have typed anything in the console; the cancel counts, and there is no reason."""
    lease = one.acquire(fenced=True)
    world.edit(cancel=lease.fence, cancelWhy=7)
    assert lease.renew()
    assert (bool(lease.cancelled), lease.why_cancelled) == (True, None)
    assert one.said("lock.cancelled")[0].message == 'Lock "job" cancelled, its holder is asked to stop'


def test_a_cancel_of_another_acquisition_is_not_heard(world: World, one: Instance) -> None:
    """A lower fence in `cancel` was meant for an earlier holder, and a lease without a fence is never asked."""
    fenced = one.acquire(fenced=True)
    assert fenced.fence is not None
    world.edit(cancel=fenced.fence - 1, cancelWhy="long ago")
    assert fenced.renew()
    assert not fenced.cancelled
    assert fenced.release()
    kept = one.acquire()
    world.edit(cancel=fenced.fence)
    assert kept.renew()
    assert (kept.fence, bool(kept.cancelled)) == (None, False)


def test_what_is_over_is_not_cancelled(world: World, one: Instance) -> None:
    """A cancel of what was released or lost is refused, changes no node, and tells nobody."""
    lease = one.acquire(fenced=True)
    assert lease.release()
    before = world.node()
    assert not asked(one, lease)
    assert world.node() == before
    lease.cancel()
    assert not lease.cancelled
    lost = one.acquire(fenced=True)
    world.advance(60)
    assert lost.lost
    lost.cancel()
    assert not lost.cancelled
    assert one.slugs("lock.cancelled") == []


def test_a_lost_lease_is_lost_before_it_is_cancelled(world: World, one: Instance) -> None:
    """`check` raises LeaseLost where both are true: others may be at work."""
    lease = one.acquire(fenced=True)
    lease.cancel()
    world.advance(60)
    with pytest.raises(LeaseLost):
        lease.check()


def test_a_callback_for_a_cancellation_that_raises_breaks_nothing(one: Instance) -> None:
    """It is told as itself, and the next one is called."""
    lease, heard = one.acquire(fenced=True), [0]
    lease.when_cancelled(failing(RuntimeError("boom")))
    lease.when_cancelled(lambda: heard.append(1))
    lease.cancel()
    lease.cancel()
    assert heard == [0, 1]
    [told] = one.said("listener.failed")
    assert told.message == "The callback for the cancellation of lock \"job\" raised RuntimeError('boom')"


def held_up(one: Instance) -> tuple[threading.Event, threading.Event]:
    """The next write's request has begun, and it may go on."""
    begun, go_on = threading.Event(), threading.Event()

    def stop() -> None:
        begun.set()
        assert go_on.wait(20)

    one.network.next("swap", before=stop)
    return begun, go_on


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


def test_two_threads_release_at_once(world: World, one: Instance) -> None:
    """Of two releases at the same time one does it, and the other returns without waiting."""
    lease = one.acquire()
    under_way, go_on = held_up(one)
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
    renewing, go_on = held_up(one)
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
    renewing, go_on = held_up(one)
    with ThreadPoolExecutor(1) as pool:
        renewal = pool.submit(lease.renew)
        assert renewing.wait(20)
        assert lease.release() is False
        go_on.set()
        renewal.result(20)
    [told] = one.said("lock.release_failed")
    assert "a renewal under way did not end in time" in told.message


@pytest.mark.parametrize(
    "error", [Unavailable("down"), Denied("no"), ValueError("a bug"), RuntimeError("can't start new thread")]
)
def test_a_release_never_raises(world: World, one: Instance, error: Exception) -> None:
    """Whatever goes wrong in a release is told, with when the lock frees itself, and raised to nobody."""
    lease = one.acquire()
    one.network.next("swap", before=failing(error), times=50)
    assert lease.release() is False
    [told] = one.said("lock.release_failed")
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
    [told] = one.said("lock.lost")
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
