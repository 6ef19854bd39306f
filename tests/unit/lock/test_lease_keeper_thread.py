"""The keeper's thread: when it wakes, what it waits for, and how it ends."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
from tests.simulation.network import failing
from tests.simulation.world import Clock, World
from tests.unit.lock.kept import Kept
from tests.unit.threads import Resting, ended, named

from firecron.base.events import Events
from firecron.lock.keeper import Keeper
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeTiming

NAME = "firecron-keeper"


def test_the_thread_renews_by_itself() -> None:
    """On its own thread the keeper wakes when something is due, and when something new comes."""
    timing = FakeTiming()
    keeper = Keeper(timing, Events(), renewal_timeout=3.0)
    for ttl in (60.0, 30.0):
        lease = Kept(timing, ttl)
        renewed = threading.Event()
        lease.renewal = lambda event=renewed: event.set() is None  # type: ignore[misc]  # bound to this lease's event
        keeper.keep(lease, renews=True)
        timing.advance(ttl / 3)
        assert renewed.wait(20)
    keeper.stop()


def test_one_thread_keeps_all_leases_and_rests_without_any() -> None:
    """Another lease begins no other thread, and a rest ends it only when no lease is left."""
    timing, before = Resting(), named(NAME)
    keeper = Keeper(timing, Events(), 3.0)
    leases = [Kept(timing) for _ in range(3)]
    keeper.keep(leases[0], renews=True)
    timing.rests()
    keeper.keep(leases[1], renews=True)
    [thread] = named(NAME) - before
    keeper.forget(leases[1])
    keeper.rest()
    keeper.keep(leases[2], renews=True)
    assert named(NAME) - before == {thread}
    for kept in keeper.leases():
        keeper.forget(kept)
    keeper.rest()
    assert ended(thread)


def test_a_lease_wakes_the_thread_only_where_it_would_not_look_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that keeps a lease looks every two seconds by itself. What is due sooner wakes it, and so does the first
    lease after a time without any.
    """
    timing = Resting()
    keeper = Keeper(timing, Events(), renewal_timeout=3.0)
    leases = [Kept(timing), Kept(timing, 6), Kept(timing, 5.9)]
    keeper.keep(leases[0], renews=True)
    timing.rests()
    notify, woken = timing.condition.notify, []

    def note(*number: int) -> None:
        woken.append(number)
        notify(*number)

    monkeypatch.setattr(timing.condition, "notify", note)
    keeper.keep(leases[1], renews=True)
    assert woken == []
    keeper.keep(leases[2], renews=True)
    assert woken == [()]
    timing.rests()
    for lease in leases:
        keeper.forget(lease)
    timing.advance(2)
    timing.rests()
    woken.clear()
    keeper.keep(Kept(timing), renews=True)
    assert woken == [()]
    timing.rests()
    keeper.stop()


# What ends a thread here is an exit, of which Python tells nobody.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_its_thread_wakes_for_its_end() -> None:
    """A daemon thread ends at a stop. What was kept until then is kept no more, and the next lease has another thread;
    so it has where the thread has ended by itself.
    """
    timing = Resting()
    keeper = Keeper(timing, Events(), renewal_timeout=3.0)
    leases = [Kept(timing) for _ in range(4)]
    others = named(NAME)
    keeper.keep(leases[0], renews=True)
    timing.rests()
    keeper.keep(leases[1], renews=True)
    [first] = named(NAME) - others
    keeper.stop()
    assert ended(first)
    assert first.daemon
    keeper.keep(leases[2], renews=True)
    timing.rests()
    [second] = named(NAME) - others
    timing.ends = True
    timing.advance(1)
    assert ended(second)
    timing.ends = False
    keeper.keep(leases[3], renews=True)
    timing.rests()
    [third] = named(NAME) - others
    timing.advance(20)
    timing.rests()
    assert [lease.at for lease in leases] == [[], [], [21], [21]]
    keeper.stop()
    assert ended(third)


class Steps(FakeTiming):
    """Time that passes for whoever waits, and is noted; `until` seconds are over the keeper is stopped."""

    def __init__(self, until: float) -> None:
        super().__init__()
        self.waits: list[float | None] = []
        self.end: Callable[[], object] = lambda: None
        self._until = until * 1000

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.waits.append(seconds)
        if seconds is None or self.mono() + seconds * 1000 >= self._until:
            self.end()
        else:
            self.advance(seconds)


def kept_to_the_end(keeper: Keeper, lease: Kept) -> None:
    """Keep the lease, and return when the keeper's thread has ended."""
    others = named(NAME)
    keeper.keep(lease, renews=True)
    assert all(map(ended, named(NAME) - others))


def test_what_comes_while_its_thread_works_is_not_waited_past() -> None:
    """A lease that comes just when the thread has done its work is renewed in time."""
    timing = Steps(until=3)
    keeper = Keeper(timing, Events(), renewal_timeout=3.0)
    timing.end = keeper.stop
    work, leases = keeper.work, [Kept(timing, 3)]

    def then() -> float | None:
        due = work()
        while leases:
            keeper.keep(leases.pop(), renews=True)
        return due

    keeper.work = then  # type: ignore[method-assign]  # the same, and something comes
    kept_to_the_end(keeper, Kept(timing, 60))
    assert timing.waits == [1.0, 1.0, 1.0]


@pytest.mark.parametrize("end", ["stop", "abandon"])
def test_its_thread_waits_no_more_after_its_end(end: str) -> None:
    """A stop that comes while the thread renews a lease, or a fork on that thread, ends it in the child: it doesn't
    wait for anything after that.
    """
    timing = Steps(until=30)
    keeper = Keeper(timing, Events(), renewal_timeout=3.0)
    timing.end = keeper.stop
    lease = Kept(timing)
    lease.renewal = lambda: getattr(keeper, end)() is None
    kept_to_the_end(keeper, lease)
    assert lease.at == [20]
    assert timing.waits == [2.0] * 10


@pytest.mark.parametrize("is_lost", [True, False])
def test_its_thread_waits_in_short_steps_until_something_is_due(is_lost: bool) -> None:
    """The thread waits for two seconds at the most, since a wait stops in suspend, and no longer than to what is due;
    without leases until there are some.
    """
    timing = Steps(until=23)
    keeper = Keeper(timing, Events(), renewal_timeout=3.0)
    timing.end = keeper.stop
    lease = Kept(timing, 63)
    lease.renewal = lambda: not is_lost
    kept_to_the_end(keeper, lease)
    assert timing.waits == [2.0] * 10 + ([1.0, None] if is_lost else [1.0, 2.0])
    assert lease.at == [21]


def test_a_lock_that_nobody_could_renew_is_not_acquired(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started to keep it, a lock is given back at once, and the answer is `unavailable`."""
    locks = LockService(settings=load(), store=world.store, timing=Clock(world))
    locks.clock.now(locks.deadline(10))
    refuse = failing(RuntimeError("can't start new thread"))
    monkeypatch.setattr(threading.Thread, "start", lambda thread: refuse())
    refusal = locks.acquire("job", 60, fenced=True)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "unavailable"
    assert "no thread could be started to keep the lease: can't start new thread" in refusal.message
    assert "releasedAt" in world.node()
