"""Any bytes on a socket end in an answer or a closed connection: no traceback, no growing memory, no wrong tree."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from typing import ParamSpec

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from websockets.client import ClientProtocol
from websockets.frames import Frame, Opcode
from websockets.protocol import State
from websockets.uri import parse_uri

from rtdb_emulator.http.endpoints import Endpoints
from rtdb_emulator.http.faults import Faults
from rtdb_emulator.http.log import RequestLog
from rtdb_emulator.http.service import Service
from rtdb_emulator.jsondata import parse, render
from rtdb_emulator.store import Store
from rtdb_emulator.tree import Node
from rtdb_emulator.ws.connection import Connection
from rtdb_emulator.ws.server import Sockets

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
    store = Store(lambda: 1)
    sockets = Sockets(
        store, Service(store, "demo", Endpoints(store, Faults())), RequestLog(), Faults(), silence=120.0, explains=False
    )
    sent = data.draw(_BYTES)
    wire = Wire()
    _turns(loop, sockets.adopt, wire, HANDSHAKE, 1, loop)
    connection = wire.protocol
    assert isinstance(connection, Connection)
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
        store = Store(lambda: 1)
        sockets = Sockets(
            store,
            Service(store, "demo", Endpoints(store, Faults())),
            RequestLog(),
            Faults(),
            silence=120.0,
            explains=False,
        )
        wire = Wire()
        _turns(loop, sockets.adopt, wire, HANDSHAKE, 1, loop)
        connection = wire.protocol
        assert isinstance(connection, Connection)
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


def _sockets(store: Store) -> Sockets:
    faults = Faults()
    service = Service(store, "demo", Endpoints(store, faults))
    return Sockets(store, service, RequestLog(), faults, silence=120.0, explains=False)
