"""What a query selects, in which order."""

import pytest

from rtdb_emulator.jsondata import parse
from rtdb_emulator.query import parse_query, parse_shallow


def chosen(data: object, order: str, **parameters: str) -> str:
    """The selected keys, in order."""
    query = parse_query({"orderBy": f'"{order}"', **parameters})
    assert query is not None
    return " ".join(query.keys(parse(data, now=0)))


VALUES = {
    "object2": {"z": 1},
    "object1": {"a": 1},
    "b": "b",
    "a": "a",
    "ten": 10,
    "two": 2,
    "half": 0.5,
    "minus": -1,
    "true": True,
    "false": False,
}
BY_VALUE = [
    ({}, "false true minus half two ten a b object1 object2"),
    # A bound cuts the order of all types; it isn't a filter by type.
    ({"startAt": "2"}, "two ten a b object1 object2"),
    ({"startAfter": "2"}, "ten a b object1 object2"),
    ({"endAt": "2"}, "false true minus half two"),
    ({"endBefore": "2"}, "false true minus half"),
    ({"equalTo": "2"}, "two"),
    ({"equalTo": "2.0"}, "two"),
    ({"equalTo": '"2"'}, ""),
    ({"equalTo": "true"}, "true"),
    ({"equalTo": "1"}, ""),
    ({"equalTo": "null"}, ""),
    ({"startAt": "true"}, "true minus half two ten a b object1 object2"),
    ({"endBefore": "true"}, "false"),
    ({"startAt": '"a"'}, "a b object1 object2"),
    ({"startAfter": '"b"'}, "object1 object2"),
    ({"endAt": '"a"'}, "false true minus half two ten a"),
    ({"startAt": "null", "endAt": "null"}, ""),
    ({"startAt": "0", "endBefore": '""'}, "half two ten"),
    ({"startAt": "5", "endAt": "4"}, ""),
    ({"limitToFirst": "3"}, "false true minus"),
    ({"limitToLast": "3"}, "b object1 object2"),
    ({"limitToFirst": "100"}, "false true minus half two ten a b object1 object2"),
    ({"limitToLast": "100"}, "false true minus half two ten a b object1 object2"),
    ({"startAt": "0", "endAt": "10", "limitToFirst": "2"}, "half two"),
    ({"startAt": "0", "endAt": "10", "limitToLast": "2"}, "two ten"),
]


@pytest.mark.parametrize(("parameters", "keys"), BY_VALUE)
def test_by_value(parameters: dict[str, str], keys: str) -> None:
    """In value order the bounds cut through all types, and the limit takes what they leave."""
    assert chosen(VALUES, "$value", **parameters) == keys


TIES = {"d": 1, "c": 2, "b": 2, "a": 2, "10": 2, "9": 2, "e": 3}
BY_TIE = [
    ({}, "d 9 10 a b c e"),
    ({"startAt": '2,"b"'}, "b c e"),
    ({"startAfter": '2,"b"'}, "c e"),
    ({"startAfter": "2"}, "e"),
    ({"endAt": '2,"b"'}, "d 9 10 a b"),
    ({"endBefore": '2,"b"'}, "d 9 10 a"),
    ({"endBefore": "2"}, "d"),
    ({"startAt": '2,"10"', "endAt": '2,"a"'}, "10 a"),
    ({"equalTo": "2"}, "9 10 a b c"),
    ({"equalTo": '2,"b"'}, "b"),
    ({"equalTo": '2,"d"'}, ""),
    ({"startAt": '1.5,"z"'}, "9 10 a b c e"),
    ({"equalTo": "2", "limitToFirst": "2"}, "9 10"),
    ({"equalTo": "2", "limitToLast": "2"}, "b c"),
]


@pytest.mark.parametrize("order", ["$value", "x", "x/y", "$priority"])
@pytest.mark.parametrize(("parameters", "keys"), BY_TIE)
def test_ties(order: str, parameters: dict[str, str], keys: str) -> None:
    """Equal values, children and priorities are ordered by key, and a bound with a key cuts between them."""
    shapes = {
        "$value": TIES,
        "x": {key: {"x": value} for key, value in TIES.items()},
        "x/y": {key: {"x": {"y": value}} for key, value in TIES.items()},
        "$priority": {key: {".value": "v", ".priority": value} for key, value in TIES.items()},
    }
    assert chosen(shapes[order], order, **parameters) == keys


