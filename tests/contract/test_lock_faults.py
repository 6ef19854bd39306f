"""What network faults and failing servers make of acquire, renew and release: the answer, the node, and each request.

The services have real sockets and real time, but their pauses between tries only move a virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from firecron.errors import Denied, StoreError, Unavailable
from firecron.lease import Lease
from firecron.lock import LockService, Refusal
from firecron.record import Reason
from firecron.settings import Settings
from firecron.testing import FakeTiming
from firecron.testing.conformance_kit import real_clock
from firecron.timing import Deadline
from rtdb_emulator import Emulator
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.pytest_plugin import Rtdb

NAME = "job"
PATH = f"/cron-locks/{NAME}"
TTL = 60

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
    service = LockService(settings=Settings(**settings), timing=timing)  # type: ignore[arg-type]  # checked by pydantic
    service.clock.now(Deadline.after(timing, 30))
    rtdb.emulator.requests.clear()
    return Bench(rtdb, timing, service)


@pytest.fixture
def patient(rtdb: Rtdb) -> Bench:
    """For faults that answer at once: time-outs so long that a busy machine causes none."""
    return make_bench(rtdb, request_timeout=20, acquire_timeout=20, release_timeout=20)


def make_hasty(rtdb: Rtdb) -> Bench:
    """For faults that don't answer at all."""
    return make_bench(rtdb, request_timeout=0.3, acquire_timeout=1, release_timeout=1)


def answering(status: int, *, applied: bool = False, **headers: str) -> Break:
    def break_with(faults: Faults, **which: Any) -> object:
        return faults.answer(status, applied=applied, headers={k.replace("_", "-"): v for k, v in headers.items()}, **which)

    return break_with


def garbling(*, applied: bool) -> Break:
    return lambda faults, **which: faults.garbage(applied=applied, **which)


# Whether the request that the fault befalls is done.
APPLIED: list[Any] = [
    pytest.param(Faults.drop_reply, id="reply-lost"),
    pytest.param(answering(500, applied=True), id="500-applied"),
    pytest.param(answering(503, applied=True), id="503-applied"),
    pytest.param(garbling(applied=True), id="garbage-applied"),
]
UNDONE: list[Any] = [
    pytest.param(Faults.drop_request, id="request-lost"),
    pytest.param(answering(500), id="500"),
    pytest.param(answering(503), id="503"),
    pytest.param(answering(408), id="408"),
    pytest.param(answering(302, Location="http://127.0.0.1:9/"), id="redirect"),
    pytest.param(garbling(applied=False), id="garbage"),
]


@pytest.mark.parametrize("fault", APPLIED)
def test_an_acquire_whose_reply_is_lost_is_a_win(patient: Bench, fault: Break) -> None:
    """The write is found by its holder, with one read and no second write, and the lease is the one written."""
    fault(patient.rtdb.faults, path=PATH)
    lease = patient.acquire()
    assert patient.sent() == "PUT GET"
    assert patient.node is not None
    assert patient.node["holder"] == lease.holder
    assert patient.node["expiresAt"] == round(lease.expires_at.timestamp() * 1000)
    assert lease.release()
    assert patient.node is None


@pytest.mark.parametrize("fault", UNDONE)
def test_an_acquire_that_did_not_arrive_is_sent_again_after_a_look(patient: Bench, fault: Break) -> None:
    """A write that may have been applied is sent again only after a read that doesn't show it."""
    fault(patient.rtdb.faults, path=PATH)
    lease = patient.acquire()
    assert patient.sent() == "PUT GET PUT"
    assert patient.node is not None
    assert patient.node["holder"] == lease.holder


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
@pytest.mark.parametrize("fault", APPLIED)
def test_a_release_whose_reply_is_lost_is_found_to_be_done(
    patient: Bench, fault: Break, fenced: bool, method: str
) -> None:
    """A release that was applied is told from one that wasn't by one read, and not repeated."""
    lease = patient.acquire(fenced=fenced)
    patient.forget()
    fault(patient.rtdb.faults, path=PATH)
    assert lease.release()
    assert patient.sent() == f"{method} GET"
    assert_released(patient, fenced)


