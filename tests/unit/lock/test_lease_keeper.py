"""The keeper: it renews and gives up in time, one lease's trouble is no other's; when its thread wakes, and ends."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from math import ceil

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import Clock, World
from tests.unit.listeners import recorded
from tests.unit.lock.kept import TTL, Kept
from tests.unit.threads import Resting, ended, named

from firecron.base.events import Events
from firecron.errors import Denied, Unavailable
from firecron.lock.keeper import Keeper
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeTiming


class Bench:
    """A keeper that is driven by hand."""

    def __init__(self) -> None:
        self.timing = FakeTiming()
        self.events = Events()
        self.heard = recorded(self.events)
        self.keeper = Keeper(self.timing, self.events, renewal_timeout=3.0)

    def keep(self, ttl: float = TTL, *, renews: bool = True, name: str = "kept", limit: float | None = None) -> Kept:
        lease = Kept(self.timing, ttl, name)
        self.keeper.keep(lease, renews=renews, limit=None if limit is None else limit * 1000)
        return lease

    def until(self, seconds: float) -> None:
        """Let time pass until then, and the keeper do everything in between when it is due."""
        for _ in range(1000):
            due = self.keeper.work()
            if due is None or due > seconds * 1000:
                break
            # To the next microsecond: time is moved in whole nanoseconds.
            self.timing.advance(ceil((due - self.timing.mono()) * 1000) / 1e6)
        else:
            raise AssertionError("the keeper is always busy")
        self.timing.advance(seconds - self.timing.mono() / 1000)
        self.keeper.work()


@pytest.fixture
def bench(by_hand: None) -> Bench:
    return Bench()


def test_nothing_to_keep(bench: Bench) -> None:
    """Without leases nothing is due."""
    assert bench.keeper.work() is None


def test_a_lease_is_renewed_every_third_of_its_ttl(bench: Bench) -> None:
    """Renewals come at a third of the ttl, each counted from the last, and no millisecond sooner."""
    lease = bench.keep()
    bench.until(19.999)
    assert lease.at == []
    bench.until(65)
    assert lease.at == [20, 40, 60]
    assert bench.keeper.work() == 80_000
    assert lease.lost == []


def test_a_renewal_takes_a_third_of_what_is_left_at_most(bench: Bench) -> None:
    """One attempt may take as long as one request, or a third of the rest of the lease where that is less."""
    long, short = bench.keep(60), bench.keep(6)
    bench.until(20)
    assert long.limits == [3.0]
    assert short.limits[0] == pytest.approx((6 - 1 - 2) / 3)


def test_failures_are_retried_with_growing_pauses_until_the_end_of_the_lease(bench: Bench) -> None:
    """A renewal that fails is tried again, later and later, up to the end of the lease and not past it."""
    lease = bench.keep()
    lease.renewal = failing(Unavailable("down"))  # type: ignore[assignment]  # it never answers
    bench.until(200)
    assert lease.at[0] == 20
    assert lease.at[-1] < 59
    assert lease.at[-1] > 59 - 2.1
    pauses = [later - sooner for sooner, later in zip(lease.at, lease.at[1:], strict=False)]
    assert pauses[0] <= 0.0251
    assert all(pause <= 2.0001 for pause in pauses)
    assert max(pauses[:3]) < min(pauses[-3:])
    assert len(pauses) < 50, "each pause but the longest is about twice the one before"
    assert lease.lost == ["its lease ran out and could not be renewed"]
    assert bench.keeper.work() is None


@pytest.mark.parametrize(("asked", "pause"), [(4.0, 4), (1_000.0, 13)])
def test_a_database_that_asks_for_a_pause_gets_it(bench: Bench, asked: float, pause: float) -> None:
    """After a failure that names a pause the next renewal comes no sooner, but within a third of what is left."""
    lease = bench.keep()
    lease.renewal = failing(Unavailable("busy", retry_after=asked))  # type: ignore[assignment]  # it never answers
    bench.until(20 + pause)
    assert lease.at == [20, 20 + pause]


def test_a_database_that_asks_for_longer_than_the_lease_gets_few_renewals(bench: Bench) -> None:
    """However long a pause it asks for, each renewal waits for a third of what is left, and so they are few."""
    lease = bench.keep()
    lease.renewal = failing(Unavailable("busy", retry_after=3_600))  # type: ignore[assignment]  # it never answers
    bench.until(60)
    assert 5 <= len(lease.at) <= 12
    assert lease.lost == ["its lease ran out and could not be renewed"]


def test_a_late_renewal_comes_up_to_the_end(bench: Bench) -> None:
    """A renewal that is late by all but half a millisecond of the lease is tried still."""
    lease = bench.keep()
    bench.timing.advance(58.9995)
    bench.keeper.work()
    assert lease.lost == []
    assert lease.at == [58.9995]


def test_each_failure_is_told_with_its_number(bench: Bench) -> None:
    """A failed renewal is a WARNING; the count starts anew after one that succeeded."""
    lease = bench.keep()
    outcomes = iter([Unavailable("slow"), Denied("no"), None, Unavailable("slow again")])

    def renewal() -> bool:
        failure = next(outcomes, None)
        if failure is not None:
            raise failure
        return True

    lease.renewal = renewal
    bench.until(50)
    failed = [event for event in bench.heard if event.slug == "lock.renewal_failed"]
    assert [event.fields["failures"] for event in failed] == [1, 2, 1]
    assert [event.fields["why"] for event in failed] == ["slow", "no", "slow again"]
    assert {event.level for event in failed} == {logging.WARNING}
    assert lease.lost == []


def test_what_is_lost_is_kept_no_more(bench: Bench) -> None:
    """A lease that can't be renewed because it is over is forgotten; its own loss is its own to tell."""
    lease = bench.keep()
    lease.renewal = lambda: False
    bench.until(200)
    assert lease.at == [20]
    assert bench.keeper.work() is None
    assert lease.lost == []


