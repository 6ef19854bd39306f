"""Access tokens: what a credential that fails, hangs or ages makes of the lock."""

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


@pytest.mark.parametrize("error", [RefreshError, TransportError])
def test_a_credential_that_works_again(rtdb: Rtdb, timing: FakeTiming, error: type[Exception]) -> None:
    """A refresh that failed is tried again by the next call, which succeeds."""
    broken = True

    def fail_while_broken() -> None:
        if broken:
            raise error(MESSAGE)

    credential = FakeCredential(*[fail_while_broken] * 40)
    service = make_service(rtdb, timing, lambda: credential)
    assert not hasty(service, timing).acquire(NAME, 60)
    broken = False
    lease = service.acquire(NAME, 60)
    assert isinstance(lease, Lease)
    assert lease.release()
    assert rtdb.get(PATH) is None


def test_a_refresh_that_hangs_is_unavailable_in_time(rtdb: Rtdb, timing: FakeTiming) -> None:
    """While the token endpoint hangs an acquire is unavailable in time, and a token that comes late serves the next."""
    authenticator = Gate()
    credential = FakeCredential(authenticator)
    service = make_service(rtdb, timing, lambda: credential)
    started = timing.mono()
    answer = hasty(service, timing).acquire(NAME, 60)
    assert timing.mono() - started <= 10_000
    assert isinstance(answer, Refusal)
    assert answer.reason == "unavailable"
    assert "token" in answer.message
    assert rtdb.count() == 0
    authenticator.open.set()
    refreshed()
    assert isinstance(service.acquire(NAME, 60), Lease)
    assert credential.refreshes == 1
    assert bearers(rtdb) == ["Bearer token-1"]


def test_a_token_is_refreshed_behind_the_back_of_the_requests(rtdb: Rtdb, timing: FakeTiming) -> None:
    """A token near its end is used while a new one is fetched, and no request waits, though the fetching hangs."""
    authenticator = Gate()
    credential = FakeCredential(lambda: None, authenticator)
    service = make_service(rtdb, timing, lambda: credential)
    lease = service.acquire(NAME, LIFE)
    assert isinstance(lease, Lease)
    timing.advance(0.95 * LIFE)
    assert lease.renew()
    assert authenticator.reached.wait(30)
    assert lease.renew()
    authenticator.open.set()
    refreshed()
    assert lease.release()
    assert credential.refreshes == 2
    assert bearers(rtdb) == [f"Bearer token-{number}" for number in (1, 1, 1, 2)]


def test_a_failed_refresh_is_no_harm_while_the_token_is_good(rtdb: Rtdb, timing: FakeTiming) -> None:
    """When the early refresh fails the old token goes on to serve, and only its end makes the failure an answer."""
    credential = FakeCredential(lambda: None, *[failing(RefreshError)] * 40)
    service = make_service(rtdb, timing, lambda: credential)
    lease = service.acquire(NAME, LIFE)
    assert isinstance(lease, Lease)
    timing.advance(0.95 * LIFE)
    assert lease.renew()
    refreshed()
    assert lease.renew()
    refreshed()
    assert bearers(rtdb) == ["Bearer token-1"] * 3
    timing.advance(0.1 * LIFE)
    with pytest.raises(Denied, match=MESSAGE):
        lease.renew()


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
