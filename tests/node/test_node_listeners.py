"""Listeners of the JavaScript SDK hold what a new listener of their query gets, with an index and without one."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from tests.node.conftest import Play

from rtdb_emulator.pytest_plugin import Rtdb

RULES = {"rules": {".read": True, ".write": True, "indexed": {".indexOn": ["s", "d/n", ".value"]}}}
STATUS: list[object] = ["orderByChild", "s"]
NUMBER: list[object] = ["orderByChild", "d/n"]
KEY: list[object] = ["orderByKey"]
VALUE: list[object] = ["orderByValue"]
PRIORITY: list[object] = ["orderByPriority"]
FORMS: list[list[list[object]]] = [
    [STATUS, ["equalTo", "open"]],
    [STATUS, ["equalTo", None]],
    [STATUS, ["equalTo", "open"], ["limitToLast", 1]],
    [STATUS, ["limitToFirst", 2]],
    [STATUS, ["limitToLast", 2]],
    [STATUS, ["startAt", 2]],
    [STATUS, ["startAfter", 2]],
    [STATUS, ["endAt", "open"]],
    [STATUS, ["endBefore", "open"]],
    [STATUS, ["startAt", 1, "c"], ["limitToFirst", 2]],
    [STATUS, ["startAt", False], ["endAt", "open"], ["limitToLast", 2]],
    [NUMBER, ["limitToLast", 2]],
    [NUMBER, ["startAt", 1], ["endAt", 2]],
    [KEY, ["limitToFirst", 2]],
    [KEY, ["startAfter", "9"], ["limitToLast", 2]],
    [KEY, ["startAt", "a"], ["endAt", "c"]],
    [VALUE, ["limitToFirst", 2]],
    [VALUE, ["startAt", 1], ["limitToLast", 2]],
    [VALUE, ["endBefore", 2]],
    [PRIORITY, ["limitToLast", 2]],
    [PRIORITY, ["startAt", 1], ["endAt", "p"]],
]
KEYS = ("a", "b", "c", "9", "10", "\uff5e", "\U0001f600")
SCALARS = (None, False, True, 1, 2, 2.5, "open", "done", "\uff5e", "\U0001f600")


def _value(chance: Random, depth: int) -> object:
    if depth == 0 or chance.random() < 0.4:
        return chance.choice(SCALARS)
    names = ("s", "d") if depth == 2 else ("n", "m")
    return {name: _value(chance, depth - 1) for name in names if chance.random() < 0.8}


def _write(chance: Random) -> dict[str, Any]:
    """A write of both places, by another client or by the one that listens."""
    key = chance.choice(KEYS)
    match chance.randrange(5):
        case 0:
            child = {"path": key, "value": _value(chance, 2), "priority": chance.choice([None, 1, 2, "p"])}
        case 1 | 2:
            child = {"path": f"{key}/{chance.choice(['s', 'd/n'])}", "value": chance.choice(SCALARS)}
        case 3:
            child = {"path": "", "value": {key: _value(chance, 2) for key in chance.sample(KEYS, 3)}}
        case _:
            child = {"path": "", "value": {f"{key}/s": chance.choice(SCALARS) for key in chance.sample(KEYS, 3)}}
    return {"by": chance.randrange(2), **child}


def _on(place: str, write: dict[str, Any]) -> dict[str, Any]:
    path = "/".join(filter(None, (place, write["path"])))
    if "priority" in write or isinstance(write["value"], dict):
        return {**write, "path": path}
    above, _, key = path.rpartition("/")
    return {**write, "path": above, "value": {key: write["value"]}}


@pytest.mark.parametrize("seed", [1])
def test_a_listener_holds_what_a_new_one_gets(play: Play, rtdb: Rtdb, seed: int) -> None:
    """After each write each form of a query holds the same children in the same order as a new listener gets."""
    chance = Random(seed)
    rtdb.set_rules(RULES)
    start = {key: _value(chance, 2) for key in KEYS}
    rtdb.set("/", {"indexed": start, "without": start})
    steps = [[_on(place, write) for place in ("indexed", "without")] for write in (_write(chance) for _ in range(8))]
    queries = [[place, *form] for form in FORMS for place in ("indexed", "without")]
    difference = play("listeners.fresh", queries=queries, steps=steps)
    assert difference is None, f"seed {seed}: {difference}; {steps[: difference['step'] + 1]}"
