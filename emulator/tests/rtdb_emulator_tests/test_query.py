"""Queries: what their parameters mean, the words in which they are refused, and what they select, in which order."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import parse
from rtdb_emulator.query import PARAMETERS, Bound, Query, parse_query, parse_shallow
from rtdb_emulator.rules import QueryFacts

KEY = '"$key"'
NOT_PRIMITIVE = "Constraint index field must be a JSON primitive"
NO_KEY = "Constraint key field must be a valid key name"
NO_ORDER = "orderBy must be a valid JSON encoded path"
NO_STRING = "Provided key index type is invalid, must be string"
NEEDS_ORDER = "orderBy must be defined when other query parameters are defined"
ABSENT = "(absent)"
EQUAL_TO = "equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore"
MIXED = "Mixing 'shallow' and querying parameters is not supported"
INVALID = "Invalid data; couldn't parse JSON object, array, or value."


def ask(order: str = '"a"', **parameters: str) -> Query | None:
    return parse_query({"orderBy": order, **parameters})


ORDERS = [
    (KEY, "$key", None),
    ('"$value"', "$value", ".value"),
    ('"$priority"', "$priority", None),
    ('"height"', "height", "height"),
    (' "a/b" ', "a/b", "a/b"),
    ('"/a//b/"', "a/b", "a/b"),
    ('"\\u00e9"', "é", "é"),
]


@pytest.mark.parametrize(("text", "order", "index"), ORDERS)
def test_order(text: str, order: str, index: str | None) -> None:
    """`orderBy` is a JSON string; children and values need an index, keys and priorities none."""
    query = ask(text)
    assert query == Query(order)
    assert query.index == index


START = Bound(3, None, inclusive=True)
QUERIES = [
    ({"startAt": "3"}, Query("a", start=START)),
    ({"startAfter": "3"}, Query("a", start=Bound(3, None, inclusive=False))),
    ({"endAt": "3"}, Query("a", end=START)),
    ({"endBefore": "3"}, Query("a", end=Bound(3, None, inclusive=False))),
    ({"equalTo": "3"}, Query("a", START, START)),
    ({"startAt": '3,"k"'}, Query("a", start=Bound(3, "k", inclusive=True))),
    ({"endBefore": 'null,"k"'}, Query("a", end=Bound(None, "k", inclusive=False))),
    ({"equalTo": '"x", "k"'}, Query("a", *(Bound("x", "k", inclusive=True),) * 2)),
    ({"startAt": "true"}, Query("a", start=Bound(True, None, inclusive=True))),
    ({"startAt": '""'}, Query("a", start=Bound("", None, inclusive=True))),
    ({"startAt": "3.0"}, Query("a", start=START)),
    ({"startAt": '"3,4"'}, Query("a", start=Bound("3,4", None, inclusive=True))),
    ({"limitToFirst": "5"}, Query("a", limit=5)),
    ({"limitToLast": " 5 "}, Query("a", limit=5, from_end=True)),
    ({"startAt": "3", "endAt": "3", "limitToLast": "1"}, Query("a", START, START, 1, from_end=True)),
]


@pytest.mark.parametrize(("parameters", "query"), QUERIES)
def test_query(parameters: dict[str, str], query: Query) -> None:
    """A bound is a JSON primitive, with or without a key; a limit counts from one end or the other."""
    parsed = ask(**parameters)
    assert parsed == query
    assert repr(parsed) == repr(query)


@pytest.mark.parametrize("parameters", [{}, {"ns": "x", "print": "pretty", "shallow": "true", "orderby": "1"}])
def test_no_query(parameters: dict[str, str]) -> None:
    """Without parameters of a query there is none."""
    assert parse_query(parameters) is None


BAD_ORDERS = ["", "a", "1", "null", "[]", "['a']", '""', '"/"', '"$other"', '"a/$key"', '"a.b"', '".value"', '"']
BAD_ORDERS += ['"\\ud800"']


ERRORS: list[tuple[dict[str, str], str]] = [
    # Every other parameter needs `orderBy` beside it, which is a JSON string with a path in it.
    *(({name: "1", "orderBy": ABSENT}, NEEDS_ORDER) for name in sorted(PARAMETERS) if name != "orderBy"),
    *(({"orderBy": text}, NO_ORDER) for text in (*BAD_ORDERS, "[" * 10_000, "\ud800", f'"{"a" * 769}"')),
    # In key order a bound is a string, and needs no second key; no priority is a boolean.
    *(({"orderBy": KEY, "startAt": bound}, NO_STRING) for bound in ("1", "true", "null", '"a","b"')),
    ({"limitToFirst": "1", "limitToLast": "1"}, "Only one of limitToFirst and limitToLast may be specified"),
    ({"startAt": "1", "startAfter": "1"}, "Only one of startAt and startAfter may be specified"),
    ({"endAt": "1", "endBefore": "1"}, "Only one of endAt and endBefore may be specified"),
    *(({"equalTo": "1", other: "1"}, EQUAL_TO) for other in ("startAt", "startAfter", "endAt", "endBefore")),
    *(
        ({name: text}, f"{name} must be an integer")
        for name in ("limitToFirst", "limitToLast")
        for text in ("x", "1.5", '"1"', "1_0", "\u0661", "null", "1e3", "9" * 5000)
    ),
    *(
        ({name: text}, f"{name} must be positive")
        for name in ("limitToFirst", "limitToLast")
        for text in ("0", "-1", "", " ")
    ),
    *(
        ({name: text}, NOT_PRIMITIVE)
        for name in ("startAt", "startAfter", "endAt", "endBefore", "equalTo")
        for text in (
            "", "abc", "{}", "[]", "[1]", '{},"k"', "1,", '1,"k","l"', "1],[2", "NaN", "[" * 10_000, '"\ud800"',
        )
    ),
    *(
        ({name: text}, NO_KEY)
        for name in ("startAt", "equalTo")
        for text in ("1,2", "1,null", '1,"a/b"', '1,""', "1,[]")
    ),
    *(({"startAt": text}, INVALID) for text in ("1e400", "1" + "0" * 400, '"\\ud800"')),
]  # fmt: skip


@pytest.mark.parametrize(("parameters", "text"), ERRORS)
def test_bad_query(parameters: dict[str, str], text: str) -> None:
    """What can't be meant is refused, in the words of the database."""
    asked = {"orderBy": '"a"', **parameters}
    with pytest.raises(BadRequest) as caught:
        parse_query({name: value for name, value in asked.items() if value != ABSENT})
    assert caught.value.text == text


