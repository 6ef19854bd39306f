"""firebase-admin's queries, ETags and transactions against the emulator."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from firebase_admin import exceptions

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.conftest import ReferenceTo
from rtdb_emulator_tests.helpers.firebase_apps import Reference

Query: TypeAlias = Any
Ask: TypeAlias = Callable[[Reference], Query]

RULES = {
    "rules": {
        ".read": True,
        ".write": True,
        "dinosaurs": {".indexOn": ["height", "size/weight"]},
        "scores": {".indexOn": ".value"},
        "herds": {"$herd": {".indexOn": "age"}},
    }
}
DINOSAURS = {
    "bruhath": {"height": 25, "size": {"weight": 135}},
    "lambeo": {"height": 2.1, "size": {"weight": 9}},
    "linhe": {"height": 0.6},
    "pterano": {"height": 0.6, "size": {"weight": "unknown"}},
    "stego": {"height": 4, "size": {"weight": 5}},
    "trice": {"height": True, "size": {"weight": 11}},
    "ghost": {"name": "no height at all"},
}
SCORES = {"a": 55, "b": "text", "c": False, "d": 3, "e": True, "f": {"g": 1}, "h": 3}


@pytest.fixture
def node(reference: ReferenceTo, rtdb: Rtdb) -> ReferenceTo:
    """References into a database with rules, dinosaurs and scores."""
    rtdb.set_rules(RULES)
    rtdb.set("/", {"dinosaurs": DINOSAURS, "scores": SCORES})
    return reference


def heights(to: ReferenceTo) -> Query:
    return to("dinosaurs").order_by_child("height")


def weights(to: ReferenceTo) -> Query:
    return to("dinosaurs").order_by_child("size/weight")


def names(to: ReferenceTo) -> Query:
    return to("dinosaurs").order_by_key()


def values(to: ReferenceTo) -> Query:
    return to("scores").order_by_value()


@pytest.mark.parametrize(
    ("ask", "found"),
    [
        # By child, nothing comes first, then booleans, then numbers, equal ones by key.
        (heights, "ghost trice linhe pterano lambeo stego bruhath"),
        (lambda to: heights(to).start_at(2.1), "lambeo stego bruhath"),
        (lambda to: heights(to).end_at(0.6), "ghost trice linhe pterano"),
        (lambda to: heights(to).start_at(0.5).end_at(4), "linhe pterano lambeo stego"),
        (lambda to: heights(to).equal_to(0.6), "linhe pterano"),
        (lambda to: heights(to).equal_to(True), "trice"),
        (lambda to: heights(to).equal_to(7), ""),
        (lambda to: heights(to).limit_to_first(3), "ghost trice linhe"),
        (lambda to: heights(to).limit_to_last(2), "stego bruhath"),
        (lambda to: heights(to).start_at(0.6).limit_to_first(1), "linhe"),
        (lambda to: heights(to).end_at(4).limit_to_last(2), "lambeo stego"),
        # By a path below each child; texts come after all numbers.
        (lambda to: weights(to).start_at(6), "lambeo trice bruhath pterano"),
        # By key, which needs no index.
        (names, "bruhath ghost lambeo linhe pterano stego trice"),
        (lambda to: names(to).start_at("linhe"), "linhe pterano stego trice"),
        (lambda to: names(to).end_at("gz"), "bruhath ghost"),
        (lambda to: names(to).equal_to("stego"), "stego"),
        (lambda to: names(to).start_at("c").limit_to_first(2), "ghost lambeo"),
        (lambda to: names(to).limit_to_last(1), "trice"),
        # By value, false, true, numbers, texts, objects; a bound cuts that order and doesn't filter by type.
        (values, "c e d h a b f"),
        (lambda to: values(to).start_at(3), "d h a b f"),
        (lambda to: values(to).end_at(3), "c e d h"),
        (lambda to: values(to).equal_to("text"), "b"),
        (lambda to: values(to).limit_to_last(3), "a b f"),
    ],
)
def test_a_query_finds_its_window(node: ReferenceTo, ask: Ask, found: str) -> None:
    """The answer has the children of the window in its order, whole; a bound itself belongs to the range."""
    answer = ask(node).get()
    assert list(answer) == found.split()
    assert all(answer[key] == {**DINOSAURS, **SCORES}[key] for key in answer)


def test_an_index_below_a_wildcard(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """An index under `$herd` serves every herd."""
    rtdb.set_rules(RULES)
    rtdb.set("/herds/one", {"a": {"age": 2}, "b": {"age": 1}})
    assert list(reference("herds/one").order_by_child("age").get()) == ["b", "a"]


NO_KEY = "Provided key index type is invalid, must be string"
NO_INDEX = 'Index not defined, add ".indexOn": "{}", for path "{}", to the rules'


@pytest.mark.parametrize(
    ("path", "ask", "message"),
    [
        ("dinosaurs", lambda node: node.order_by_child("size/length"), NO_INDEX.format("size/length", "/dinosaurs")),
        ("dinosaurs", lambda node: node.order_by_value(), NO_INDEX.format(".value", "/dinosaurs")),
        ("herds/one/more", lambda node: node.order_by_child("age"), NO_INDEX.format("age", "/herds/one/more")),
        ("dinosaurs", lambda node: node.order_by_key().limit_to_first(0), "limitToFirst must be positive"),
        ("dinosaurs", lambda node: node.order_by_key().start_at(3), NO_KEY),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(node: ReferenceTo, path: str, ask: Ask, message: str) -> None:
    """What the SDK lets pass and the database doesn't is an InvalidArgumentError with the database's words."""
    with pytest.raises(exceptions.InvalidArgumentError) as caught:
        ask(node(path)).get()
    assert str(caught.value) == message


CLIENTS = 8
INCREMENTS = 50


def test_the_etag_is_the_services_own_hash(reference: ReferenceTo) -> None:
    """The ETag of 600613 is the one that Firebase's announcement of conditional requests shows."""
    reference("a").set(600613)
    assert reference("a").get(etag=True) == (600613, "ViJFJowpbyRvgGNPzPJdGeN+mCY=")


