"""Data, queries, large values and transactions by a real Node client."""

from __future__ import annotations

import time

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.node.conftest import Play


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
    steps = [("people/cat", {"age": 25}), ("people/ann/name", "Ann"), ("people/bob/age", 40), ("people/cat", None)]
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


SCORES = {
    "ann": {"points": 10, ".priority": 3},
    "bob": {"points": 30, ".priority": 1},
    "cat": {"points": 20, ".priority": 2},
    "dan": {"points": "many", ".priority": "x"},
    "eve": {"name": "Eve"},
}
WORDS = {"one": 1, "two": 2, "three": "three", "ten": 10, "no": False}
INDEXED = {"rules": {".read": True, ".write": True, "scores": {".indexOn": "points"}, "words": {".indexOn": ".value"}}}


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


LETTERS = 2_000_000
FRAME = 16_384


def test_two_megabytes_go_there_and_back(play: Play, rtdb: Rtdb) -> None:
    """A value of 2 MB is written in one piece, heard by a listener, and read by another client."""
    assert play("large.text", letters=LETTERS) == {"heard": True, "read": True}
    assert rtdb.get("/text") == "x" * (LETTERS - 1) + "é"


def test_no_seam_of_frames_tears_a_character(play: Play, rtdb: Rtdb) -> None:
    """Characters of one, two, three and four bytes arrive whole, wherever the frames that bring them are cut."""
    values = {
        f"{name}-{shift}": "x" * shift + character * (2 * FRAME)
        for name, character in (("two", "é"), ("three", "漢"), ("four", "🏠"))
        for shift in range(4)
    }
    rtdb.set("/", values)
    assert play("large.seams", values=values) == []


def test_what_the_client_cuts_is_put_together(play: Play, rtdb: Rtdb) -> None:
    """Characters of up to three bytes that a client sends in several frames are stored whole, whatever the lengths."""
    # Around the limit of a frame and of two, and a count of one digit more.
    lengths = [FRAME + more for more in (-60, -30, -1, 0, 1, FRAME, 99_999 - FRAME)]
    values = {
        f"{name}-{length}": character * length
        for name, character in (("two", "é"), ("three", "漢"))
        for length in lengths
    }
    play("large.sent", values=values)
    assert rtdb.get() == values


# A client gives a transaction up after 25 tries. One is in vain for its cache, and one at most for each of the others'.
EACH = 3


def test_eight_clients_count_exactly(play: Play, rtdb: Rtdb) -> None:
    """Each transaction of eight clients that count at once is counted once, and none sees another one's number."""
    committed = play("transactions.counting", clients=8, each=EACH)
    assert [len(numbers) for numbers in committed] == [EACH] * 8
    assert sorted(number for numbers in committed for number in numbers) == list(range(1, 8 * EACH + 1))
    assert rtdb.get("/counter") == 8 * EACH


def test_a_transaction_works_on_whatever_is_there(play: Play, rtdb: Rtdb) -> None:
    """A client finds the hash of every kind of value: it reruns once on what is there, and commits."""
    values: dict[str, object] = {
        "text": "ünï 🏠",
        "double": 1.1e-7,
        "whole": 2**53,
        "list": ["a", None, "c"],
        "keys": {"10": 1, "9": 2, "a": 3, "-1": 4},
        "units": {"\uff5e": 1, "\U0001f600": 2},
        "tree": {"b": {"c": [True, False]}, ".priority": "p", "a": {".value": 1, ".priority": 2}},
        "large": {f"child-{number}": "x" * 20 for number in range(1000)},
    }
    rtdb.set("/", values)
    before = {place: rtdb.get(f"/{place}") for place in values}
    answers = play("transactions.onAnything", places=list(values))
    assert answers == {place: {"committed": True, "tries": [False, True]} for place in values}
    assert {place: rtdb.get(f"/{place}/now") for place in values} == dict.fromkeys(values, True)
    assert {place: rtdb.get(f"/{place}/was") for place in values} == before


def test_a_transaction_ends_as_its_function_and_the_rules_say(play: Play, rtdb: Rtdb) -> None:
    """One that returns nothing leaves all as it is, a refused one says so, and one applied late is one event."""
    rtdb.set_rules({"rules": {".read": True, "open": {".write": True}}})
    rtdb.set("/open", "taken")
    answer = play("transactions.ends")
    assert answer["kept"] == {"committed": False, "value": "taken"}
    assert answer["refused"]["message"] == "permission_denied"
    assert answer["seen"] == ["taken", "mine now"]
    assert rtdb.get() == {"open": "mine now"}
