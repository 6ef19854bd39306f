"""Streams of RTDB's, from the emulator and from servers that send what no database would, or nothing."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime

import pytest
from tests.stores.raw_server import LONG, Behaviour, Raw, Wire, serving

from firecron.base.clocks import Deadline, SystemTiming
from firecron.errors import Denied, EmulatorDown, StoreError, Unavailable
from firecron.rtdb.store import RtdbStore
from firecron.rtdb.stream import Stream, redirected
from firecron.rtdb.target import Target, find_target
from firecron.rtdb.transport import OpenReply
from firecron.store import KeptAlive, Watch
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock
from rtdb_emulator.pytest_plugin import Rtdb

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n\r\n"
FIRST = b'event: put\ndata: {"path":"/","data":{"holder":"a"}}\n\n'
KEEP_ALIVE = b"event: keep-alive\ndata: null\n\n"


def sending(*pieces: bytes, then: str = "wait") -> Behaviour:
    """Answers each request with these pieces of a stream. Then it closes the connection, or says nothing more."""

    def behave(wire: Wire) -> None:
        wire.request()
        for piece in (HEAD, *pieces):
            wire.connection.sendall(piece)
        if then == "wait":
            wire.server.stopping.wait(LONG)

    return behave


@contextmanager
def store_at(server: Raw, timing: FakeTiming | None = None) -> Iterator[RtdbStore]:
    target = Target(f"http://127.0.0.1:{server.port}", {"ns": "x"}, None)
    store = RtdbStore(lambda: target, timing or SystemTiming())
    try:
        yield store
    finally:
        store.close()


@contextmanager
def watching(behaviour: Behaviour, seconds: float = LONG, timing: FakeTiming | None = None) -> Iterator[Watch]:
    with serving(behaviour) as server, store_at(server, timing) as store:
        watch = store.watch("cron-locks/job", Deadline.after(timing or SystemTiming(), seconds))
        try:
            yield watch
        finally:
            watch.close()


def test_a_stream_follows_the_node(rtdb: Rtdb) -> None:
    """The node as it is at first, and after each change at, above and below it, as a read would return it."""
    store = RtdbStore(lambda: find_target(None, rtdb.url), SystemTiming())
    rtdb.set("/a/b", {"x": 1})
    watch = store.watch("a/b", Deadline.after(SystemTiming(), LONG))
    rtdb.set("/a/b/y", [1, 2])
    rtdb.set("/a/other", 1)
    store.merge("a", {"b/x": None, "b/z": {"v": 1}}, Deadline.after(SystemTiming(), LONG))
    rtdb.set("/a", None)
    found = [watch.next()]
    while found[-1] is not None:
        found.append(watch.next())
    assert found[:2] == [{"x": 1}, {"x": 1, "y": [1, 2]}]
    assert {"y": [1, 2], "z": {"v": 1}} in found
    watch.close()
    store.close()


def test_a_stream_asks_as_the_store_does() -> None:
    """It sends the token, the parameters and what it accepts, and no ETag is asked for."""
    with serving(sending(FIRST)) as server, store_at(server) as store:
        store.watch("cron-locks/a b", Deadline.after(SystemTiming(), LONG)).close()
        (request,) = server.requests
    lines = request.decode().split("\r\n")
    assert lines[0] == "GET /cron-locks/a%20b.json?ns=x HTTP/1.1"
    assert {"Accept: text/event-stream", "Authorization: Bearer owner", "Accept-Encoding: identity"} <= set(lines)
    assert not any("ETag" in line for line in lines)


@pytest.mark.parametrize(
    ("pieces", "then", "error", "said"),
    [
        ([FIRST, KEEP_ALIVE], "close", Unavailable, "RTDB has ended the stream"),
        ([FIRST, b'event: put\ndata: {"path":"/hol'], "close", Unavailable, "RTDB has ended the stream"),
        ([FIRST, b"event: auth_revoked\ndata: credential is no longer valid\n\n"], "wait", Unavailable, "no longer"),
        ([FIRST, b"event: cancel\ndata: null\n\n"], "wait", Denied, "cancelled the stream"),
        ([FIRST, b'event: cancel\ndata: "Permission denied"\n\n'], "wait", Denied, "Permission denied"),
        ([FIRST, b"event: put\ndata: <html>\n\n"], "wait", Unavailable, "never sends that"),
        ([FIRST, b"event: put\ndata: 7\n\n"], "wait", Unavailable, "never sends that"),
        ([FIRST, b'event: put\ndata: {"path":7,"data":1}\n\n'], "wait", Unavailable, "never sends that"),
        ([FIRST, b'event: patch\ndata: {"path":"/","data":7}\n\n'], "wait", Unavailable, "never sends that"),
        ([FIRST, b"event: put\ndata: " + b"[" * 100_000 + b"\n\n"], "wait", Unavailable, "never sends that"),
    ],
    ids=["ended", "cut", "revoked", "cancelled", "denied", "page", "number", "path", "patch", "deep"],
)
def test_a_stream_ends_with_a_reason(pieces: list[bytes], then: str, error: type[StoreError], said: str) -> None:
    """What RTDB says at the end, and what it never sends, ends the stream. What was told before stays true."""
    with watching(sending(*pieces, then=then)) as watch:
        assert watch.next() == {"holder": "a"}
        for _ in range(2):
            with pytest.raises(StoreError) as raised:
                watch.next()
        assert isinstance(raised.value, StoreError)
    with watching(sending(*pieces, then=then)) as watch:
        watch.next()
        with pytest.raises(error, match=said):
            watch.next()


def test_what_comes_twice_is_told_twice_and_unknown_events_are_not() -> None:
    """A duplicate changes nothing. Events that RTDB may send one day are passed over."""
    unknown = b"event: rules_debug\ndata: some text\n\n"
    with watching(sending(FIRST, unknown, FIRST, KEEP_ALIVE, FIRST)) as watch:
        assert [watch.next() for _ in range(3)] == [{"holder": "a"}] * 3


@pytest.mark.parametrize("pieces", [[], [KEEP_ALIVE], [FIRST[:-1]]], ids=["nothing", "a keep-alive", "half an event"])
def test_a_proxy_that_holds_events_back_is_found_out(pieces: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a whole first event within the time of a request there is no stream."""
    timing, begin = FakeTiming(), Stream.begin

    def begin_late(stream: Stream) -> None:
        timing.advance(LONG - 0.1)  # only once the head has come: nothing else is to outlast the deadline
        begin(stream)

    monkeypatch.setattr(Stream, "begin", begin_late)
    started = time.monotonic()
    with pytest.raises(Unavailable, match="no first event"), watching(sending(*pieces), timing=timing):
        pass
    assert time.monotonic() - started < LONG / 2


