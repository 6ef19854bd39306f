"""Reads of large nodes: they are answered as any, in slices, and a query finds its window in an order that is kept."""

from __future__ import annotations

import asyncio
import gc
import json
import random
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any, cast

import pytest
import requests
from websockets.protocol import CLOSING, OPEN
from websockets.server import ServerProtocol

from rtdb_emulator import Emulator, large, table
from rtdb_emulator import query as queries
from rtdb_emulator.http import service
from rtdb_emulator.jsondata import parse
from rtdb_emulator.large import Long
from rtdb_emulator.ordering import Scalar, SortKey
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.query import Bound, Query, arranging, places
from rtdb_emulator.tree import Member, Node, Path
from rtdb_emulator.ws import messages
from rtdb_emulator.ws.connection import SendQueue
from rtdb_emulator.ws.messages import Message, framed
from rtdb_emulator_tests.helpers.sockets import PATIENCE, SocketClient, socket_client
from rtdb_emulator_tests.helpers.wire import OWNER, call

MANY: dict[str, dict[str, Any]] = {f"k{number:03}": {"n": number * 7 % 300, "s": "text"} for number in range(300)}
RULES = {"rules": {".read": True, ".write": True, "l": {".indexOn": "n"}}}
BY_N = 'orderBy="n"&limitToLast=2'
LAST_TWO = {key: child for key, child in MANY.items() if child["n"] >= 298}


@pytest.fixture
def everything_is_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(large, "LARGE", 4)
    monkeypatch.setattr(large, "WEIGHT", 2)


class Served:
    """Steps that don't end until another request was served."""

    def __init__(self) -> None:
        self.begun, self.ended = threading.Event(), threading.Event()

    def before(self, original: Callable[..., Iterator[Any]], step: object) -> Callable[..., Iterator[Any]]:
        def steps(*given: Any) -> Generator[Any, None, Any]:
            self.begun.set()
            while not self.ended.wait(0.001):  # leaves the interpreter to the threads of this test
                yield step
            return (yield from original(*given))

        return steps


@pytest.mark.parametrize(
    ("where", "name", "step", "query", "shown"),
    [
        (service, "writing", b"", "", MANY),
        (service, "writing", b"", BY_N, LAST_TWO),
        (service, "writing_keys", b"", "shallow=true", dict.fromkeys(MANY, True)),
        (large, "arranging", None, BY_N, LAST_TWO),
        (large, "hashing", None, "format=export", MANY),
    ],
    ids=["a node", "a window", "its keys", "an order for a query", "an ETag"],
)
def test_a_large_read_holds_nobody_up(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, where: Any, name: str, step: object, query: str, shown: object
) -> None:
    """While a large node is arranged, hashed or written as JSON, the emulator serves another client's request."""
    rtdb.set_rules(RULES)
    rtdb.set("/l", MANY)
    monkeypatch.setattr(large, "LARGE", 4)
    monkeypatch.setattr(service, "MOST_AT_ONCE", 100)
    served = Served()
    monkeypatch.setattr(where, name, served.before(getattr(where, name), step))
    headers = {**OWNER, **({"X-Firebase-ETag": "true"} if name == "hashing" else {})}
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(call, rtdb, "GET", f"/l.json?{query}", None, headers)
        try:
            assert served.begun.wait(PATIENCE)
            assert call(rtdb, "PUT", "/other.json", "1").json() == 1
        finally:
            served.ended.set()
        assert reading.result().json() == shown


@pytest.mark.parametrize("action", ["g", "q"])
@pytest.mark.parametrize(("where", "name", "step"), [(messages, "writing", b""), (large, "arranging", None)])
def test_a_large_read_over_a_socket_holds_nobody_up(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, action: str, where: Any, name: str, step: object
) -> None:
    """While a socket's large answer or push is made, another client is served; what comes after it stays behind it."""
    rtdb.set_rules(RULES)
    rtdb.set("/l", MANY)
    monkeypatch.setattr(large, "LARGE", 4)
    served = Served()
    monkeypatch.setattr(where, name, served.before(getattr(where, name), step))
    asked: dict[str, Any] = {"p": "/l", "q": {"i": "n", "l": 2, "vf": "r"}}
    with socket_client(rtdb.emulator, rtdb.namespace) as client, socket_client(rtdb.emulator, rtdb.namespace) as other:
        number = client.send(action, **asked, **({"t": 1, "h": ""} if action == "q" else {}))
        behind = client.send("g", p="/small", q={})
        try:
            assert served.begun.wait(PATIENCE)
            assert other.ask("p", p="/small", d=1) == ("ok", "")
        finally:
            served.ended.set()
        status, data = client.answer(number)
        assert status == "ok"
        assert (client.pushes.pop()["b"]["d"] if action == "q" else data) == LAST_TWO
        # It waits for the order, and only behind the writing of the message.
        assert client.answer(behind) == ("ok", 1 if name == "arranging" else None)


