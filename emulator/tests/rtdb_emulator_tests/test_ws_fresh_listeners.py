"""What a listener holds after any writes is what a new listener of its query gets, with an index and without one."""

from __future__ import annotations

import json
import random
from collections.abc import Mapping
from itertools import count
from typing import Any

import pytest

from rtdb_emulator.database import ADMIN, Database
from rtdb_emulator.jsondata import parse
from rtdb_emulator.query import Query
from rtdb_emulator.rules import Rules
from rtdb_emulator.steps import at_once
from rtdb_emulator.tree import EMPTY, Node, Path, branch
from rtdb_emulator.ws.listens import Listens
from rtdb_emulator.ws.messages import Message, Request, parse_wire_query
from rtdb_emulator.ws.session import Session

Form = Mapping[str, object]

OPEN = {".read": True, ".write": True}
INDEXED = Rules.parse({"rules": {**OPEN, "l": {".indexOn": ["s", "d/n", ".value"]}}})
WITHOUT = Rules.parse({"rules": OPEN})

FORMS: dict[str, Form] = {
    "child, equal to a text": {"i": "s", "sp": "open", "ep": "open"},
    "child, equal to null": {"i": "s", "sp": None, "ep": None},
    "child, equal, the last one": {"i": "s", "sp": "open", "ep": "open", "l": 1, "vf": "r"},
    "child, first two": {"i": "s", "l": 2, "vf": "l"},
    "child, last two": {"i": "s", "l": 2, "vf": "r"},
    "child, from": {"i": "s", "sp": 2},
    "child, after": {"i": "s", "sp": 2, "sn": "[MAX_NAME]", "sin": True},
    "child, up to": {"i": "s", "ep": "open"},
    "child, before": {"i": "s", "ep": "open", "en": "[MIN_NAME]", "ein": True},
    "child, from a key of a value, first two": {"i": "s", "sp": 1, "sn": "c", "l": 2, "vf": "l"},
    "child, between, last two": {"i": "s", "sp": False, "ep": "open", "l": 2, "vf": "r"},
    "grandchild, last two": {"i": "d/n", "l": 2, "vf": "r"},
    "grandchild, between": {"i": "d/n", "sp": 1, "ep": 2},
    "key, first two": {"i": ".key", "l": 2, "vf": "l"},
    "key, after, last two": {"i": ".key", "sp": "9", "sin": False, "l": 2, "vf": "r"},
    "key, between": {"i": ".key", "sp": "a", "ep": "c"},
    "value, first two": {"i": ".value", "l": 2, "vf": "l"},
    "value, from, last two": {"i": ".value", "sp": 1, "l": 2, "vf": "r"},
    "value, before": {"i": ".value", "ep": 2, "ein": False},
    "priority, last two": {"i": ".priority", "l": 2, "vf": "r"},
    "priority, between": {"i": ".priority", "sp": 1, "ep": "p"},
}
PLACE: Path = ("l",)
KEYS = ("a", "b", "c", "9", "10", "x")
SCALARS = (None, False, True, 1, 2, 2.5, "open", "done")


class View:
    """What the JavaScript SDK holds of a tagged listen: the window of its query, and nothing outside of it."""

    def __init__(self, asked: Form) -> None:
        query = parse_wire_query(dict(asked))
        assert query is not None
        self._query: Query = query
        self.node = EMPTY

    def take(self, push: Mapping[str, Any]) -> None:
        body = push["b"]
        base = tuple(filter(None, body["p"].split("/")))[len(PLACE) :]
        if push["a"] == "d":
            self._put(base, body["d"])
            return
        news = {(*base, *key.split("/")): value for key, value in body["d"].items()}
        for path in sorted(news, key=lambda path: self.node.child(path[0]).is_empty):  # first the children that it has
            self._put(path, news[path])

    def _put(self, path: Path, value: object) -> None:
        if len(path) > 1 and self.node.child(path[0]).is_empty:
            return  # a change below a child that it doesn't hold
        node = self.node.put(path, parse(value, now=0))
        self.node = branch({key: node.child(key) for key in self._query.keys(node)}, node.priority)


class Client:
    """A session with one listen."""

    def __init__(self, listens: Listens, asked: Form) -> None:
        self.view = View(asked)
        self._asked = asked
        self._listens = listens
        self._numbers = count(1)
        self.pushes = 0
        self._connect("")

    def again(self) -> int:
        """Connect again with what it holds, and return how many pushes that takes."""
        at_once(self._session.ending(writes=False))
        before = self.pushes
        self._connect(self.view.node.hash)
        return self.pushes - before

    def send(self, message: Message) -> None:
        self.pushes += 1
        self.view.take(json.loads(message.text)["d"])

    def leave(self) -> Node:
        at_once(self._session.ending(writes=False))
        return self.view.node

    def _connect(self, known: str) -> None:
        self._session = Session(self._listens, self.send, lambda: pytest.fail("nothing inspects"))
        listen = {"p": "/l", "q": self._asked, "t": next(self._numbers), "h": known}
        assert self._session.handle(Request(1, "q", listen)).status == "ok"


def _value(chance: random.Random, depth: int) -> object:
    if depth == 0 or chance.random() < 0.4:
        value: object = chance.choice(SCALARS)
        return value if chance.random() < 0.7 else {".value": value, ".priority": chance.choice([None, 1, 2, "p"])}
    names = ("s", "d") if depth == 2 else ("n", "m")
    return {name: _value(chance, depth - 1) for name in names if chance.random() < 0.8}


def _write(chance: random.Random, database: Database) -> None:
    path = (*PLACE, chance.choice(KEYS))
    match chance.randrange(8):
        case 0 | 1:
            database.write(path, _value(chance, 2), ADMIN)
        case 2:
            database.write((*path, "s"), chance.choice(SCALARS), ADMIN)
        case 3:
            database.write((*path, "d", "n"), chance.choice(SCALARS), ADMIN)
        case 4:
            database.write((*path, ".priority"), chance.choice([None, 1, 2, "p"]), ADMIN)
        case 5:
            database.update(PLACE, {key: _value(chance, 2) for key in chance.sample(KEYS, 3)}, ADMIN)
        case 6:
            below = {f"{key}/{chance.choice(['s', 'd/n'])}": chance.choice(SCALARS) for key in chance.sample(KEYS, 3)}
            database.update(PLACE, below, ADMIN)
        case _:
            whole = {key: _value(chance, 2) for key in KEYS if chance.random() < 0.8}
            database.write(PLACE, chance.choice([whole, whole, "a leaf", None]), ADMIN)


@pytest.mark.parametrize("rules", [INDEXED, WITHOUT], ids=["indexed", "without an index"])
@pytest.mark.parametrize("seed", [1])
def test_a_listener_holds_what_a_new_one_gets(rules: Rules, seed: int) -> None:
    """After each write, also after a new connection with what was held, each form of a query holds its window."""
    chance = random.Random(seed)
    database = Database("demo", lambda: 1, rules)
    listens = Listens(database)
    database.write(PLACE, {key: _value(chance, 2) for key in KEYS}, ADMIN)
    clients = {name: Client(listens, form) for name, form in FORMS.items()}
    for step in range(20):
        _write(chance, database)
        for name, client in clients.items():
            fresh = Client(listens, FORMS[name]).leave()
            assert client.view.node == fresh, f"seed {seed}, write {step}, {name}: {client.view.node!r}, not {fresh!r}"
            if not fresh.is_empty and chance.random() < 0.1:
                assert client.again() == 0, f"seed {seed}, write {step}, {name}: a hash is not the window's"
