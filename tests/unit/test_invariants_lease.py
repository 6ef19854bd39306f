"""Invariants of the lease: until when it is trusted, by which clock, and what ends it."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Callable

import pytest
from tests.unit.fleet import START, Fleet, Instance, failing

from firecron import ConfigurationError, Lease, LeaseLost, LockService, Refusal
from firecron.errors import Unavailable
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore

HOUR = 3600.0
AROUND = (-0.001, 0.0, 0.001)

MISFITS: dict[str, tuple[Callable[[], object], tuple[str, str]]] = {
    "a request longer than an acquire": (
        lambda: load(request_timeout=4, acquire_timeout=3),
        ("request_timeout", "acquire_timeout"),
    ),
    "a request longer than a release": (
        lambda: load(request_timeout=4, release_timeout=3),
        ("request_timeout", "release_timeout"),
    ),
    "a drift that eats the margin": (lambda: load(clock_interval=3600), ("clock_interval", "margin")),
    "a ttl too short for the margin": (lambda: Fleet().instance().locks.acquire("job", 5.999), ("ttl", "margin")),
    "a ttl too short for a larger margin": (
        lambda: Fleet().instance(margin=11, clock_interval=300).locks.hold("job", 60),
        ("ttl", "margin"),
    ),
    "a minimum hold longer than the ttl": (
        lambda: Fleet().instance().locks.acquire("job", 60, hold_at_least=60.001),
        ("hold_at_least", "ttl"),
    ),
}


@pytest.mark.parametrize(("make", "named"), MISFITS.values(), ids=MISFITS.keys())
def test_i08_timings_that_do_not_fit_are_refused_when_given(
    by_hand: None, make: Callable[[], object], named: tuple[str, str]
) -> None:
    """Two timings that can't hold what the lock promises are refused at once, by both names."""
    with pytest.raises(ConfigurationError) as raised:
        make()
    assert all(name in str(raised.value) for name in named)


def test_i08_timings_that_just_fit_are_taken(fleet: Fleet) -> None:
    """A ttl of six margins, and a minimum hold of the whole ttl, are allowed."""
    assert fleet.instance(margin=10).locks.acquire("job", 60, hold_at_least=60)


def test_i08_an_uncertainty_beyond_the_margin_is_no_time(fleet: Fleet) -> None:
    """A clock that can't be known to within the margin acquires nothing."""
    one = fleet.instance()
    one.network.next("timestamp", before=lambda: fleet.time.advance(2.1), times=3)
    refusal = one.refused()
    assert refusal.reason == "unavailable"
    assert "uncertainty" in refusal.message
    assert fleet.node() is None


@pytest.mark.parametrize("off", AROUND)
def test_i09_the_holder_stops_the_margin_before_the_expiry(fleet: Fleet, off: float) -> None:
    """A millisecond before its expiry less the margin a lease is trusted and renewed, at that instant neither."""
    one = fleet.instance()
    lease, other = one.acquire(ttl=60), one.acquire("other", ttl=60)
    fleet.time.advance(59 + off)
    assert bool(lease.lost) is (off >= 0)
    assert other.renew() is (off < 0)


@pytest.mark.parametrize("off", AROUND)
def test_i09_a_contender_waits_the_margin_after_the_expiry(fleet: Fleet, off: float) -> None:
    """A millisecond before the expiry plus the margin the lock is held, at that instant it is free."""
    fleet.instance().acquire(ttl=60)
    contender = fleet.instance()
    fleet.time.advance(61 + off)
    assert bool(contender.locks.acquire("job", 60)) is (off >= 0)