@pytest.mark.parametrize(("where", "name", "step"), [(messages, "writing", b""), (large, "arranging", None)])
def test_an_emulator_stops_in_the_middle_of_long_work(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, where: Any, name: str, step: object
) -> None:
    """What is under way ends with the emulator, which says nothing of it."""
    monkeypatch.setattr(large, "LARGE", 4)
    served = Served()
    monkeypatch.setattr(where, name, served.before(getattr(where, name), step))
    with ExitStack() as clients:
        with Emulator(rules=RULES) as emulator:
            emulator.set("demo", "/l", MANY)
            client = clients.enter_context(socket_client(emulator, "demo"))
            client.send("g", p="/l", q={"i": "n", "l": 2, "vf": "r"})
            assert served.begun.wait(PATIENCE)
        gc.collect()
        assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


class Wire:
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        self.written = b""

    def write(self, data: bytes) -> None:
        self.written += data

    def is_closing(self) -> bool:
        return False

    def get_write_buffer_size(self) -> int:
        return 0


def sent(wire: Wire, protocol: SimpleNamespace, then: Callable[[SendQueue], None] = lambda queue: None) -> None:
    """Send a long message, and do something while it is being made."""

    async def send() -> None:
        queue = SendQueue(
            cast(asyncio.Transport, wire),
            cast(ServerProtocol, protocol),
            asyncio.get_running_loop(),
            lambda: pytest.fail("the connection has ended"),
        )
        queue.send(Message("[", Long(iter([b"1,", b"2"])), "]"))
        queue.flush()
        then(queue)
        for task in asyncio.all_tasks() - {asyncio.current_task()}:
            await task

    asyncio.run(send())


@pytest.mark.parametrize("frozen", [False, True])
def test_a_frozen_client_gets_no_long_message(frozen: bool) -> None:
    """A fault that freezes a socket keeps back a long message that is being made, and the connection stays."""
    wire = Wire()
    sent(wire, SimpleNamespace(state=OPEN), SendQueue.freeze if frozen else lambda queue: None)
    assert wire.written == (b"" if frozen else framed("[1,2]"))


def test_nothing_follows_the_close_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    """A connection that is closed in the middle of a long message gets none of its further frames."""
    wire, protocol = Wire(), SimpleNamespace(state=OPEN)

    def frames(message: Message) -> Iterator[bytes]:
        asyncio.get_running_loop().call_soon(setattr, protocol, "state", CLOSING)
        yield b"first"
        yield b"behind the close frame"

    monkeypatch.setattr(Message, "frames", frames)
    sent(wire, protocol)
    assert wire.written == b"first"


@pytest.mark.usefixtures("everything_is_large")
def test_long_messages_say_what_short_ones_say(rtdb: Rtdb) -> None:
    """Answers, pushes and merges of any size are the same, in their order, to all clients."""
    data = {"a": "é" * 9_000, "b": {"c": [1, 2, 3], "e": 1, ".priority": 5}}
    shown = {"a": "é" * 9_000, "b": {"c": {"0": 1, "1": 2, "2": 3}, "e": 1, ".priority": 5}}
    with socket_client(rtdb.emulator, rtdb.namespace) as client, socket_client(rtdb.emulator, rtdb.namespace) as other:
        for listener in (client, other):
            listener.ask("q", p="/l", h="")
            listener.listen("/l", q={"i": ".key", "l": 1, "vf": "l"}, t=1)
        assert client.ask("p", p="/l", d=data) == ("ok", "")
        assert client.ask("m", p="/l", d={"b/c": None, "b/d": "x" * 20_000, "a": None}) == ("ok", "")
        merged = {"b/c": None, "b/d": "x" * 20_000, "a": None}
        rest = {"b": {"d": "x" * 20_000, "e": 1, ".priority": 5}}
        expected = [
            {"a": "d", "b": {"p": "l", "d": shown}},
            {"a": "d", "b": {"p": "l", "d": {"a": "é" * 9_000}, "t": 1}},
            {"a": "m", "b": {"p": "l", "d": merged}},
            {"a": "d", "b": {"p": "l", "d": rest, "t": 1}},
        ]
        assert client.pushes == other.pushed() == expected
        assert client.ask("g", p="/l", q={}) == ("ok", rest)
        assert client.ask("g", p="/l", q={"l": 1, "vf": "l"}) == ("ok", rest)
    entry = rtdb.emulator.requests.matching(namespace=rtdb.namespace, method="GET")[0]
    assert entry.response_bytes > 20_000


