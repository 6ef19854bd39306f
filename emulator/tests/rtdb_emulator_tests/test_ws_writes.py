"""Writes and reads over a socket, and what is written once a client is gone; recordings of the SDKs, replayed."""

from __future__ import annotations

import json
import re
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import requests
from hypothesis import given
from hypothesis import strategies as st
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import ClientConnection

from rtdb_emulator import Emulator
from rtdb_emulator.jsondata import parse, render
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.tree import EMPTY
from rtdb_emulator.ws.session import Disconnects
from rtdb_emulator_tests.helpers.sockets import (
    PATIENCE,
    SocketClient,
    frame_of,
    handshaken,
    opened,
    socket_client,
    until,
)

BAD = [
    ("p", {"p": "/a/$b", "d": 1}),
    ("p", {"p": "/" + "a/" * 33, "d": 1}),
    ("p", {"p": "/a", "d": {"x": {"b.c": 1}}}),
    ("p", {"p": "/a", "d": {".sv": "never heard of"}}),
    ("p", {"p": "/a", "d": "\ud83d"}),
    ("p", {"p": "/\ud83d", "d": 1}),
    ("p", {"p": "/a", "d": 1e999}),
    ("p", {"p": "/a"}),
    ("p", {"p": 7, "d": 1}),
    ("p", {"d": 1}),
    ("p", {"p": "/a", "d": 1, "h": 5}),
    ("p", {"p": "/.info/connected", "d": 1}),
    ("m", {"p": "/a", "d": [1]}),
    ("m", {"p": "/a", "d": {"b": 1, "b/c": 2}}),
    ("m", {"p": "/a", "d": {"": 1}}),
    ("o", {"p": "/a/#", "d": 1}),
    ("o", {"p": "/a", "d": {"$": 1}}),
    ("om", {"p": "/a", "d": 5}),
    ("oc", {"p": "/[", "d": None}),
    ("q", {"p": "/.info", "h": ""}),
    ("q", {"p": "/a/.priority", "h": ""}),
    ("q", {"p": "/a", "q": {"l": 0, "vf": "l"}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"l": 2, "vf": "x"}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"sp": {}}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"i": 5}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"i": ".key", "sp": 5}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"sp": 1, "sn": "$"}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"sp": 1, "sin": 1}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"sp": 1e999}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"other": []}, "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": [], "t": 1, "h": ""}),
    ("q", {"p": "/a", "q": {"l": 2, "vf": "l"}, "h": ""}),
    ("q", {"p": "/a", "q": {"l": 2, "vf": "l"}, "t": "1", "h": ""}),
    ("g", {"p": "/a", "q": {"i": "v"}}),
    ("g", {"p": "/a", "q": 5}),
    ("gauth", {"cred": "owner", "authvar": 5}),
    ("gauth", {"cred": "owner", "authvar": {"uid": 1e999}}),
]


@pytest.mark.parametrize(("action", "body"), BAD)
def test_what_is_refused_leaves_the_connection_alive(
    rtdb: Rtdb, action: str, body: dict[str, object], client: SocketClient
) -> None:
    """A bad path, key, value, query or token is answered with a text; nothing is written, and nothing listened to."""
    status, text = client.ask(action, **body)
    assert status == "failed"
    assert isinstance(text, str)
    assert client.ask("s", c={}) == ("ok", "")
    assert rtdb.emulator.listeners(rtdb.namespace) == 0
    assert rtdb.get("/") is None


def test_paths_are_taken_as_they_are(rtdb: Rtdb, client: SocketClient) -> None:
    """Empty segments mean nothing, the slash at the beginning may be missing, and nothing is percent-decoded."""
    client.ask("p", p="a//%20/", d=1)
    assert client.ask("g", p="//a/%20", q={}) == ("ok", 1)
    assert rtdb.get("/a") == {"%20": 1}


def test_arrays_are_objects_and_priorities_come_back(rtdb: Rtdb, client: SocketClient) -> None:
    """Values are in the form of an export: keys for arrays, priorities beside values."""
    client.ask("p", p="/a", d=["x", None, {".value": "y", ".priority": 2}])
    client.ask("p", p="/a/.priority", d="first")
    assert client.ask("g", p="/a", q={}) == (
        "ok",
        {"0": "x", "2": {".value": "y", ".priority": 2}, ".priority": "first"},
    )