@pytest.mark.parametrize("off", AROUND)
def test_i09_a_minimum_hold_has_no_margin(fleet: Fleet, off: float) -> None:
    """After a release the lock is free at the end of the minimum hold: nobody trusts a lease any more."""
    lease = fleet.instance().locks.acquire("job", 60, hold_at_least=30)
    assert isinstance(lease, Lease)
    fleet.time.advance(5)
    assert lease.release()
    fleet.time.advance(25 + off)
    assert bool(fleet.instance().locks.acquire("job", 60)) is (off >= 0)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_i10_a_lease_is_aged_from_its_reading(fleet: Fleet, moment: str) -> None:
    """A send or a reply that takes six seconds is six seconds of the lease, not a gift."""
    one = fleet.instance()
    one.locks.clock.now(one.locks.deadline(8))
    if moment == "before":
        one.network.next("swap", before=lambda: fleet.time.advance(6))
    else:
        one.network.next("swap", after=lambda: fleet.time.advance(6))
    lease = one.acquire(ttl=60)
    assert lease.expires_at.timestamp() * 1000 == START + 60_000
    fleet.time.advance(53 - 0.001)
    assert not lease.lost
    fleet.time.advance(0.001)
    assert lease.lost


def test_i10_a_read_back_gives_no_new_lease(fleet: Fleet) -> None:
    """A win that is found six seconds later has six seconds less."""
    one = fleet.instance()
    one.locks.clock.now(one.locks.deadline(8))
    one.network.next("swap", after=failing(Unavailable("the reply was lost")))
    one.network.next("read", before=lambda: fleet.time.advance(6))
    lease = one.acquire(ttl=60)
    fleet.time.advance((START + 59_000 - fleet.time.wall()) / 1000)
    assert lease.lost


@pytest.mark.parametrize("off", AROUND)
def test_i10_a_reply_after_its_lease_is_no_acquisition(fleet: Fleet, off: float) -> None:
    """The process is stopped while the reply is on its way: what comes after the lease acquires nothing."""
    one = fleet.instance()
    one.locks.clock.now(one.locks.deadline(8))
    one.network.next("swap", after=lambda: fleet.time.advance(59 + off))
    answer = one.locks.acquire("job", 60)
    assert isinstance(answer, Lease if off < 0 else Refusal)
    if isinstance(answer, Refusal):
        assert answer.reason == "unavailable"
        assert "lock.acquired" not in one.slugs()


@pytest.mark.parametrize("off", AROUND)
def test_i10_a_renewal_whose_reply_comes_after_the_lease_is_a_loss(fleet: Fleet, off: float) -> None:
    """In between somebody else may have had it."""
    one = fleet.instance()
    lease = one.acquire(ttl=60)
    one.network.next("swap", after=lambda: fleet.time.advance(59 + off))
    assert lease.renew() is (off < 0)
    assert bool(lease.lost) is (off >= 0)


def test_i10_a_frozen_process_wakes_without_its_lease(fleet: Fleet) -> None:
    """After a pause of any length the lease is as old as it is."""
    one = fleet.instance()
    lease = one.keep(ttl=60)
    fleet.time.advance(HOUR)
    assert lease.lost
    assert lease.renew() is False
    one.renew()
    assert one.slugs().count("lock.lost") == 1
    assert "lock.renewed" not in one.slugs()


@pytest.mark.parametrize("holders", [0.0, 6 * HOUR, -6 * HOUR])
@pytest.mark.parametrize("contenders", [0.0, 26 * HOUR, -26 * HOUR])
def test_i11_wall_clocks_that_are_hours_off_change_nothing(fleet: Fleet, holders: float, contenders: float) -> None:
    """Whatever the wall clocks say, the record has RTDB's time, and the lock passes on at the same instant."""
    one, other = fleet.instance(wall_error=holders), fleet.instance(wall_error=contenders)
    lease = one.acquire(ttl=60)
    node = fleet.node()
    assert node is not None
    assert (node["acquiredAt"], node["expiresAt"]) == (START, START + 60_000)
    fleet.time.advance(58.999)
    assert not lease.lost
    fleet.time.advance(2)
    assert other.refused().reason == "held"
    assert lease.lost
    fleet.time.advance(0.001)
    assert other.acquire()


