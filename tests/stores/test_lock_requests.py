"""How many requests the lock takes: it is billed and rate-limited by them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from firecron.base.clocks import Deadline, SystemTiming
from firecron.lock.blocks import try_once
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb

NAME = "job"
PATH = f"/cron-locks/{NAME}"
TTL = 60
SLOTS = [f"2020-11-18T{hour:02}:00:00Z" for hour in range(3)]


def new_service() -> LockService:
    """One that knows the database's time, which is asked for once in minutes."""
    # Time-outs that no busy machine reaches: what is tried again would be counted.
    service = LockService(settings=load(request_timeout=20, acquire_timeout=20, release_timeout=20))
    service.clock.now(Deadline.after(SystemTiming(), 30))
    return service


@pytest.fixture
def requests(rtdb: Rtdb) -> Callable[[], str]:
    """The methods of all requests since the last call."""

    def since() -> str:
        methods = [request.method for request in rtdb.emulator.requests.matching(namespace=rtdb.namespace)]
        rtdb.emulator.requests.clear()
        return " ".join(methods)

    return since


def held(service: LockService, *, fenced: bool = False) -> Lease:
    lease = service.acquire(NAME, TTL, fenced=fenced)
    assert isinstance(lease, Lease), lease
    return lease


def claim(service: LockService, slot: str) -> Lease | Refusal:
    return try_once(service.database, service.database.bid(NAME, TTL, fenced=True, slot=slot))


def test_the_clock_is_asked_once(rtdb: Rtdb, requests: Callable[[], str]) -> None:
    """The first acquire of a service takes the samples of the clock, and the others none."""
    service = LockService(settings=load(clock_samples=3))
    held(service).release()
    assert rtdb.count(path="/cron-instances/clock/seenAt") == 3
    assert requests() == "PUT PUT PUT PUT DELETE"
    held(service).release()
    assert requests() == "PUT DELETE"


def test_a_free_lock_takes_two(rtdb: Rtdb, requests: Callable[[], str]) -> None:
    """A plain acquire and its release are two requests, time and again."""
    service = new_service()
    requests()
    for _ in range(3):
        assert held(service).release()
        assert requests() == "PUT DELETE"
    assert rtdb.get(PATH) is None


def test_a_refusal_takes_one(requests: Callable[[], str]) -> None:
    """A contender for a held lock is refused in one request, time and again."""
    holder, contender = new_service(), new_service()
    held(holder)
    requests()
    for _ in range(3):
        assert not contender.acquire(NAME, TTL)
        assert requests() == "PUT"


def test_a_fenced_lock_takes_one_after_ones_own_release(requests: Callable[[], str]) -> None:
    """A service that released a fenced lock itself knows its record, and acquires it in one request."""
    service = new_service()
    requests()
    for _ in range(3):
        lease = held(service, fenced=True)
        assert requests() == "PUT"
        assert lease.release()
        assert requests() == "PUT"


def test_a_fenced_lock_takes_two_after_anothers_release(requests: Callable[[], str]) -> None:
    """A service that knows an older record of a free lock acquires it in two requests."""
    one, other = new_service(), new_service()
    assert held(one, fenced=True).release()
    other.clock.observe(*ahead(other, 300))
    assert held(other, fenced=True).release()
    requests()
    one.clock.observe(*ahead(one, 600))
    held(one, fenced=True)
    assert requests() == "PUT PUT"


def ahead(service: LockService, milliseconds: int) -> tuple[int, float, float]:
    """A sample by which the service's clock is so far ahead: past the moment of the other's release."""
    timing = SystemTiming()
    now = service.clock.now(Deadline.after(timing, 30))
    return now.server + milliseconds, now.mono, now.mono


def test_a_renewal_takes_one(requests: Callable[[], str]) -> None:
    """A renewal is one request, also the second."""
    lease = held(new_service())
    requests()
    assert lease.renew()
    assert lease.renew()
    assert requests() == "PUT PUT"


def test_a_minimum_hold_of_ones_own_takes_one_look(requests: Callable[[], str]) -> None:
    """What a service remembers is never believed where it forbids: a refusal is looked up, in one request."""
    service = new_service()
    lease = service.acquire(NAME, TTL, hold_at_least=TTL)
    assert isinstance(lease, Lease)
    assert lease.release()
    requests()
    assert not service.acquire(NAME, TTL)
    assert requests() == "GET"


def test_an_operators_edit_costs_a_request(rtdb: Rtdb, requests: Callable[[], str]) -> None:
    """A renewal or a release after an edit by hand is made on the node that the refusal brought along."""
    lease = held(new_service())
    rtdb.set(f"{PATH}/note", "seen")
    requests()
    assert lease.renew()
    assert requests() == "PUT PUT"
    rtdb.set(f"{PATH}/note", None)
    assert lease.release()
    assert requests() == "PUT DELETE"
    assert rtdb.get(PATH) is None


def test_a_tick_takes_two_for_its_winner_and_one_for_a_loser(requests: Callable[[], str]) -> None:
    """A winner claims in one request and releases in another; a loser learns in one that the tick is done, or held."""
    winner, loser = new_service(), new_service()
    requests()
    for number, slot in enumerate(SLOTS):
        lease = claim(winner, slot)
        assert isinstance(lease, Lease)
        assert requests() == "PUT"
        late = claim(loser, slot)
        assert isinstance(late, Refusal)
        assert late.reason == "slot_done"
        assert requests() == "PUT"
        assert lease.release(finished=slot)
        assert requests() == "PUT", number
