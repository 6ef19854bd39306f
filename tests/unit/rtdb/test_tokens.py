"""Access tokens: fetched off the hot path, ahead of time, and told apart where they can't be had."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta

import google.auth.exceptions
import pytest
from tests.unit.threads import ended, named

from firecron.base.clocks import Deadline
from firecron.errors import NoCredentials, Unavailable
from firecron.rtdb.store import StaticToken
from firecron.rtdb.tokens import RefreshingTokens, google_fetch
from firecron.testing import FakeTiming

HOUR = 3600.0


class Credential:
    """What google-auth's credentials have: a token, and until when by this machine's wall clock."""

    def __init__(self) -> None:
        self.token: str | None = None
        self.expiry: datetime | None = None
        self.requests: list[object] = []

    def refresh(self, request: object) -> None:
        self.requests.append(request)


class Bench:
    """Tokens whose endpoint is scripted: each fetch gives the next number, or fails."""

    def __init__(self, life: float | None = HOUR) -> None:
        self.timing = FakeTiming()
        self.life = life
        self.loads = 0
        self.fetches = 0
        self.fetched = threading.Semaphore(0)
        self.failure: Exception | None = None
        self.before: Callable[[], object] = lambda: None
        self.tokens = RefreshingTokens(self._load, self._fetch, self.timing)

    def _load(self) -> Credential:
        self.loads += 1
        return Credential()

    def _fetch(self, credential: object) -> None:
        assert isinstance(credential, Credential)
        self.before()
        self.fetches += 1
        try:
            if self.failure is not None:
                raise self.failure
            credential.token = f"token-{self.fetches}"
            # Without a zone, as google-auth has it.
            now = datetime.now(UTC).replace(tzinfo=None)
            credential.expiry = None if self.life is None else now + timedelta(seconds=self.life)
        finally:
            self.fetched.release()

    def header(self, seconds: float = 8.0) -> str:
        return self.tokens.header(Deadline.after(self.timing, seconds))

    def settle(self) -> None:
        """Return when the refresh that is under way has ended."""
        assert all(map(ended, named("firecron-token")))


def test_the_emulator_needs_no_token() -> None:
    """The emulator's owner is whoever says so, whatever was refused."""
    tokens = StaticToken()
    tokens.rejected()
    assert tokens.header(Deadline.after(FakeTiming(), 0)) == "Bearer owner"


def test_a_token_is_fetched_once_and_used(bench: Bench) -> None:
    """Many calls share one token, and the credential is looked up once."""
    assert {bench.header() for _ in range(5)} == {"Bearer token-1"}
    assert (bench.loads, bench.fetches) == (1, 1)


@pytest.fixture
def bench() -> Bench:
    return Bench()


@pytest.mark.parametrize(("life", "seconds"), [(HOUR, HOUR), (600, 600), (None, HOUR)])
def test_a_token_is_renewed_behind_the_back_of_callers(life: float | None, seconds: float) -> None:
    """When a tenth of its life is left another is fetched, and until that is there nobody waits."""
    bench = Bench(life)
    bench.header()
    bench.timing.advance(seconds * 0.9 - 1)
    assert bench.header() == "Bearer token-1"
    bench.settle()
    assert bench.fetches == 1
    go_on = threading.Event()
    bench.before = lambda: go_on.wait(20)
    bench.timing.advance(2)
    assert bench.header(0) == "Bearer token-1"
    go_on.set()
    bench.settle()
    assert bench.header(0) == "Bearer token-2"
    assert (bench.loads, bench.fetches) == (1, 2)


def test_after_its_end_a_token_is_not_used(bench: Bench) -> None:
    """Who finds no good token waits for one."""
    bench.header()
    bench.timing.advance(HOUR + 1)
    assert bench.header() == "Bearer token-2"


def test_a_failed_refresh_uses_up_what_there_is(bench: Bench) -> None:
    """While the old token is good, an endpoint that fails is nobody's trouble."""
    bench.header()
    bench.failure = google.auth.exceptions.TransportError("down")  # type: ignore[no-untyped-call]  # no types there
    bench.timing.advance(HOUR * 0.95)
    assert bench.header() == "Bearer token-1"
    bench.settle()
    assert bench.header() == "Bearer token-1"
    bench.settle()
    bench.timing.advance(HOUR)
    with pytest.raises(Unavailable, match="no access token could be fetched: down"):
        bench.header()
    bench.failure = None
    assert bench.header().startswith("Bearer token-")


def google_error(name: str, *arguments: object, cause: Exception | None = None, **keywords: object) -> Exception:
    """One of google-auth's exceptions, which declare no types."""
    error: Exception = getattr(google.auth.exceptions, name)(*arguments, **keywords)
    error.__cause__ = cause
    return error


FAILURES: list[tuple[Exception, type[Exception], str]] = [
    (
        google_error("TransportError", "no route"),
        Unavailable,
        "no access token could be fetched: no route: is the token",
    ),
    (
        google_error("TransportError", "a chain", cause=ConnectionRefusedError(111, "refused")),
        Unavailable,
        "no access token could be fetched: ConnectionRefusedError: [Errno 111] refused: is the token",
    ),
    (google_error("RefreshError", "busy", retryable=True), Unavailable, "no access token could be fetched: busy: is"),
    (
        google_error("RefreshError", "revoked"),
        NoCredentials,
        "the credentials give no access token: revoked. On Cloud Run, check the service account",
    ),
    (google_error("RefreshError", "revoked.", {"error": "x"}), NoCredentials, "no access token: revoked. On Cloud Run"),
    (google_error("RefreshError", google_error("TransportError", "no", 5)), NoCredentials, "no access token: no. On"),
    (google_error("RefreshError"), NoCredentials, "no access token: RefreshError. On Cloud Run"),
    (
        google_error("DefaultCredentialsError", "none found"),
        NoCredentials,
        "there are no Google credentials: none found. Run 'gcloud auth application-default login'",
    ),
    (OSError("disk"), Unavailable, "OSError: disk"),
    (ValueError("a bug"), Unavailable, "ValueError: a bug"),
]