def test_bound_by_priority() -> None:
    """In priority order a bound is no boolean, for no priority is."""
    with pytest.raises(BadRequest, match="Provided priority index type is invalid"):
        ask('"$priority"', startAt="true")


FACTS = [
    (KEY, {"limitToFirst": "2"}, QueryFacts(order_by_key=True, limit_to_first=2)),
    ('"$value"', {"startAt": "1"}, QueryFacts(order_by_value=True, start_at=1)),
    ('"$priority"', {"endAt": '"p"'}, QueryFacts(order_by_priority=True, end_at="p")),
    ('"a/b"', {"limitToLast": "2"}, QueryFacts(order_by_child="a/b", limit_to_last=2)),
    ('"a"', {"equalTo": '"x"'}, QueryFacts(order_by_child="a", start_at="x", end_at="x", equal_to="x")),
    ('"a"', {"startAt": "1", "endAt": "1"}, QueryFacts(order_by_child="a", start_at=1, end_at=1, equal_to=1)),
    ('"a"', {"startAt": "true", "endAt": "1"}, QueryFacts(order_by_child="a", start_at=True, end_at=1)),
    ('"a"', {"startAt": "1", "endBefore": "1"}, QueryFacts(order_by_child="a", start_at=1, end_at=1)),
]


@pytest.mark.parametrize(("order", "parameters", "facts"), FACTS)
def test_facts(order: str, parameters: dict[str, str], facts: QueryFacts) -> None:
    """The rules see the order, the bounds (and what both ends have in common), and the limit."""
    query = ask(order, **parameters)
    assert query is not None
    assert repr(query.facts) == repr(facts)


SHALLOW: list[tuple[dict[str, str], Query | None]] = [
    ({}, None),
    ({"ns": "x", "timeout": "10ms"}, None),
    ({"limitToFirst": "2"}, Query("$key", limit=2)),
    ({"limitToFirst": "2", "startAfter": "key"}, Query("$key", Bound("key", None, inclusive=False), limit=2)),
    ({"startAfter": '"key"'}, Query("$key", Bound("key", None, inclusive=False))),
    ({"startAfter": "10"}, Query("$key", Bound("10", None, inclusive=False))),
    ({"startAfter": "[" * 10_000}, Query("$key", Bound("[" * 10_000, None, inclusive=False))),
    ({"startAfter": ""}, Query("$key", Bound("", None, inclusive=False))),
]


@pytest.mark.parametrize(("parameters", "query"), SHALLOW)
def test_shallow(parameters: dict[str, str], query: Query | None) -> None:
    """Beside `shallow`, the Firebase CLI asks for the first keys after one that it may send bare."""
    assert parse_shallow(parameters) == query


@pytest.mark.parametrize("name", sorted({*PARAMETERS} - {"limitToFirst", "startAfter"}))
def test_bad_shallow(name: str) -> None:
    """No other parameter of a query goes with `shallow`."""
    with pytest.raises(BadRequest) as caught:
        parse_shallow({name: "1", "limitToFirst": "1"})
    assert caught.value.text == MIXED


