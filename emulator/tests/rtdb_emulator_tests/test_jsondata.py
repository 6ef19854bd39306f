"""JSON data: what may be written, what is stored of it, and what is read back."""

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator.database import ADMIN, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import as_array, decode, decode_patch, encode, parse, parse_priority, render
from rtdb_emulator.paths import is_key
from rtdb_emulator.tree import EMPTY, Node, leaf

INVALID = "Invalid data; couldn't parse JSON object, array, or value."


def node(data: object) -> Node:
    return parse(data, now=0)


def refusal(read: Callable[..., object], *given: Any, **more: Any) -> str:
    with pytest.raises(BadRequest) as caught:
        read(*given, **more)
    return caught.value.text


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


EMPTIES: list[object] = [None, {}, [], {"a": None}, {"a": {"b": {}}}, [None], {".value": None}, {".priority": 1}]
EMPTIES += [{".value": None, ".priority": 1}, {"a": None, ".priority": 1}]


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
    {"a": 1, ".priority": True}, {"a": 1, ".priority": {}}, {"a": 1, ".priority": [1]},
    {"a": 1, ".priority": {".value": 1}}, {"a": 1, ".priority": "\ud800"}, {".value": 1, "a": 1},
    {".value": None, "a": 1}, {".value": {}}, {".value": []}, {".value": {"a": 1}}, {".value": ["a"], ".priority": 1},
    {".value": {".value": 1}}, {".sv": "timestamp", "a": 1}, {".sv": "timestamp", ".priority": 1}, {".info": 1},
    {"": 1}, {"a/b": 1}, {"a": [{"$b": 1}]}, {"a\n": 1}, {"\ud800": 1},
]  # fmt: skip


@pytest.mark.parametrize("data", BAD_DATA)
def test_bad_data(data: object) -> None:
    """Priorities of other types, `.value` beside or above children, and keys that can't be, are refused."""
    assert refusal(node, data) == INVALID


@pytest.mark.parametrize("priority", [None, 0, -1.5, "", "p"])
def test_priority_by_itself(priority: str | float | None) -> None:
    """A priority may also be written by itself: a number, a string, or none."""
    assert parse_priority(priority, now=0) == priority


@pytest.mark.parametrize("data", [True, [], {}, {".value": 1}, {".sv": "timestamp", "a": 1}, "\ud800", 10**400])
def test_bad_priority_by_itself(data: object) -> None:
    """What is neither number nor string nor null is no priority."""
    assert refusal(parse_priority, data, now=0) == INVALID


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


NOW = 1_700_000_000_000
TIMESTAMP = {".sv": "timestamp"}


def increment(by: object) -> dict[str, object]:
    return {".sv": {"increment": by}}


def written(data: object, before: object = None) -> object:
    existing = parse(before, now=0)
    return render(parse(data, now=NOW, existing=existing), priorities=True, arrays=False)


TIMESTAMPS: list[tuple[object, object]] = [
    (TIMESTAMP, NOW),
    ({"a": [TIMESTAMP, {"b": TIMESTAMP}]}, {"a": {"0": NOW, "1": {"b": NOW}}}),
    ({".value": TIMESTAMP, ".priority": 1}, {".value": NOW, ".priority": 1}),
    ({".value": "a", ".priority": TIMESTAMP}, {".value": "a", ".priority": NOW}),
    ({"a": TIMESTAMP, ".priority": TIMESTAMP}, {"a": NOW, ".priority": NOW}),
]


@pytest.mark.parametrize(("data", "stored"), TIMESTAMPS)
def test_timestamp(data: object, stored: object) -> None:
    """A timestamp is the server's time, the same wherever it is written."""
    assert written(data) == stored


INCREMENTS: list[tuple[object, object, object]] = [
    (5, 3, 8),
    (5, -7, -2),
    (5, 0.5, 5.5),
    (0.5, 1, 1.5),
    (1.5, 1.5, 3),
    (0, 0, 0),
    (2**53, 1, 2**53 + 1),
    (2**53 + 1, 2, 2**53 + 3),
    (2**63 - 2, 1, 2**63 - 1),
    (2**63 - 1, 1, 2.0**63),
    (-(2**63), -1, -(2.0**63)),
    (2**63 - 1, 2**63, 2.0**64),
    (None, 3, 3),
    (None, 1.5, 1.5),
    (None, 2.0, 2),
    ("5", 3, 3),
    (True, 3, 3),
    ({"a": 5}, 3, 3),
    ([5], 3, 3),
]


@pytest.mark.parametrize(("before", "by", "after"), INCREMENTS)
def test_increment(before: object, by: object, after: object) -> None:
    """An increment adds to a number, and stands for itself where none is; an integer that overflows is a double."""
    stored = written(increment(by), before)
    assert stored == after
    assert type(stored) is type(after)


def test_several_increments() -> None:
    """Each increment of one write adds to what was in its own place, in arrays and `.value` too."""
    before = {"a": 1, "b": [10, 20], "c": {".value": 100, ".priority": 1}, "d": 1}
    data = {"a": increment(1), "b": [increment(2), increment(3)], "c": {".value": increment(4)}, "e": increment(5)}
    assert written(data, before) == {"a": 2, "b": {"0": 12, "1": 23}, "c": 104, "e": 5}


