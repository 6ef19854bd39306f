"""Invariants of the lease: until when it is trusted, by which clock, and what ends it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.fleet import START, Fleet, failing

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


def test_i09_at_the_very_end_of_its_trust_a_lease_is_lost(fleet: Fleet) -> None:
    """The instant itself, to the fraction of a millisecond, is not trusted any more."""
    one = fleet.instance()
    lease = one.acquire(ttl=60)
    fleet.time.advance(lease.ends / 1000)
    assert one.timing.mono() == lease.ends
    assert lease.lost


@pytest.mark.parametrize("off", AROUND)
def test_i09_an_expiry_that_was_brought_forward_has_its_margin_too(fleet: Fleet, off: float) -> None:
    """Where the record expires before the lease does, it is renewed until the margin before that."""
    one = fleet.instance()
    lease = one.acquire(ttl=60)
    fleet.edit(expiresAt=int(START) + 30_000)
    fleet.time.advance(29 + off)
    assert lease.renew() is (off < 0)


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
    fleet.time.advance((59_000 - fleet.time.mono()) / 1000 - 0.001)
    assert not lease.lost
    fleet.time.advance(0.002)
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
