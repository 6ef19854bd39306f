"""A socket from its handshake to its end: hello, frames in both directions, limits, silence, and any bytes at all."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import ParamSpec

import pytest
import requests
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidStatus
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from rtdb_emulator import Emulator
from rtdb_emulator.http.endpoints import Endpoints
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.http.log import RequestLog
from rtdb_emulator.http.service import Service
from rtdb_emulator.jsondata import parse, render
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.store import Store
from rtdb_emulator.tree import Node
from rtdb_emulator.ws import connection
from rtdb_emulator.ws.connection import Connection
from rtdb_emulator.ws.messages import SEGMENT, Assembler, Broken, cut
from rtdb_emulator.ws.server import Sockets
from rtdb_emulator_tests.helpers.sockets import (
    PATIENCE,
    SocketClient,
    frame_of,
    handshaken,
    opened,
    socket_client,
    until,
)


def test_the_server_speaks_first(rtdb: Rtdb, client: SocketClient) -> None:
    """The hello has the server's time as an integer, the version as a text, and the host that the client has asked."""
    assert isinstance(client.hello["ts"], int)
    assert client.hello["v"] == "5"
    assert client.hello["h"] == rtdb.emulator.host


def test_each_connection_has_a_session_of_its_own(rtdb: Rtdb) -> None:
    """No two connections have one session id."""
    with socket_client(rtdb.emulator, rtdb.namespace) as one, socket_client(rtdb.emulator, rtdb.namespace) as other:
        assert one.hello["s"] != other.hello["s"]


def test_a_seed_makes_the_same_push_ids_whoever_connects() -> None:
    """Sockets take nothing from the seed, and a client that names a session of another run ends nobody's."""
    pushed, sessions = [], []
    for connections in (1, 2):
        with ExitStack() as stack:
            emulator = stack.enter_context(Emulator(seed=7, now=lambda: 1))
            for _ in range(connections):
                sessions.append(stack.enter_context(socket_client(emulator, "demo")).hello["s"])
            pushed.append(requests.post(f"{emulator.url}/a.json?ns=demo", json=1, timeout=PATIENCE).json()["name"])
    assert pushed[0] == pushed[1]
    assert len(set(sessions)) == 3


@pytest.mark.parametrize("wanted", ["/.ws?v=5&ns=no.name", "/.ws?v=5&ns=%zz"])
def test_a_database_that_cannot_be_is_refused_in_the_handshake(rtdb: Rtdb, wanted: str) -> None:
    """A name that no database can have, and a broken encoding, are 400."""
    with pytest.raises(InvalidStatus) as refused, opened(wanted, rtdb.emulator.port):
        pass
    assert refused.value.response.status_code == 400


@pytest.mark.parametrize(("target", "headers"), [("&x=" + "y" * 9_000, 0), ("", 200)], ids=["line", "headers"])
def test_a_handshake_that_is_none_is_answered(rtdb: Rtdb, target: str, headers: int) -> None:
    """A request that no WebSocket begins with is 400, not a closed connection without a word."""
    lines = [f"GET /.ws?v=5{target} HTTP/1.1", "host: h", "upgrade: websocket", "connection: upgrade"]
    head = "\r\n".join([*lines, *(f"x-{number}: y" for number in range(headers)), "", ""])
    with socket.create_connection(("127.0.0.1", rtdb.emulator.port), PATIENCE) as plain, plain.makefile("rb") as answer:
        plain.sendall(head.encode())
        assert answer.read().startswith(b"HTTP/1.1 400 ")


def test_a_plain_request_is_told_to_upgrade(rtdb: Rtdb) -> None:
    """A GET of the socket's path without an upgrade is 426."""
    assert requests.get(f"{rtdb.emulator.url}/.ws?v=5&ns=demo", timeout=PATIENCE).status_code == 426


def test_a_ping_is_answered_and_a_keep_alive_is_not(rtdb: Rtdb, client: SocketClient) -> None:
    """`p` gets `o`, the frame 0 gets nothing, and so does a control message that nobody knows."""
    client.connection.send("0")
    client.connection.send('{"t":"c","d":{"t":"unheard of","d":{}}}')
    client.connection.send('{"t":"c","d":{"t":"p","d":{}}}')
    assert client.read() == {"t": "c", "d": {"t": "o", "d": {}}}


