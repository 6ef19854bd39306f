"""Invariants of the lease: until when it is trusted, by which clock, and what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import START, World

from firecron import ConfigurationError, Lease, Refusal
from firecron.errors import Unavailable
from firecron.settings import load

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
    "a ttl too short for the margin": (lambda: Instance(World()).locks.acquire("job", 5.999), ("ttl", "margin")),
    "a ttl too short for a larger margin": (
        lambda: Instance(World(), margin=11, clock_interval=300).locks.hold("job", 60),
        ("ttl", "margin"),
    ),
    "a minimum hold longer than the ttl": (
        lambda: Instance(World()).locks.acquire("job", 60, hold_at_least=60.001),
        ("hold_at_least", "ttl"),
    ),
}


@pytest.mark.parametrize(("make", "named"), MISFITS.values(), ids=MISFITS.keys())
def test_i08_timings_that_do_not_fit_are_refused_when_given(make: Callable[[], object], named: tuple[str, str]) -> None:
    """Two timings that can't hold what the lock promises are refused at once, by both names."""
    with pytest.raises(ConfigurationError) as raised:
        make()
    assert all(name in str(raised.value) for name in named)


def test_i08_timings_that_just_fit_are_taken(world: World) -> None:
    """A ttl of six margins, and a minimum hold of the whole ttl, are allowed."""
    locks = Instance(world, margin=10).locks
    assert locks.acquire("job", 60, hold_at_least=60)
    locks.database.settings.check_ttl(60_000, "a job's lock_ttl")


def test_i08_an_uncertainty_beyond_the_margin_is_no_time(world: World) -> None:
    """A clock that can't be known to within the margin acquires nothing."""
    one = Instance(world)
    one.network.next("timestamp", before=lambda: world.advance(2.1), times=3)
    refusal = one.refused()
    assert refusal.reason == "unavailable"
    assert "uncertainty" in refusal.message
    assert world.node() == {}


@pytest.mark.parametrize("off", AROUND)
def test_i09_the_holder_stops_the_margin_before_the_expiry(world: World, off: float) -> None:
    """A millisecond before its expiry less the margin a lease is trusted and renewed, at that instant neither."""
    one = Instance(world)
    lease, other = one.acquire(ttl=60), one.acquire("other", ttl=60)
    world.advance(59 + off)
    assert bool(lease.lost) is (off >= 0)
    assert lease.is_held() is (off < 0)
    assert other.renew() is (off < 0)


def test_i09_at_the_very_end_of_its_trust_a_lease_is_lost(world: World) -> None:
    """The instant itself, to the fraction of a millisecond, is not trusted any more."""
    one = Instance(world)
    lease = one.acquire(ttl=60)
    world.advance(lease.ends / 1000)
    assert one.timing.mono() == lease.ends
    assert lease.lost


@pytest.mark.parametrize("off", AROUND)
def test_i09_an_expiry_that_was_brought_forward_has_its_margin_too(world: World, off: float) -> None:
    """Where the record expires before the lease does, it is renewed until the margin before that."""
    one = Instance(world)
    lease = one.acquire(ttl=60)
    world.edit(expiresAt=int(START) + 30_000)
    world.advance(29 + off)
    assert lease.renew() is (off < 0)


@pytest.mark.parametrize("off", AROUND)
def test_i09_a_contender_waits_the_margin_after_the_expiry(world: World, off: float) -> None:
    """A millisecond before the expiry plus the margin the lock is held, at that instant it is free."""
    Instance(world).acquire(ttl=60)
    contender = Instance(world)
    world.advance(61 + off)
    assert bool(contender.locks.acquire("job", 60)) is (off >= 0)


@pytest.mark.parametrize("off", AROUND)
def test_i09_a_minimum_hold_has_no_margin(world: World, off: float) -> None:
    """After a release the lock is free at the end of the minimum hold: nobody trusts a lease any more."""
    lease = Instance(world).locks.acquire("job", 60, hold_at_least=30)
    assert isinstance(lease, Lease)
    world.advance(5)
    assert lease.release()
    world.advance(25 + off)
    assert bool(Instance(world).locks.acquire("job", 60)) is (off >= 0)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_i10_a_lease_is_aged_from_its_reading(world: World, moment: str) -> None:
    """A send or a reply that takes six seconds is six seconds of the lease, not a gift."""
    one = Instance(world)
    one.locks.clock.now(one.locks.deadline(8))
    if moment == "before":
        one.network.next("swap", before=lambda: world.advance(6))
    else:
        one.network.next("swap", after=lambda: world.advance(6))
    lease = one.acquire(ttl=60)
    assert lease.expires_at.timestamp() * 1000 == START + 60_000
    world.advance(53 - 0.001)
    assert not lease.lost
    world.advance(0.001)
    assert lease.lost