def test_one_lease_that_fails_stops_no_other(bench: Bench) -> None:
    """Beside a lease whose renewals fail, another is renewed as ever."""
    bad, good = bench.keep(name="bad"), bench.keep(name="good")
    bad.renewal = failing(Unavailable("down"))  # type: ignore[assignment]  # it never answers
    bench.until(99)
    assert good.at == pytest.approx([20, 40, 60, 80], abs=0.001)
    assert len(bad.lost) == 1
    assert good.lost == []


@pytest.mark.parametrize("error", [ValueError("a bug"), MemoryError(), RuntimeError("can't start new thread")])
def test_an_unexpected_exception_loses_that_lease_and_no_other(bench: Bench, error: Exception) -> None:
    """A renewal that breaks for an unknown reason loses its lease, loudly, and the others are renewed."""
    bad, good = bench.keep(name="bad"), bench.keep(name="good")
    bad.renewal = failing(error)  # type: ignore[assignment]  # it never answers
    bench.until(45)
    assert bad.at == [20]
    assert len(bad.lost) == 1
    assert repr(error) in bad.lost[0]
    assert good.at == [20, 40]


def test_a_lease_that_is_not_renewed_is_lost_at_its_end(bench: Bench) -> None:
    """A lease without renewals is left alone until its end, and lost then, once."""
    lease = bench.keep(renews=False)
    assert bench.keeper.work() == 59_000
    bench.until(58.999)
    assert lease.lost == []
    bench.until(200)
    assert lease.lost == ["its lease ran out"]
    assert lease.at == []


def test_a_lease_that_its_holder_renewed_is_watched_until_the_new_end(bench: Bench) -> None:
    """Where the holder renews by itself, the end moves."""
    lease = bench.keep(renews=False)
    bench.timing.advance(30)
    lease.keep(1)
    bench.until(88.999)
    assert lease.lost == []
    bench.until(89)
    assert lease.lost == ["its lease ran out"]


@pytest.mark.parametrize("limit", [10, 30, 100])
@pytest.mark.parametrize("renews", [True, False])
def test_at_its_limit_a_lease_is_lost_in_any_case(bench: Bench, limit: int, renews: bool) -> None:
    """However well it is renewed, a lease with a limit is lost there, once, and no millisecond sooner."""
    lease = bench.keep(200, renews=renews, limit=limit)
    bench.until(limit - 0.001)
    assert lease.lost == []
    bench.until(limit)
    bench.until(1000)
    assert lease.lost == ["it was held for as long as max_runtime allows"]
    assert len(lease.at) == (limit > 200 / 3 and renews)


def test_failures_are_not_retried_past_the_limit(bench: Bench) -> None:
    """A limit ends a lease also while its renewals fail."""
    lease = bench.keep(limit=21)
    lease.renewal = failing(Unavailable("down"))  # type: ignore[assignment]  # it never answers
    bench.until(200)
    assert lease.at[-1] < 21
    assert lease.lost == ["it was held for as long as max_runtime allows"]