@pytest.mark.parametrize("first", [b'event: patch\ndata: {"path":"/","data":{}}\n\n', FIRST.replace(b'"/"', b'"/x"')])
def test_a_stream_begins_with_the_whole_node(first: bytes) -> None:
    """A first event that is only a part of the node is none of RTDB's."""
    with pytest.raises(Unavailable, match="never sends that"), watching(sending(first)):
        pass


def test_a_stream_is_dead_after_75_seconds_of_silence() -> None:
    """Keep-alives come every 30 seconds. Each event counts as one, and a byte now and then does not."""
    timing = FakeTiming(base=real_clock)
    told = threading.Event()

    def behave(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(HEAD + FIRST)
        told.wait(LONG)
        wire.connection.sendall(KEEP_ALIVE + FIRST)
        wire.drip(b":" * 1_000)

    with watching(behave, timing=timing) as watch:
        watch.next()
        timing.advance(74)
        told.set()
        watch.next()
        timing.advance(75.1)
        with pytest.raises(Unavailable, match="no keep-alive for 75 s"):
            watch.next()


def test_a_stream_says_for_how_long_it_was_silent() -> None:
    """Each event counts, a keep-alive too; bytes that are no event don't."""
    timing = FakeTiming(base=real_clock)
    told = threading.Event()

    def behave(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(HEAD + FIRST)
        told.wait(LONG)
        wire.connection.sendall(KEEP_ALIVE)
        wire.drip(b":" * 1_000)

    with watching(behave, timing=timing) as watch:
        assert isinstance(watch, KeptAlive)
        watch.next()
        timing.advance(31)
        assert 31_000 <= watch.silence() < 31_000 + LONG * 1000
        timing.advance(40)
        reading = threading.Thread(target=lambda: raised(watch.next))
        reading.start()
        told.set()
        ends = time.monotonic() + LONG
        while watch.silence() > 60_000:
            assert time.monotonic() < ends, "the keep-alive is never noticed"
            time.sleep(0.002)
        watch.close()
        reading.join()


def raised(call: Callable[[], object]) -> StoreError | None:
    """Make the call, and return what it raises."""
    try:
        call()
    except StoreError as error:
        return error
    return None


def test_a_stream_closes_at_once_from_another_thread() -> None:
    """A thread that waits for the next event ends when another one closes the stream, and later ones don't begin."""
    with watching(sending(FIRST)) as watch:
        watch.next()
        closing = threading.Timer(0.05, watch.close)
        closing.start()
        started = time.monotonic()
        for _ in range(2):
            with pytest.raises(Unavailable, match="the stream was closed"):
                watch.next()
        assert time.monotonic() - started < LONG / 2
        closing.join()


def test_a_stream_that_is_closed_as_its_value_comes_is_closed(
    connected: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that gets its value all the same may never read again: its connection is closed with that."""
    read, told = OpenReply.read, threading.Event()

    def behave(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(HEAD + FIRST)
        told.wait(LONG)
        wire.connection.sendall(FIRST)
        wire.server.stopping.wait(LONG)

    def closing(reply: OpenReply) -> bytes:
        received = read(reply)
        threads.submit(watch.close).result(LONG)
        return received

    with ThreadPoolExecutor(1) as threads, watching(behave) as watch:
        watch.next()
        monkeypatch.setattr(OpenReply, "read", closing)
        told.set()
        assert watch.next() == {"holder": "a"}
        assert [sock.fileno() for sock in connected] == [-1]


@pytest.mark.parametrize(
    ("reply", "error", "said"),
    [
        (b"HTTP/1.1 401 No\r\nContent-Length: 28\r\n\r\n" + b'{"error":"Permission denied"}', Denied, "answered 401"),
        (b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n", Denied, "answered 404"),
        (b"HTTP/1.1 503 Busy\r\nContent-Length: 0\r\n\r\n", Unavailable, "answered 503"),
        (b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 6\r\n\r\n<html>", Unavailable, "sign-in page"),
        (b"HTTP/1.1 302 Go\r\nLocation: /\r\nContent-Length: 0\r\n\r\n", Unavailable, "answered 302"),
        (b"", Unavailable, "can't be reached"),
    ],
    ids=["401", "404", "503", "page", "302", "nothing"],
)
def test_a_refused_stream_says_why(reply: bytes, error: type[StoreError], said: str) -> None:
    """A reply that is no stream is an error like that of any other request."""

    def behave(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(reply)

    with pytest.raises(error, match=said), watching(behave):
        pass


def test_a_missing_emulator_is_named() -> None:
    """Where nothing listens, the error is that of any other request."""
    with serving(sending()) as server:
        pass
    with store_at(server) as store, pytest.raises(EmulatorDown):
        store.watch("node", Deadline.after(SystemTiming(), LONG))


def test_a_redirect_is_followed_within_the_database() -> None:
    """A 307 to a server of the same domain is followed with the token."""

    def serve(wire: Wire) -> None:
        request = wire.request() or b""
        if b"/moved/" in request:
            wire.connection.sendall(HEAD + FIRST)
            wire.server.stopping.wait(LONG)
        location = f"http://127.0.0.1:{wire.server.port}/moved/here.json?ns=x&s=1"
        wire.connection.sendall(f"HTTP/1.1 307 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())

    with serving(serve) as server, store_at(server) as store:
        watch = store.watch("cron-locks/job", Deadline.after(SystemTiming(), LONG))
        assert watch.next() == {"holder": "a"}
        watch.close()
        _, request = server.requests
    assert request.startswith(b"GET /moved/here.json?ns=x&s=1 HTTP/1.1\r\n")
    assert b"Authorization: Bearer owner\r\n" in request


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_redirect_to_elsewhere_never_gets_the_token(host: str) -> None:
    """Neither another host nor another port of this one, where another program may listen."""
    with serving(sending(FIRST)) as server:

        def redirect(wire: Wire) -> None:
            wire.request()
            location = f"http://{host}:{server.port}/moved/here.json?ns=x&s=1"
            wire.connection.sendall(f"HTTP/1.1 307 Go\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode())

        with pytest.raises(Denied, match=f"{host}:{server.port}, outside of the domain"), watching(redirect):
            pass
        assert server.requests == []


def test_redirects_end() -> None:
    """A server that redirects for ever is not followed for ever."""

    def redirect(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(b"HTTP/1.1 307 Go\r\nLocation: /again.json\r\nContent-Length: 0\r\n\r\n")

    with serving(redirect) as server, store_at(server) as store:
        with pytest.raises(Unavailable, match="answered 307"):
            store.watch("node", Deadline.after(SystemTiming(), LONG))
        assert server.connections == 4


OWN = "https://my-app.firebaseio.com/cron-locks/a.json"
REGION = "https://my-app.europe-west1.firebasedatabase.app/a.json"


@pytest.mark.parametrize(
    ("url", "location", "host"),
    [
        (OWN, "https://s-usc1c-nss-1.firebaseio.com/a.json?ns=my-app", "https://s-usc1c-nss-1.firebaseio.com"),
        (OWN, "/b.json", "https://my-app.firebaseio.com"),
        (
            REGION,
            "https://s-1.europe-west1.firebasedatabase.app/a.json",
            "https://s-1.europe-west1.firebasedatabase.app",
        ),
        (OWN, "http://s-usc1c-nss-1.firebaseio.com/a.json", None),
        (OWN, "http://my-app.firebaseio.com:443/b.json", None),
        (OWN, "https://firebaseio.com.evil.example/a.json", None),
        (OWN, "https://evil.example/.firebaseio.com", None),
        (OWN, "https://my-app.firebaseio.com@evil.example/", None),
        (OWN, "https://me:it@s-1.firebaseio.com/", None),
        (OWN, "https://[", None),
        (OWN, "https://my-app.firebaseio.com:443/b.json", "https://my-app.firebaseio.com:443"),
        (OWN, "https://my-app.firebaseio.com:8443/b.json", None),
        (OWN, "https://s-1.firebaseio.com:8443/b.json", None),
        (OWN, "https://my-app.firebaseio.com:99999/b.json", None),
        ("http://127.0.0.1:9000/a.json", "http://127.0.0.1:9000/b.json", "http://127.0.0.1:9000"),
        ("http://127.0.0.1:9000/a.json", "http://127.0.0.1:9001/b.json", None),
        ("http://127.0.0.1:9000/a.json", "http://127.0.0.1/b.json", None),
        (REGION, "https://s-1.us-central1.firebasedatabase.app/a.json", None),
        (REGION, "https://s-1.firebaseio.com/a.json", None),
        ("https://db.example.org/a.json", "https://other.example.org/a.json", None),
    ],
)
def test_the_token_stays_in_the_databases_domain(url: str, location: str, host: str | None) -> None:
    """Only RTDB's own servers get the token: over TLS, at the same name or beside it below Firebase's."""
    target = Target("", {"auth_variable_override": '{"uid":"u"}', "ns": "my-app"}, None)
    if host is None:
        with pytest.raises(Denied):
            redirected(target, url, location)
        return
    found, rest = redirected(target, url, location)
    assert found == host
    assert rest.count("ns=my-app") == 1
    assert "auth_variable_override=%7B%22uid%22%3A%22u%22%7D" in rest


def test_a_stream_whose_token_is_revoked_gets_a_fresh_one() -> None:
    """The stream after `auth_revoked` waits for another token; requests go on with the one that they have."""
    revoked = b"event: auth_revoked\ndata: credential is no longer valid\n\n"
    numbers = iter(range(1, 10))

    class Made:
        token: str | None = None
        expiry: datetime | None = None

        def refresh(self, request: object) -> None:
            self.token = f"token-{next(numbers)}"

    with serving(sending(FIRST, revoked)) as server:
        target = Target(f"http://127.0.0.1:{server.port}", {}, Made)
        store = RtdbStore(lambda: target, SystemTiming())
        for _ in range(2):
            watch = store.watch("node", Deadline.after(SystemTiming(), LONG))
            watch.next()
            with pytest.raises(Unavailable, match="no longer valid"):
                watch.next()
        store.close()
        tokens = [line for request in server.requests for line in request.split(b"\r\n") if b"Bearer" in line]
    assert tokens == [b"Authorization: Bearer token-1", b"Authorization: Bearer token-2"]