@pytest.mark.parametrize("action", ["", "unheard of", "x" * 100_000])
def test_an_unknown_action_is_answered(rtdb: Rtdb, action: str, client: SocketClient) -> None:
    """Every request gets exactly one answer, with the number that it has."""
    assert client.ask(action)[0] == "error"
    assert client.ask("s", c={}) == ("ok", "")


@pytest.mark.parametrize(
    ("frame", "code"),
    [
        ("{", 1007),
        ("[]", 1007),
        ("12345678", 1007),
        ('{"t":"d"}', 1007),
        ('{"t":"d","d":{"a":"s","b":{}}}', 1007),
        ('{"t":"d","d":{"r":true,"a":"s","b":{}}}', 1007),
        ('{"d":{"r":1,"a":"s","b":{}}}', 1007),
        ("[" * 16_000, 1007),
        (b"\x01\x02", 1003),
    ],
)
def test_what_is_no_message_ends_the_connection(
    rtdb: Rtdb, frame: str | bytes, code: int, client: SocketClient
) -> None:
    """What can't be answered closes the connection, after the answers to what came before."""
    number = client.send("p", p="/a", d=1)
    client.connection.send(frame)
    assert client.answer(number) == ("ok", "")
    assert client.closed() == code
    assert rtdb.get("/a") == 1


def test_long_messages_are_segments_in_both_directions(rtdb: Rtdb, client: SocketClient) -> None:
    """Text with characters of every length survives being cut, however the client cuts it."""
    text = "aé€😀" * 9_000
    message = json.dumps({"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/t", "d": text}}}, ensure_ascii=False)
    pieces = [message[:1], message[1:20_000], "", message[20_000:]]
    for frame in (str(len(pieces)), *pieces):
        client.connection.send(frame)
    assert client.answer(1) == ("ok", "")
    client.connection.send('{"t":"d","d":{"r":2,"a":"g","b":{"p":"/t"}}}')
    count = int(str(client.connection.recv(timeout=PATIENCE)))
    segments = [str(client.connection.recv(timeout=PATIENCE)) for _ in range(count)]
    assert max(map(len, segments)) <= SEGMENT
    assert json.loads("".join(segments))["d"]["b"]["d"] == text


def test_fragments_of_websocket_are_put_together(rtdb: Rtdb) -> None:
    """A frame in several fragments, cut in the middle of a character, is one frame."""
    frame = json.dumps({"t": "d", "d": {"r": 1, "a": "p", "b": {"p": "/t", "d": "€"}}}, ensure_ascii=False).encode()
    middle = frame.index("€".encode()) + 1
    with handshaken(rtdb.emulator, rtdb.namespace) as raw:
        raw.sendall(frame_of(0x01, frame[:middle]) + frame_of(0x80, frame[middle:]))
        assert until(lambda: rtdb.get("/t")) == "€"


def test_one_segment_and_many_are_put_together() -> None:
    """A count of 1 is legal, and after a whole message another may begin."""
    assembler = Assembler()
    assert [assembler.feed(frame) for frame in ("0", "1", "{}", "2", "a", "b", "whole one")] == [
        None, None, "{}", None, None, "ab", "whole one"
    ]  # fmt: skip


@pytest.mark.parametrize("frames", [["x" * 101], ["3", "x" * 60, "x" * 60]])
def test_a_message_over_the_limit_is_refused_before_it_is_whole(frames: list[str]) -> None:
    """No more is kept of a message than it may have."""
    assembler = Assembler(limit=100)
    for frame in frames[:-1]:
        assert assembler.feed(frame) is None
    with pytest.raises(Broken, match="100") as broken:
        assembler.feed(frames[-1])
    assert broken.value.code == 1009


@pytest.mark.parametrize("size", [1, SEGMENT, SEGMENT + 1, 3 * SEGMENT])
def test_what_is_cut_can_be_put_together(size: int) -> None:
    """Cutting and assembling are each other's inverse."""
    assembler = Assembler()
    assert [assembler.feed(frame) for frame in cut("x" * size)][-1] == "x" * size


def test_who_says_nothing_is_gone() -> None:
    """A client that is silent for longer than the limit is disconnected, in the middle of a message too."""
    with Emulator(silence=0.05) as emulator, socket_client(emulator, "demo") as client:
        client.connection.send("2")
        assert client.closed() == 1006
        assert emulator.listeners("demo") == 0