def test_i10_a_read_back_gives_no_new_lease(world: World) -> None:
    """A win that is found six seconds later has six seconds less."""
    one = Instance(world)
    one.locks.clock.now(one.locks.deadline(8))
    one.network.next("swap", after=failing(Unavailable("the reply was lost")))
    one.network.next("read", before=lambda: world.advance(6))
    lease = one.acquire(ttl=60)
    world.advance((59_000 - world.mono()) / 1000 - 0.001)
    assert not lease.lost
    world.advance(0.002)
    assert lease.lost


@pytest.mark.parametrize("off", AROUND)
def test_i10_a_reply_after_its_lease_is_no_acquisition(world: World, off: float) -> None:
    """The process is stopped while the reply is on its way: what comes after the lease acquires nothing."""
    one = Instance(world)
    one.locks.clock.now(one.locks.deadline(8))
    one.network.next("swap", after=lambda: world.advance(59 + off))
    answer = one.locks.acquire("job", 60)
    assert isinstance(answer, Lease if off < 0 else Refusal)
    if isinstance(answer, Refusal):
        assert answer.reason == "unavailable"
        assert "lock.acquired" not in one.slugs()


@pytest.mark.parametrize("off", AROUND)
def test_i10_a_renewal_whose_reply_comes_after_the_lease_is_a_loss(world: World, off: float) -> None:
    """In between somebody else may have had it."""
    one = Instance(world)
    lease = one.acquire(ttl=60)
    one.network.next("swap", after=lambda: world.advance(59 + off))
    assert lease.renew() is (off < 0)
    assert bool(lease.lost) is (off >= 0)


def test_i10_a_frozen_process_wakes_without_its_lease(world: World) -> None:
    """After a pause of any length the lease is as old as it is."""
    one = Instance(world)
    lease = one.keep(ttl=60)
    world.advance(HOUR)
    assert lease.lost
    assert lease.renew() is False
    one.renew()
    assert one.slugs().count("lock.lost") == 1
    assert "lock.renewed" not in one.slugs()


@pytest.mark.parametrize("holders", [0.0, 6 * HOUR, -6 * HOUR])
@pytest.mark.parametrize("contenders", [0.0, 26 * HOUR, -26 * HOUR])
def test_i11_wall_clocks_that_are_hours_off_change_nothing(world: World, holders: float, contenders: float) -> None:
    """Whatever the wall clocks say, the record has RTDB's time, and the lock passes on at the same instant."""
    one, other = Instance(world, wall_error=holders), Instance(world, wall_error=contenders)
    lease = one.acquire(ttl=60)
    node = world.node()
    assert node
    assert (node["acquiredAt"], node["expiresAt"]) == (START, START + 60_000)
    world.advance(58.999)
    assert not lease.lost
    world.advance(2)
    assert other.refused().reason == "held"
    assert lease.lost
    world.advance(0.001)
    assert other.acquire()


@pytest.mark.parametrize("step", [2 * HOUR, -2 * HOUR, 5.0, -5.0])
def test_i11_a_step_of_the_wall_clock_changes_nothing(world: World, step: float) -> None:
    """The wall clock is set while a lease is held: it is renewed and ends as it would have."""
    one, other = Instance(world), Instance(world)
    lease = one.acquire(ttl=60)
    other.refused()
    world.advance(20)
    for instance in (one, other):
        instance.timing.step_wall(step)
    assert other.refused().reason == "held"
    assert lease.renew()
    assert lease.expires_at.timestamp() * 1000 == START + 80_000
    world.advance(58.999)
    assert not lease.lost
    world.advance(2)
    assert other.refused().reason == "held"
    world.advance(0.001)
    assert other.acquire()


@pytest.mark.parametrize(("mine", "theirs"), [(60, 6), (6, 600), (60, 60)])
def test_i12_the_expiry_in_the_record_counts(world: World, mine: float, theirs: float) -> None:
    """A contender with another ttl waits for the expiry that the holder wrote, and not a moment longer."""
    Instance(world).acquire(ttl=mine)
    other = Instance(world)
    world.advance(mine + 1 - 0.001)
    assert other.refused(ttl=theirs).reason == "held"
    world.advance(0.001)
    assert other.acquire(ttl=theirs)


def test_i12_a_renewal_believes_the_record_before_its_own_ttl(world: World) -> None:
    """An expiry that an operator brought forward ends the lease, whatever ttl the holder has."""
    one = Instance(world)
    lease = one.keep(ttl=60)
    world.edit(expiresAt=START + 21_000)
    world.advance(20)
    one.renew()
    assert lease.lost