@pytest.mark.parametrize("step", [2 * HOUR, -2 * HOUR, 5.0, -5.0])
def test_i11_a_step_of_the_wall_clock_changes_nothing(fleet: Fleet, step: float) -> None:
    """The wall clock is set while a lease is held: it is renewed and ends as it would have."""
    one, other = fleet.instance(), fleet.instance()
    lease = one.acquire(ttl=60)
    other.refused()
    fleet.time.advance(20)
    for instance in (one, other):
        instance.timing.step_wall(step)
    assert other.refused().reason == "held"
    assert lease.renew()
    assert lease.expires_at.timestamp() * 1000 == START + 80_000
    fleet.time.advance(58.999)
    assert not lease.lost
    fleet.time.advance(2)
    assert other.refused().reason == "held"
    fleet.time.advance(0.001)
    assert other.acquire()


@pytest.mark.parametrize(("mine", "theirs"), [(60, 6), (6, 600), (60, 60)])
def test_i12_the_expiry_in_the_record_counts(fleet: Fleet, mine: float, theirs: float) -> None:
    """A contender with another ttl waits for the expiry that the holder wrote, and not a moment longer."""
    fleet.instance().acquire(ttl=mine)
    other = fleet.instance()
    fleet.time.advance(mine + 1 - 0.001)
    assert other.refused(ttl=theirs).reason == "held"
    fleet.time.advance(0.001)
    assert other.acquire(ttl=theirs)


def test_i12_a_renewal_believes_the_record_before_its_own_ttl(fleet: Fleet) -> None:
    """An expiry that an operator brought forward ends the lease, whatever ttl the holder has."""
    one = fleet.instance()
    lease = one.keep(ttl=60)
    fleet.edit(expiresAt=START + 21_000)
    fleet.time.advance(20)
    one.renew()
    assert lease.lost


def test_i13_losing_a_lease_is_loud_and_reaches_the_job(fleet: Fleet) -> None:
    """A lost lease sets the flag, calls who asked, raises in `check` and logs an ERROR; the keeper finds out by itself."""
    one = fleet.instance()
    lease = one.keep(ttl=60)
    heard: list[str] = []
    lease.when_lost(lambda: heard.append("told"))
    lease.check()
    one.network.next("swap", before=failing(Unavailable("down")), times=1_000)
    one.network.next("read", before=failing(Unavailable("down")), times=1_000)
    for _ in range(100):
        due = one.renew()
        if due is None:
            break
        fleet.time.advance(max(0.0, due - fleet.time.mono()) / 1000 + 1e-6)
    assert lease._lost.is_set()
    assert heard == ["told"]
    with pytest.raises(LeaseLost):
        lease.check()
    assert [event.level for event in one.events if event.slug == "lock.lost"] == [logging.ERROR]


def test_i13_an_async_job_is_cancelled(fleet: Fleet) -> None:
    """An async body under `with_lock` is cancelled when its lease is lost, and the caller gets LeaseLost."""
    one = fleet.instance()
    cancelled: list[bool] = []

    async def body() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def main() -> None:
        work = asyncio.ensure_future(one.locks.with_lock("job", body, 60))
        await started.wait()
        fleet.time.advance(59)
        one.renew()
        with pytest.raises(LeaseLost):
            await work

    started = asyncio.Event()
    asyncio.run(main())
    one.locks.close()
    assert cancelled == [True]


class Blocked:
    """A job that blocks while the keeper's own thread has to renew."""

    def __init__(self) -> None:
        self.timing = FakeTiming()
        self.store = MemoryStore(self.timing.now)
        self.locks = LockService(settings=load(), store=self.store, timing=self.timing)
        self.renewed = threading.Semaphore(0)
        self.locks.events.subscribe(lambda event: self.renewed.release() if event.slug == "lock.renewed" else None)

    def body(self, lease: Lease) -> None:
        for number in range(1, 6):
            self.timing.advance(20)
            # The thread is blocked here, in nothing that knows of the lock.
            assert self.renewed.acquire(timeout=20)
            node = self.store.get("cron-locks/job")
            assert isinstance(node, dict)
            assert node["expiresAt"] == START + number * 20_000 + 60_000
        assert not lease.lost


def test_i14_renewal_goes_on_while_the_job_blocks_its_thread() -> None:
    """A body that never yields is renewed all the while."""
    blocked = Blocked()
    with blocked.locks.hold("job", 60) as lease:
        blocked.body(lease)
    assert blocked.store.get("cron-locks/job") is None


