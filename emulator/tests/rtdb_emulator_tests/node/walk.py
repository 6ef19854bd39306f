"""A random walk of two real clients: `make node-walk`, or `python -m rtdb_emulator_tests.node.walk --seed 7`.

In each step both clients begin up to two operations at once. What REST reads then must be what a plain model of the
database has after these operations, in one of the orders that keep the order of each client. From time to time, and at
the end, what each client has heard must be what the model has: the whole tree, and every window that it listens to. So
must what REST reads of the same queries.

A seed makes the same choices. Which client is first is left to chance, and so are the keys that `push` makes: what was
found with a seed need not be found by its next walk.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from itertools import count
from random import Random, SystemRandom
from typing import Any

import requests

from rtdb_emulator import Emulator
from rtdb_emulator_tests.helpers.nodejs import Scene, Stage, node

CLIENTS = 2
KEYS = ("a", "b", "9", "10", "-2", "é")
WORDS = (None, True, False, 0, 1, -3, 2.5, "", "x", "10", "ünï 🏠")
INDEXES = {"orderByChild": "n", "orderByKey": "$key", "orderByValue": "$value"}
OWNER = {"Authorization": "Bearer owner"}
LATER = ["set", "set", "update", "remove", "push", "open", "close"]
FIRST = [*LATER, "count"]
# A scene has to end within a bound: a longer walk changes its clients each time.
STEPS_OF_A_SCENE = 150
STEPS_TO_A_LOOK = 15
RULES = {
    "rules": {".read": True, ".write": True, "walk": {".indexOn": ["n", ".value"], "$a": {".indexOn": ["n", ".value"]}}}
}

Operation = dict[str, Any]


class Astray(AssertionError):
    """The clients, REST and the model don't agree."""


def put(tree: Any, path: list[str], value: Any) -> Any:
    """The tree with a value at a path. None stands for nothing, and an object without children is nothing."""
    if not path:
        if not isinstance(value, dict):
            return value
        kept = {key: put(None, [], child) for key, child in value.items()}
        return {key: child for key, child in kept.items() if child is not None} or None
    key, *rest = path
    children = dict(tree) if isinstance(tree, dict) else {}
    child = put(children.get(key), rest, value)
    if child is not None:
        return {**children, key: child}
    if key not in children:
        return tree
    del children[key]
    return children or None


def at(tree: Any, path: list[str]) -> Any:
    for key in path:
        tree = tree.get(key) if isinstance(tree, dict) else None
    return tree


def after(tree: Any, operation: Operation, came_to: Any) -> Any:
    """The tree after an operation; of a push, `came_to` is the key."""
    path = operation.get("path", "").split("/")
    match operation["does"]:
        case "set":
            return put(tree, path, operation["value"])
        case "remove":
            return put(tree, path, None)
        case "push":
            return put(tree, [*path, came_to], operation["value"])
        case "count":
            now = at(tree, path)
            is_number = isinstance(now, int | float) and not isinstance(now, bool)
            return put(tree, path, now + 1 if is_number else 1)
        case "update":
            for key, value in operation["value"].items():
                tree = put(tree, [*path, *key.split("/")], value)
    return tree


def key_order(key: str) -> tuple[Any, ...]:
    try:
        number = int(key) if key.isascii() else None
    except ValueError:
        number = None
    return (1, key.encode()) if number is None else (0, number, len(key))


def value_order(value: Any) -> tuple[Any, ...]:
    kinds: list[Any] = [type(None), bool, int | float, str, dict]
    kind = next(number for number, kind in enumerate(kinds) if isinstance(value, kind))
    return (kind,) if kind in (0, 4) else (kind, value.encode() if isinstance(value, str) else value)


def selected(tree: Any, window: dict[str, Any]) -> list[str]:
    """The keys of a window, in its order."""
    node = at(tree, window["path"].split("/"))
    children = node if isinstance(node, dict) else {}

    def order(key: str) -> tuple[Any, ...]:
        child = children[key]
        if window["order"] == "orderByChild":
            return (*value_order(at(child, ["n"])), *key_order(key))
        return key_order(key) if window["order"] == "orderByKey" else (*value_order(child), *key_order(key))

    keys = sorted(children, key=order)
    number = window["number"]
    return keys[:number] if window["limit"] == "limitToFirst" else keys[-number:]


def orders(first: list[Any], second: list[Any]) -> Iterator[list[Any]]:
    """Every way to put two lists into one that keeps the order of each."""
    if not first or not second:
        yield first + second
        return
    yield from ([first[0], *rest] for rest in orders(first[1:], second))
    yield from ([second[0], *rest] for rest in orders(first, second[1:]))


