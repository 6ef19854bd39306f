"""HTTP with a wall deadline, against servers of raw sockets that misbehave in every way."""

from __future__ import annotations

import signal
import socket
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from queue import LifoQueue
from typing import Any

import pytest
from tests.stores.raw_server import LONG, Behaviour, Raw, Wire, answering, serving
from tests.unit.threads import ended, named
from urllib3.exceptions import ConnectTimeoutError

from firecron.base.clocks import Deadline, SystemTiming
from firecron.rtdb import transport
from firecron.rtdb.failures import DeadlineExceeded, NoReply
from firecron.rtdb.transport import Reply
from firecron.testing import FakeTiming
from firecron.testing.conformance.kit import real_clock

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 4\r\nX-From: raw\r\n\r\nbody"
CLOSING = b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\nbody"
CHUNKED = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n2\r\nbo\r\n2\r\ndy\r\n0\r\n\r\n"


# A dripped reply takes at least a hundred drips, and is whole in the end: who has no deadline gets it.
SHORT = 0.15


class Client:
    """A transport, used as the store uses it."""

    def __init__(self, host: str) -> None:
        self.transport = transport.Transport(f"http://{host}", 4)

    def get(self, seconds: float = LONG) -> Reply:
        return self.call("GET", seconds)

    def call(self, method: str, seconds: float = LONG) -> Reply:
        return self.transport.send(method, "/node.json", {}, None, Deadline.after(SystemTiming(), seconds))


@pytest.fixture
def client_of(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[Raw], Client]]:
    monkeypatch.setenv("NO_PROXY", "127.0.0.1,rtdb.test")
    made: list[Client] = []

    def make(server: Raw) -> Client:
        made.append(Client(f"127.0.0.1:{server.port}"))
        return made[-1]

    yield make
    for client in made:
        client.transport.close()


MakeClient = Callable[[Raw], Client]


@pytest.mark.parametrize(
    ("reply", "connections"), [(OK, 1), (CHUNKED, 1), (CLOSING, 3)], ids=["kept alive", "chunked", "closing"]
)
def test_replies_are_read_whole_and_connections_kept(client_of: MakeClient, reply: bytes, connections: int) -> None:
    """Whatever its framing, a reply is read whole; a connection is used again unless the server ends it."""
    with serving(answering(reply)) as server:
        client = client_of(server)
        for _ in range(3):
            assert client.get().content == b"body"
        assert server.connections == connections
        assert len(server.requests) == 3


def test_connections_are_kept_for_as_many_callers(client_of: MakeClient) -> None:
    """As many callers as the pool has room for find their connections again: the next calls make none."""
    together = threading.Barrier(4)

    def behave(wire: Wire) -> None:
        while wire.request() is not None:
            together.wait(LONG)  # so that each has its own
            wire.connection.sendall(OK)

    with serving(behave) as server, ThreadPoolExecutor(4) as callers:
        client = client_of(server)
        for _ in range(3):
            assert [reply.content for reply in callers.map(lambda _: client.get(), range(4))] == [b"body"] * 4
        assert server.connections == 4


def test_after_a_lost_reply_the_next_read_and_the_next_write_have_new_connections(client_of: MakeClient) -> None:
    """Where a server answers one request of a connection, the connections that other threads left are of no use."""
    together = threading.Barrier(4)
    is_full = threading.Event()

    def behave(wire: Wire) -> None:
        wire.request()
        if not is_full.is_set():
            together.wait(LONG)  # so that each has its own
        wire.connection.sendall(OK)
        wire.request()

    with serving(behave) as server, ThreadPoolExecutor(4) as callers:
        client = client_of(server)
        assert len(list(callers.map(lambda _: client.get(), range(4)))) == 4
        is_full.set()
        for first in ("PUT", "GET"):
            with pytest.raises(NoReply):
                client.call(first)
            # Another thread takes what this one's failure has left, and leaves a connection that is used up.
            callers.submit(client.get).result(LONG)
            for method in ("GET", "PUT"):
                assert client.call(method).content == b"body"


