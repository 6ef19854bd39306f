"""Servers that ask to be left alone, never work, refuse, or are gone: what is answered, and what is not tried again."""

from __future__ import annotations

import pytest
from tests.stores.test_lock_faults import NAME, PATH, SLACK, TTL, Bench, Break, answering, garbling, make_patient

from firecron.base.clocks import Deadline
from firecron.errors import Denied, StoreError, Unavailable
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator import Emulator
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture
def patient(rtdb: Rtdb) -> Bench:
    return make_patient(rtdb)


LONG = {"Retry-After": "3600"}


def test_a_server_that_asks_to_be_left_alone_for_an_hour_is(patient: Bench) -> None:
    """A Retry-After beyond the deadline ends an acquire after one request, as unavailable, with no node."""
    answering(429, headers=LONG)(patient.rtdb.faults, path=PATH)
    with patient.within(20):
        refusal = patient.refused("unavailable")
    assert isinstance(refusal.error, Unavailable)
    assert "429" in refusal.message
    assert patient.sent() == "PUT"
    assert patient.node is None


@pytest.mark.parametrize("asked", ["9" * 400, "86401", "Mon, 01 Jan 9999 00:00:00 GMT"])
def test_a_retry_after_is_a_day_at_most(patient: Bench, asked: str) -> None:
    """However long a server asks to be left alone, the error that callers get says a day."""
    now = {"Date": "Wed, 18 Nov 2026 09:00:00 GMT"}
    answering(429, headers={"Retry-After": asked, **now})(patient.rtdb.faults, path=PATH)
    refusal = patient.refused("unavailable")
    assert isinstance(refusal.error, Unavailable)
    assert refusal.error.retry_after == 86_400


def test_a_retry_after_that_is_no_date_is_none(patient: Bench) -> None:
    """A date beyond what a computer can count is no date."""
    never = "Mon, 01 Jan 99999999999999999999 00:00:00 GMT"
    answering(429, headers={"Retry-After": never, "Date": never})(patient.rtdb.faults, path=PATH)
    assert patient.acquire()


def test_a_short_retry_after_is_heeded(patient: Bench) -> None:
    """A Retry-After within the deadline is waited for before the next look."""
    answering(429, headers={"Retry-After": "7"})(patient.rtdb.faults, path=PATH)
    started = patient.timing.mono()
    patient.acquire()
    assert patient.timing.mono() - started >= 7000
    assert patient.sent() == "PUT GET PUT"


def test_a_write_that_a_503_hides_is_found(patient: Bench) -> None:
    """A write that was applied, but answered by 'try in an hour', is looked for within the deadline, and is a win."""
    answering(503, applied=True, headers=LONG)(patient.rtdb.faults, path=PATH)
    with patient.within(20):
        lease = patient.acquire()
    assert patient.node is not None
    assert lease.holder == patient.node["holder"]
    assert patient.sent() == "PUT GET"


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


@pytest.mark.parametrize("status", [401, 403, 404, 423])
def test_a_refusal_by_the_database_is_denied(patient: Bench, status: int) -> None:
    """A 4xx that says no, twice to the write around a read that shows it free and once to a deletion of nothing, is
    denied and says what to do.
    """
    for method in ("PUT", "DELETE"):
        answering(status)(patient.rtdb.faults, path=PATH, method=method, times=None)
    refusal = patient.refused("denied")
    assert isinstance(refusal.error, Denied)
    assert str(status) in refusal.message
    assert patient.sent() == "PUT GET PUT DELETE"
    assert patient.node is None
