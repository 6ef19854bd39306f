"""Queries of the JavaScript SDK: reads, listeners and windows."""

from __future__ import annotations

from tests.node.conftest import Play

from rtdb_emulator.pytest_plugin import Rtdb

SCORES = {
    "ann": {"points": 10, ".priority": 3},
    "bob": {"points": 30, ".priority": 1},
    "cat": {"points": 20, ".priority": 2},
    "dan": {"points": "many", ".priority": "x"},
    "eve": {"name": "Eve"},
}
WORDS = {"one": 1, "two": 2, "three": "three", "ten": 10, "no": False}
INDEXED = {
    "rules": {
        ".read": True,
        ".write": True,
        "scores": {".indexOn": "points"},
        "words": {".indexOn": ".value"},
    }
}


def test_every_form_of_a_query_has_its_children(play: Play, rtdb: Rtdb) -> None:
    """Each order and each bound gives a read and a listener the same children in the same order."""
    rtdb.set_rules(INDEXED)
    rtdb.set("/", {"scores": SCORES, "words": WORDS})
    points, value, key, priority = ["orderByChild", "points"], ["orderByValue"], ["orderByKey"], ["orderByPriority"]
    expected = [
        (["scores", points], ["eve", "ann", "cat", "bob", "dan"]),
        (["scores", points, ["startAt", 20]], ["cat", "bob", "dan"]),
        (["scores", points, ["startAfter", 20]], ["bob", "dan"]),
        (["scores", points, ["endAt", 20]], ["eve", "ann", "cat"]),
        (["scores", points, ["endBefore", 20]], ["eve", "ann"]),
        (["scores", points, ["equalTo", 20]], ["cat"]),
        (["scores", points, ["startAt", 10], ["endAt", 30]], ["ann", "cat", "bob"]),
        (["scores", points, ["startAt", 10, "b"], ["limitToFirst", 1]], ["cat"]),
        (["scores", points, ["limitToLast", 2]], ["bob", "dan"]),
        (["scores", key, ["startAfter", "bob"], ["limitToFirst", 2]], ["cat", "dan"]),
        (["scores", key, ["endAt", "bob"]], ["ann", "bob"]),
        (["scores", priority], ["eve", "bob", "cat", "ann", "dan"]),
        (["scores", priority, ["startAt", 2]], ["cat", "ann", "dan"]),
        (["scores", ["limitToFirst", 2]], ["eve", "bob"]),
        (["words", value], ["no", "one", "two", "ten", "three"]),
        (["words", value, ["startAt", 2], ["endAt", 10]], ["two", "ten"]),
        (["words", value, ["endBefore", 1]], ["no"]),
        (["nothing", ["limitToLast", 3]], []),
    ]
    answers = play("queries.forms", queries=[form for form, _ in expected])
    assert answers == [[keys, keys] for _, keys in expected]


def test_a_window_follows_what_is_written(play: Play, rtdb: Rtdb) -> None:
    """Children come into a live window and leave it as others write, and what is outside is not seen."""
    rtdb.set_rules(INDEXED)
    rtdb.set("/scores", {name: {"points": points} for name, points in (("a", 10), ("b", 20), ("c", 30))})
    steps = [
        ("/scores/d", {"points": 25}),  # b leaves
        ("/scores/a/points", 5),  # outside
        ("/scores/c", None),  # b comes back
        ("/scores/b/points", 1),  # a is next
    ]
    answer = play("queries.window", steps=steps, events=8)
    assert answer["seen"] == [
        ["in", "b"],
        ["in", "c"],
        ["out", "b"],
        ["in", "d"],
        ["out", "c"],
        ["in", "b"],
        ["out", "b"],
        ["in", "a"],
    ]
    assert answer["last"] == ["a", "d"]


def test_without_an_index_a_listener_works_and_a_read_is_refused(play: Play, rtdb: Rtdb) -> None:
    """A listener on a query without its index gets its children and a warning; a read says what the rules lack."""
    rtdb.set("/scores", {"a": {"points": 2}, "b": {"points": 1}})
    answer = play("queries.withoutIndex")
    assert answer["heard"] == ["b"]
    assert 'Consider adding ".indexOn": "points" at /scores to your security rules' in answer["warned"]
    assert 'Index not defined, add ".indexOn": "points", for path "/scores", to the rules' in answer["read"]["message"]