def test_at_rest_only_a_call_that_is_under_way_has_its_connection(client_of: MakeClient) -> None:
    """The idle ones are closed, the call ends well and closes its own; later calls keep theirs; a closed pool rests."""
    together, ended_by_client = threading.Barrier(3), threading.Semaphore(0)
    has_come, may_reply = threading.Event(), threading.Event()

    def behave(wire: Wire) -> None:
        while (request := wire.request()) is not None:
            if b"PUT" in request:
                has_come.set()
                may_reply.wait(LONG)
            elif not has_come.is_set():
                together.wait(LONG)  # so that each has its own
            wire.connection.sendall(OK)
        ended_by_client.release()

    with serving(behave) as server, ThreadPoolExecutor(3) as callers:
        client = client_of(server)
        assert len(list(callers.map(lambda _: client.get(), range(3)))) == 3
        writing = callers.submit(client.call, "PUT")
        assert has_come.wait(LONG)
        client.transport.rest()
        assert [ended_by_client.acquire(timeout=LONG) for _ in range(2)] == [True, True]
        may_reply.set()
        assert writing.result(LONG).content == b"body"
        assert ended_by_client.acquire(timeout=LONG)
        assert [client.get().content for _ in range(2)] == [b"body", b"body"]
        assert server.connections == 4
        client.transport.rest()
        assert client.get().content == b"body"
        assert server.connections == 5
        client.transport.close()
        client.transport.rest()


