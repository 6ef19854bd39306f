"""A client that does what it is told sees what there is: random walks, of plain listens and of queries."""

from __future__ import annotations

import contextlib
import json
import random
import threading
from collections.abc import Sequence
from itertools import count, pairwise

import requests
from hypothesis import given, settings
from hypothesis import strategies as st

from rtdb_emulator.database import ADMIN, Access, Database
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.jsondata import parse
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.query import Query
from rtdb_emulator.rules import Rules
from rtdb_emulator.tree import EMPTY, Node, Path, branch
from rtdb_emulator.ws.listens import Listen, Listens
from rtdb_emulator.ws.messages import Message, parse_wire_query
from rtdb_emulator_tests.helpers.sockets import PATIENCE, SocketClient, socket_client

RULES = Rules.parse('{"rules": {".read": true, "l": {".indexOn": [".value", "a", "a/b"]}}}')
PLACE: Path = ("l",)

KEYS = st.sampled_from(["a", "b", "10", "9", "é"])
SCALARS = st.sampled_from([None, 0, 1, 2, 3, True, False, "a", "z"])
PRIORITIES = st.sampled_from([None, 1, 2, "p"])
VALUES = st.recursive(
    SCALARS | st.tuples(SCALARS, PRIORITIES).map(lambda pair: {".value": pair[0], ".priority": pair[1]}),
    lambda below: st.dictionaries(KEYS, below, max_size=4),
    max_leaves=6,
)
PUTS = st.tuples(
    st.lists(KEYS, max_size=3).map(lambda keys: (*PLACE, *keys)) | st.just(()) | st.just(("l", ".priority")), VALUES
)
PATCHES = st.tuples(
    st.lists(KEYS, max_size=2).map(lambda keys: (*PLACE, *keys)) | st.just(()),
    st.dictionaries(KEYS | st.sampled_from(["l/a", "l/b", "a/.priority", ".priority"]), SCALARS | VALUES, max_size=3),
)
BOUNDS = st.fixed_dictionaries(
    {},
    optional={
        "sp": st.sampled_from([None, 0, 1, True, "a"]),
        "sn": st.sampled_from(["a", "9", "[MAX_NAME]", "[MIN_NAME]"]),
        "sin": st.booleans(),
        "ep": st.sampled_from([2, 3, "a", "z"]),
        "en": st.sampled_from(["b", "10", "[MAX_NAME]", "[MIN_NAME]"]),
        "ein": st.booleans(),
        "l": st.integers(1, 3),
        "vf": st.sampled_from(["l", "r"]),
        "i": st.sampled_from([".value", "a", "a/b"]),
    },
)
BY_KEY = st.fixed_dictionaries(
    {"i": st.just(".key")},
    optional={
        "sp": st.sampled_from(["9", "a", "[MIN_NAME]"]),
        "ep": st.sampled_from(["10", "b", "[MAX_NAME]"]),
        "l": st.integers(1, 3),
        "vf": st.sampled_from(["l", "r"]),
    },
)
BY_PRIORITY = st.fixed_dictionaries({"sp": st.sampled_from([None, 1, "p"])}, optional={"l": st.integers(1, 2)})


class Client:
    """Somebody who listens, and does with each push what a client does."""

    def __init__(self, path: Path) -> None:
        self.access: Access = ADMIN
        self.path = path
        self.view = EMPTY
        self.pushes: list[dict[str, object]] = []

    def send(self, message: Message) -> None:
        self.take(json.loads(message.text)["d"])

    def take(self, push: dict[str, object]) -> None:
        self.pushes.append(push)
        body = push["b"]
        assert isinstance(body, dict)
        base = tuple(filter(None, str(body["p"]).split("/")))
        if push["a"] == "d":
            news = {base: body["d"]}
        else:
            assert body["d"], "a merge is never empty"
            news = {(*base, *key.split("/")): value for key, value in body["d"].items()}
        # As the JavaScript SDK does, what goes first.
        for path, value in sorted(news.items(), key=lambda item: item[1] is not None):
            assert path[: len(self.path)] == self.path, "nothing from outside"
            self.view = self.view.put(path[len(self.path) :], parse(value, now=0))

    def revoked(self, listen: Listen, denied: Denied) -> None:
        raise AssertionError("nobody is revoked here")


def window(root: Node, path: Path, query: Query | None) -> Node:
    node = root.at(path)
    return node if query is None else branch({key: node.child(key) for key in query.keys(node)}, node.priority)


@settings(max_examples=150)
@given(
    st.lists(PUTS | PATCHES, max_size=8),
    st.one_of(st.just({}), BOUNDS, BY_KEY, BY_PRIORITY),
    st.sampled_from([PLACE, ("l", "a"), ()]),
)
def test_a_client_that_does_what_it_is_told_sees_what_there_is(
    writes: list[tuple[Path, object]], asked: dict[str, object], path: Path
) -> None:
    """After every commit the view is the window; a commit is one message at most, and leavers come first in it."""
    try:
        query = parse_wire_query(asked)
    except BadRequest:  # an order and a bound that don't go together
        return
    database = Database("demo", lambda: 1, RULES)
    listens, client = Listens(database), Client(path)
    with database.locked() as root:
        listens.add(Listen(client, path, query, None if query is None else 7, asked), root)
        client.view = window(root, path, query)
    for target, value in writes:
        told = len(client.pushes)
        before = window(database.root, path, query)
        _write(database, target, value)
        shown = window(database.root, path, query)
        assert client.view == shown
        news = client.pushes[told:]
        assert len(news) <= 1
        assert bool(news) or before == shown
        if query is not None:
            _check_order(news)


