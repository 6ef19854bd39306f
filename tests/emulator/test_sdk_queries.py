"""firebase-admin's `Query` against the emulator: orders, ranges, limits, indexes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import pytest
from firebase_admin import exceptions
from tests.emulator.conftest import Reference, ReferenceTo

from rtdb_emulator.pytest_plugin import Rtdb

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
def dinosaurs(reference: ReferenceTo, rtdb: Rtdb) -> Reference:
    rtdb.set_rules(RULES)
    rtdb.set("/dinosaurs", DINOSAURS)
    return reference("dinosaurs")


@pytest.fixture
def scores(reference: ReferenceTo, rtdb: Rtdb) -> Reference:
    rtdb.set_rules(RULES)
    rtdb.set("/scores", SCORES)
    return reference("scores")


@pytest.mark.parametrize(
    ("ask", "found"),
    [
        (lambda q: q, "ghost trice linhe pterano lambeo stego bruhath"),
        (lambda q: q.start_at(2.1), "lambeo stego bruhath"),
        (lambda q: q.end_at(0.6), "ghost trice linhe pterano"),
        (lambda q: q.start_at(0.5).end_at(4), "linhe pterano lambeo stego"),
        (lambda q: q.equal_to(0.6), "linhe pterano"),
        (lambda q: q.equal_to(True), "trice"),
        (lambda q: q.equal_to(7), ""),
        (lambda q: q.limit_to_first(3), "ghost trice linhe"),
        (lambda q: q.limit_to_last(2), "stego bruhath"),
        (lambda q: q.start_at(0.6).limit_to_first(1), "linhe"),
        (lambda q: q.end_at(4).limit_to_last(2), "lambeo stego"),
    ],
)
def test_order_by_child(dinosaurs: Reference, ask: Ask, found: str) -> None:
    """Nothing comes first, then booleans, then numbers, equal ones by key; a bound itself belongs to the range."""
    assert list(ask(dinosaurs.order_by_child("height")).get()) == found.split()


def test_order_by_a_deeper_child(dinosaurs: Reference) -> None:
    """A query may order by a path below each child, and texts come after all numbers."""
    answer = dinosaurs.order_by_child("size/weight").start_at(6).get()
    assert list(answer) == ["lambeo", "trice", "bruhath", "pterano"]
    assert answer["lambeo"] == DINOSAURS["lambeo"]


@pytest.mark.parametrize(
    ("ask", "found"),
    [
        (lambda q: q, "bruhath ghost lambeo linhe pterano stego trice"),
        (lambda q: q.start_at("linhe"), "linhe pterano stego trice"),
        (lambda q: q.end_at("gz"), "bruhath ghost"),
        (lambda q: q.equal_to("stego"), "stego"),
        (lambda q: q.start_at("c").limit_to_first(2), "ghost lambeo"),
        (lambda q: q.limit_to_last(1), "trice"),
    ],
)
def test_order_by_key(dinosaurs: Reference, ask: Ask, found: str) -> None:
    """A query by key needs no index."""
    assert list(ask(dinosaurs.order_by_key()).get()) == found.split()


@pytest.mark.parametrize(
    ("ask", "found"),
    [
        (lambda q: q, "c e d h a b f"),
        (lambda q: q.start_at(3), "d h a b f"),
        (lambda q: q.end_at(3), "c e d h"),
        (lambda q: q.equal_to("text"), "b"),
        (lambda q: q.limit_to_last(3), "a b f"),
    ],
)
def test_order_by_value(scores: Reference, ask: Ask, found: str) -> None:
    """Values are ordered false, true, numbers, texts, objects; a bound cuts that order and doesn't filter by type."""
    assert list(ask(scores.order_by_value()).get()) == found.split()


def test_keys_that_are_indexes_come_as_a_list(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """The answer to a query is rendered like any value: dense integer keys are a list."""
    rtdb.set("/list", ["a", "b", "c", "d"])
    assert reference("list").order_by_key().limit_to_first(2).get() == ["a", "b"]
    assert reference("list").order_by_key().limit_to_last(1).get() == {"3": "d"}


def test_a_query_of_nothing(reference: ReferenceTo) -> None:
    """A query of an absent node answers None."""
    assert reference("nowhere").order_by_key().limit_to_first(1).get() is None


@pytest.mark.parametrize(
    ("path", "ask", "index", "at"),
    [
        ("dinosaurs", lambda node: node.order_by_child("length"), "length", "/dinosaurs"),
        ("dinosaurs", lambda node: node.order_by_child("size/length"), "size/length", "/dinosaurs"),
        ("dinosaurs", lambda node: node.order_by_value(), ".value", "/dinosaurs"),
        ("scores", lambda node: node.order_by_child("height"), "height", "/scores"),
        ("herds/one/more", lambda node: node.order_by_child("age"), "age", "/herds/one/more"),
    ],
)
def test_a_missing_index_is_named(reference: ReferenceTo, rtdb: Rtdb, path: str, ask: Ask, index: str, at: str) -> None:
    """A query without its index is an InvalidArgumentError that says what to add, and where, for an admin too."""
    rtdb.set_rules(RULES)
    with pytest.raises(exceptions.InvalidArgumentError) as caught:
        ask(reference(path)).get()
    assert str(caught.value) == f'Index not defined, add ".indexOn": "{index}", for path "{at}", to the rules'


def test_an_index_below_a_wildcard(reference: ReferenceTo, rtdb: Rtdb) -> None:
    """An index under `$herd` serves every herd."""
    rtdb.set_rules(RULES)
    rtdb.set("/herds/one", {"a": {"age": 2}, "b": {"age": 1}})
    assert list(reference("herds/one").order_by_child("age").get()) == ["b", "a"]


@pytest.mark.parametrize(
    ("ask", "message"),
    [
        (lambda node: node.order_by_key().limit_to_first(0), "limitToFirst must be positive"),
        (lambda node: node.order_by_key().limit_to_last(0), "limitToLast must be positive"),
        (lambda node: node.order_by_key().start_at(3), "Provided key index type is invalid, must be string"),
        (
            lambda node: node.order_by_key().equal_to("a").start_at("a"),
            "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore",
        ),
        (lambda node: node.order_by_child("height").equal_to([1]), "Constraint index field must be a JSON primitive"),
    ],
)
def test_a_query_that_makes_no_sense_is_refused(dinosaurs: Reference, ask: Ask, message: str) -> None:
    """What the SDK lets pass and the database doesn't is an InvalidArgumentError with the database's words."""
    with pytest.raises(exceptions.InvalidArgumentError) as caught:
        ask(dinosaurs).get()
    assert str(caught.value) == message