class Walk:
    def __init__(self, seed: int, emulator: Emulator, namespace: str) -> None:
        self._chance = Random(seed)
        self._url = emulator.url
        self._namespace = namespace
        self._tree: Any = None
        self._windows: list[dict[str, dict[str, Any]]] = []
        self._names = count()
        self._markers = count()
        self.newest: list[Any] = []

    def go(self, scene: Scene, steps: int) -> None:
        """Make so many steps with new clients."""
        self._windows = [{} for _ in range(CLIENTS)]
        for step in range(1, steps + 1):
            operations = [self._operations(client) for client in range(CLIENTS)]
            self.newest = [*self.newest[-9:], operations]
            scene.tell({"begin": operations})
            self._follow(operations, scene.hear())
            if step % STEPS_TO_A_LOOK == 0 or step == steps:
                self._look(scene)
        scene.tell(None)

    def _follow(self, operations: list[list[Operation]], came_to: list[list[Any]]) -> None:
        done = [list(zip(*both, strict=True)) for both in zip(operations, came_to, strict=True)]
        now = self._read("walk")
        possible = []
        for order in orders(*done):
            tree = {"walk": self._tree}
            for operation, end in order:
                tree = after(tree, operation, end) or {}
            possible.append(tree.get("walk"))
        if not any(_same(now, one) for one in possible):
            raise Astray(f"REST reads {now!r}, the model has one of {possible!r} after {done!r}")
        self._tree = now

    def _read(self, path: str, **query: str | int) -> Any:
        parameters: dict[str, str | int] = {"ns": self._namespace, "format": "export", **query}
        answer = requests.get(f"{self._url}/{path}.json", parameters, headers=OWNER, timeout=20)
        answer.raise_for_status()
        return answer.json()

    def _look(self, scene: Scene) -> None:
        scene.tell({"marker": next(self._markers)})
        for client, view in enumerate(scene.hear()):
            if not _same(view["seen"], self._tree):
                raise Astray(f"client {client} sees {view['seen']!r}, there is {self._tree!r}")
            for name, window in self._windows[client].items():
                keys = selected({"walk": self._tree}, window)
                heard = view["windows"][name]
                if heard != {"whole": keys, "children": keys}:
                    raise Astray(f"client {client} has {heard!r} of {window!r}, not {keys!r}; there is {self._tree!r}")
                query = {"orderBy": json.dumps(INDEXES[window["order"]]), window["limit"]: window["number"]}
                found = self._read(window["path"], **query)
                if not isinstance(at({"walk": self._tree}, window["path"].split("/")), dict):
                    continue  # a leaf is what it is in REST, with a query too
                if found.keys() != set(keys):
                    raise Astray(f"REST reads {found!r} of {window!r}, not {keys!r}; there is {self._tree!r}")

    def _operations(self, client: int) -> list[Operation]:
        # A set ends the transactions of its own client that are under way: a count is alone.
        made: list[Operation] = []
        for _ in range(self._chance.randint(0, 2)):
            if not made or made[0]["does"] != "count":
                made.append(self._operation(client, FIRST if not made else LATER))
        return made

    def _operation(self, client: int, choices: list[str]) -> Operation:
        open_windows = self._windows[client]
        does = self._chance.choice(choices)
        if does == "open" or (does == "close" and not open_windows):
            name = str(next(self._names))
            window = {
                "name": name,
                "path": self._path(0, 1),
                "order": self._chance.choice(["orderByChild", "orderByKey", "orderByValue"]),
                "limit": self._chance.choice(["limitToFirst", "limitToLast"]),
                "number": self._chance.randint(1, 3),
            }
            open_windows[name] = window
            return {"does": "open", "window": window}
        if does == "close":
            return {"does": "close", "window": open_windows.pop(self._chance.choice([*open_windows]))}
        operation: Operation = {"does": does, "path": self._path(1, 3)}
        if does == "update":
            keys = self._chance.sample(KEYS, self._chance.randint(1, 3))
            deep = [key if self._chance.random() < 0.7 else f"{key}/{self._chance.choice(KEYS)}" for key in keys]
            operation["value"] = {key: self._value(1) for key in deep}
        elif does in ("set", "push"):
            operation["value"] = self._value(2)
        return operation

    def _path(self, least: int, most: int) -> str:
        """A path, which more often than not leads to what is there."""
        path = ["walk"]
        for _ in range(self._chance.randint(least, most)):
            node = at({"walk": self._tree}, path)
            there = [*node] if isinstance(node, dict) and self._chance.random() < 0.7 else KEYS
            path.append(self._chance.choice(there))
        return "/".join(path)

    def _value(self, depth: int) -> Any:
        if depth == 0 or self._chance.random() < 0.5:
            return self._chance.choice(WORDS)
        keys = self._chance.sample((*KEYS, "n"), self._chance.randint(1, 4))
        return {key: self._value(depth - 1) for key in keys}


def _same(left: Any, right: Any) -> bool:
    """Whether two values are equal in JSON, where true is not 1, and 1.0 is."""
    if isinstance(left, dict) and isinstance(right, dict):
        return left.keys() == right.keys() and all(_same(child, right[key]) for key, child in left.items())
    return left == right and isinstance(left, bool) == isinstance(right, bool)


def walk(stage: Stage, emulator: Emulator, namespace: str, seed: int, steps: int) -> None:
    """Walk so many steps. Raises Astray, with the seed and the newest steps, as soon as there is no agreement."""
    emulator.set_rules(namespace, RULES)
    walking = Walk(seed, emulator, namespace)
    try:
        for start in range(0, steps, STEPS_OF_A_SCENE):
            with stage.play("walk.play", emulator.host, namespace, clients=CLIENTS) as scene:
                walking.go(scene, min(STEPS_OF_A_SCENE, steps - start))
    except AssertionError as error:
        newest = "\n".join(json.dumps(step, ensure_ascii=False) for step in walking.newest)
        raise Astray(f"SEED={seed} STEPS={steps}: {error}\nThe newest steps:\n{newest}") from None


def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m rtdb_emulator_tests.node.walk", description="Two real clients walk at random."
    )
    parser.add_argument("--seed", type=int, default=SystemRandom().randrange(1_000_000), help="default: any")
    parser.add_argument("--steps", type=int, default=1000, help="default: %(default)s")
    options = parser.parse_args()
    executable = node()
    if executable is None:
        parser.exit(2, "the Node clients are not installed: make node\n")
    print(f"SEED={options.seed} STEPS={options.steps}", flush=True)
    stage = Stage(executable)
    try:
        with Emulator() as emulator:
            walk(stage, emulator, "walk", options.seed, options.steps)
    finally:
        stage.close()
    print("both clients, REST and the model agree")


if __name__ == "__main__":
    main()