def test_a_stale_hash_is_told_before_the_rules_are_asked(rtdb: Rtdb, client: SocketClient) -> None:
    """A transaction's first try from nothing is stale, whatever rules would say of it and of reading the node."""
    rtdb.set("/n", 1)
    rtdb.set_rules({"rules": {"n": {".write": "newData.val() == data.val() + 1"}}})
    assert client.ask("p", p="/n", d=1, h="")[0] == "datastale"
    assert client.ask("p", p="/n", d=7, h="YPVfR2bXt/lcDjiQZ8pOkAd3qkQ=")[0] == "permission_denied"
    assert client.ask("p", p="/n", d=2, h="YPVfR2bXt/lcDjiQZ8pOkAd3qkQ=") == ("ok", "")
    assert rtdb.get("/n") == 2


def test_a_stale_writer_has_heard_of_the_current_value_before(rtdb: Rtdb, client: SocketClient) -> None:
    """The write that made a transaction stale reaches its listen before the answer."""
    client.listen("/n")
    rtdb.set("/n", 5)
    assert client.ask("p", p="/n", d=1, h="")[0] == "datastale"
    assert client.pushes == [{"a": "d", "b": {"p": "n", "d": 5}}]


def test_a_refused_write_pushes_nothing(rtdb: Rtdb, client: SocketClient) -> None:
    """Who may not write hears only that."""
    rtdb.set_rules({"rules": {".read": True, "a": {".write": "newData.isNumber()", ".validate": "newData.val() > 1"}}})
    client.listen("/a")
    for value in ("x", 1):
        assert client.ask("p", p="/a", d=value) == ("permission_denied", "Permission denied")
    assert client.pushes == []


def test_every_kind_of_writer_is_heard_in_one_order(rtdb: Rtdb) -> None:
    """Two sockets and a stream hear of writes by a thread, by REST and by a socket in the same order."""
    with (
        socket_client(rtdb.emulator, rtdb.namespace) as writer,
        socket_client(rtdb.emulator, rtdb.namespace) as other,
        requests.get(f"{rtdb.emulator.url}/n.json?ns={rtdb.namespace}", headers={"accept": "text/event-stream"},
                     stream=True, timeout=PATIENCE) as stream,
    ):  # fmt: skip
        lines = stream.iter_lines()
        writer.ask("q", p="/n", h="")
        other.ask("q", p="/n", h="")
        threads = [
            threading.Thread(target=_often, args=(lambda turn: rtdb.set("/n", f"thread {turn}"),)),
            threading.Thread(target=_often, args=(lambda turn: _put(rtdb, f"rest {turn}"),)),
        ]
        for thread in threads:
            thread.start()
        for turn in range(40):
            writer.ask("p", p="/n", d=f"socket {turn}")
        for thread in threads:
            thread.join()
        rtdb.set("/n", "end")
        heard = [_until_end(writer), _until_end(other), _events(lines)]
    assert len(heard[0]) == 121
    assert heard[0] == heard[1] == heard[2]


def test_a_writer_hears_of_its_write_before_it_is_answered(rtdb: Rtdb, client: SocketClient) -> None:
    """Whoever else writes at the same time, the push of a client's own write comes before its `ok`."""
    client.ask("q", p="/mine", h="")
    over = threading.Event()

    def disturb() -> None:
        turn = 0
        while not over.is_set():
            turn += 1
            rtdb.set("/other", turn)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for turn in range(200):
            client.pushes.clear()
            assert client.ask("p", p="/mine", d=turn) == ("ok", "")
            assert client.pushes == [{"a": "d", "b": {"p": "mine", "d": turn}}]
    finally:
        over.set()
        thread.join()


def test_the_log_knows_the_requests_of_sockets(rtdb: Rtdb, client: SocketClient) -> None:
    """A socket's requests are counted as those of REST are, and can be told from them."""
    client.ask("p", p="/a", d=1)
    client.ask("p", p="/a", d=2, h="")
    client.ask("q", p="/a/b", h="")
    assert rtdb.count(method="OPEN", wire="socket") == 1
    assert rtdb.count(method="PUT", path="/a") == 2
    assert rtdb.count(method="PUT", wire="http") == 0
    assert [request.status for request in rtdb.emulator.requests] == [200, 200, 412, 200]
    assert all(request.request_bytes and request.response_bytes for request in rtdb.emulator.requests)
    assert rtdb.emulator.listeners(rtdb.namespace) == 1


def _often(write: Callable[[int], None]) -> None:
    for turn in range(40):
        write(turn)


def _put(rtdb: Rtdb, value: str) -> None:
    answer = requests.put(f"{rtdb.emulator.url}/n.json?ns={rtdb.namespace}", json=value, timeout=PATIENCE)
    assert answer.status_code == 200


def _until_end(client: SocketClient) -> list[object]:
    """What the place was, from the first write on."""
    heard: list[object] = []
    while heard[-1:] != ["end"]:
        heard.append(client.push()["b"]["d"])
    return heard[1:]


