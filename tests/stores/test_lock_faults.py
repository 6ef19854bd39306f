"""What one lost or failed request makes of acquire, renew and release: the answer, the node, and each request.

The services have real sockets and real time, but their pauses between tries only move a virtual clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeAlias

import pytest

from firecron.base.clocks import Deadline
from firecron.lock.lease import Lease
from firecron.lock.record import Reason
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.pytest_plugin import Rtdb

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


@pytest.fixture
def patient(rtdb: Rtdb) -> Bench:
    return make_patient(rtdb)


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
UNDONE: list[Any] = [
    pytest.param(Faults.drop_request, id="request-lost"),
    pytest.param(answering(500), id="500"),
    pytest.param(answering(503), id="503"),
    pytest.param(answering(408), id="408"),
    pytest.param(answering(302, headers={"Location": "http://127.0.0.1:9/"}), id="redirect"),
    pytest.param(garbling(applied=False), id="garbage"),
]


RELEASES = pytest.mark.parametrize(
    ("fenced", "method"), [pytest.param(False, "DELETE", id="plain"), pytest.param(True, "PUT", id="fenced")]
)


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


@RELEASES
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


@RELEASES
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
