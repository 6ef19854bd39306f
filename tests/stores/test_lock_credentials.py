"""What the lock makes of a credential that fails, hangs or ages, and of what the database's rules forbid."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
from google.auth.exceptions import DefaultCredentialsError, RefreshError, TransportError

from firecron.errors import Denied
from firecron.lock.lease import Lease
from firecron.lock.record import Reason
from firecron.lock.refusal import Refusal
from firecron.locks import LockService
from firecron.rtdb.store import RtdbStore
from firecron.rtdb.target import Target
from firecron.rtdb.tokens import Credential
from firecron.settings import load
from firecron.store import Store
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.firebase_apps import App, MakeApp

NAME = "job"
PATH = f"/cron-locks/{NAME}"
LIFE = 3600
MESSAGE = "the credential's own words"


class FakeCredential:
    """A credential whose refreshes a test scripts: each calls the next of `script`, or else succeeds."""

    def __init__(self, *script: Callable[[], None]) -> None:
        self.token: str | None = None
        self.expiry: datetime | None = None
        self.refreshes = 0
        self.script = list(script)

    def refresh(self, request: object) -> None:
        self.refreshes += 1
        number = self.refreshes
        if self.script:
            self.script.pop(0)()
        self.token = f"token-{number}"
        self.expiry = datetime.now(UTC).replace(tzinfo=None) + timedelta(seconds=LIFE)


class Gate:
    """A step of a script that hangs until it is let go on."""

    def __init__(self) -> None:
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self) -> None:
        self.reached.set()
        self.open.wait(30)


def failing(error: type[Exception]) -> Callable[[], None]:
    def fail() -> None:
        raise error(MESSAGE)

    return fail


def make_service(rtdb: Rtdb, timing: FakeTiming, find: Callable[[], Credential]) -> LockService:
    """A service that gives a slow machine the time for what has to succeed."""
    target = Target(rtdb.emulator.url, {"ns": rtdb.namespace}, find)
    return service_of(RtdbStore(lambda: target, timing), timing, request_timeout=30, timeout=30)


def hasty(service: LockService, timing: FakeTiming) -> LockService:
    """A service of the same store, for what can't succeed."""
    return service_of(service.store, timing, request_timeout=0.3, timeout=1)


def service_of(store: Store, timing: FakeTiming, *, request_timeout: float, timeout: float) -> LockService:
    settings = load(
        request_timeout=request_timeout,
        acquire_timeout=timeout,
        release_timeout=timeout,
        clock_drift=1e-6,
        clock_interval=86_400,
    )
    return LockService(settings=settings, store=store, timing=timing)


@pytest.fixture
def timing() -> FakeTiming:
    return FakeTiming(base=real_clock)


def bearers(rtdb: Rtdb) -> list[str]:
    """The tokens of the requests about the lock, in their order."""
    return [request.facts.headers["authorization"] for request in rtdb.emulator.requests.matching(path=PATH)]


def refreshed() -> None:
    """Return when no refresh is under way any more."""
    for thread in threading.enumerate():
        if thread.name == "firecron-token":
            thread.join(30)


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (RefreshError, "denied"),
        (DefaultCredentialsError, "denied"),
        (TransportError, "unavailable"),
        (OSError, "unavailable"),
    ],
)
@pytest.mark.parametrize("when", ["found", "refreshed"])
def test_a_credential_that_fails(
    rtdb: Rtdb, timing: FakeTiming, error: type[Exception], reason: Reason, when: str
) -> None:
    """Credentials that don't do are denied, an endpoint out of reach is unavailable, and neither sends a thing."""
    credential = FakeCredential(*([failing(error)] * 20 if when == "refreshed" else []))
    service = make_service(rtdb, timing, failing_find(error) if when == "found" else lambda: credential)
    answer = hasty(service, timing).acquire(NAME, 60)
    assert isinstance(answer, Refusal)
    assert answer.reason == reason
    assert MESSAGE in answer.message
    assert rtdb.count() == 0
    assert rtdb.get() is None


def failing_find(error: type[Exception]) -> Callable[[], Credential]:
    def find() -> Credential:
        raise error(MESSAGE)

    return find


def test_a_token_that_the_database_rejects_is_replaced(rtdb: Rtdb, timing: FakeTiming) -> None:
    """After a 401 another token is fetched for the next request, once in five minutes at the most."""
    credential = FakeCredential()
    service = make_service(rtdb, timing, lambda: credential)
    assert isinstance(service.acquire("warm-up", 60), Lease)
    timing.advance(600)
    rtdb.faults.answer(401, path=PATH, times=None)
    for _ in range(3):
        answer = service.acquire(NAME, 60)
        assert isinstance(answer, Refusal)
        assert answer.reason == "denied"
        refreshed()
    assert credential.refreshes == 2
    assert bearers(rtdb)[0] == "Bearer token-1"
    assert bearers(rtdb)[-1] == "Bearer token-2"


TTL = 60

MINE = "auth.uid === 'firecron'"
CLOCK = {"cron-instances": {".read": MINE, ".write": MINE}}


def rules(read: object, write: object) -> dict[str, object]:
    return {"rules": {"cron-locks": {"$name": {".read": read, ".write": write}}, **CLOCK}}


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
