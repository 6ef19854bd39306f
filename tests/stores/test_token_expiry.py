"""An access token that expires while a request waits: the request is made again with the next one, once."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta

import pytest
from google.auth.exceptions import TransportError
from tests.stores.raw_server import Wire, serving
from tests.stores.test_transport_tls import Wrap, over_tls, pem

from firecron import Denied, Lease, LockService
from firecron.base.clocks import Deadline
from firecron.rtdb.store import RtdbStore
from firecron.rtdb.target import Target
from firecron.settings import load
from firecron.testing import FakeTiming

__all__ = ["over_tls", "pem"]

EXPIRED = b'{"error": "Auth token is expired"}'


class Credential:
    """Its tokens last for an hour of the clock's; `asked` counts them."""

    def __init__(self) -> None:
        self.asked = 0
        self.is_away = False
        self.token: str | None = None
        self.expiry: datetime | None = None

    def refresh(self, request: object) -> None:
        if self.is_away:
            raise TransportError("the token endpoint is away")  # type: ignore[no-untyped-call]  # google-auth declares no types
        self.asked += 1
        self.token = f"token-{self.asked}"
        self.expiry = (datetime.now(UTC) + timedelta(hours=1)).replace(tzinfo=None)


class Database:
    """RTDB as far as a lock needs it. The first claim waits until its token has expired, and the endpoint is back."""

    def __init__(self, timing: FakeTiming, endpoint: Credential) -> None:
        self.timing = timing
        self.endpoint = endpoint
        self.node: object = None
        self.seen: list[str] = []
        self.has_waited = False

    def serve(self, wire: Wire) -> None:
        while (head := wire.request()) is not None:
            length = re.search(rb"Content-Length: (\d+)", head)
            body = b""
            while length and len(body) < int(length[1]):
                body += wire.connection.recv(65_536)
            method, path = head.decode().split()[:2]
            token = head.decode().partition("Authorization: Bearer ")[2].partition("\r\n")[0]
            status, said = 200, self.answer(method, path, token, body)
            if said == EXPIRED:
                status = 401
            etag = "null_etag" if self.node is None else "etag"
            reply = f"HTTP/1.1 {status} Said\r\nContent-Length: {len(said)}\r\nETag: {etag}\r\n\r\n".encode()
            wire.connection.sendall(reply + said)

    def answer(self, method: str, path: str, token: str, body: bytes) -> bytes:
        if "clock" in path:
            return str(int(self.timing.wall())).encode()
        self.seen.append(f"{method} {token}")
        if method == "PUT" and not self.has_waited:
            self.has_waited = True
            self.timing.advance(2)
            self.endpoint.is_away = False
        if token == "token-1" and self.has_waited:
            return EXPIRED
        if method == "PUT":
            self.node = json.loads(body)
        return json.dumps(self.node).encode()