@pytest.mark.parametrize("text", ["0", "-1", "x"])
def test_bad_limit_of_shallow(text: str) -> None:
    """The limit beside `shallow` is checked as any other."""
    with pytest.raises(BadRequest, match="limitToFirst must be"):
        parse_shallow({"limitToFirst": text})


PIECES = st.sampled_from(
    ['"', "$key", "$value", "$priority", "[", "]", "{", "}", ",", ":", "1", "-", "e999", "null", "\\u"]
)
TEXTS = (
    st.sampled_from([KEY, '"$value"', '"$priority"', '"a"', "1", "true", '"a"', '1,"k"', "null"])
    | st.text(max_size=8)
    | st.text(st.characters(categories=["Cs", "Nd", "Cc"]), max_size=4)
    | st.lists(PIECES, max_size=6).map("".join)
    | st.integers().map(str)
    | st.floats().map(str)
)
TREE = parse({"a": {"a": 1}, "b": {"a": "x", ".priority": 1}, "c": True, "7": {"a": None, "b": 1}, "d": -0.5}, now=0)


@settings(max_examples=500)
@given(st.dictionaries(st.sampled_from(sorted(PARAMETERS)), TEXTS, max_size=4))
def test_any_parameters(parameters: dict[str, str]) -> None:
    """Whatever the parameters are, they are a BadRequest or a query that selects."""
    for parser in (parse_query, parse_shallow):
        try:
            query = parser(parameters)
        except BadRequest:
            continue
        if query is not None:
            assert set(query.keys(TREE)) <= set(TREE.children)
            assert query.facts is not None


def chosen(data: object, order: str, **parameters: str) -> str:
    """The selected keys, in order."""
    query = parse_query({"orderBy": f'"{order}"', **parameters})
    assert query is not None
    return " ".join(query.keys(parse(data, now=0)))


VALUES = {
    "object2": {"z": 1}, "object1": {"a": 1}, "b": "b", "a": "a", "ten": 10, "two": 2, "half": 0.5, "minus": -1,
    "true": True, "false": False,
}  # fmt: skip
# In value order the bounds cut through all types, and the limit takes what they leave.
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


# Integers come before other keys, and the bounds are keys too.
NUMBERED = dict.fromkeys(["b", "a", "10", "9", "-1", "2147483648"], 1)
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

# Nothing comes first, then numbers, then strings.
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

# Who lacks the child that orders counts as null, below all others.
CHILDREN = {"object": {"x": {"y": 1}}, "string": {"x": "s"}, "number": {"x": 1}, "lacks": {"z": 1}, "leaf": 7}
BY_CHILD = [
    ({}, "lacks leaf number string object"),
    ({"startAt": "0"}, "number string object"),
    ({"endAt": "1"}, "lacks leaf number"),
    ({"equalTo": "null"}, "lacks leaf"),
    ({"startAfter": "null"}, "number string object"),
]


BY_ORDER: list[tuple[str, dict[str, object], list[tuple[dict[str, str], str]]]] = [
    ("$value", {**VALUES}, BY_VALUE),
    ("$key", {**NUMBERED}, BY_KEY),
    ("$priority", {**PRIORITIES}, BY_PRIORITY),
    ("x", {**CHILDREN}, BY_CHILD),
]


@pytest.mark.parametrize(
    ("order", "data", "parameters", "keys"), [(order, data, *row) for order, data, rows in BY_ORDER for row in rows]
)
def test_an_order(order: str, data: object, parameters: dict[str, str], keys: str) -> None:
    """The children are in their order, and a window is cut out of it by bounds and a limit."""
    assert chosen(data, order, **parameters) == keys


@pytest.mark.parametrize("data", [None, 5, "text"])
@pytest.mark.parametrize("order", ["$key", "$value", "$priority", "x"])
def test_no_children(data: object, order: str) -> None:
    """Of a leaf, and of nothing, a query selects nothing."""
    assert chosen(data, order) == ""


SHALLOW_KEYS = [
    ({"limitToFirst": "2"}, ["9", "10"]),
    ({"limitToFirst": "2", "startAfter": "9"}, ["10", "a"]),
    ({"limitToFirst": "2", "startAfter": '"10"'}, ["a", "b"]),
    ({"startAfter": "a"}, ["b"]),
    ({"startAfter": "z"}, []),
]


@pytest.mark.parametrize(("parameters", "keys"), SHALLOW_KEYS)
def test_shallow_keys(parameters: dict[str, str], keys: list[str]) -> None:
    """A shallow read may be of the first keys, after a certain one."""
    query = parse_shallow(parameters)
    assert query is not None
    assert (query.keys(parse({"b": 1, "a": 1, "10": 1, "9": 1}, now=0))) == keys