@pytest.mark.parametrize(
    ("fenced", "method"), [pytest.param(False, "DELETE", id="plain"), pytest.param(True, "PUT", id="fenced")]
)
@pytest.mark.parametrize("fault", UNDONE)
def test_a_release_that_did_not_arrive_is_sent_again_after_a_look(
    patient: Bench, fault: Break, fenced: bool, method: str
) -> None:
    """A release that may have been applied is sent again only after a read that shows the lock still held."""
    lease = patient.acquire(fenced=fenced)
    patient.forget()
    fault(patient.rtdb.faults, path=PATH)
    assert lease.release()
    assert patient.sent() == f"{method} GET {method}"
    assert_released(patient, fenced)


def assert_released(bench: Bench, fenced: bool) -> None:
    if fenced:
        assert bench.node is not None
        assert bench.node["releasedAt"] == bench.node["expiresAt"]
    else:
        assert bench.node is None


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


LONG = {"Retry_After": "3600"}


@pytest.mark.parametrize("status", [429, 503])
def test_a_server_that_asks_to_be_left_alone_for_an_hour_is(patient: Bench, status: int) -> None:
    """A Retry-After beyond the deadline ends an acquire after one request, as unavailable, with no node."""
    answering(status, **LONG)(patient.rtdb.faults, path=PATH)
    with patient.within(20):
        refusal = patient.refused("unavailable")
    assert isinstance(refusal.error, Unavailable)
    assert str(status) in refusal.message
    assert patient.sent() == "PUT"
    assert patient.node is None


def test_a_short_retry_after_is_heeded(patient: Bench) -> None:
    """A Retry-After within the deadline is waited for before the next look."""
    answering(429, Retry_After="7")(patient.rtdb.faults, path=PATH)
    started = patient.timing.mono()
    patient.acquire()
    assert patient.timing.mono() - started >= 7000
    assert patient.sent() == "PUT GET PUT"


def test_a_ghost_is_taken_over_by_its_own_bid(patient: Bench) -> None:
    """A write that was applied, but answered by 'try in an hour', is won by the next try with the same bid."""
    bid = patient.service.bid(NAME, TTL)
    answering(503, applied=True, **LONG)(patient.rtdb.faults, path=PATH)
    first = patient.service.try_once(bid)
    assert isinstance(first, Refusal)
    assert first.reason == "unavailable"
    before = patient.node
    assert before is not None
    patient.refused("held")
    lease = patient.service.try_once(bid)
    assert isinstance(lease, Lease)
    assert lease.holder == before["holder"]
    assert patient.node == before


def test_a_renewal_under_a_long_retry_after_leaves_the_lease_as_it_was(patient: Bench) -> None:
    """A renewal that the server puts off is Unavailable after one request, and the lease ends when it would have."""
    lease = patient.acquire()
    before, ends = patient.node, lease.expires_at
    patient.forget()
    answering(429, **LONG)(patient.rtdb.faults, path=PATH)
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
    answering(429, **LONG)(patient.rtdb.faults, path=PATH)
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
    """Where nobody listens any more an acquire is unavailable, a release is False, and a new service connects in vain."""
    timing = FakeTiming(base=real_clock)
    with Emulator() as emulator:
        monkeypatch.setenv("FIREBASE_DATABASE_EMULATOR_HOST", emulator.host)
        url = emulator.database_url("stopped")
        settings = Settings(database_url=url, request_timeout=20, acquire_timeout=20, release_timeout=20)
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


@pytest.mark.parametrize("status", [401, 403, 404, 423])
def test_a_refusal_by_the_database_is_denied(patient: Bench, status: int) -> None:
    """A 4xx that says no, twice to the write around a read that shows it free, is denied and says what to do."""
    answering(status)(patient.rtdb.faults, path=PATH, method="PUT", times=None)
    refusal = patient.refused("denied")
    assert isinstance(refusal.error, Denied)
    assert str(status) in refusal.message
    assert patient.sent() == "PUT GET PUT"
    assert patient.node is None