def test_what_ends_first_is_renewed_first(bench: Bench) -> None:
    """Of several that are due, the lease with the least time left comes first."""
    order: list[str] = []

    def note(name: str) -> Callable[[], bool]:
        def renewal() -> bool:
            order.append(name)
            return True

        return renewal

    for name, ttl in (("long", 90), ("short", 12), ("middle", 45)):
        bench.keep(ttl, name=name).renewal = note(name)
    bench.timing.advance(10)
    bench.keeper.work()
    assert order == ["short"]
    bench.timing.advance(20)
    bench.keeper.work()
    assert order == ["short", "middle", "long"]


def test_a_slow_renewal_costs_the_others_little(bench: Bench) -> None:
    """While one renewal takes its whole time, the others are late by that, and are not lost."""
    slow, quick = bench.keep(name="slow"), bench.keep(name="quick")

    def renewal() -> bool:
        bench.timing.advance(slow.limits[-1])
        raise Unavailable("too slow")

    slow.renewal = renewal
    bench.until(110)
    assert quick.lost == []
    gaps = [later - sooner for sooner, later in zip(quick.at, quick.at[1:], strict=False)]
    assert max(gaps) <= 20 + 3.001


def test_a_lease_that_is_forgotten_is_left_alone(bench: Bench) -> None:
    """What was given back is neither renewed nor lost."""
    lease, other = bench.keep(), bench.keep()
    bench.keeper.forget(lease)
    bench.until(25)
    assert (lease.at, lease.lost) == ([], [])
    assert other.at == [20]


def test_a_lease_may_be_forgotten_during_its_renewal(bench: Bench) -> None:
    """Forgotten while it is being renewed, a lease doesn't come back."""
    lease = bench.keep()

    def renewal() -> bool:
        bench.keeper.forget(lease)
        return True

    lease.renewal = renewal
    bench.until(200)
    assert lease.at == [20]
    assert lease.lost == []
    assert bench.keeper.work() is None


def test_a_lease_may_be_kept_during_a_renewal(bench: Bench) -> None:
    """A lease that comes while another is renewed is kept too."""
    lease = bench.keep()
    came: list[Kept] = []

    def renewal() -> bool:
        if not came:
            came.append(bench.keep(30))
        return True

    lease.renewal = renewal
    bench.until(31)
    assert came[0].at == [30]


def test_a_lock_is_kept_over_many_ttls(world: World) -> None:
    """A kept lock holds others off for as long as it is renewed, and is lost at the end of its lease without."""
    one, other = Instance(world), Instance(world)
    lease = one.keep(ttl=60)
    for _ in range(20):
        world.advance(20)
        one.renew()
        assert other.refused().reason == "held"
    assert not lease.lost
    world.advance(59)
    one.renew()
    assert lease.lost
    assert one.slugs().count("lock.lost") == 1
    world.advance(2)
    assert other.acquire()


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


def noted(timing: Resting, monkeypatch: pytest.MonkeyPatch) -> list[tuple[int, ...]]:
    """Return where it is noted that the keeper wakes its thread. The time that goes on wakes all at once."""
    notify, woken = timing.condition.notify, list[tuple[int, ...]]()

    def note(*number: int) -> None:
        if not number:
            woken.append(number)
        notify(*number)

    monkeypatch.setattr(timing.condition, "notify", note)
    return woken


def test_a_lease_wakes_the_thread_only_where_it_would_not_look_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that keeps a lease looks every two seconds by itself. What is due sooner wakes it, and so does the first
    lease after a time without any.
    """
    timing = Resting()
    keeper = Keeper(timing, Events(), renewal_timeout=3.0)
    leases = [Kept(timing), Kept(timing, 6), Kept(timing, 5.9)]
    keeper.keep(leases[0], renews=True)
    timing.rests()
    woken = noted(timing, monkeypatch)
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


def test_leases_that_come_and_go_wake_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    """A thread that finds no lease, and had some since its last look, looks once more after two seconds by itself. What
    comes until then is renewed in time, and wakes the thread only once it has found nothing twice.
    """
    timing = Resting()
    keeper = Keeper(timing, Events(), renewal_timeout=3.0)
    keeper.keep(passing := Kept(timing), renews=True)
    timing.rests()
    woken = noted(timing, monkeypatch)
    for _ in range(3):
        keeper.keep(passing, renews=True)
        keeper.forget(passing)
        timing.advance(2)
        timing.rests()
    keeper.keep(lasting := Kept(timing, 30), renews=True)
    for _ in range(5):
        timing.advance(2)
        timing.rests()
    assert (lasting.at, woken) == ([16], [])
    keeper.forget(lasting)
    timing.advance(2)
    timing.rests()
    keeper.keep(passing, renews=True)
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
