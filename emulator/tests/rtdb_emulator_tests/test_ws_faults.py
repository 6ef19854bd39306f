"""Faults on sockets: what a network or a server does to a client, scripted from Python and over HTTP."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
import requests

from rtdb_emulator import Clock, Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.sockets import PATIENCE, SocketClient, opened, socket_client, until

ADMIN = {"authorization": "Bearer owner"}


def test_a_connection_closes_before_its_hello(rtdb: Rtdb) -> None:
    """A dropped opening has no hello; the next one has."""
    with rtdb.faults.drop_request(method="OPEN") as fault, opened(_target(rtdb), rtdb.emulator.port) as connection:
        with pytest.raises(Exception, match="no close frame"):
            connection.recv(timeout=PATIENCE)
        assert fault.hits == 1
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        assert client.ask("s") == ("ok", "")


def test_a_hello_waits(rtdb: Rtdb) -> None:
    """An opening that is held says nothing until it is let go."""
    with rtdb.faults.hold(method="OPEN") as hold, opened(_target(rtdb), rtdb.emulator.port) as connection:
        hold.wait()
        with pytest.raises(TimeoutError):
            connection.recv(timeout=0)
        hold.release()
        assert '"t":"h"' in str(connection.recv(timeout=PATIENCE))


def test_a_hello_tells_another_time(rtdb: Rtdb) -> None:
    """A server whose clock is an hour ahead says so in its hello only."""
    with rtdb.faults.sockets.skew(3600), socket_client(rtdb.emulator, rtdb.namespace) as client:
        assert isinstance(client.hello["ts"], int)
        assert client.hello["ts"] > (time.time() + 3000) * 1000
        client.ask("p", p="/t", d={".sv": "timestamp"})
        assert float(str(rtdb.get("/t"))) < (time.time() + 600) * 1000


@pytest.mark.parametrize("name", ["drop_request", "drop_reply"])
def test_a_connection_closes_in_place_of_an_answer(rtdb: Rtdb, name: str, client: SocketClient) -> None:
    """Before the write is done, or after it."""
    with getattr(rtdb.faults, name)(method="PUT", path="/a"):
        client.send("p", p="/a", d=1)
        assert client.closed() == 1006
    assert rtdb.get("/a") == (None if name == "drop_request" else 1)


def test_an_answer_is_swallowed(rtdb: Rtdb, client: SocketClient) -> None:
    """The write is done and pushed, the connection stays, and only the answer is missing."""
    with rtdb.faults.sockets.swallow(method="PUT"):
        client.listen("/a")
        client.send("p", p="/a", d=1)
        assert client.ask("s") == ("ok", "")
        assert client.pushes == [{"a": "d", "b": {"p": "a", "d": 1}}]


def test_an_answer_comes_before_its_push(rtdb: Rtdb, client: SocketClient) -> None:
    """The order that clients stumble over: the `ok` first, then the value."""
    with rtdb.faults.sockets.answer_first(method="PUT"):
        client.listen("/a")
        assert client.ask("p", p="/a", d=1) == ("ok", "")
        assert client.pushes == []
        assert client.push() == {"a": "d", "b": {"p": "a", "d": 1}}


def test_an_answer_comes_after_later_pushes(rtdb: Rtdb) -> None:
    """A held answer is the last to come; what the client asks meanwhile waits for it, as requests have an order."""
    with (
        rtdb.faults.hold(method="PUT", moment="after", wire="socket") as hold,
        socket_client(rtdb.emulator, rtdb.namespace) as client,
    ):
        client.listen("/a")
        put, get = client.send("p", p="/a", d=1), client.send("g", p="/a", q={})
        hold.wait()
        rtdb.set("/a", 2)
        assert [client.push()["b"]["d"] for _ in range(2)] == [1, 2]
        hold.release()
        assert client.answer(put) == ("ok", "")
        assert client.answer(get) == ("ok", 2)


def test_a_transaction_is_stale_as_often_as_wanted(rtdb: Rtdb, client: SocketClient) -> None:
    """A write that would do is told that it is stale."""
    with rtdb.faults.sockets.stale(times=2):
        told = [client.ask("p", p="/a", d=1, h="")[0] for _ in range(3)]
        assert told == ["datastale", "datastale", "ok"]


def test_a_client_is_sent_elsewhere(rtdb: Rtdb) -> None:
    """In place of the hello comes the host to go to."""
    with rtdb.faults.sockets.reset("127.0.0.1:1"), opened(_target(rtdb), rtdb.emulator.port) as connection:
        assert json.loads(connection.recv(timeout=PATIENCE)) == {"t": "c", "d": {"t": "r", "d": "127.0.0.1:1"}}


def test_a_credential_expires(rtdb: Rtdb, client: SocketClient) -> None:
    """The client is told to fetch another token."""
    with rtdb.faults.sockets.expire(method="S"):
        assert client.ask("s") == ("ok", "")
        assert client.pushes == [{"a": "ac", "b": {"s": "expired_token", "d": "Auth token is expired"}}]


@pytest.mark.parametrize("size", [1, 100_000])
def test_an_answer_is_cut_in_the_middle(rtdb: Rtdb, size: int, client: SocketClient) -> None:
    """A count and some of its segments come, and then nothing ever again."""
    rtdb.set("/a", "x" * size)
    with rtdb.faults.sockets.cut(method="GET"):
        client.send("g", p="/a", q={})
        count = int(str(client.connection.recv(timeout=PATIENCE)))
        for _ in range(count // 2):
            client.connection.recv(timeout=PATIENCE)
        assert client.closed() == 1006


def test_a_frozen_connection_ends_by_its_silence() -> None:
    """Nothing is read or written, until the emulator takes the client for gone."""
    with Emulator(silence=0.1) as emulator:
        fault = emulator.faults.sockets.freeze(method="LISTEN")
        with socket_client(emulator, "demo") as client:
            client.ask("o", p="/gone", d=True)
            client.send("q", p="/a", h="")
            client.send("p", p="/a", d=1)
            assert client.closed() == 1006
        assert fault.hits == 1
        assert until(lambda: emulator.get("demo")) == {"gone": True}


def test_scripted_answers_speak_the_sockets_words(rtdb: Rtdb, client: SocketClient) -> None:
    """A status of HTTP becomes the word for it; what is no JSON is a frame that no client understands."""
    for status, word in ((401, "permission_denied"), (412, "datastale"), (503, "unavailable"), (500, "failed")):
        rtdb.faults.answer(status, wire="socket")
        assert client.ask("s") == (word, "scripted fault")
    rtdb.faults.garbage(method="S")
    client.send("s")
    assert "Sign in" in str(client.connection.recv(timeout=PATIENCE))


def test_an_opening_may_be_refused(rtdb: Rtdb) -> None:
    """An overloaded server closes the connection in place of a hello."""
    with (
        rtdb.faults.answer(503, method="OPEN"),
        opened(_target(rtdb), rtdb.emulator.port) as connection,
        pytest.raises(Exception, match="1013"),
    ):
        connection.recv(timeout=PATIENCE)


def test_an_answer_drips(rtdb: Rtdb, client: SocketClient) -> None:
    """It comes in segments of one character; what is pushed meanwhile waits until it is whole."""
    with rtdb.faults.drip(0.0001, method="GET"):
        client.listen("/a")
        client.send("g", p="/a", q={})
        assert int(str(client.connection.recv(timeout=PATIENCE))) > 30
        rtdb.set("/a", 1)
        assert client.connection.recv(timeout=PATIENCE) == "{"
        rest = ""
        while not rest.endswith("}}}"):
            rest += str(client.connection.recv(timeout=PATIENCE))
        assert json.loads("{" + rest)["d"]["b"]["s"] == "ok"
        assert client.push()["b"]["d"] == 1


def test_a_rule_may_be_asked_before_a_hash(rtdb: Rtdb) -> None:
    """With `rules_first` a stale write that the rules deny is denied."""
    rtdb.set("/n", 1)
    rtdb.set_rules({"rules": {"n": {".write": "newData.val() == data.val() + 1"}}})
    with rtdb.faults.rules_first(method="PUT"), socket_client(rtdb.emulator, rtdb.namespace) as client:
        assert client.ask("p", p="/n", d=1, h="")[0] == "permission_denied"
        assert client.ask("p", p="/n", d=1, h="")[0] == "datastale"


def test_a_client_is_cut_off(rtdb: Rtdb) -> None:
    """What it has open is closed, what it opens is closed too, and others stay."""
    port = rtdb.emulator.add_port()
    with (
        socket_client(rtdb.emulator, rtdb.namespace) as other,
        socket_client(rtdb.emulator, rtdb.namespace, port=port) as client,
    ):
        with rtdb.faults.cut_off(port=port):
            assert client.closed() == 1006
            with opened(_target(rtdb), port) as connection, pytest.raises(Exception, match="no close frame"):
                connection.recv(timeout=PATIENCE)
        assert other.ask("s") == ("ok", "")
        with socket_client(rtdb.emulator, rtdb.namespace, port=port) as again:
            assert again.ask("s") == ("ok", "")


def test_what_a_fault_keeps_back_ends_with_the_emulator() -> None:
    """A held request is not done when the emulator stops, and stops nobody."""
    emulator = Emulator().start()
    hold = emulator.faults.hold(method="PUT")
    with socket_client(emulator, "demo") as client:
        client.send("p", p="/a", d=1)
        hold.wait()
        emulator.stop()
        assert client.closed() == 1001
    assert emulator.get("demo") is None


def test_faults_are_scripted_over_http(rtdb: Rtdb, client: SocketClient) -> None:
    """Any language can add faults, look at what they have hit, and end them."""
    added = _door(rtdb, "POST", {"fault": "sockets.stale", "times": 2, "path": "/a"})
    assert client.ask("p", p="/a", d=1)[0] == "datastale"
    assert _door(rtdb, "GET") == [{"id": added["id"], "fault": "sockets.stale", "times": 2, "path": "/a", "hits": 1}]
    _door(rtdb, "DELETE")
    assert client.ask("p", p="/a", d=1) == ("ok", "")
    hold = _door(rtdb, "POST", {"fault": "hold", "header": ["x-client", "none"], "moment": "after"})
    _door(rtdb, "POST", {"fault": "answer", "status": 503, "body": "busy", "method": "GET"})
    assert _door(rtdb, "DELETE", query=f"&id={hold['id']}") is None
    assert client.ask("g", p="/a", q={}) == ("unavailable", "busy")
    assert rtdb.count() == 4


def test_the_faults_that_a_test_has_removed_are_not_listed(rtdb: Rtdb) -> None:
    """A fault that was scripted over HTTP ends with `clear` in this process too; one that is used up stays listed."""
    first = _door(rtdb, "POST", {"fault": "answer", "status": 503, "path": "/a"})["id"]
    url = f"{rtdb.emulator.url}/a.json?ns={rtdb.namespace}"
    assert requests.get(url, timeout=PATIENCE).status_code == 503
    assert [fault["id"] for fault in _door(rtdb, "GET")] == [first]
    rtdb.faults.clear()
    assert _door(rtdb, "GET") == []
    second = _door(rtdb, "POST", {"fault": "drop_reply"})["id"]
    assert [fault["id"] for fault in _door(rtdb, "GET")] == [second]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ({"fault": "clear"}, "must be one of"),
        ({}, "must be one of"),
        ({"fault": "delay"}, "seconds"),
        ({"fault": "delay", "seconds": 1, "wear": "x"}, "wear"),
        ({"fault": "hold", "path": "a"}, "slash"),
        ([], "JSON object"),
        ({"fault": "delay", "seconds": "2"}, "seconds can't be '2'"),
        ({"fault": "delay", "seconds": True}, "seconds"),
        ({"fault": "drop_reply", "path": 5}, "path"),
        ({"fault": "drop_reply", "method": None}, "method"),
        ({"fault": "drop_reply", "nth": "x"}, "nth"),
        ({"fault": "drop_reply", "times": 1.5}, "times"),
        ({"fault": "drop_reply", "header": ["x-client"]}, "header"),
        ({"fault": "drop_reply", "header": "x-client"}, "header"),
        ({"fault": "hold", "moment": "never"}, "moment"),
        ({"fault": "answer", "status": 99_999}, "status"),
        ({"fault": "answer", "status": 503, "body": 5}, "body"),
        ({"fault": "answer", "status": 503, "headers": {"retry-after": 5}}, "headers"),
        ({"fault": "sockets.reset", "host": 5}, "host"),
    ],
)
def test_a_script_that_makes_no_sense_is_told_so(rtdb: Rtdb, body: Any, said: str) -> None:
    """The answer names what is wrong."""
    url = f"{rtdb.emulator.url}/.inspect/faults.json?ns=demo"
    answer = requests.post(url, json=body, headers=ADMIN, timeout=PATIENCE)
    assert answer.status_code == 400
    assert said in answer.json()["error"]
    assert requests.post(url, json={"fault": "hold"}, timeout=PATIENCE).status_code == 401


def test_the_clock_is_set_over_http() -> None:
    """A clock of one's own shows what it is told, in hellos and server values; the machine's can't be set."""
    with Emulator(now=Clock.parse("2024-03-10T01:59:00Z")) as emulator:
        url = f"{emulator.url}/.inspect/clock.json"
        assert requests.get(url, timeout=PATIENCE).json() == {"now": 1_710_035_940_000}
        requests.put(url, json={"advance": 60_000}, headers=ADMIN, timeout=PATIENCE)
        with socket_client(emulator, "demo") as client:
            assert client.hello["ts"] == 1_710_036_000_000
            requests.put(url, json={"now": 7}, headers=ADMIN, timeout=PATIENCE)
            client.ask("p", p="/t", d={".sv": "timestamp"})
            assert client.ask("g", p="/t", q={}) == ("ok", 7)
        for body in ({"when": 7}, {"now": True}, {"now": -1}, {"advance": -8}, {"now": 10**30}):
            assert requests.put(url, json=body, headers=ADMIN, timeout=PATIENCE).status_code == 400
    with Emulator() as emulator:
        url = f"{emulator.url}/.inspect/clock.json"
        assert requests.put(url, json={"now": 7}, headers=ADMIN, timeout=PATIENCE).status_code == 400


@pytest.mark.parametrize("text", ["", "soon", "2024-03-10T01:59:00", "-5"])
def test_a_time_that_is_none_is_refused(text: str) -> None:
    """The error shows what would do."""
    with pytest.raises(ValueError, match="2024-03-10T01:59:00Z"):
        Clock.parse(text)


def _target(rtdb: Rtdb) -> str:
    return f"/.ws?v=5&ns={rtdb.namespace}"


def _door(rtdb: Rtdb, method: str, body: Any = None, query: str = "") -> Any:
    url = f"{rtdb.emulator.url}/.inspect/faults.json?ns={rtdb.namespace}{query}"
    answer = requests.request(method, url, json=body, headers=ADMIN, timeout=PATIENCE)
    assert answer.status_code == 200
    return answer.json()