KEYS = dict.fromkeys(["b", "a", "10", "9", "-1", "2147483648"], 1)
BY_KEY = [
    ({}, "-1 9 10 2147483648 a b"),
    ({"startAt": '"9"'}, "9 10 2147483648 a b"),
    ({"startAt": '"5"', "endAt": '"a"'}, "9 10 2147483648 a"),
    ({"startAfter": '"9"', "endBefore": '"a"'}, "10 2147483648"),
    ({"equalTo": '"10"'}, "10"),
    ({"equalTo": '"010"'}, ""),
    ({"startAt": '""'}, "2147483648 a b"),
    ({"limitToFirst": "2"}, "-1 9"),
    ({"limitToLast": "2"}, "a b"),
]


@pytest.mark.parametrize(("parameters", "keys"), BY_KEY)
def test_by_key(parameters: dict[str, str], keys: str) -> None:
    """In key order integers come before other keys, and the bounds are keys too."""
    assert chosen(KEYS, "$key", **parameters) == keys


PRIORITIES = {
    "string": {".value": 1, ".priority": "a"},
    "ten": {"x": 1, ".priority": 10},
    "two": {".value": 1, ".priority": 2},
    "none": 5,
}
BY_PRIORITY = [
    ({}, "none two ten string"),
    ({"startAt": "2"}, "two ten string"),
    ({"endAt": "2"}, "none two"),
    ({"startAfter": "null"}, "two ten string"),
    ({"equalTo": "null"}, "none"),
    ({"equalTo": '"a"'}, "string"),
    ({"endBefore": '""'}, "none two ten"),
]


@pytest.mark.parametrize(("parameters", "keys"), BY_PRIORITY)
def test_by_priority(parameters: dict[str, str], keys: str) -> None:
    """In priority order nothing comes first, then numbers, then strings."""
    assert chosen(PRIORITIES, "$priority", **parameters) == keys


CHILDREN = {
    "object": {"x": {"y": 1}},
    "string": {"x": "s"},
    "number": {"x": 1},
    "lacks": {"z": 1},
    "leaf": 7,
}
BY_CHILD = [
    ({}, "lacks leaf number string object"),
    ({"startAt": "0"}, "number string object"),
    ({"endAt": "1"}, "lacks leaf number"),
    ({"equalTo": "null"}, "lacks leaf"),
    ({"startAfter": "null"}, "number string object"),
]


@pytest.mark.parametrize(("parameters", "keys"), BY_CHILD)
def test_by_child(parameters: dict[str, str], keys: str) -> None:
    """Who lacks the child that orders counts as null, below all others."""
    assert chosen(CHILDREN, "x", **parameters) == keys


@pytest.mark.parametrize("data", [None, 5, "text"])
@pytest.mark.parametrize("order", ["$key", "$value", "$priority", "x"])
def test_no_children(data: object, order: str) -> None:
    """Of a leaf, and of nothing, a query selects nothing."""
    assert chosen(data, order) == ""


SHALLOW = [
    ({"limitToFirst": "2"}, ["9", "10"]),
    ({"limitToFirst": "2", "startAfter": "9"}, ["10", "a"]),
    ({"limitToFirst": "2", "startAfter": '"10"'}, ["a", "b"]),
    ({"startAfter": "a"}, ["b"]),
    ({"startAfter": "z"}, []),
]


@pytest.mark.parametrize(("parameters", "keys"), SHALLOW)
def test_shallow(parameters: dict[str, str], keys: list[str]) -> None:
    """A shallow read may be of the first keys, after a certain one."""
    query = parse_shallow(parameters)
    assert query is not None
    assert (query.keys(parse({"b": 1, "a": 1, "10": 1, "9": 1}, now=0))) == keys