@pytest.mark.parametrize(("error", "kind", "words"), FAILURES, ids=lambda value: getattr(value, "__name__", None))
def test_failures_are_told_apart(bench: Bench, error: Exception, kind: type[Exception], words: str) -> None:
    """No network is one thing, credentials that don't do another; the next call tries again."""
    bench.failure = error
    with pytest.raises(kind) as raised:
        bench.header()
    assert words in str(raised.value)
    bench.failure = None
    assert bench.header() == "Bearer token-2"


def test_a_credential_that_is_not_found_is_looked_for_again() -> None:
    """The lookup itself may fail, and is repeated with the next call."""
    timing = FakeTiming()
    found = iter([google_error("DefaultCredentialsError", "none found"), None])

    def load() -> Credential:
        failure = next(found)
        if failure is not None:
            raise failure
        return Credential()

    tokens = RefreshingTokens(load, lambda credential: setattr(credential, "token", "late"), timing)
    with pytest.raises(NoCredentials):
        tokens.header(Deadline.after(timing, 8))
    assert tokens.header(Deadline.after(timing, 8)) == "Bearer late"


class Hanging:
    """A bench whose first fetch hangs until it is let go."""

    def __init__(self) -> None:
        self.bench = Bench()
        self.started, self.go_on = threading.Event(), threading.Event()

        def hang() -> None:
            self.started.set()
            assert self.go_on.wait(20)

        self.bench.before = hang


def test_waiting_for_a_token_ends_with_the_deadline() -> None:
    """An endpoint that hangs costs a caller its deadline, and later callers start no second fetch."""
    hanging = Hanging()
    for _ in range(3):
        with pytest.raises(Unavailable, match="no access token came within the deadline"):
            hanging.bench.header(0)
    assert hanging.started.wait(20)
    assert {thread.daemon for thread in threading.enumerate() if thread.name == "firecron-token"} == {True}
    hanging.go_on.set()
    hanging.bench.settle()
    assert hanging.bench.header(0) == "Bearer token-1"
    assert hanging.bench.fetches == 1


def test_many_callers_share_one_fetch() -> None:
    """Threads that need a token at once wait for the same one."""
    hanging = Hanging()
    with ThreadPoolExecutor(4) as pool:
        calls = [pool.submit(hanging.bench.header) for _ in range(4)]
        assert hanging.started.wait(20)
        hanging.go_on.set()
        assert {call.result(20) for call in calls} == {"Bearer token-1"}
    assert hanging.bench.fetches == 1


@pytest.mark.parametrize(("age", "fetches"), [(299, 1), (301, 2)])
def test_a_rejected_token_is_replaced_but_not_time_and_again(bench: Bench, age: float, fetches: int) -> None:
    """After a 401 another token is fetched, unless this one is younger than five minutes: then it is the rules."""
    bench.timing.advance(1_000)
    bench.header()
    bench.timing.advance(age)
    go_on = threading.Event()
    bench.before = lambda: go_on.wait(20)
    for _ in range(3):
        bench.tokens.rejected()
        assert bench.header() == "Bearer token-1"
    go_on.set()
    bench.settle()
    assert bench.fetches == fetches
    assert bench.header() == f"Bearer token-{fetches}"


@pytest.mark.parametrize(("age", "number"), [(300, 1), (301, 2)])
def test_a_refused_token_has_another_unless_it_is_new(bench: Bench, age: float, number: int) -> None:
    """The caller waits for a token that it can use instead. One of five minutes would be refused as well."""
    bench.header()
    bench.timing.advance(age)
    found = bench.tokens.instead_of("Bearer token-1", Deadline.after(bench.timing, 8))
    assert (found, bench.fetches) == (f"Bearer token-{number}", number)


def test_callers_whose_old_token_was_refused_take_the_new_one(bench: Bench) -> None:
    """Many requests may have had it: the first refusal fetches a token for all of them."""
    bench.header()
    bench.timing.advance(1_000)
    deadline = Deadline.after(bench.timing, 8)
    assert {bench.tokens.instead_of("Bearer token-1", deadline) for _ in range(3)} == {"Bearer token-2"}
    assert bench.fetches == 2


def test_where_no_thread_can_be_had_nobody_waits_for_one(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the fetching thread can't be started there is no token, at once, and the next call tries again."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", refuse)
        with pytest.raises(Unavailable, match="no access token could be fetched: can't start new thread"):
            bench.header()
    assert bench.header() == "Bearer token-1"


def test_a_refresh_has_a_timeout_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request of a refresh is limited, also where google-auth asks for more."""
    asked: list[dict[str, object]] = []

    class Request:
        def __call__(self, *arguments: object, **keywords: object) -> None:
            asked.append(keywords)

    monkeypatch.setattr("google.auth.transport.requests.Request", Request)
    credential = Credential()
    google_fetch(30)(credential)
    [request] = credential.requests
    assert callable(request)
    request("http://127.0.0.1/token", timeout=120)
    assert asked == [{"timeout": 30}]
