"""What clients leave to be written when they are gone: once, for whatever reason they go."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.emulator.sockets import SocketClient, socket_client, until

from rtdb_emulator import Emulator
from rtdb_emulator.jsondata import parse, render
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.tree import EMPTY
from rtdb_emulator.ws.session import Disconnects

ENDS: dict[str, Callable[[SocketClient, Rtdb], None]] = {
    "close frame": lambda client, rtdb: client.connection.close(1000),
    "half closed": lambda client, rtdb: client.connection.socket.shutdown(socket.SHUT_WR),
    "broken message": lambda client, rtdb: client.connection.send("{"),
    "cut off": lambda client, rtdb: rtdb.faults.cut_off(header=("x-client", "gone")).remove(),
}


@pytest.mark.parametrize("end", ENDS)
def test_every_end_writes_once(rtdb: Rtdb, end: str) -> None:
    """A counter that goes up at the client's end has gone up by one, and nobody listens for it any more."""
    with socket_client(rtdb.emulator, rtdb.namespace, headers={"x-client": "gone"}) as client:
        assert client.ask("o", p="/ends", d={".sv": {"increment": 1}}) == ("ok", "")
        client.ask("q", p="/ends", h="")
        ENDS[end](client, rtdb)
        assert until(lambda: rtdb.get("/ends")) == 1
    assert until(lambda: rtdb.emulator.listeners(rtdb.namespace) == 0)
    assert rtdb.get("/ends") == 1


