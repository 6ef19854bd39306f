"""What lost, failed and slow requests make of acquire, renew and release: all end in time, and none does harm."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias, TypeVar

import pytest
import requests

from firecron.base.clocks import Deadline
from firecron.errors import StoreError, Unavailable
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid
from firecron.lock.record import Reason
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator import Emulator
from rtdb_emulator.http.faults import Faults, Hold
from rtdb_emulator.http.log import LoggedRequest
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.sockets import until
from rtdb_emulator_tests.helpers.wire import stream

NAME = "job"
PATH = f"/cron-locks/{NAME}"
TTL = 60

# For faults that don't answer at all. A busy machine is as slow at times, so only what gets no answer has these.
HASTY = {"request_timeout": 0.3, "acquire_timeout": 1.0, "release_timeout": 1.0}

# No answer comes later than ten times what the operation was given: machines differ, but not by hours.
SLACK = 10

Break: TypeAlias = Callable[..., Any]


@dataclass
class Bench:
    """A service on the test's database, and its clock."""

    rtdb: Rtdb
    timing: FakeTiming
    service: LockService

    def acquire(self, *, fenced: bool = False) -> Lease:
        answer = self.service.acquire(NAME, TTL, fenced=fenced)
        assert isinstance(answer, Lease), answer
        return answer

    def refused(self, reason: Reason) -> Refusal:
        answer = self.service.acquire(NAME, TTL)
        assert isinstance(answer, Refusal), answer
        assert answer.reason == reason, answer
        return answer

    @property
    def node(self) -> dict[str, Any] | None:
        node = self.rtdb.get(PATH)
        assert node is None or isinstance(node, dict)
        return node

    def sent(self) -> str:
        """The requests about the lock since the last `forget`, by their first letters."""
        requests = self.rtdb.emulator.requests.matching(namespace=self.rtdb.namespace, path=PATH)
        return " ".join(request.method for request in requests)

    def forget(self) -> None:
        self.rtdb.emulator.requests.clear()

    @contextmanager
    def within(self, seconds: float) -> Iterator[None]:
        """The block ends in time, by the services' clock."""
        started = self.timing.mono()
        yield
        assert self.timing.mono() - started <= seconds * 1000 * SLACK


def make_bench(rtdb: Rtdb, **settings: float) -> Bench:
    timing = FakeTiming(base=real_clock)
    service = LockService(settings=load(**settings), timing=timing)
    service.clock.now(Deadline.after(timing, 30))
    rtdb.emulator.requests.clear()
    return Bench(rtdb, timing, service)


def make_patient(rtdb: Rtdb) -> Bench:
    """For faults that answer at once: time-outs so long that a busy machine causes none."""
    return make_bench(rtdb, request_timeout=20, acquire_timeout=20, release_timeout=20)


def answering(status: int, *, applied: bool = False, headers: Mapping[str, str] | None = None) -> Break:
    return lambda faults, **which: faults.answer(status, applied=applied, headers=headers, **which)


def garbling(*, applied: bool) -> Break:
    return lambda faults, **which: faults.garbage(applied=applied, **which)


# Whether the request that the fault befalls is done.
APPLIED: list[Any] = [
    pytest.param(Faults.drop_reply, id="reply-lost"),
    pytest.param(answering(500, applied=True), id="500-applied"),
    pytest.param(answering(503, applied=True), id="503-applied"),
    pytest.param(garbling(applied=True), id="garbage-applied"),
]
BREAKS_APPLIED = [fault.values[0] for fault in APPLIED]
UNDONE: list[Any] = [
    pytest.param(Faults.drop_request, id="request-lost"),
    pytest.param(answering(500), id="500"),
    pytest.param(answering(503), id="503"),
    pytest.param(answering(408), id="408"),
    pytest.param(answering(302, headers={"Location": "http://127.0.0.1:9/"}), id="redirect"),
    pytest.param(garbling(applied=False), id="garbage"),
]


@pytest.mark.parametrize("fault", [*APPLIED, *UNDONE])
def test_an_acquire_without_a_reply_is_looked_for(patient: Bench, fault: Break) -> None:
    """A write that was applied is found by its holder, with one read and no second write; another one is sent again
    only after that read. The lease is the one written.
    """
    fault(patient.rtdb.faults, path=PATH)
    lease = patient.acquire()
    assert patient.sent() == ("PUT GET" if fault in BREAKS_APPLIED else "PUT GET PUT")
    assert patient.node is not None
    assert patient.node["holder"] == lease.holder
    assert patient.node["expiresAt"] == round(lease.expires_at.timestamp() * 1000)
    assert lease.release()
    assert patient.node is None


@pytest.mark.parametrize("fault", [*APPLIED, *UNDONE])
def test_a_renewal_without_a_reply_is_made_again_after_a_look(patient: Bench, fault: Break) -> None:
    """A renewal that may have been applied is followed by a read and a new one, and the lease is what the node says."""
    lease = patient.acquire()
    patient.timing.advance(TTL / 2)
    patient.forget()
    fault(patient.rtdb.faults, path=PATH)
    before = lease.expires_at
    assert lease.renew()
    assert patient.sent() == "PUT GET PUT"
    assert lease.expires_at > before
    assert patient.node is not None
    assert patient.node["expiresAt"] == round(lease.expires_at.timestamp() * 1000)
    assert patient.node["holder"] == lease.holder


