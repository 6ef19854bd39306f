"""Servers that are slow, or hang: every operation ends in time, and what the server does later harms nobody."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
import requests
from tests.emulator.sockets import until
from tests.emulator.test_stream_frames import stream
from tests.stores.test_lock_down import LONG
from tests.stores.test_lock_faults import HASTY, NAME, PATH, TTL, Bench, Break, make_bench, make_patient

from firecron.errors import StoreError
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator.http.faults import Faults, Hold
from rtdb_emulator.http.log import LoggedRequest
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture
def hasty(rtdb: Rtdb) -> Bench:
    return make_bench(rtdb, **HASTY)


@pytest.fixture
def patient(rtdb: Rtdb) -> Bench:
    return make_patient(rtdb)


@pytest.fixture
def other(rtdb: Rtdb) -> Bench:
    """An instance that no fault befalls; it knows the time already."""
    return make_patient(rtdb)


def hanging(faults: Faults, **which: Any) -> object:
    return faults.hold(**which)


def dripping(faults: Faults, **which: Any) -> object:
    """A byte in a fifth of a second: no read ever waits long, and a record takes a minute."""
    return faults.drip(0.2, **which)


T = TypeVar("T")

SLOW = [pytest.param(hanging, id="hung"), pytest.param(dripping, id="dripping")]


@pytest.mark.parametrize("fault", SLOW)
def test_an_acquire_on_a_slow_server_is_unavailable_in_time(hasty: Bench, fault: Break) -> None:
    """With every reply hung or dripping an acquire is unavailable, after one write."""
    fault(hasty.rtdb.faults, path=PATH, times=None)
    with hasty.within(1):
        hasty.refused("unavailable")
    first, *others = until(hasty.sent).split()
    assert first == "PUT"
    assert set(others) <= {"GET"}
    if fault is dripping:
        until(lambda: hasty.node)
    else:
        assert hasty.node is None


@pytest.mark.parametrize("fault", SLOW)
def test_a_slow_server_does_not_hold_up_a_renewal(patient: Bench, fault: Break) -> None:
    """With every reply hung or dripping a renewal raises in time, after one write, and the lease is as it was."""
    lease = patient.acquire()
    lease.database.settings = load(**HASTY)
    ends = lease.expires_at
    patient.forget()
    fault(patient.rtdb.faults, path=PATH, times=None)
    with patient.within(1), pytest.raises(StoreError):
        lease.renew()
    assert until(patient.sent).split().count("PUT") == 1
    assert not lease.lost
    assert lease.expires_at == ends
    assert patient.node is not None
    assert patient.node["holder"] == lease.holder


@pytest.mark.parametrize("fault", SLOW)
def test_a_slow_server_does_not_hold_up_a_release(patient: Bench, fault: Break) -> None:
    """With every reply hung or dripping a release gives up in time, after one write."""
    lease = patient.acquire()
    lease.database.settings = load(**HASTY)
    patient.forget()
    fault(patient.rtdb.faults, path=PATH, times=None)
    with patient.within(1):
        assert not lease.release()
    assert until(patient.sent).split().count("DELETE") == 1
    if fault is dripping:
        until(lambda: patient.node is None)
    else:
        assert patient.node is not None


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
    bid = bench.service.database.bid(NAME, TTL)
    until(lambda: try_once(bench.service.database, bid))  # a busy machine is slow, too


def test_a_reply_that_is_held_is_not_waited_for(rtdb: Rtdb) -> None:
    """When a write was applied and its reply hangs, a read finds it: acquired, with the lease that was written."""
    bench = make_bench(rtdb, request_timeout=0.3, acquire_timeout=20)
    rtdb.faults.hold(path=PATH, method="PUT", moment="after")
    with bench.within(1):
        lease = bench.acquire()
    first, *others = bench.sent().split()
    assert first == "PUT"
    assert set(others) == {"GET"}, "several, if the machine is busy"
    assert bench.node is not None
    assert bench.node["holder"] == lease.holder
    assert bench.node["expiresAt"] == round(lease.expires_at.timestamp() * 1000)


def test_a_write_that_comes_late_changes_nothing(patient: Bench) -> None:
    """When a write hangs on the way and a second one wins, the first is refused when it arrives at last."""
    hold = patient.rtdb.faults.hold(path=PATH, method="PUT")
    lease = without_its_connection(patient, hold, patient.acquire)
    assert patient.sent() == "PUT GET PUT"
    before = patient.node
    assert before is not None
    assert before["holder"] == lease.holder
    hold.release()
    late, *_ = patient.rtdb.emulator.requests.matching(path=PATH)
    settle(patient, late)
    assert late.status == 412
    assert patient.node == before


def test_a_ghost_expires_by_itself(patient: Bench, other: Bench) -> None:
    """A write that arrives after its acquire gave up holds the lock for its ttl, and no longer."""
    bid = patient.service.database.bid(NAME, TTL)
    hold = patient.rtdb.faults.hold(path=PATH, method="PUT")
    given_up(patient, bid, hold)
    with stream(patient.rtdb.emulator, patient.rtdb.namespace, f"{PATH}.json") as watching:
        assert watching.event() == ("put", "/", None)
        hold.release()
        _, _, ghost = watching.event()
    assert ghost == patient.node
    assert patient.node is not None
    assert patient.node["holder"] == bid.request.holder
    other.refused("held")
    other.timing.advance(TTL + 2)
    other.acquire()
    patient.timing.advance(TTL)
    lost = try_once(patient.service.database, bid)
    assert isinstance(lost, Refusal), "its lease is over, and another's is not"
    assert lost.reason == "held"


def test_a_ghost_is_won_by_its_bid_with_its_own_lease(patient: Bench) -> None:
    """A try with the bid of a write that arrived late wins that lock, and doesn't begin a new lease."""
    bid = patient.service.database.bid(NAME, TTL)
    hold = patient.rtdb.faults.hold(path=PATH, method="PUT", moment="after")
    given_up(patient, bid, hold)
    ghost = patient.node
    patient.timing.advance(TTL / 2)
    lease = try_once(patient.service.database, bid)
    assert isinstance(lease, Lease)
    assert patient.node == ghost
    patient.timing.advance(TTL / 2 - 1)
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


def without_its_connection(bench: Bench, hold: Hold, work: Callable[[], T]) -> T:
    """What the work returns, when the connection of its request is cut while the request is held."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(work)
        hold.wait()
        bench.rtdb.faults.interrupt({"path": PATH})
        return answer.result(30)


def given_up(bench: Bench, bid: Bid, hold: Hold) -> None:
    """Try once: the write is held and its connection cut, and the server wants no read for an hour."""
    bench.rtdb.faults.answer(429, headers=LONG, path=PATH, method="GET")
    refusal = without_its_connection(bench, hold, lambda: try_once(bench.service.database, bid))
    assert isinstance(refusal, Refusal), refusal
    assert refusal.reason == "unavailable"
    assert bench.sent() == "PUT GET"


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
