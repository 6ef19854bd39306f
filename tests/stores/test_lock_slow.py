"""Servers that are slow, or hang: every operation ends in time, and what the server does later harms nobody."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import requests
from tests.emulator.test_stream_frames import stream
from tests.stores.test_lock_faults import NAME, PATH, TTL, Bench, Break, make_bench, make_hasty, make_patient

from firecron.errors import StoreError
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.lock.service import LockService
from firecron.settings import load
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.http.log import LoggedRequest
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture
def hasty(rtdb: Rtdb) -> Bench:
    return make_hasty(rtdb)


@pytest.fixture
def other(rtdb: Rtdb) -> Bench:
    """An instance that no fault befalls; it knows the time already."""
    return make_bench(rtdb)


def hanging(faults: Faults, **which: Any) -> object:
    return faults.hold(**which)


def dripping(faults: Faults, **which: Any) -> object:
    """A byte in a fifth of a second: no read ever waits long, and a record takes a minute."""
    return faults.drip(0.2, **which)


SLOW = [pytest.param(hanging, id="hung"), pytest.param(dripping, id="dripping")]


@pytest.mark.parametrize("fault", SLOW)
def test_an_acquire_on_a_slow_server_is_unavailable_in_time(hasty: Bench, fault: Break) -> None:
    """With every reply hung or dripping an acquire is unavailable, after one write."""
    fault(hasty.rtdb.faults, path=PATH, times=None)
    with hasty.within(1):
        hasty.refused("unavailable")
    first, *others = hasty.sent().split()
    assert first == "PUT"
    assert set(others) <= {"GET"}
    assert (hasty.node is None) == (fault is hanging)


@pytest.mark.parametrize("fault", SLOW)
def test_a_slow_server_does_not_hold_up_a_renewal(hasty: Bench, fault: Break) -> None:
    """With every reply hung or dripping a renewal raises in time, after one write, and the lease is as it was."""
    lease = hasty.acquire()
    ends = lease.expires_at
    hasty.forget()
    fault(hasty.rtdb.faults, path=PATH, times=None)
    with hasty.within(1), pytest.raises(StoreError):
        lease.renew()
    assert hasty.sent().split().count("PUT") == 1
    assert not lease.lost
    assert lease.expires_at == ends
    assert hasty.node is not None
    assert hasty.node["holder"] == lease.holder


@pytest.mark.parametrize("fault", SLOW)
def test_a_slow_server_does_not_hold_up_a_release(hasty: Bench, fault: Break) -> None:
    """With every reply hung or dripping a release gives up in time, after one write."""
    lease = hasty.acquire()
    hasty.forget()
    fault(hasty.rtdb.faults, path=PATH, times=None)
    with hasty.within(1):
        assert not lease.release()
    assert hasty.sent().split().count("DELETE") == 1
    assert (hasty.node is None) == (fault is dripping)


def test_a_slow_clock_is_unavailable_in_time(rtdb: Rtdb) -> None:
    """Where the database's time can't be had nothing is written, and the answer comes in time."""
    settings = load(request_timeout=0.3, acquire_timeout=1)
    timing = FakeTiming(base=real_clock)
    bench = Bench(rtdb, timing, LockService(settings=settings, timing=timing))
    rtdb.faults.hold(path="/cron-instances/*", times=None)
    with bench.within(1):
        bench.refused("unavailable")
    assert bench.sent() == ""
    rtdb.faults.clear()
    bench.acquire()


def test_a_reply_that_is_held_is_not_waited_for(hasty: Bench) -> None:
    """When a write was applied and its reply hangs, a read finds it: acquired, with the lease that was written."""
    hasty.rtdb.faults.hold(path=PATH, method="PUT", moment="after")
    with hasty.within(1):
        lease = hasty.acquire()
    assert hasty.sent() == "PUT GET"
    assert hasty.node is not None
    assert hasty.node["holder"] == lease.holder
    assert hasty.node["expiresAt"] == round(lease.expires_at.timestamp() * 1000)


def test_a_write_that_comes_late_changes_nothing(hasty: Bench) -> None:
    """When a write hangs on the way and a second one wins, the first is refused when it arrives at last."""
    hold = hasty.rtdb.faults.hold(path=PATH, method="PUT")
    lease = hasty.acquire()
    assert hasty.sent() == "PUT GET PUT"
    before = hasty.node
    assert before is not None
    assert before["holder"] == lease.holder
    hold.release()
    late, *_ = hasty.rtdb.emulator.requests.matching(path=PATH)
    settle(hasty, late)
    assert late.status == 412
    assert hasty.node == before


def test_a_ghost_expires_by_itself(hasty: Bench, other: Bench) -> None:
    """A write that arrives after its acquire gave up holds the lock for its ttl, and no longer."""
    bid = hasty.service.contender.bid(NAME, TTL)
    hold = hasty.rtdb.faults.hold(path=PATH, method="PUT", times=None)
    refusal = hasty.service.contender.try_once(bid)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "unavailable"
    with stream(hasty.rtdb.emulator, hasty.rtdb.namespace, f"{PATH}.json") as watching:
        assert watching.event() == ("put", "/", None)
        hold.release()
        _, _, ghost = watching.event()
    assert ghost == hasty.node
    assert hasty.node is not None
    assert hasty.node["holder"] == bid.request.holder
    other.refused("held")
    other.timing.advance(TTL + 2)
    other.acquire()
    hasty.timing.advance(TTL)
    lost = hasty.service.contender.try_once(bid)
    assert isinstance(lost, Refusal), "its lease is over, and another's is not"
    assert lost.reason == "held"


def test_a_ghost_is_won_by_its_bid_with_its_own_lease(hasty: Bench) -> None:
    """A try with the bid of a write that arrived late wins that lock, and doesn't begin a new lease."""
    bid = hasty.service.contender.bid(NAME, TTL)
    hold = hasty.rtdb.faults.hold(path=PATH, method="PUT", moment="after")
    reading = hasty.rtdb.faults.hold(path=PATH, method="GET", times=None)
    assert not hasty.service.contender.try_once(bid)
    hold.release()
    reading.release()
    ghost = hasty.node
    hasty.timing.advance(TTL / 2)
    lease = hasty.service.contender.try_once(bid)
    assert isinstance(lease, Lease)
    assert hasty.node == ghost
    hasty.timing.advance(TTL / 2 - 1)
    assert lease.lost


