"""A real Node client that listens, is present, and is offline."""

from __future__ import annotations

import time
from random import Random
from typing import Any

import pytest

from rtdb_emulator import Emulator
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.nodejs import Stage
from rtdb_emulator_tests.node.conftest import Begin, Play

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


def test_what_was_left_is_written_at_the_end_once(begin: Begin, rtdb: Rtdb) -> None:
    """A client that goes has its sets, updates and removals done, cancelled ones not, and none is left for the next
    time.
    """

    def ada() -> dict[str, Any]:
        found = rtdb.get("/users/ada")
        assert isinstance(found, dict)
        return found

    with begin("presence.leaves") as scene:
        assert scene.hear() == "there"
        assert ada() == {"online": True, "device": "phone", "score": 1}
        began = time.time_ns() // 1_000_000
        scene.tell("leave")
        assert scene.hear() == "gone"
        gone = ada()
        assert began <= gone.pop("lastSeen") <= time.time_ns() // 1_000_000
        assert gone == {"online": False, "score": 3}
        scene.tell("come back")
    # It has gone for good: that time nothing was left.
    assert ada() | {"lastSeen": 0} == {"online": True, "score": 3, "lastSeen": 0}
    assert rtdb.get("/users/bob") is None


def test_a_killed_client_is_seen_to_go(begin: Begin, rtdb: Rtdb, node_executable: str) -> None:
    """A client whose process is killed is taken out of the list of those who are there, and the others stay."""
    doomed = Stage(node_executable)
    try:
        with begin("presence.watches") as watching:
            assert watching.hear() == []
            rtdb.set("/present/bob", True)
            assert watching.hear() == ["bob"]
            with doomed.play("presence.isThere", rtdb.emulator.host, rtdb.namespace, name="ada") as scene:
                assert scene.hear() == "ada"
                assert watching.hear() == ["ada", "bob"]
                doomed.close()
                assert watching.hear() == ["bob"]
                scene.abandon()
            watching.tell("enough")
    finally:
        doomed.close()
    assert rtdb.get("/present") == {"bob": True}


def test_a_client_knows_of_its_connection(stage: Stage) -> None:
    """`.info` says whether the client is connected, and how far the server's clock is from its own."""
    hour = 3_600_000
    with (
        Emulator(now=lambda: time.time_ns() // 1_000_000 + hour) as emulator,
        stage.play("presence.info", emulator.host, "demo") as scene,
    ):
        answer = scene.end()
    assert answer["connected"] == [False, True, False]
    assert hour - 30_000 < answer["offset"] < hour + 30_000


def test_what_is_written_offline_is_stored_in_its_order(play: Play, rtdb: Rtdb) -> None:
    """Writes of a client that is offline are seen by itself at once, by the database when it is back, and by its
    listener no second time.
    """
    answer = play("offline.writesOffline")
    assert answer["offline"] == [
        None,
        {"text": "one"},
        {"text": "one", "mood": "fine"},
        {"text": "two", "mood": "fine"},
    ]
    assert answer["stored"] is None
    assert answer["after"] == []
    assert rtdb.get() == {"note": {"text": "two", "mood": "fine"}}


def test_a_listener_that_is_back_hears_what_has_changed(play: Play, rtdb: Rtdb) -> None:
    """After a lost connection a listener hears the new value, the new children, and nothing of what is as it was."""
    rtdb.set("/", {"changed": "before", "same": {"inner": 1}, "list": {"a": 1, "b": 2}})
    assert play("offline.comesBack") == {
        "changed": ["before", "after"],
        "same": [{"inner": 1}],
        "list": ["a", "b", "c"],
    }


def test_a_transaction_that_was_begun_offline_counts_on_what_is_there(play: Play, rtdb: Rtdb) -> None:
    """A transaction of a client that is offline is rerun on the value that the database has when it is back."""
    rtdb.set("/counter", 1)
    assert play("offline.transactionOffline") == "ok"
    assert rtdb.get("/counter") == 101


def test_what_a_lost_answer_comes_to(play: Play, rtdb: Rtdb) -> None:
    """If the connection is lost after a write, before its answer, the client sends it again, and an increment counts
    twice; a transaction isn't sent again, and ends with an error although it was committed.
    """
    lost = [rtdb.faults.drop_reply(wire="socket", method="PUT", path=path) for path in ("/counter", "/claim")]
    answer = play("offline.lostAnswers")
    assert [fault.hits for fault in lost] == [1, 1]
    assert answer["counted"] == "ok"
    assert answer["claimed"]["message"] == "disconnect"
    assert rtdb.get() == {"counter": 2, "claim": "mine"}