def test_the_end_of_the_emulator_is_said_and_writes_nothing() -> None:
    """Clients are closed with 1001, whose answer nobody waits for; what they have left for their own end is not
    written at the emulator's.
    """
    emulator = Emulator().start()
    with socket_client(emulator, "demo") as client:
        client.ask("q", p="/a", h="")
        client.ask("o", p="/gone", d=True)
        emulator.stop()
        assert client.closed() == 1001
    assert emulator.get("demo") is None
    assert emulator.listeners("demo") == 0
    gc.collect()  # a transport that was left open says so here


def test_a_client_that_reads_nothing_is_dropped_and_holds_up_nobody(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What waits for a client is bounded; others go on meanwhile, and the client's end is an end like any other."""
    bound = 4 * 1024 * 1024
    monkeypatch.setattr(connection, "MAX_WAITING", bound)
    large = "x" * (1024 * 1024)
    with handshaken(rtdb.emulator, rtdb.namespace) as raw, socket_client(rtdb.emulator, rtdb.namespace) as other:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for number, body in enumerate(({"a": "o", "b": {"p": "/gone", "d": True}}, {"a": "q", "b": {"p": "/big"}})):
            raw.sendall(frame_of(0x81, json.dumps({"t": "d", "d": {"r": number, **body}}).encode()))
        until(lambda: rtdb.emulator.listeners(rtdb.namespace) == 1)
        # The system takes some of it for the client's sake.
        for turn in range(5 * bound // len(large)):
            rtdb.set("/big", f"{turn}{large}")
            assert other.ask("p", p="/small", d=turn) == ("ok", "")
        assert until(lambda: rtdb.get("/gone")) is True
        assert rtdb.emulator.listeners(rtdb.namespace) == 0


def test_a_value_may_be_larger_than_what_may_wait(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, client: SocketClient
) -> None:
    """What waits is bounded where more is to be sent: a client that reads gets one large value, and is not dropped."""
    bound = 64 * 1024
    monkeypatch.setattr(connection, "MAX_WAITING", bound)
    large = "x" * (100 * bound)
    client.listen("/big")
    rtdb.set("/big", large)
    assert client.push()["b"]["d"] == large
    assert client.ask("s", c={})[0] == "ok"


P = ParamSpec("P")
HANDSHAKE = (
    b"GET /.ws?v=5&ns=demo HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
    b"Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)


class Wire(asyncio.Transport):
    """A transport without a network."""

    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.is_closed = False
        self.protocol: asyncio.BaseProtocol | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written += data

    def close(self) -> None:
        self.is_closed = True

    def abort(self) -> None:
        self.is_closed = True

    def is_closing(self) -> bool:
        return self.is_closed

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_write_buffer_size(self) -> int:
        return 0

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...


def _frame(opcode: Opcode, data: bytes, is_last: bool, has_mask: bool) -> bytes:
    """A client's frame, with a mask of zeros; it may be one that is forbidden."""
    mask = 0x80 if has_mask else 0
    size = bytes([mask | len(data)]) if len(data) < 126 else bytes([mask | 126]) + len(data).to_bytes(2, "big")
    return bytes([(0x80 if is_last else 0) | opcode]) + size + bytes(4 if has_mask else 0) + data


def _dumped(data: object) -> bytes:
    return json.dumps(data).replace("Infinity", "1e999").encode()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text(max_size=6), below, max_size=4),
    max_leaves=12,
)
_PATHS = st.sampled_from(["/a", "/a/b", "/", "a//c", "/a/.priority", "/$", "/.info", "/é/😀", "/" + "x/" * 40])
_BODIES = st.fixed_dictionaries(
    {},
    optional={
        "p": _PATHS | _JSON,
        "d": _JSON,
        "h": st.just("") | _JSON,
        "t": st.integers(0, 3) | _JSON,
        "q": st.fixed_dictionaries({}, optional={"i": st.just(".key") | _JSON, "l": st.integers(0, 3), "sp": _JSON})
        | _JSON,
        "cred": st.just("owner") | st.text(max_size=9),
        "authvar": _JSON,
        "noauth": st.booleans(),
    },
)
_ACTIONS = st.sampled_from(["s", "q", "n", "g", "p", "m", "o", "om", "oc", "auth", "gauth", "unauth", "x"])
_REQUESTS = st.builds(
    lambda number, action, body: _dumped({"t": "d", "d": {"r": number, "a": action, "b": body}}),
    st.integers(0, 9) | _JSON,
    _ACTIONS | _JSON,
    _BODIES | _JSON,
)
_TEXTS = _REQUESTS | st.sampled_from([b"0", b"1", b"2", b"999999", b"{}", b"", b"\xff"]) | _JSON.map(_dumped)
_FRAMES = st.builds(
    _frame,
    st.sampled_from([Opcode.TEXT] * 12 + [Opcode.BINARY, Opcode.CONT, Opcode.CONT, Opcode.PING, Opcode.CLOSE]),
    _TEXTS | st.binary(max_size=40),
    st.sampled_from([True, True, True, False]),
    st.sampled_from([True] * 20 + [False]),
)
_BYTES = st.lists(_FRAMES | st.binary(max_size=30), max_size=8).map(b"".join)


@pytest.fixture(scope="module")
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    made = asyncio.new_event_loop()
    yield made
    made.close()


def _turns(loop: asyncio.AbstractEventLoop, work: Callable[P, None], *args: P.args, **kwargs: P.kwargs) -> None:
    """Do this, and let the loop do what comes of it."""

    async def a_few() -> None:
        work(*args, **kwargs)
        for _ in range(3):
            await asyncio.sleep(0)

    loop.run_until_complete(a_few())


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(data=st.data())
def test_any_bytes_are_answered_or_close_the_connection(
    loop: asyncio.AbstractEventLoop, caplog: pytest.LogCaptureFixture, data: st.DataObject
) -> None:
    """Random frames, whole and broken, cut anywhere: nothing breaks, the tree stays one, and nothing is kept after."""
    caplog.clear()
    sent = data.draw(_BYTES)
    store = Store(lambda: 1)
    wire, connection = _connected(loop, store)
    at = 0
    while at < len(sent) and not wire.is_closed:
        size = data.draw(st.integers(1, 200))
        piece = sent[at : at + size]
        at += size
        _turns(loop, connection.data_received, piece)
    _turns(loop, connection.connection_lost, None)
    assert [record.message for record in caplog.records if record.levelno >= logging.ERROR] == []
    for message in _messages(bytes(wire.written)):
        json.loads(message)
    database = store.database("demo")
    assert database.listeners == 0
    _check(database.root)
    assert parse(render(database.root, priorities=True), now=0) == database.root


def test_memory_does_not_grow_with_what_is_never_finished(loop: asyncio.AbstractEventLoop) -> None:
    """A message that is announced and never ends, and fragments that never end, are bounded."""
    for first in (Frame(Opcode.TEXT, b"999999").serialize(mask=True), b""):
        wire, connection = _connected(loop, Store(lambda: 1))
        opcode = Opcode.TEXT
        pieces = 0
        _turns(loop, connection.data_received, first)
        while b"\x03\xf1" not in wire.written:  # 1009, too big
            frame = Frame(opcode, b"x" * 1_000_000, bool(first)).serialize(mask=True)
            _turns(loop, connection.data_received, frame)
            opcode = Opcode.TEXT if first else Opcode.CONT
            pieces += 1
            assert pieces < 60
        _turns(loop, connection.connection_lost, None)


def _check(node: Node) -> None:
    """There are no empty objects in a tree."""
    for child in node.children.values():
        assert not child.is_empty
        _check(child)


def _messages(written: bytes) -> list[str]:
    """What a client would read of this."""
    client = ClientProtocol(parse_uri("ws://here/"), state=State.OPEN, max_size=None)
    client.receive_data(written.partition(b"\r\n\r\n")[2])
    return [
        bytes(event.data).decode()
        for event in client.events_received()
        if isinstance(event, Frame) and event.opcode is Opcode.TEXT
    ]


def _connected(loop: asyncio.AbstractEventLoop, store: Store) -> tuple[Wire, Connection]:
    """A connection whose handshake is over."""
    faults, wire = Faults(), Wire()
    service = Service(store, "demo", Endpoints(store, faults))
    sockets = Sockets(store, service, RequestLog(), faults, silence=120.0, explains=False)
    _turns(loop, sockets.adopt, wire, HANDSHAKE, 1, loop)
    assert isinstance(wire.protocol, Connection)
    return wire, wire.protocol