def dripping(before: bytes, dripped: bytes) -> Behaviour:
    """Sends the first part at once, and the rest byte by byte."""

    def behave(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(before)
        wire.drip(dripped)

    return behave


HEAD = b"HTTP/1.1 200 OK\r\n"
LONG_HEADER = b"X-Long: " + b"a" * 100 + b"\r\nContent-Length: 4\r\n\r\nbody"
LONG_BODY = b"Content-Length: 100\r\n\r\n" + b"b" * 100
LONG_CHUNKS = b"Transfer-Encoding: chunked\r\n\r\n" + b"1\r\nc\r\n" * 30 + b"0\r\n\r\n"

DRIPS = {
    "status line": (b"", b"HTTP/1.1 200 " + b"O" * 100 + b"\r\nContent-Length: 0\r\n\r\n"),
    "header": (HEAD, LONG_HEADER),
    "body": (HEAD + LONG_BODY[:40], LONG_BODY[40:]),
    "chunks": (HEAD + LONG_CHUNKS[:40], LONG_CHUNKS[40:]),
    "body to the end of the connection": (HEAD + b"Connection: close\r\n\r\n", b"d" * 100),
}


@pytest.mark.parametrize(("before", "dripped"), DRIPS.values(), ids=DRIPS.keys())
def test_a_server_that_drips_is_left_at_the_deadline(client_of: MakeClient, before: bytes, dripped: bytes) -> None:
    """A byte now and then keeps no caller: the deadline is one of the whole call, not of each read."""
    with serving(dripping(before, dripped)) as server, pytest.raises(NoReply):
        client_of(server).get(SHORT)


def test_a_drip_that_ends_in_time_is_read(client_of: MakeClient) -> None:
    """A slow reply is a reply, as long as the deadline holds."""
    with serving(dripping(b"", OK)) as server:
        assert client_of(server).get().content == b"body"


def silent(wire: Wire) -> None:
    """Takes the request, and says nothing."""
    wire.request()
    wire.server.stopping.wait(LONG)


def test_a_server_that_says_nothing_is_left_at_the_deadline(client_of: MakeClient) -> None:
    """No reply at all costs the deadline."""
    with serving(silent) as server, pytest.raises(NoReply) as raised:
        client_of(server).get(SHORT)
    assert raised.value.was_sent


@pytest.mark.parametrize("waiting", [0, 8], ids=["room in the backlog", "a full backlog"])
def test_a_server_that_never_accepts_is_left_at_the_deadline(client_of: MakeClient, waiting: int) -> None:
    """A port that listens and takes no connection costs the deadline, also when the kernel takes none for it."""
    server = Raw(silent)
    server.listening.listen(0)
    others = []
    for _ in range(waiting):
        other = socket.socket()
        other.setblocking(False)
        other.connect_ex(("127.0.0.1", server.port))
        others.append(other)
    with pytest.raises(NoReply):
        client_of(server).get(SHORT)
    for other in others:
        other.close()
    server.stop()


def test_a_deadline_that_has_passed_sends_nothing(client_of: MakeClient) -> None:
    """Without time left there is no request."""
    with serving(answering(OK)) as server:
        with pytest.raises(NoReply) as raised:
            client_of(server).get(0)
        assert isinstance(raised.value.cause, DeadlineExceeded)
        assert not raised.value.was_sent
        assert server.connections == 0


def test_a_deadline_is_of_one_call(client_of: MakeClient) -> None:
    """After a call that ran out of time, the next one has its own time and a connection of its own."""

    def first_silent(wire: Wire) -> None:
        (silent if wire.server.connections == 1 else answering(OK))(wire)

    with serving(first_silent) as server:
        client = client_of(server)
        with pytest.raises(NoReply):
            client.get(SHORT)
        assert client.get().content == b"body"


def test_threads_have_their_own_deadlines(client_of: MakeClient) -> None:
    """A call with little time, and one with much on another thread, don't mix up their deadlines."""
    go_on = threading.Event()

    def behave(wire: Wire) -> None:
        wire.request()
        go_on.wait(LONG)
        wire.connection.sendall(OK)

    with serving(behave) as server, ThreadPoolExecutor(1) as pool:
        client = client_of(server)
        patient = pool.submit(client.get)
        with pytest.raises(NoReply):
            client.get(SHORT)
        go_on.set()
        assert patient.result(LONG).content == b"body"


def test_a_connection_that_the_server_closed_between_requests_is_replaced(client_of: MakeClient) -> None:
    """A kept connection that has ended meanwhile costs a new one, and no failure."""
    closed = threading.Semaphore(0)

    def once(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(OK)
        wire.connection.shutdown(socket.SHUT_RDWR)
        closed.release()

    with serving(once) as server:
        client = client_of(server)
        for _ in range(3):
            assert client.get().content == b"body"
            assert closed.acquire(timeout=LONG)
        assert server.connections == 3


@pytest.mark.parametrize(
    "reply", [b"", b"HTTP/1.1", HEAD + b"Content-Length: 9\r\n\r\nbod"], ids=["none", "word", "half"]
)
def test_nothing_is_sent_twice(client_of: MakeClient, reply: bytes) -> None:
    """A connection that breaks after the request is a failure; whether to ask again is not for the transport to say."""

    def behave(wire: Wire) -> None:
        wire.request()
        wire.connection.sendall(reply)

    with serving(behave) as server:
        with pytest.raises(NoReply):
            client_of(server).get()
        assert len(server.requests) == 1


@pytest.mark.parametrize("status", [b"302 Found", b"307 Temporary Redirect", b"503 Service Unavailable"])
def test_nothing_is_followed_or_retried(client_of: MakeClient, status: bytes) -> None:
    """Redirects and server errors are answers like others."""
    reply = b"HTTP/1.1 " + status + b"\r\nLocation: /elsewhere\r\nRetry-After: 0\r\nContent-Length: 0\r\n\r\n"
    with serving(answering(reply)) as server:
        assert client_of(server).get().status == int(status[:3])
        assert len(server.requests) == 1


def test_a_refused_connection_is_a_connection_error(client_of: MakeClient) -> None:
    """What fails on the connecting thread is raised on the caller's."""
    server = Raw(silent)
    server.stop()
    with pytest.raises(NoReply) as raised:
        client_of(server).get()
    assert isinstance(raised.value.cause, ConnectionRefusedError)
    assert not raised.value.was_sent


def test_a_name_that_is_not_resolved_is_left_at_the_deadline(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Name resolution has no deadline of its own: the caller leaves it, and a connection that comes late is closed."""
    asked, go_on = threading.Event(), threading.Event()
    ended = threading.Event()
    resolve = socket.getaddrinfo

    def hang(host: str, port: int, *arguments: object, **keywords: object) -> object:
        asked.set()
        assert go_on.wait(LONG)
        return resolve("127.0.0.1", port, type=socket.SOCK_STREAM)

    def behave(wire: Wire) -> None:
        if wire.request() is None:
            ended.set()

    with serving(behave) as server:
        client = Client(f"rtdb.test:{server.port}")
        monkeypatch.setattr(socket, "getaddrinfo", hang)
        with pytest.raises(NoReply) as raised:
            client.get(SHORT)
        assert isinstance(raised.value.cause, ConnectTimeoutError)
        assert asked.is_set()
        assert {thread.daemon for thread in threading.enumerate() if thread.name == "firecron-connect"} == {True}
        go_on.set()
        assert ended.wait(LONG)
        assert server.requests == []


LEAVINGS = ["at the deadline", "as its thread starts", "by an interrupt"]


@pytest.mark.parametrize("leaves", LEAVINGS)
def test_a_connection_that_nobody_waits_for_is_closed(
    client_of: MakeClient, connected: list[socket.socket], monkeypatch: pytest.MonkeyPatch, leaves: str
) -> None:
    """However a caller leaves the thread that connects for it, that thread closes what it makes."""
    go_on = threading.Event()
    timing = FakeTiming(base=real_clock)
    start, resolve = threading.Thread.start, socket.getaddrinfo

    def start_late(thread: threading.Thread) -> None:
        start(thread)
        if thread.name == "firecron-connect" and leaves == "as its thread starts":
            timing.advance(LONG)

    def hang(*arguments: Any, **keywords: Any) -> Any:
        if leaves == "by an interrupt":
            signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)
        assert go_on.wait(LONG)
        return resolve(*arguments, **keywords)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    monkeypatch.setattr(socket, "getaddrinfo", hang)
    with serving(silent) as server:
        transport = client_of(server).transport
        deadline = Deadline.after(timing, SHORT if leaves == "at the deadline" else LONG)
        with pytest.raises(KeyboardInterrupt if leaves == "by an interrupt" else NoReply):
            transport.send("GET", "/node.json", {}, None, deadline)
        go_on.set()
        assert all(map(ended, named("firecron-connect")))
        assert [sock.fileno() for sock in connected] == [-1]
        assert server.requests == []


def test_where_no_thread_can_be_had_nothing_is_sent(client_of: MakeClient, monkeypatch: pytest.MonkeyPatch) -> None:
    """A connecting thread that can't be started is a failure to connect; the next call has its own."""

    def refuse(thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    with serving(answering(OK)) as server:
        client = client_of(server)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            with pytest.raises(NoReply) as raised:
                client.get()
        assert "can't start new thread" in str(raised.value.cause)
        assert server.connections == 0
        assert client.get().content == b"body"


def test_while_python_ends_a_connection_is_made_without_a_thread(
    client_of: MakeClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no thread begins because the interpreter ends, a stop can release its locks all the same."""

    start = threading.Thread.start

    def refuse(thread: threading.Thread) -> None:
        if thread.name == "firecron-connect":  # and not the server's
            raise RuntimeError("can't create new thread at interpreter shutdown")
        start(thread)

    with serving(answering(OK)) as server:
        client = client_of(server)
        with monkeypatch.context() as patch:
            patch.setattr(threading.Thread, "start", refuse)
            assert client.get().content == b"body"
        assert server.connections == 1


@contextmanager
def through(proxy: Raw, monkeypatch: pytest.MonkeyPatch, user: str = "") -> Iterator[Client]:
    """A client of a database behind this proxy, which only the environment of its making names."""
    with monkeypatch.context() as patch:
        patch.setenv("HTTP_PROXY", f"http://{user}127.0.0.1:{proxy.port}")
        patch.delenv("NO_PROXY", raising=False)
        client = Client("rtdb.test")
    yield client
    client.transport.close()


@pytest.mark.parametrize("user", ["", "ann:secret@"])
def test_a_proxy_from_the_environment_is_used(monkeypatch: pytest.MonkeyPatch, user: str) -> None:
    """What the environment says of proxies is asked once, when the transport is made. Without a tunnel a proxy asks for
    its password each time.
    """
    with serving(answering(OK)) as proxy, through(proxy, monkeypatch, user) as client:
        assert [client.get().content for _ in range(2)] == [b"body"] * 2
        for request in proxy.requests:
            assert request.startswith(b"GET http://rtdb.test/node.json HTTP/1.1\r\n")
            assert (b"Proxy-Authorization: Basic YW5uOnNlY3JldA==\r\n" in request) is bool(user)


def test_a_proxy_that_drips_is_left_at_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Through a proxy the same deadline holds."""
    with serving(dripping(HEAD, LONG_HEADER)) as proxy, through(proxy, monkeypatch) as client, pytest.raises(NoReply):
        client.get(SHORT)


@pytest.mark.parametrize("line_break", ["\r\n", "\n", "\r"])
def test_a_header_can_not_bring_another_one(client_of: MakeClient, line_break: str) -> None:
    """A value with a line break, such as a server's strange ETag, is not sent: it would be two headers."""
    with serving(answering(OK)) as server:
        client = client_of(server)
        deadline = Deadline.after(SystemTiming(), LONG)
        with pytest.raises(NoReply, match="line break"):
            client.transport.send("GET", "/node.json", {"if-match": f"a{line_break}X-Other: b"}, None, deadline)
        assert server.connections == 0


def test_a_closed_transport_keeps_no_connection(client_of: MakeClient) -> None:
    """After `close` the server sees its connection end, and nothing more is sent."""
    ended = threading.Event()

    def behave(wire: Wire) -> None:
        answering(OK)(wire)
        ended.set()

    with serving(behave) as server:
        client = client_of(server)
        client.get()
        client.transport.close()
        assert ended.wait(LONG)
        with pytest.raises(NoReply):
            client.get()
        assert len(server.requests) == 1


def test_a_connection_that_comes_back_to_a_closed_pool_is_closed(
    client_of: MakeClient, connected: list[socket.socket], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that ends while another thread closes the transport leaves no connection behind."""
    put = LifoQueue.put

    def put_late(queue: LifoQueue[Any], *arguments: Any, **keywords: Any) -> None:
        client.transport.close()
        put(queue, *arguments, **keywords)

    with serving(answering(OK)) as server:
        client = client_of(server)
        monkeypatch.setattr(LifoQueue, "put", put_late)
        assert client.get().content == b"body"
        assert [sock.fileno() for sock in connected] == [-1]