@pytest.mark.parametrize(("before", "after"), [(None, 2), ({".value": 9, ".priority": 5}, 7), ({"a": 9}, 2)])
def test_increment_of_a_priority(before: object, after: int) -> None:
    """An increment within a priority adds to the priority that was there, not to the value."""
    assert written({".value": 1, ".priority": increment(2)}, before) == {".value": 1, ".priority": after}


@pytest.mark.parametrize(("before", "after"), [(None, 2), (5, 7), ("5", 2)])
def test_increment_of_a_priority_by_itself(before: str | int | None, after: int) -> None:
    """An increment may also be written as the priority alone."""
    assert parse_priority(increment(2), now=NOW, existing=before) == after
    assert parse_priority(TIMESTAMP, now=NOW, existing=before) == NOW


UNKNOWN: list[object] = [
    *("Timestamp", "unknown", "", None, 5, True, [], ["timestamp"], {}, {"timestamp": {}}, "\ud800"),
    *({"increment": by} for by in ("1", None, True, {".sv": "timestamp"})),
    {"increment": 1, "decrement": 1},
]


@pytest.mark.parametrize("operation", UNKNOWN)
def test_unrecognized(operation: object) -> None:
    """Any other server value is refused, as value and as priority."""
    for data in ({".sv": operation}, {"a": {".value": 1, ".priority": {".sv": operation}}}):
        with pytest.raises(BadRequest, match="unrecognized server value"):
            written(data)


@pytest.mark.parametrize(
    ("before", "by"), [(1e308, 1e308), (1, float("inf")), (None, 10**400), (0.5, 10**400), (1, float("nan"))]
)
def test_increment_beyond_doubles(before: object, by: float) -> None:
    """An increment that would leave the range of doubles is refused."""
    with pytest.raises(BadRequest, match="couldn't parse JSON"):
        written(increment(by), before)


INVALID_OBJECT = "Invalid data; couldn't parse JSON object. Are you sending a JSON object with valid key names?"

MIB_10 = 10 * 1024 * 1024


def stored(body: bytes) -> Node:
    return parse(decode(body), now=0)


def nested(levels: int, innermost: object = 1) -> object:
    data = innermost
    for level in range(levels):
        data = {"a": data} if level % 2 else [data]
    return data


@pytest.mark.parametrize(
    ("key", "stays"), [("a" * 768, True), ("a" * 769, False), ("é" * 384, True), ("é" * 385, False)]
)
def test_key_length(key: str, stays: bool) -> None:
    """A key has up to 768 bytes of UTF-8."""
    if stays:
        assert parse({key: 1}, now=0).child(key).value == 1
    else:
        with pytest.raises(BadRequest):
            parse({key: 1}, now=0)


@pytest.mark.parametrize("above", [0, 1, 31, 32])
@pytest.mark.parametrize("innermost", [1, {".value": 1, ".priority": 1}, {".sv": "timestamp"}])
def test_depth(above: int, innermost: object) -> None:
    """A tree has up to 32 levels of keys, counted from the root and not from the place that is written."""
    parse(nested(32 - above, innermost), now=0, depth=above)
    with pytest.raises(BadRequest, match="33 levels deep, 32 are allowed"):
        parse(nested(33 - above, innermost), now=0, depth=above)


def test_null_has_no_depth() -> None:
    """A null below the last level is dropped as anywhere else."""
    parse(nested(32, {"a": None, "b": None}), now=0)