@pytest.mark.parametrize(
    ("fenced", "method"), [pytest.param(False, "DELETE", id="plain"), pytest.param(True, "PUT", id="fenced")]
)
@pytest.mark.parametrize("fault", [*APPLIED, *UNDONE])
def test_a_release_without_a_reply_is_looked_for(patient: Bench, fault: Break, fenced: bool, method: str) -> None:
    """A release that was applied is found to be done, and not repeated; another one is sent again only after a read
    that shows the lock still held.
    """
    lease = patient.acquire(fenced=fenced)
    patient.forget()
    fault(patient.rtdb.faults, path=PATH)
    assert lease.release()
    assert patient.sent() == (f"{method} GET" if fault in BREAKS_APPLIED else f"{method} GET {method}")
    if fenced:
        assert patient.node is not None
        assert patient.node["releasedAt"] == patient.node["expiresAt"]
    else:
        assert patient.node is None


def test_a_release_does_not_undo_its_successor(patient: Bench) -> None:
    """When a release was applied, its reply was lost, and another acquired since, the other's record stays."""
    lease = patient.acquire()
    patient.rtdb.faults.drop_reply(path=PATH, method="DELETE")
    looking = patient.rtdb.faults.hold(path=PATH, method="GET")
    other = make_bench(patient.rtdb)
    with ThreadPoolExecutor(1) as pool:
        pool.submit(lease.release)
        looking.wait()
        successor = other.acquire()
        before = other.node
        looking.release()
    assert patient.node == before
    assert not successor.lost
    assert successor.release()


LONG = {"Retry-After": "3600"}


def test_a_renewal_under_a_long_retry_after_leaves_the_lease_as_it_was(patient: Bench) -> None:
    """A renewal that the server puts off is Unavailable after one request, and the lease ends when it would have."""
    lease = patient.acquire()
    before, ends = patient.node, lease.expires_at
    patient.forget()
    answering(429, headers=LONG)(patient.rtdb.faults, path=PATH)
    with patient.within(20), pytest.raises(Unavailable):
        lease.renew()
    assert patient.sent() == "PUT"
    assert patient.node == before
    assert lease.expires_at == ends
    assert not lease.lost
    patient.timing.advance(TTL)
    assert lease.lost


def test_a_release_under_a_long_retry_after_leaves_the_lock_to_expire(patient: Bench) -> None:
    """A release that the server puts off gives up after one request, without raising, and the record stays."""
    lease = patient.acquire()
    before = patient.node
    patient.forget()
    answering(429, headers=LONG)(patient.rtdb.faults, path=PATH)
    with patient.within(20):
        assert not lease.release()
    assert patient.sent() == "DELETE"
    assert patient.node == before
    patient.refused("held")
    patient.timing.advance(TTL + 1)
    patient.acquire()


ALWAYS = [
    pytest.param(Faults.drop_request, id="requests-lost"),
    pytest.param(answering(500), id="500"),
    pytest.param(garbling(applied=False), id="garbage"),
]


@pytest.mark.parametrize("fault", ALWAYS)
def test_a_server_that_never_works_is_unavailable(patient: Bench, fault: Break) -> None:
    """While every request fails an acquire ends as unavailable after one write, and only looks are repeated."""
    fault(patient.rtdb.faults, path=PATH, times=None)
    with patient.within(20):
        patient.refused("unavailable")
    first, *others = patient.sent().split()
    assert first == "PUT"
    assert set(others) == {"GET"}
    assert len(others) <= 20 / 1 + 10, "the pauses between the looks grow"
    assert patient.node is None


@pytest.mark.parametrize("fault", ALWAYS)
def test_renew_and_release_come_back_from_a_server_that_never_works(patient: Bench, fault: Break) -> None:
    """While every request fails a renewal raises, a release returns False, and each sends one write."""
    lease = patient.acquire()
    before = patient.node
    fault(patient.rtdb.faults, path=PATH, times=None)
    patient.forget()
    with patient.within(20), pytest.raises(StoreError):
        lease.renew()
    assert patient.sent().split().count("PUT") == 1
    with patient.within(20):
        assert not lease.release()
    assert patient.sent().split().count("DELETE") == 1
    assert patient.node == before


def test_a_stopped_server_is_unavailable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where nobody listens any more an acquire is unavailable, a release is False, and a clock unknown."""
    timing = FakeTiming(base=real_clock)
    with Emulator() as emulator:
        monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", emulator.host)
        url = emulator.database_url("stopped")
        settings = load(database_url=url, request_timeout=20, acquire_timeout=20, release_timeout=20)
        service, stranger = (LockService(settings=settings, timing=timing) for _ in range(2))
        lease = service.acquire(NAME, TTL)
        assert isinstance(lease, Lease)
    started = timing.mono()
    for unlucky in (service, stranger):
        answer = unlucky.acquire("another", TTL)
        assert isinstance(answer, Refusal)
        assert answer.reason == "unavailable"
    assert not lease.release()
    with pytest.raises(StoreError):
        LockService(settings=settings, timing=timing).clock.now(Deadline.after(timing, 1))
    assert timing.mono() - started <= 4 * 20_000 * SLACK
    node = emulator.get("stopped", PATH)
    assert isinstance(node, dict)
    assert node["holder"] == lease.holder


@pytest.fixture
def hasty(rtdb: Rtdb) -> Bench:
    return make_bench(rtdb, **HASTY)


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
    assert patient.node["holder"] == bid.holder
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


def settle(bench: Bench, request: LoggedRequest) -> None:
    """Return when the emulator has answered a request that it was told to let go on."""
    for _ in range(1000):
        if request.status is not None:
            return
        requests.get(bench.rtdb.emulator.url, timeout=30)  # the emulator's own loop has run when this comes back
    raise AssertionError("the request was never answered")