def test_a_reset_is_an_end(rtdb: Rtdb) -> None:
    """A client whose process is killed, or whose machine is, leaves what it has left."""
    raw = socket.create_connection(("127.0.0.1", rtdb.emulator.port), 10)
    raw.sendall(
        f"GET /.ws?v=5&ns={rtdb.namespace} HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert raw.recv(12) == b"HTTP/1.1 101"
    text = b'{"t":"d","d":{"r":1,"a":"o","b":{"p":"/ends","d":1}}}'
    raw.sendall(bytes([0x81, 0x80 | len(text)]) + bytes(4) + text)
    until(lambda: rtdb.count(method="ONDISCONNECT") == 1)
    raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    raw.close()
    assert until(lambda: rtdb.get("/ends")) == 1


def test_silence_is_an_end() -> None:
    """A cable that was pulled ends the client after the limit of silence."""
    with Emulator(silence=0.05) as emulator, socket_client(emulator, "demo") as client:
        client.ask("o", p="/ends", d=1)
        assert until(lambda: emulator.get("demo", "/ends")) == 1


def test_a_client_that_is_back_ends_its_old_connection_first(rtdb: Rtdb) -> None:
    """A new connection that names the last session has what that has left written before its own hello."""
    with socket_client(rtdb.emulator, rtdb.namespace) as old:
        old.ask("o", p="/ends", d={".sv": {"increment": 1}})
        with socket_client(rtdb.emulator, rtdb.namespace, ls=str(old.hello["s"])) as new:
            assert rtdb.get("/ends") == 1
            assert new.ask("g", p="/ends", q={}) == ("ok", 1)
        assert old.closed() == 1006
    assert rtdb.get("/ends") == 1


def test_what_is_left_is_pushed_like_any_write(rtdb: Rtdb) -> None:
    """Others hear of it, in export form and with server values resolved."""
    with socket_client(rtdb.emulator, rtdb.namespace) as other:
        other.ask("q", p="/a", h="")
        other.pushes.clear()
        with socket_client(rtdb.emulator, rtdb.namespace) as client:
            client.ask("om", p="/a", d={"x": 1, "y": {".value": 2, ".priority": 3}})
        assert [other.push()["b"] for _ in range(2)] == [
            {"p": "a/x", "d": 1},
            {"p": "a/y", "d": {".value": 2, ".priority": 3}},
        ]


def test_rights_are_asked_for_twice(rtdb: Rtdb) -> None:
    """Who may not write may not leave a write either, and what is no longer allowed at the end is not done."""
    rtdb.set_rules({"rules": {"a": {".write": True, ".validate": "newData.isNumber()"}, "b": {".write": True}}})
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        assert client.ask("o", p="/c", d=1)[0] == "permission_denied"
        assert client.ask("o", p="/a", d="x")[0] == "permission_denied"
        assert client.ask("om", p="/", d={"b": 1, "c": 1})[0] == "permission_denied"
        assert client.ask("om", p="/", d={"a": 1, "b": 2}) == ("ok", "")
        rtdb.set_rules({"rules": {"b": {".write": True}}})
    assert until(lambda: rtdb.get("/")) == {"b": 2}


def test_cancelled_is_cancelled(rtdb: Rtdb) -> None:
    """Nothing is written at and below a cancelled place; its neighbours are."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("o", p="/a", d={"x": 1, "y": {"z": 2}})
        client.ask("o", p="/b", d=1)
        client.ask("oc", p="/a/y", d=None)
        client.ask("oc", p="/b", d=None)
        client.ask("o", p="/done", d=True)
    assert until(lambda: rtdb.get("/done")) is True
    assert rtdb.get("/") == {"a": {"x": 1}, "done": True}


@pytest.mark.parametrize(
    ("steps", "left"),
    [
        ([(("a",), 1), (("a", "b"), 2)], {"a": {"b": 2}}),
        ([(("a", "b"), 2), (("a",), 1)], {"a": 1}),
        ([(("a",), {"b": {"c": 1}}), (("a", "b", "c"), None)], None),
        ([(("a",), ["x", "y"]), (("a", "1"), "z")], {"a": ["x", "z"]}),
        ([(("a",), {".value": 1, ".priority": 2}), (("a", "b"), 3)], {"a": {".priority": 2, "b": 3}}),
        ([(("a",), 1), (("a", ".priority"), 2)], {"a": {".value": 1, ".priority": 2}}),
        ([(("a",), None), (("a", "b"), 2)], {"a": {"b": 2}}),
    ],
)
def test_a_later_write_changes_an_earlier_one(steps: list[tuple[tuple[str, ...], object]], left: object) -> None:
    """What is pending at or below a place is replaced; what is pending above it is changed there."""
    pending = Disconnects()
    for path, value in steps:
        pending.remember(path, value)
    writes = pending.take()
    assert len(writes) == 1
    tree = EMPTY
    for path, value in writes:
        tree = tree.put(path, parse(value, now=0))
    assert render(tree, priorities=True) == render(parse(left, now=0), priorities=True)
    assert pending.take() == []


_KEYS = st.sampled_from(["a", "b", "c"])
_PATHS = st.lists(_KEYS, min_size=1, max_size=3).map(tuple)
_VALUES = st.recursive(
    st.none() | st.integers(0, 9), lambda below: st.dictionaries(_KEYS, below, max_size=3), max_leaves=5
)


@given(st.lists(st.tuples(_PATHS, _VALUES), max_size=8))
def test_pending_writes_come_to_what_writing_at_once_comes_to(steps: list[tuple[tuple[str, ...], object]]) -> None:
    """On an empty database, what is left writes the tree that the same writes in their order would have made."""
    pending = Disconnects()
    at_once, at_the_end = EMPTY, EMPTY
    for path, value in steps:
        pending.remember(path, value)
        at_once = at_once.put(path, parse(value, now=0))
    for path, value in pending.take():
        at_the_end = at_the_end.put(path, parse(value, now=0))
    assert at_the_end == at_once


@given(st.lists(st.tuples(_PATHS, _VALUES), max_size=6), _PATHS)
def test_a_cancelled_place_is_left_alone(
    steps: list[tuple[tuple[str, ...], object]], cancelled: tuple[str, ...]
) -> None:
    """After a cancel, no pending write is at or below the place, and those beside it are as they were."""
    pending, other = Disconnects(), Disconnects()
    for path, value in steps:
        pending.remember(path, value)
        other.remember(path, value)
    pending.forget(cancelled)
    writes = pending.take()
    assert all(path[: len(cancelled)] != cancelled for path, _ in writes)
    beside = [(path, value) for path, value in other.take() if not _related(path, cancelled)]
    assert [write for write in writes if not _related(write[0], cancelled)] == beside


def _related(path: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Whether they are parts of one way down, or below the same place that was set as a whole."""
    return path[0] == other[0]
