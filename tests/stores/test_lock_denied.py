"""What the database's rules forbid is denied, and only that: a loser whom they stop is told that the lock is held."""

from __future__ import annotations

import pytest
from tests.emulator.conftest import App, MakeApp

from firecron.errors import Denied, StoreError
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.settings import load
from firecron.testing import FakeTiming
from rtdb_emulator.pytest_plugin import Rtdb

NAME = "job"
PATH = f"/cron-locks/{NAME}"
TTL = 60

MINE = "auth.uid === 'firecron'"
FREE = "(!data.exists() || data.child('expiresAt').val() < now || data.child('releasedAt').exists())"
OWN = "(!newData.exists() || newData.child('holder').val() === data.child('holder').val())"

CLOCK = {"cron-instances": {".read": MINE, ".write": MINE}}


def rules(read: object, write: object) -> dict[str, object]:
    return {"rules": {"cron-locks": {"$name": {".read": read, ".write": write}}, **CLOCK}}


# The rules let a writer take only what is free, and so refuse what a loser writes.
GUARDED = rules(MINE, f"{MINE} && ({FREE} || {OWN})")


@pytest.fixture
def app(make_app: MakeApp) -> App:
    return make_app(databaseAuthVariableOverride={"uid": "firecron"})


def service(app: App) -> LockService:
    # Generous, because nothing here waits for them.
    return LockService(app, load(request_timeout=20, acquire_timeout=20, release_timeout=20))


def refusal_of(answer: Lease | Refusal) -> Refusal:
    assert isinstance(answer, Refusal), answer
    return answer


def sent(rtdb: Rtdb) -> str:
    return " ".join(request.method for request in rtdb.emulator.requests.matching(path=PATH))


@pytest.mark.parametrize(
    ("read", "write", "requests"),
    [
        pytest.param(False, False, "PUT GET", id="read-and-write"),
        pytest.param(MINE, False, "PUT GET PUT DELETE", id="write-only"),
        pytest.param(False, "false && data.exists()", "PUT GET", id="by-data"),
    ],
)
def test_what_the_rules_forbid_is_denied(rtdb: Rtdb, app: App, read: object, write: object, requests: str) -> None:
    """A free lock that may not be written is denied, and so is one that may not be read; nothing is stored."""
    rtdb.set_rules(rules(read, write))
    refusal = refusal_of(service(app).acquire(NAME, TTL))
    assert refusal.reason == "denied"
    assert isinstance(refusal.error, Denied)
    assert "rules" in refusal.message
    assert sent(rtdb) == requests
    assert rtdb.get(PATH) is None


def test_a_clock_that_may_not_be_asked_is_denied(rtdb: Rtdb, app: App) -> None:
    """Rules that forbid the write by which the time is asked are told as denied, before anything is written."""
    rtdb.set_rules({"rules": {"cron-locks": {".read": MINE, ".write": MINE}}})
    assert refusal_of(service(app).acquire(NAME, TTL)).reason == "denied"
    assert rtdb.get() is None


def test_a_loser_whom_the_rules_stop_is_told_that_it_is_held(rtdb: Rtdb, app: App, loser_sends: str) -> None:
    """A loser is told who holds the lock: by the 412, or after a 401 by one read, which is one request more."""
    rtdb.set_rules(GUARDED)
    lease = service(app).acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    before = rtdb.get(PATH)
    loser = service(app)
    loser.acquire("another", TTL)
    rtdb.emulator.requests.clear()
    refusal = refusal_of(loser.acquire(NAME, TTL))
    assert (refusal.reason, refusal.holder) == ("held", lease.holder)
    assert sent(rtdb) == loser_sends
    assert rtdb.get(PATH) == before
    assert lease.renew()
    assert lease.release()
    assert rtdb.get(PATH) is None


@pytest.mark.usefixtures("loser_sends")
def test_a_loser_whom_all_rules_stop_is_told_that_it_is_held(rtdb: Rtdb, app: App) -> None:
    """Who may read but not write is told that a lock is held while it is, and that it is denied when it isn't."""
    lease = service(app).acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    rtdb.set_rules(rules(MINE, False))
    assert refusal_of(service(app).acquire(NAME, TTL)).reason == "held"
    rtdb.set(PATH, None)
    assert refusal_of(service(app).acquire(NAME, TTL)).reason == "denied"


@pytest.mark.parametrize("read", [MINE, False])
def test_a_holder_whom_the_rules_stop_keeps_its_lease_as_it_is(rtdb: Rtdb, make_app: MakeApp, read: object) -> None:
    """When the rules change under a holder its renewal raises Denied, its release gives up, and the record stays."""
    # Time passes only in the pauses between the tries.
    holder = LockService(make_app(databaseAuthVariableOverride={"uid": "firecron"}), timing=FakeTiming())
    lease = holder.acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    before = rtdb.get(PATH)
    rtdb.set_rules(rules(read, False))
    with pytest.raises(Denied):
        lease.renew()
    assert not lease.lost
    assert not lease.release()
    assert rtdb.get(PATH) == before


def test_without_an_override_the_rules_are_passed_by(rtdb: Rtdb, make_app: MakeApp) -> None:
    """An administrator's app locks under rules that let nobody in, and a null override is nobody."""
    rtdb.set_rules({"rules": {".read": False, ".write": False}})
    nobody = service(make_app(databaseAuthVariableOverride=None))
    assert refusal_of(nobody.acquire(NAME, TTL)).reason == "denied"
    lease = service(make_app()).acquire(NAME, TTL)
    assert isinstance(lease, Lease)
    assert rtdb.get(PATH) is not None


def test_denied_is_not_tried_again(rtdb: Rtdb, app: App) -> None:
    """A contender that would wait for a held lock doesn't wait where it is denied."""
    rtdb.set_rules({"rules": {}})
    refusal = refusal_of(service(app).acquire(NAME, TTL, wait=3600))
    assert refusal.reason == "denied"
    assert isinstance(refusal.error, StoreError)