def test_a_token_that_expires_while_a_claim_waits_costs_no_tick(
    over_tls: Wrap, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The write whose token is refused has had no effect: it is sent again, and acquires the lock in the same try."""
    timing, credential = FakeTiming(wall=1_794_992_400_000), Credential()
    monkeypatch.setattr("firecron.rtdb.store.google_fetch", lambda timeout: lambda one: one.refresh(None))
    database = Database(timing, credential)
    with serving(over_tls(database.serve)) as server:
        target = Target(f"https://localhost:{server.port}", {}, lambda: credential)
        store = RtdbStore(lambda: target, timing)
        locks = LockService(settings=load(), store=store, timing=timing, has_threads=False)
        locks.read("report")
        timing.advance(3599)
        credential.is_away = True
        answer = locks.acquire("report", 60)
        assert isinstance(answer, Lease)
        assert database.seen == ["GET token-1", "PUT token-1", "PUT token-2"]
        assert isinstance(database.node, dict)
        assert database.node["holder"] == answer.holder
        store.close()


class Picky:
    """A server that refuses some tokens, in these words, and else answers any request. `seen` has each one's token."""

    def __init__(self) -> None:
        self.refuses: tuple[str, ...] = ()
        self.said = EXPIRED
        self.seen: list[str] = []

    def serve(self, wire: Wire) -> None:
        with suppress(ConnectionError):
            while (head := wire.request()) is not None:
                length = re.search(rb"Content-Length: (\d+)", head)
                body = b""
                while length and len(body) < int(length[1]):
                    body += wire.connection.recv(65_536)
                self.answer(wire, head.decode(), body)

    def answer(self, wire: Wire, head: str, body: bytes) -> None:
        token = head.partition("Authorization: Bearer ")[2].partition("\r\n")[0]
        self.seen.append(token)
        status, said, kind = 200, b"1794992400000" if "clock" in head else body or b'{"a": 1}', "application/json"
        if token in self.refuses:
            status, said = 401, self.said
        elif "text/event-stream" in head:
            said, kind = b'event: put\ndata: {"path":"/","data":1}\n\n', "text/event-stream"
        start = f"HTTP/1.1 {status} Said\r\nContent-Type: {kind}\r\nContent-Length: {len(said)}\r\nETag: e\r\n\r\n"
        wire.connection.sendall(start.encode() + said)


@pytest.fixture
def timing() -> FakeTiming:
    return FakeTiming(wall=1_794_992_400_000)


@pytest.fixture
def picky() -> Picky:
    return Picky()


@pytest.fixture
def store(picky: Picky, timing: FakeTiming, monkeypatch: pytest.MonkeyPatch) -> Iterator[RtdbStore]:
    """A store of that server whose first token was used ten minutes ago, and lives for another fifty."""
    with store_of(picky, timing, Credential(), monkeypatch) as store:
        store.read("node", Deadline.after(timing, 8))
        timing.advance(600)
        picky.seen.clear()
        yield store


@contextmanager
def store_of(
    picky: Picky, timing: FakeTiming, credential: Credential, monkeypatch: pytest.MonkeyPatch
) -> Iterator[RtdbStore]:
    monkeypatch.setattr("firecron.rtdb.store.google_fetch", lambda timeout: lambda one: one.refresh(None))
    with serving(picky.serve) as server:
        store = RtdbStore(lambda: Target(f"http://127.0.0.1:{server.port}", {}, lambda: credential), timing)
        try:
            yield store
        finally:
            store.close()


REQUESTS: dict[str, Callable[[RtdbStore, Deadline], object]] = {
    "read": lambda store, deadline: store.read("node", deadline),
    "swap": lambda store, deadline: store.swap("node", "e", {"a": 1}, deadline),
    "timestamp": lambda store, deadline: store.timestamp("clock", deadline),
    "date": lambda store, deadline: store.date("node", deadline),
    "merge": lambda store, deadline: store.merge("node", {"a": 1}, deadline),
    "keys": lambda store, deadline: store.keys("node", deadline),
    "newest": lambda store, deadline: store.newest("node", deadline),
    "watch": lambda store, deadline: store.watch("node", deadline).close(),
}


@pytest.mark.parametrize("request_of", REQUESTS.values(), ids=REQUESTS)
def test_a_request_whose_token_is_refused_is_made_again_with_another(
    request_of: Callable[[RtdbStore, Deadline], object], store: RtdbStore, picky: Picky, timing: FakeTiming
) -> None:
    """Reads, writes and streams alike: a token that is refused on the way of a request is no answer to the request."""
    picky.refuses = ("token-1",)
    request_of(store, Deadline.after(timing, 8))
    assert picky.seen == ["token-1", "token-2"]


@pytest.mark.parametrize("request_of", [REQUESTS["read"], REQUESTS["watch"]], ids=["read", "watch"])
def test_a_request_is_made_again_once(
    request_of: Callable[[RtdbStore, Deadline], object], store: RtdbStore, picky: Picky, timing: FakeTiming
) -> None:
    """If the new token is refused as well, the request is denied, and so is the next one, with that token, at once."""
    picky.refuses = ("token-1", "token-2")
    for seen in (["token-1", "token-2"], ["token-2"]):
        with pytest.raises(Denied, match="does not accept the access token"):
            request_of(store, Deadline.after(timing, 8))
        assert picky.seen == seen
        picky.seen.clear()


def test_what_the_rules_refuse_is_not_asked_again(store: RtdbStore, picky: Picky, timing: FakeTiming) -> None:
    """Another token changes nothing about the rules, which refuse many of a fleet's writes."""
    picky.refuses, picky.said = ("token-1",), b'{"error": "Permission denied"}'
    with pytest.raises(Denied, match="Check the security rules"):
        store.read("node", Deadline.after(timing, 8))
    assert picky.seen == ["token-1"]


def test_a_refused_token_without_another_is_denied(
    picky: Picky, timing: FakeTiming, monkeypatch: pytest.MonkeyPatch
) -> None:
    """While the token endpoint is away there is none to send, so the reply of the database stands."""
    credential = Credential()
    with store_of(picky, timing, credential, monkeypatch) as store:
        store.read("node", Deadline.after(timing, 8))
        timing.advance(600)
        credential.is_away, picky.refuses = True, ("token-1",)
        with pytest.raises(Denied, match="does not accept the access token"):
            store.read("node", Deadline.after(timing, 8))
    assert picky.seen == ["token-1"] * 2