def _check_order(pushes: Sequence[dict[str, object]]) -> None:
    for push in pushes:
        body = push["b"]
        assert isinstance(body, dict)
        assert body["t"] == 7
        if push["a"] == "m":
            gone = [value is None for value in body["d"].values()]
            assert gone == sorted(gone, reverse=True)


def _write(database: Database, target: Path, value: object) -> None:
    with contextlib.suppress(BadRequest):
        if isinstance(value, dict) and ".value" not in value and (len(value) > 1 or any("/" in key for key in value)):
            database.update(target, value, ADMIN)
        else:
            database.write(target, value, ADMIN)


def test_clients_end_with_what_there_is(rtdb: Rtdb) -> None:
    """Three sockets and a REST client write at random, all at once; every view ends right."""
    queries = [{}, {"i": ".key", "l": 2, "vf": "l"}, {"i": ".value", "sp": 3, "l": 3, "vf": "r"}]
    rtdb.set_rules({"rules": {".read": True, ".write": True, "l": {".indexOn": ".value"}}})
    views: dict[int, Client] = {}

    def walk(number: int) -> None:
        chance = random.Random(number)
        asked = queries[number]
        views[number] = Client(PLACE)
        with socket_client(rtdb.emulator, rtdb.namespace) as client:
            client.ask("q", p="/l", h="", **({"q": asked, "t": number} if asked else {}))
            for _ in range(60):
                key = chance.choice("abcdef")
                if chance.random() < 0.3:
                    client.ask("m", p="/l", d={key: chance.randrange(9), chance.choice("ghi"): None})
                else:
                    client.ask("p", p=f"/l/{key}", d=chance.choice([None, 1, 5, {"x": 2}]))
            ready.wait(PATIENCE)
            _catch_up(client, views[number])

    def beside() -> None:
        chance = random.Random(9)
        with requests.Session() as session:
            for _ in range(40):
                url = f"{rtdb.emulator.url}/l.json?ns={rtdb.namespace}"
                body = {key: chance.choice([None, 4, 7]) for key in chance.sample("abcdefg", 2)}
                session.request(chance.choice(["PATCH", "PATCH", "PUT"]), url, json=body, timeout=PATIENCE)

    ready = threading.Barrier(len(queries) + 1)
    threads = [threading.Thread(target=walk, args=(number,)) for number in range(len(queries))]
    for thread in threads:
        thread.start()
    beside()
    ready.wait(PATIENCE)
    for thread in threads:
        thread.join()
    node = parse(rtdb.get("/l"), now=0)
    for number, asked in enumerate(queries):
        query = parse_wire_query(asked)
        assert views[number].view == (
            node if query is None else branch({key: node.child(key) for key in query.keys(node)})
        ), asked


def _catch_up(client: SocketClient, view: Client) -> None:
    for push in client.pushed():
        view.take(push)


def test_every_connection_hears_of_the_commits_in_one_order(rtdb: Rtdb) -> None:
    """Each of several writers sees the same sequence of values, its own writes and the others'."""
    heard: dict[int, list[object]] = {}

    def write(number: int) -> None:
        with socket_client(rtdb.emulator, rtdb.namespace) as client:
            client.ask("q", p="/n", h="")
            ready.wait(PATIENCE)
            for turn in range(50):
                client.ask("p", p="/n", d=f"{number}:{turn}")
            done.wait(PATIENCE)
            heard[number] = [push["b"]["d"] for push in client.pushed()]

    ready, done = threading.Barrier(3), threading.Barrier(3)
    threads = [threading.Thread(target=write, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(heard[0]) == 1 + 3 * 50
    assert all(one == other for one, other in pairwise(heard.values()))


def test_what_was_read_is_answered_before_it_is_old(rtdb: Rtdb, client: SocketClient) -> None:
    """A client that is told of writes, and reads, gets no answer that is older than what it was told before."""
    rtdb.set("/a", {"n": 0, "large": {f"k{number}": number for number in range(30_000)}})
    ended = threading.Event()

    def write() -> None:
        numbers = count(1)
        while not ended.wait(0.0005):  # many a write for each read
            rtdb.set("/a/n", next(numbers))

    client.ask("q", p="/a/n", h="")
    writer = threading.Thread(target=write)
    writer.start()
    try:
        for _ in range(3):
            _, read = client.ask("g", p="/a", q={})
            assert isinstance(read, dict)
            assert read["n"] >= client.pushes[-1]["b"]["d"]
    finally:
        ended.set()
        writer.join()