def test_a_reply_after_the_end_of_its_lease_is_no_acquisition(rtdb: Rtdb) -> None:
    """When the reply to a write comes after the lease that it began, the answer is unavailable."""
    bench = make_patient(rtdb)
    hold = rtdb.faults.hold(path=PATH, method="PUT", moment="after")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(bench.service.acquire, NAME, TTL)
        hold.wait()
        bench.timing.advance(TTL)
        hold.release()
        refusal = answer.result(30)
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "unavailable"
    assert bench.sent() == "PUT"
    assert bench.node is not None, "it was written, and expires by itself"


def test_a_renewals_reply_after_the_end_of_its_lease_is_a_loss(rtdb: Rtdb) -> None:
    """When the reply to a renewal comes after the end of the old lease, the lease is lost for good."""
    bench = make_patient(rtdb)
    lease = bench.acquire()
    bench.timing.advance(TTL / 2)
    hold = rtdb.faults.hold(path=PATH, method="PUT", moment="after")
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(renewed, lease)
        hold.wait()
        bench.timing.advance(TTL / 2)  # the new lease would last as long again
        hold.release()
        assert not answer.result(30)
    assert lease.lost
    assert not lease.renew()


def test_no_request_takes_more_than_a_third_of_its_lease(rtdb: Rtdb) -> None:
    """A hung renewal late in the lease gives up after a third of what is left of it, and is tried again."""
    bench = make_patient(rtdb)
    lease = bench.acquire()
    bench.timing.advance(TTL - 1 - 2)
    rtdb.faults.hold(path=PATH, method="PUT")
    assert lease.renew()
    assert not lease.lost
    assert bench.sent() == "PUT PUT GET PUT"


def renewed(lease: Lease) -> bool:
    """Whether it was renewed; where that can't be said it wasn't."""
    try:
        return lease.renew()
    except StoreError:
        return False


def settle(bench: Bench, request: LoggedRequest) -> None:
    """Return when the emulator has answered a request that it was told to let go on."""
    for _ in range(1000):
        if request.status is not None:
            return
        requests.get(bench.rtdb.emulator.url, timeout=30)  # the emulator's own loop has run when this comes back
    raise AssertionError("the request was never answered")