def test_get_if_changed(reference: ReferenceTo) -> None:
    """`get_if_changed` gives value and ETag for an outdated ETag, and nothing but False for the current one."""
    reference("a").set(1)
    changed, value, tag = reference("a").get_if_changed("outdated")
    assert (changed, value) == (True, 1)
    assert reference("a").get_if_changed(tag) == (False, None, None)
    reference("a").set(2)
    assert reference("a").get_if_changed(tag)[:2] == (True, 2)
    assert reference("nowhere").get_if_changed("null_etag") == (False, None, None)


@pytest.mark.parametrize("before", [None, 1, {"n": 1}], ids=str)
@pytest.mark.parametrize("after", [2, {"n": [1, 2]}, {}], ids=str)
def test_set_if_unchanged_writes_over_the_expected_state(
    reference: ReferenceTo, rtdb: Rtdb, before: object, after: object
) -> None:
    """With the current ETag `set_if_unchanged` writes, over nothing as well, and `{}` deletes."""
    rtdb.set("/a", before)
    _, tag = reference("a").get(etag=True)
    assert reference("a").set_if_unchanged(tag, after)[:2] == (True, after)
    assert rtdb.get("/a") == (after or None)


@pytest.mark.parametrize("now", [None, "theirs"], ids=str)
@pytest.mark.parametrize("tag", ["invalid-etag", "AAAAAAAAAAAAAAAAAAAAAAAAAAA="])
@pytest.mark.parametrize("mine", ["mine", {}], ids=str)
def test_set_if_unchanged_leaves_another_state_alone(
    reference: ReferenceTo, rtdb: Rtdb, now: object, tag: str, mine: object
) -> None:
    """With any other ETag nothing is written, and the answer holds the current value and its ETag."""
    rtdb.set("/a", now)
    written, value, current = reference("a").set_if_unchanged(tag, mine)
    assert (written, value) == (False, now)
    assert (value, current) == reference("a").get(etag=True)
    assert rtdb.get("/a") == now


def test_a_transaction_counts(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """A transaction without a rival is one read and one conditional write, also where nothing is yet."""
    assert [reference("n").transaction(lambda seen: (seen or 0) + 1) for _ in range(3)] == [1, 2, 3]
    assert rtdb.get("/n") == 3
    assert (rtdb.count(method="GET"), rtdb.count(method="PUT")) == (3, 3)


def test_a_transaction_that_lost_runs_again_with_the_winners_value(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """The function sees the value that won in between, without another read, and builds on it."""
    seen = []

    def count_up(value: int) -> int:
        seen.append(value)
        if len(seen) == 1:
            rtdb.set("/n", 100)
        return value + 1

    rtdb.set("/n", 1)
    assert reference("n").transaction(count_up) == 101 == rtdb.get("/n")
    assert seen == [1, 100]
    assert (rtdb.count(method="GET"), rtdb.count(method="PUT")) == (1, 2)


def test_a_transaction_that_returns_an_empty_object_deletes(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """`{}` is how a Python transaction deletes its node."""
    rtdb.set("/a/b", {"n": 1})
    assert reference("a/b").transaction(lambda _: {}) == {}
    assert rtdb.get("/") is None