@pytest.mark.parametrize("character", ["a", "é", "😀"])
def test_string_length(character: str) -> None:
    """A string has up to 10 MiB of UTF-8, as a value and as a priority."""
    longest = character * (MIB_10 // len(character.encode()))
    assert parse(longest, now=0).value == longest
    assert parse_priority(longest, now=0) == longest
    for parser in (parse, parse_priority):
        with pytest.raises(BadRequest, match=f"a string has {MIB_10 + 1} bytes, {MIB_10} are allowed"):
            parser(f"{longest}a", now=0)


NO_DATA = [
    *(
        b" ", b"{", b"[1,]", b'{"a":1,}', b"{'a':1}", b"undefined", b"1 2", b'"\n"', b"\xff", b'"\xc3"',
        b"\xef\xbb\xbf1",
    ),
    *(b'"\xed\xa0\x80"', b"NaN", b"Infinity", b"-Infinity", b'{"a":[NaN]}', b"1e400", b"-1e400", b"1" + b"0" * 400),
    *(b"1" + b"0" * 5000, b'"\\ud800"', b'"a\\udfffb"', b'{"\\ud800":1}', b'{"a":1,".priority":1e400}'),
    *(b'{"a":1,".priority":"\\ud800"}', b'{".sv":{"increment":1e400}}'),
]  # fmt: skip


@pytest.mark.parametrize("body", NO_DATA)
def test_no_data(body: bytes) -> None:
    """A body that isn't JSON, isn't UTF-8, or holds numbers and strings that can't be stored, is refused."""
    assert refusal(stored, body) == INVALID


OPENINGS = [b"[", b'{"a":', b'{".value":', b'{".priority":', b'{".sv":']


@pytest.mark.parametrize("levels", [40, 300, 500, 800, 900, 10_000])
@pytest.mark.parametrize("opening", OPENINGS)
def test_nesting(opening: bytes, levels: int) -> None:
    """Nesting without end is refused, of whatever kind, be it deeper than the decoder goes or not."""
    closing = b"]" if opening == b"[" else b"}"
    for body in (opening * levels, opening * levels + b"1" + closing * levels):
        with pytest.raises(BadRequest):
            stored(body)


def test_empty_body() -> None:
    """A request without a body is told so, a PATCH too."""
    for decoder in (decode, decode_patch):
        assert refusal(decoder, b"") == "Error: No data supplied."


@pytest.mark.parametrize("body", [b"[]", b"1", b"true", b'"a"', b"{", b"\xff", b"[" * 10_000])
def test_no_object(body: bytes) -> None:
    """The body of a PATCH is an object, or null."""
    assert decode_patch(b'{"a":1}') == {"a": 1}
    assert decode_patch(b"null") is None
    assert refusal(decode_patch, body) == INVALID_OBJECT


@pytest.mark.parametrize("text", ["a", "é", "😀", "\x00", "\\", '"'])
def test_every_character(text: str) -> None:
    """A string may hold any character, escaped or not."""
    for body in (json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode()):
        assert stored(body).value == text


Json: TypeAlias = object

KEYS = st.sampled_from(["a", "b", "0", "1", "2", "-0", "00", "é", "😀"]) | st.text(max_size=5).filter(is_key)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
ANY_NUMBER = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.booleans() | ANY_NUMBER | TEXTS
PLAIN = st.recursive(
    st.none() | LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def with_priorities(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    priority = st.fixed_dictionaries({".priority": ANY_NUMBER | TEXTS})
    leaf = st.fixed_dictionaries({".value": LEAVES})
    return st.builds(lambda data, extra: {**data, **extra}, st.dictionaries(KEYS, inner, max_size=4) | leaf, priority)


EXPORTED = st.recursive(
    LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=4) | with_priorities(inner), max_leaves=12
)


def normal(data: Json) -> Json:
    """What is stored_of of plain JSON: no nulls and nothing empty, no arrays, one form a number."""
    if isinstance(data, list):
        data = {str(index): item for index, item in enumerate(data)}
    if isinstance(data, dict):
        return {key: kept for key, item in data.items() if (kept := normal(item)) is not None} or None
    if isinstance(data, bool) or not isinstance(data, int | float):
        return data
    if isinstance(data, float):
        return int(data) if data.is_integer() and -(2**63) <= data < 2**63 else data
    return data if -(2**63) <= data < 2**63 else float(data)


def reversed_everywhere(data: Json) -> Json:
    if isinstance(data, dict):
        return {key: reversed_everywhere(item) for key, item in reversed(data.items())}
    return data


def stored_of(data: Json) -> Node:
    return parse(data, now=0)


@given(PLAIN, st.lists(KEYS, max_size=3))
def test_what_is_written_is_read(data: Json, path: list[str]) -> None:
    """What is written anywhere is read back there, as itself or in its normal form, over JSON too."""
    database = Database("test", lambda: 0)
    database.write(tuple(path), decode(encode(data)), ADMIN)
    node = database.read(tuple(path), ADMIN)
    assert render(node, arrays=False) == normal(data)
    assert repr(render(node, arrays=False)) == repr(render(stored_of(normal(data)), arrays=False))
    assert normal(render(node)) == normal(data)


@given(EXPORTED)
def test_an_export_is_imported_as_it_was(data: Json) -> None:
    """A node's export makes the same node, with its hash."""
    node = stored_of(data)
    again = stored_of(decode(encode(render(node, priorities=True, arrays=False))))
    assert again == node
    assert again.hash == node.hash


@given(EXPORTED)
def test_order_of_writing_is_nothing(data: Json) -> None:
    """A node and its hash don't depend on the order in which its members came."""
    one, other = stored_of(data), stored_of(reversed_everywhere(data))
    assert one == other
    assert one.hash == other.hash


@given(EXPORTED, EXPORTED)
def test_hashes_tell_nodes_apart(data: Json, other: Json) -> None:
    """Two nodes have the same hash if they are the same as doubles, and not otherwise."""
    assert (stored_of(data).hash == stored_of(other).hash) == (doubles(stored_of(data)) == doubles(stored_of(other)))


def doubles(node: Node) -> Json:
    """A node with all its numbers as doubles, which is what a hash sees of it."""

    def seen(value: Json) -> Json:
        return repr(float(value)) if isinstance(value, int | float) and not isinstance(value, bool) else repr(value)

    return seen(node.value), seen(node.priority), {key: doubles(child) for key, child in node.children.items()}


@given(st.binary(max_size=20) | st.text('[]{}:,"\\.svalue-0123456789eE ', max_size=30).map(str.encode))
def test_any_body(body: bytes) -> None:
    """Any body is data or a BadRequest."""
    with suppress(BadRequest):
        parse(decode(body), now=0)
