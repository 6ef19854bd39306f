"""A socket from its handshake to its end: hello, frames in both directions, keep-alive, limits and silence."""

from __future__ import annotations

import gc
import json
import socket
from contextlib import ExitStack

import pytest
import requests
from tests.emulator.sockets import PATIENCE, opened, socket_client, until
from websockets.exceptions import InvalidStatus

from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.ws import connection
from rtdb_emulator.ws.messages import SEGMENT, Assembler, Broken, cut


def test_the_server_speaks_first(rtdb: Rtdb) -> None:
    """The hello has the server's time as an integer, the version as a text, and the host that the client has asked."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
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


def test_a_ping_is_answered_and_a_keep_alive_is_not(rtdb: Rtdb) -> None:
    """`p` gets `o`, the frame 0 gets nothing, and so does a control message that nobody knows."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.connection.send("0")
        client.connection.send('{"t":"c","d":{"t":"unheard of","d":{}}}')
        client.connection.send('{"t":"c","d":{"t":"p","d":{}}}')
        assert client.read() == {"t": "c", "d": {"t": "o", "d": {}}}


@pytest.mark.parametrize("action", ["", "unheard of", "x" * 100_000])
def test_an_unknown_action_is_answered(rtdb: Rtdb, action: str) -> None:
    """Every request gets exactly one answer, with the number that it has."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
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
def test_what_is_no_message_ends_the_connection(rtdb: Rtdb, frame: str | bytes, code: int) -> None:
    """What can't be answered closes the connection, after the answers to what came before."""
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        number = client.send("p", p="/a", d=1)
        client.connection.send(frame)
        assert client.answer(number) == ("ok", "")
        assert client.closed() == code
    assert rtdb.get("/a") == 1


def test_long_messages_are_segments_in_both_directions(rtdb: Rtdb) -> None:
    """Text with characters of every length survives being cut, however the client cuts it."""
    text = "aé€😀" * 9_000
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
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
    with rtdb_raw(rtdb) as raw:
        raw.sendall(_frame(0x01, frame[:middle]) + _frame(0x80, frame[middle:]))
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
    with rtdb_raw(rtdb) as raw, socket_client(rtdb.emulator, rtdb.namespace) as other:
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        for number, body in enumerate(({"a": "o", "b": {"p": "/gone", "d": True}}, {"a": "q", "b": {"p": "/big"}})):
            raw.sendall(_frame(0x81, json.dumps({"t": "d", "d": {"r": number, **body}}).encode()))
        until(lambda: rtdb.emulator.listeners(rtdb.namespace) == 1)
        # The system takes some of it for the client's sake.
        for turn in range(5 * bound // len(large)):
            rtdb.set("/big", f"{turn}{large}")
            assert other.ask("p", p="/small", d=turn) == ("ok", "")
        assert until(lambda: rtdb.get("/gone")) is True
        assert rtdb.emulator.listeners(rtdb.namespace) == 0


def test_a_value_may_be_larger_than_what_may_wait(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """What waits is bounded where more is to be sent: a client that reads gets one large value, and is not dropped."""
    bound = 64 * 1024
    monkeypatch.setattr(connection, "MAX_WAITING", bound)
    large = "x" * (100 * bound)
    with socket_client(rtdb.emulator, rtdb.namespace) as client:
        client.ask("q", p="/big", h="")
        client.pushes.clear()
        rtdb.set("/big", large)
        assert client.push()["b"]["d"] == large
        assert client.ask("s", c={})[0] == "ok"


def rtdb_raw(rtdb: Rtdb) -> socket.socket:
    """A socket whose handshake is sent and answered, with nobody who reads it."""
    raw = socket.create_connection(("127.0.0.1", rtdb.emulator.port), PATIENCE)
    raw.sendall(
        f"GET /.ws?v=5&ns={rtdb.namespace} HTTP/1.1\r\nHost: here\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n"
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
    )
    assert raw.recv(12) == b"HTTP/1.1 101"
    return raw


def _frame(first: int, data: bytes) -> bytes:
    """A client's frame of fewer than 64 KiB, with a mask of zeros."""
    size = bytes([0x80 | len(data)]) if len(data) < 126 else bytes([0x80 | 126]) + len(data).to_bytes(2, "big")
    return bytes([first]) + size + bytes(4) + data