@pytest.mark.usefixtures("everything_is_large")
def test_a_large_first_event_is_any(rtdb: Rtdb) -> None:
    """A stream of a large node, or of a window of it, begins with its whole value."""
    rtdb.set("/l", {"a": [1, 2], "b": "é"})
    for query, shown in (("", {"a": [1, 2], "b": "é"}), ('&orderBy="$key"&limitToFirst=1', {"a": [1, 2]})):
        url = f"{rtdb.emulator.url}/l.json?ns={rtdb.namespace}{query}"
        headers = {"accept": "text/event-stream"}
        with requests.get(url, headers=headers, stream=True, timeout=PATIENCE) as stream:
            lines = stream.iter_lines()
            assert next(lines) == b"event: put"
            assert json.loads(next(lines).removeprefix(b"data: ")) == {"path": "/", "data": shown}


def test_a_query_that_was_asked_before_looks_at_few_children(
    rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, client: SocketClient
) -> None:
    """Over REST, sockets and streams, a write moves one child in the order; the others are not looked at again."""
    rtdb.set_rules(RULES)
    rtdb.set("/l", {f"{key}-{number}": child for number in range(4) for key, child in MANY.items()})
    looked: list[Member] = []
    original = queries.order_of_value

    def look(member: Member, path: Path) -> SortKey:
        looked.append(member)
        return original(member, path)

    monkeypatch.setattr(queries, "order_of_value", look)
    first = call(rtdb, "GET", f"/l.json?{BY_N}").json()
    assert len(looked) >= len(MANY) * 4
    looked.clear()
    client.ask("q", p="/l", q={"i": "n", "l": 2, "vf": "r"}, t=1, h="")
    assert client.pushes.pop()["b"]["d"] == first
    rtdb.set("/l/k000-1/n", 500)
    rtdb.set("/l/new", {"n": 400})
    rtdb.set("/l/k001-1", None)
    expected = {"k000-1": {"n": 500, "s": "text"}, "new": {"n": 400}}
    assert call(rtdb, "GET", f"/l.json?{BY_N}").json() == expected
    assert client.ask("g", p="/l", q={"i": "n", "l": 2, "vf": "r"}) == ("ok", expected)
    assert len(looked) < 200


@pytest.fixture
def _early_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table, "SMALL", 2)
    monkeypatch.setattr(queries, "RUN", 3)


SCALARS: tuple[Scalar | None, ...] = (None, False, True, 1, 2, 2.5, "a", "b")
ENDS = [
    None,
    *(Bound(value, key, inclusive) for value in (None, 1, "a") for key in (None, "k3") for inclusive in (False, True)),
]


@pytest.mark.usefixtures("_early_tables")
@pytest.mark.parametrize("order", ["$value", "$priority", "n", "d/n", "$key"])
@pytest.mark.parametrize("in_steps", [False, True])
def test_a_window_is_the_sorted_children_in_its_range(order: str, in_steps: bool) -> None:
    """After any writes a query has what sorting all children and looking at each has, made in steps or at once."""
    seed = 7
    chance = random.Random(seed)

    def child() -> object:
        value: object = chance.choice(SCALARS)
        value = chance.choice([value, {"n": value}, {"d": {"n": value}}])
        if value is None or chance.random() < 0.5:
            return value
        priority = {".priority": chance.choice([1, 2, "a"])}
        return {**value, **priority} if isinstance(value, dict) else {".value": value, **priority}

    node = parse({f"k{number}": child() for number in range(30)}, now=0)
    ends = [Bound("k3", None, inclusive=True), None] if order == "$key" else ENDS
    for step in range(60):
        node = node.put((f"k{chance.randrange(40)}",), parse(child(), now=0))
        if in_steps:
            for _ in arranging(node, order):
                pass
        start, end = chance.choice(ends), chance.choice(ends)
        query = Query(order, start, end, chance.choice([None, 1, 3]), chance.random() < 0.5)
        expected = _window(node, query)
        assert query.keys(node) == expected, f"seed {seed}, write {step}, {query}"
        some = set(chance.sample([*node.members], 3))
        if query.limit is None:
            assert query.visible(node, some) == [key for key in expected if key in some]


def _window(node: Node, query: Query) -> list[str]:
    place = places(query.order)
    placed = sorted((place(key, node.members[key]), key) for key in node.members)
    keys = [key for at, key in placed if query.contains(at)]
    if query.limit is None:
        return keys
    return keys[-query.limit :] if query.from_end else keys[: query.limit]