def _events(lines: Iterator[bytes]) -> list[object]:
    heard: list[object] = []
    for line in lines:
        if line.startswith(b"data: {"):
            heard.append(json.loads(line[6:])["data"])
            if heard[-1] == "end":
                break
    return heard[1:]


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
    raw = handshaken(rtdb.emulator, rtdb.namespace)
    raw.sendall(frame_of(0x81, b'{"t":"d","d":{"r":1,"a":"o","b":{"p":"/ends","d":1}}}'))
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
        other.listen("/a")
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


RECORDED = json.loads((Path(__file__).parent / "data" / "websocket-transcripts.json").read_text("utf-8"))
DATABASE = "demo"
_REPEATED = re.compile(r"<(.) \* (\d+)>")


class Replay:
    """One recording, played to an emulator: its clients' frames are sent, and the server's compared."""

    def __init__(self, emulator: Emulator) -> None:
        self._emulator = emulator
        self._open = ExitStack()
        self._connections: dict[int, ClientConnection] = {}
        self._sessions: dict[str, str] = {}

    def play(self, frame: dict[str, object]) -> None:
        number = frame.get("conn", 1)
        assert isinstance(number, int)
        if "open" in frame:
            target = str(frame["open"])
            for recorded, session in self._sessions.items():
                target = target.replace(recorded, session)
            self._connections[number] = self._open.enter_context(opened(target, self._emulator.port))
        if "c" in frame:
            self._connections[number].send(_spelled_out(str(frame["c"])))
        if "s" in frame:
            self._compare(self._connections[number], _spelled_out(str(frame["s"])))
        if "rest" in frame:
            self._write(frame["rest"])
        if "close" in frame:
            if frame["close"] == "1006":  # its process ended in the middle of nothing
                # No more was said than recorded: the answer to this is the next message.
                self._connections[number].send('{"t":"c","d":{"t":"p","d":{}}}')
                self._compare(self._connections[number], '{"t":"c","d":{"t":"o","d":{}}}')
            self._connections[number].close()

    def finish(self) -> None:
        self._open.close()

    def _compare(self, connection: ClientConnection, recorded: str) -> None:
        said = connection.recv(timeout=10)
        assert isinstance(said, str)
        if not recorded.startswith("{") or not recorded.endswith("}"):  # a count, or a segment
            assert said == recorded
            return
        spoken = json.loads(said)
        if '"t":"h"' in recorded:
            hello = spoken["d"]["d"]
            assert isinstance(hello["ts"], int)
            assert hello["h"] == self._emulator.host
            self._sessions[re.findall("<session-[0-9]+>", recorded)[0]] = hello["s"]
            spoken["d"]["d"] = {"ts": 0, "v": hello["v"], "h": "<host>", "s": "<session>"}
        expected = json.loads(re.sub("<session-[0-9]+>", "<session>", re.sub("<ms>|<now>", "0", recorded)))
        assert _scrubbed(spoken) == expected

    def _write(self, rest: object) -> None:
        assert isinstance(rest, list)
        method, path, body = rest
        answer = requests.request(
            method,
            f"{self._emulator.url}{path}?ns={DATABASE}",
            json=body,
            headers={"authorization": "Bearer owner"},
            timeout=10,
        )
        assert answer.status_code == 200


def _spelled_out(text: str) -> str:
    return _REPEATED.sub(lambda match: match[1] * int(match[2]), text)


def _scrubbed(value: object) -> object:
    """Without times: what is a number of this century's milliseconds."""
    if isinstance(value, dict):
        return {key: _scrubbed(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_scrubbed(item) for item in value]
    return 0 if isinstance(value, int) and value > 10**12 else value


@pytest.fixture(scope="module")
def emulator() -> Iterator[Emulator]:
    with Emulator() as running:
        yield running


@pytest.mark.parametrize("recorded", RECORDED["transcripts"], ids=lambda recorded: recorded["name"])
def test_the_emulator_says_what_the_clients_were_told(emulator: Emulator, recorded: dict[str, object]) -> None:
    """Each message of the server's is the recorded one, but for times, the host and the names of sessions."""
    emulator.drop(DATABASE)
    emulator.set(DATABASE, "/", recorded["start"])
    rules = recorded["rules"]
    assert isinstance(rules, dict)
    emulator.set_rules(DATABASE, {"rules": rules})
    replay = Replay(emulator)
    frames = recorded["frames"]
    assert isinstance(frames, list)
    try:
        for frame in frames:
            replay.play(frame)
    except ConnectionClosed as closed:
        pytest.fail(f"the emulator closed the connection: {closed}")
    finally:
        replay.finish()
