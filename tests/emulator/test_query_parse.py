"""The parameters of a query: what they mean, and the words in which they are refused."""

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


@pytest.mark.parametrize("name", [name for name in PARAMETERS if name != "orderBy"])
def test_order_is_needed(name: str) -> None:
    """Every other parameter needs `orderBy` beside it."""
    with pytest.raises(BadRequest) as caught:
        parse_query({name: "1"})
    assert caught.value.text == "orderBy must be defined when other query parameters are defined"


BAD_ORDERS = ["", "a", "1", "null", "[]", '""', '"/"', '"$other"', '"a/$key"', '"a.b"', '".value"', '"', '"\\ud800"']


@pytest.mark.parametrize("text", [*BAD_ORDERS, "[" * 10_000, "\ud800", f'"{"a" * 769}"'])
def test_bad_order(text: str) -> None:
    """`orderBy` is refused if it isn't a JSON string with a path in it."""
    with pytest.raises(BadRequest) as caught:
        ask(text)
    assert caught.value.text == NO_ORDER


ERRORS = [
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
            "",
            "abc",
            "{}",
            "[]",
            "[1]",
            '{},"k"',
            "1,",
            '1,"k","l"',
            "1],[2",
            "NaN",
            "[" * 10_000,
            '"\ud800"',
        )
    ),
    *(
        ({name: text}, NO_KEY)
        for name in ("startAt", "equalTo")
        for text in ("1,2", "1,null", '1,"a/b"', '1,""', "1,[]")
    ),
    *(({"startAt": text}, INVALID) for text in ("1e400", "1" + "0" * 400, '"\\ud800"')),
]


@pytest.mark.parametrize(("parameters", "text"), ERRORS)
def test_bad_query(parameters: dict[str, str], text: str) -> None:
    """What can't be meant is refused, in the words of the database."""
    with pytest.raises(BadRequest) as caught:
        ask(**parameters)
    assert caught.value.text == text


@pytest.mark.parametrize("bound", ["1", "true", "null", '"a","b"'])
def test_bound_by_key(bound: str) -> None:
    """In key order a bound is a string, and needs no second key."""
    with pytest.raises(BadRequest) as caught:
        ask(KEY, startAt=bound)
    assert caught.value.text == NO_STRING


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
@given(st.dictionaries(st.sampled_from(PARAMETERS), TEXTS, max_size=4))
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