def test_i14_renewal_goes_on_while_the_job_blocks_the_event_loop() -> None:
    """An async body that blocks its loop is renewed all the while: no renewal needs the loop."""
    blocked = Blocked()

    async def main() -> None:
        async with blocked.locks.hold("job", 60) as lease:
            blocked.body(lease)

    asyncio.run(main())
    blocked.locks.close()
    assert blocked.store.get("cron-locks/job") is None


def released(fleet: Fleet, lease: Lease) -> None:
    fleet.edit(releasedAt=int(START))


def unlocked(fleet: Fleet, lease: Lease) -> None:
    fleet.edit(expiresAt=0)


def expired(fleet: Fleet, lease: Lease) -> None:
    fleet.edit(expiresAt=int(START) + 20_000)


def deleted(fleet: Fleet, lease: Lease) -> None:
    fleet.put(None)


def paused_in_its_place(fleet: Fleet, lease: Lease) -> None:
    fleet.put({"paused": True})


@pytest.mark.parametrize("end", [released, unlocked, expired, deleted, paused_in_its_place])
def test_i14_a_renewal_revives_nothing(fleet: Fleet, end: Callable[[Fleet, Lease], None]) -> None:
    """What was released, unlocked, expired or deleted is found by the next renewal, lost, and left as it is."""
    one = fleet.instance()
    lease = one.keep(ttl=60)
    end(fleet, lease)
    before = fleet.node()
    fleet.time.advance(20)
    assert one.renew() is None
    assert lease.lost
    assert fleet.node() == before


def test_i14_a_renewal_after_the_release_revives_nothing(fleet: Fleet) -> None:
    """A lease that its holder gave back is not renewed, also when its renewal was due."""
    one = fleet.instance()
    lease = one.keep(ttl=60)
    fleet.time.advance(20)
    assert lease.release()
    assert one.renew() is None
    assert lease.keep(3) is False
    assert fleet.node() is None


def test_i15_one_slow_request_can_not_eat_the_lease(fleet: Fleet) -> None:
    """Each request of a renewal has a third of what is left of the lease at most, however slow the ones before were."""
    one = fleet.instance(request_timeout=8, release_timeout=8)
    lease = one.keep(ttl=12)
    one.locks.clock.now(one.locks.deadline(8))

    def hang() -> None:
        left.append((lease.ends - one.timing.mono()) / 1000)
        fleet.time.advance(one.network.allowed[-1])
        raise Unavailable("timed out")

    left: list[float] = []
    one.network.allowed.clear()
    one.network.next("swap", before=hang, times=1_000)
    one.network.next("read", before=hang, times=1_000)
    for _ in range(200):
        due = one.renew()
        if due is None:
            break
        fleet.time.advance(max(0.0, due - fleet.time.mono()) / 1000 + 1e-6)
    assert lease.lost
    assert len(left) >= 5
    # Less than a microsecond off: the clock of the test is one of floating point.
    assert all(allowed <= rest / 3 + 1e-6 for allowed, rest in zip(one.network.allowed, left, strict=True))


def test_i15_a_renewal_goes_on_for_as_long_as_its_lease_at_most(fleet: Fleet) -> None:
    """Whoever renews by hand, with little of the lease left, is told before its end that it could not be done."""
    one = fleet.instance()
    lease = one.acquire(ttl=60)
    fleet.time.advance(58)
    one.network.next("swap", before=failing(Unavailable("down")), times=1_000)
    with pytest.raises(Unavailable, match="down"):
        lease.renew()
    assert lease.is_held()
    assert not lease.lost


def test_i15_an_acquire_has_a_third_of_its_ttl(fleet: Fleet) -> None:
    """What takes longer than a third of the ttl to acquire is given up: too little of the lease would be left."""
    one = fleet.instance()
    one.locks.clock.now(one.locks.deadline(8))
    one.network.allowed.clear()
    one.acquire(ttl=6)
    assert one.network.allowed == [2]
    one.acquire("longer", ttl=60)
    assert one.network.allowed[1:] == [3]
