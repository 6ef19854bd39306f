"""JSON in and out: arrays, priorities, numbers, and what `shallow` and printing make of a node."""

import json

import pytest

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import as_array, decode, encode, parse, parse_priority, render
from rtdb_emulator.tree import EMPTY, Node, leaf

INVALID = "Invalid data; couldn't parse JSON object, array, or value."


def node(data: object) -> Node:
    return parse(data, now=0)


ARRAYS_IN = [
    ([1, 2], {"0": 1, "1": 2}),
    (["a", "b", None, "c"], {"0": "a", "1": "b", "3": "c"}),
    ([None, {"x": None}, [], 1], {"3": 1}),
    ([[1], [[2]]], {"0": {"0": 1}, "1": {"0": {"0": 2}}}),
    ([None, {}], None),
    ([], None),
]


@pytest.mark.parametrize(("data", "stored"), ARRAYS_IN)
def test_array_in(data: object, stored: object) -> None:
    """An array is stored as an object with its indexes as keys, without what is null."""
    assert render(node(data), arrays=False) == stored


ARRAYS_OUT = [
    ({"0": 1}, [1]),
    ({"1": 1}, [None, 1]),
    ({"2": 1}, {"2": 1}),
    ({"1": 1, "2": 2}, [None, 1, 2]),
    ({"0": 1, "3": 2}, [1, None, None, 2]),
    ({"0": 1, "4": 2}, {"0": 1, "4": 2}),
    ({"2": 1, "4": 2}, {"2": 1, "4": 2}),
    ({"3": 1, "4": 2, "5": 3}, [None, None, None, 1, 2, 3]),
    ({"01": 1}, {"01": 1}),
    ({"0": 1, "01": 2}, {"0": 1, "01": 2}),
    ({"-0": 1}, {"-0": 1}),
    ({"0": 1, "a": 2}, {"0": 1, "a": 2}),
    ({"\u0660": 1}, {"\u0660": 1}),
    ({"9" * 700: 1}, {"9" * 700: 1}),
    ({"a": {"0": {"1": 1}}}, {"a": [[None, 1]]}),
    ({str(index): index for index in range(12)}, list(range(12))),
]


@pytest.mark.parametrize(("data", "shown"), ARRAYS_OUT)
def test_array_out(data: dict[str, object], shown: object) -> None:
    """An object is shown as an array if all its keys are indexes and the largest is below twice their number."""
    assert render(node(data)) == shown


@pytest.mark.parametrize("data", [data for data, _ in ARRAYS_OUT])
def test_export_has_no_arrays(data: dict[str, object]) -> None:
    """An export shows every object as an object."""
    assert render(node(data), priorities=True, arrays=False) == data


def test_array_of_nothing() -> None:
    """A query that selects no child shows an object."""
    assert as_array({}) == {}


EMPTIES: list[object] = [
    None,
    {},
    [],
    {"a": None},
    {"a": {"b": {}}},
    [None],
    {".value": None},
    {".value": None, ".priority": 1},
    {".priority": 1},
    {"a": None, ".priority": 1},
]


@pytest.mark.parametrize("data", EMPTIES)
def test_nothing(data: object) -> None:
    """What holds no value is nothing, whatever its form and priority."""
    assert node(data) is EMPTY
    assert render(node({"a": data, "b": 1})) == {"b": 1}


# What is sent, what a read shows, what an export shows.
PRIORITIES: list[tuple[object, object, object]] = [
    ({".value": 5}, 5, 5),
    ({".value": "a", ".priority": 1}, "a", {".value": "a", ".priority": 1}),
    ({".value": False, ".priority": "p"}, False, {".value": False, ".priority": "p"}),
    ({".value": 5, ".priority": None}, 5, 5),
    ({".value": 0, ".priority": ""}, 0, {".value": 0, ".priority": ""}),
    ({".value": 0, ".priority": 0}, 0, {".value": 0, ".priority": 0}),
    ({".value": 0, ".priority": 1.0}, 0, {".value": 0, ".priority": 1}),
    ({"a": 1, ".priority": 1.5}, {"a": 1}, {"a": 1, ".priority": 1.5}),
    ({"a": {".value": 1, ".priority": 2}}, {"a": 1}, {"a": {".value": 1, ".priority": 2}}),
    ({"0": 1, ".priority": 2}, [1], {"0": 1, ".priority": 2}),
    ([{".value": 1, ".priority": 2}], [1], {"0": {".value": 1, ".priority": 2}}),
]


