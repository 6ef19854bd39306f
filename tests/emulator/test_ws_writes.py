"""Writes and reads over a socket: what is refused leaves the connection alive, transactions, and one order for all."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator

import pytest
import requests
from tests.emulator.sockets import PATIENCE, SocketClient, socket_client

from rtdb_emulator.pytest_plugin import Rtdb

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
def test_what_is_refused_leaves_the_connection_alive(rtdb: Rtdb, action: str, body: dict[str, object]) -> None:
    """A bad path, key, value, query or token is answered with a text; nothing is written, and nothing listened to."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        status, text = client.ask(action, **body)
        assert status == "failed"
        assert isinstance(text, str)
        assert client.ask("s", c={}) == ("ok", "")
        assert rtdb.emulator.listeners(rtdb.namespace) == 0
    assert rtdb.get("/") is None


def test_paths_are_taken_as_they_are(rtdb: Rtdb) -> None:
    """Empty segments mean nothing, the slash at the beginning may be missing, and nothing is percent-decoded."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("p", p="a//%20/", d=1)
        assert client.ask("g", p="//a/%20", q={}) == ("ok", 1)
    assert rtdb.get("/a") == {"%20": 1}


def test_arrays_are_objects_and_priorities_come_back(rtdb: Rtdb) -> None:
    """Values are in the form of an export: keys for arrays, priorities beside values."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("p", p="/a", d=["x", None, {".value": "y", ".priority": 2}])
        client.ask("p", p="/a/.priority", d="first")
        assert client.ask("g", p="/a", q={}) == (
            "ok",
            {"0": "x", "2": {".value": "y", ".priority": 2}, ".priority": "first"},
        )


def test_a_stale_hash_is_told_before_the_rules_are_asked(rtdb: Rtdb) -> None:
    """A transaction's first try from nothing is stale, whatever rules would say of it and of reading the node."""
    rtdb.set("/n", 1)
    rtdb.set_rules({"rules": {"n": {".write": "newData.val() == data.val() + 1"}}})
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        assert client.ask("p", p="/n", d=1, h="")[0] == "datastale"
        assert client.ask("p", p="/n", d=7, h="YPVfR2bXt/lcDjiQZ8pOkAd3qkQ=")[0] == "permission_denied"
        assert client.ask("p", p="/n", d=2, h="YPVfR2bXt/lcDjiQZ8pOkAd3qkQ=") == ("ok", "")
    assert rtdb.get("/n") == 2


def test_a_stale_writer_has_heard_of_the_current_value_before(rtdb: Rtdb) -> None:
    """The write that made a transaction stale reaches its listen before the answer."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("q", p="/n", h="")
        client.pushes.clear()
        rtdb.set("/n", 5)
        assert client.ask("p", p="/n", d=1, h="")[0] == "datastale"
        assert client.pushes == [{"a": "d", "b": {"p": "n", "d": 5}}]


def test_a_refused_write_pushes_nothing(rtdb: Rtdb) -> None:
    """Who may not write hears only that."""
    rtdb.set_rules({"rules": {".read": True, "a": {".write": "newData.isNumber()", ".validate": "newData.val() > 1"}}})
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("q", p="/a", h="")
        client.pushes.clear()
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


def test_a_writer_hears_of_its_write_before_it_is_answered(rtdb: Rtdb) -> None:
    """Whoever else writes at the same time, the push of a client's own write comes before its `ok`."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
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


def test_the_log_knows_the_requests_of_sockets(rtdb: Rtdb) -> None:
    """A socket's requests are counted as those of REST are, and can be told from them."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
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
