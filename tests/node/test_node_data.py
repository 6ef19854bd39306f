"""The JavaScript SDK reads, writes and listens."""

from __future__ import annotations

import time

from tests.node.conftest import Play

from rtdb_emulator.pytest_plugin import Rtdb


def test_each_kind_of_write_is_stored(play: Play, rtdb: Rtdb) -> None:
    """Sets, updates, removals, increments, server times and priorities are in the database as the SDK reads them."""
    before = time.time_ns() // 1_000_000
    read = play("data.writes")
    stored = rtdb.emulator.get(rtdb.namespace, "/", priorities=True)
    assert read == stored
    assert before <= read["house"].pop("built") <= time.time_ns() // 1_000_000
    assert read == {
        "house": {
            "rooms": {"0": "kitchen", "1": "hall"},
            "floors": 5,
            "name": "Überseehaus 🏠",
            "owner": {"name": "Ada", "age": 36.5},
        },
        "ranked": {".priority": 7, "first": {".value": 1, ".priority": "a"}},
    }


def test_pushed_children_keep_their_order(play: Play, rtdb: Rtdb) -> None:
    """The keys that `push` makes are in the database, in the order of the pushes."""
    keys = play("data.pushes", number=50)
    assert rtdb.get("/list") == {key: number for number, key in enumerate(keys)}
    assert sorted(keys) == keys


def test_child_events_say_what_changed_and_where(play: Play, rtdb: Rtdb) -> None:
    """Children are added, changed, moved and removed after the child that is before them in the query's order."""
    rtdb.set_rules({"rules": {".read": True, ".write": True, "people": {".indexOn": "age"}}})
    rtdb.set("/people", {"ann": {"age": 30}, "bob": {"age": 20}})
    steps = [
        ("people/cat", {"age": 25}),
        ("people/ann/name", "Ann"),
        ("people/bob/age", 40),
        ("people/cat", None),
    ]
    assert play("data.childEvents", already=2, steps=steps, events=7) == [
        ["added", "bob", None],
        ["added", "ann", "bob"],
        ["added", "cat", "bob"],
        ["changed", "ann", "cat"],
        ["moved", "bob", "ann"],
        ["changed", "bob", "ann"],
        ["removed", "cat", None],
    ]


def test_a_writer_sees_its_own_write_once(play: Play, rtdb: Rtdb) -> None:
    """A granted write is one event of its writer's listener, and a refused one two: there and back."""
    rtdb.set_rules({"rules": {".read": True, "open": {".write": True}}})
    rtdb.set("/", {"open": "old", "shut": "old"})
    answer = play("data.ownWrites")
    assert answer["open"] == ["old", "new"]
    assert answer["shut"] == ["old", "new", "old"]
    assert answer["refused"]["code"] == "PERMISSION_DENIED"
    assert rtdb.get() == {"open": "new", "shut": "old"}


def test_an_update_is_one_state(play: Play, rtdb: Rtdb) -> None:
    """An update of several children is one event of each listener, of a root's, a node's and a query's."""
    rtdb.set("/list", {"a": 1, "b": 2, "c": 3})
    before, after = {"a": 1, "b": 2, "c": 3}, {"b": 2, "c": 30, "d": 4}
    assert play("data.oneState") == {
        "above": [{"list": before}, {"list": after}],
        "at": [before, after],
        "window": [{"b": 2, "c": 3}, {"c": 30, "d": 4}],
    }
    assert rtdb.get("/list") == after


def test_a_listener_that_was_taken_off_hears_nothing(play: Play, rtdb: Rtdb) -> None:
    """After `off` no write reaches the listener; a new one begins with the value of then."""
    rtdb.set("/place", 1)
    assert play("data.unlistened") == {"first": [1], "again": [2]}
    assert rtdb.get("/place") == 2