@pytest.mark.parametrize(("data", "plain", "exported"), PRIORITIES)
def test_priorities(data: object, plain: object, exported: object) -> None:
    """Leaves and objects take a priority, which a read leaves out and an export shows."""
    assert render(node(data)) == plain
    assert render(node(data), priorities=True, arrays=False) == exported
    assert node(exported) == node(data)


BAD_DATA: list[object] = [
    {"a": 1, ".priority": True},
    {"a": 1, ".priority": {}},
    {"a": 1, ".priority": [1]},
    {"a": 1, ".priority": {".value": 1}},
    {"a": 1, ".priority": "\ud800"},
    {".value": 1, "a": 1},
    {".value": None, "a": 1},
    {".value": {}},
    {".value": []},
    {".value": {"a": 1}},
    {".value": ["a"], ".priority": 1},
    {".value": {".value": 1}},
    {".sv": "timestamp", "a": 1},
    {".sv": "timestamp", ".priority": 1},
    {".info": 1},
    {"": 1},
    {"a/b": 1},
    {"a": [{"$b": 1}]},
    {"a\n": 1},
    {"\ud800": 1},
]


@pytest.mark.parametrize("data", BAD_DATA)
def test_bad_data(data: object) -> None:
    """Priorities of other types, `.value` beside or above children, and keys that can't be, are refused."""
    with pytest.raises(BadRequest) as caught:
        node(data)
    assert caught.value.text == INVALID


@pytest.mark.parametrize("priority", [None, 0, -1.5, "", "p"])
def test_priority_by_itself(priority: str | float | None) -> None:
    """A priority may also be written by itself: a number, a string, or none."""
    assert parse_priority(priority, now=0) == priority


@pytest.mark.parametrize("data", [True, [], {}, {".value": 1}, {".sv": "timestamp", "a": 1}, "\ud800", 10**400])
def test_bad_priority_by_itself(data: object) -> None:
    """What is neither number nor string nor null is no priority."""
    with pytest.raises(BadRequest) as caught:
        parse_priority(data, now=0)
    assert caught.value.text == INVALID


NUMBERS = [
    ("1", "1"),
    ("1.0", "1"),
    ("-1e3", "-1000"),
    ("-0", "0"),
    ("-0.0", "0"),
    ("0.1", "0.1"),
    ("1e-7", "1e-07"),
    ("5e-324", "5e-324"),
    ("1e-400", "0"),
    ("1e18", "1000000000000000000"),
    ("1e21", "1e+21"),
    ("1.7976931348623157e308", "1.7976931348623157e+308"),
    (str(2**53 + 1), str(2**53 + 1)),
    (str(2**63 - 1), str(2**63 - 1)),
    (str(-(2**63)), str(-(2**63))),
    (f"{-(2**63)}.0", str(-(2**63))),
    (str(2**63), "9.223372036854776e+18"),
    (f"{2**63}.0", "9.223372036854776e+18"),
    (str(-(2**63) - 1), "-9.223372036854776e+18"),
    (str(10**30), "1e+30"),
]


@pytest.mark.parametrize(("sent", "shown"), NUMBERS)
def test_number(sent: str, shown: str) -> None:
    """64-bit integers stay what they are, other numbers are doubles, and a whole number has no fraction."""
    for data, expected in ((sent, shown), (f'{{"a":[{sent}]}}', f'{{"a":[{shown}]}}')):
        assert encode(render(node(decode(data.encode())))).decode() == expected
    exported = render(node({".value": 1, ".priority": json.loads(sent)}), priorities=True)
    assert encode(exported).decode() == f'{{".value":1,".priority":{shown}}}'


def test_keys_are_in_order() -> None:
    """An object is shown in key order, its priority last."""
    shown = render(node({".priority": 1, "b": 1, "10": 1, "9": 1, "a": 1}), priorities=True)
    assert isinstance(shown, dict)
    assert list(shown) == ["9", "10", "a", "b", ".priority"]


def test_encode() -> None:
    """JSON is printed without spaces and as UTF-8, or pretty, with the colon set apart."""
    data = {"é": [1, {"a": None}]}
    assert encode(data) == '{"é":[1,{"a":null}]}'.encode()
    assert encode(data, pretty=True).decode() == ('{\n  "é" : [\n    1,\n    {\n      "a" : null\n    }\n  ]\n}\n')


@pytest.mark.parametrize("data", [(1, 2), {1, 2}, b"a", object(), [object()]])
def test_no_json(data: object) -> None:
    """What JSON doesn't know is a mistake of the program, and not of the request."""
    with pytest.raises(TypeError, match="is not JSON"):
        node(data)


def test_leaf_and_array_are_distinct() -> None:
    """A string that looks like JSON stays a string."""
    assert node("[1]") == leaf("[1]")
