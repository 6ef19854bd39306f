"""Whatever is written: what is read back, and what it doesn't depend on."""

from contextlib import suppress
from typing import TypeAlias

from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator.database import ADMIN, Database
from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import decode, encode, parse, render
from rtdb_emulator.paths import is_key
from rtdb_emulator.tree import Node

Json: TypeAlias = object

KEYS = st.sampled_from(["a", "b", "0", "1", "2", "-0", "00", "é", "😀"]) | st.text(max_size=5).filter(is_key)
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=5)
NUMBERS = st.integers(-(2**70), 2**70) | st.floats(allow_nan=False, allow_infinity=False)
LEAVES = st.booleans() | NUMBERS | TEXTS
PLAIN = st.recursive(
    st.none() | LEAVES,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


def with_priorities(inner: st.SearchStrategy[Json]) -> st.SearchStrategy[Json]:
    priority = st.fixed_dictionaries({".priority": NUMBERS | TEXTS})
    leaf = st.fixed_dictionaries({".value": LEAVES})
    return st.builds(lambda data, extra: {**data, **extra}, st.dictionaries(KEYS, inner, max_size=4) | leaf, priority)


EXPORTED = st.recursive(
    LEAVES, lambda inner: st.dictionaries(KEYS, inner, max_size=4) | with_priorities(inner), max_leaves=12
)


def normal(data: Json) -> Json:
    """What is stored of plain JSON: no nulls and nothing empty, no arrays, one form a number."""
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


def stored(data: Json) -> Node:
    return parse(data, now=0)


@given(PLAIN, st.lists(KEYS, max_size=3))
def test_what_is_written_is_read(data: Json, path: list[str]) -> None:
    """What is written anywhere is read back there, as itself or in its normal form, over JSON too."""
    database = Database("test", lambda: 0)
    database.write(tuple(path), decode(encode(data)), ADMIN)
    node = database.read(tuple(path), ADMIN)
    assert render(node, arrays=False) == normal(data)
    assert repr(render(node, arrays=False)) == repr(render(stored(normal(data)), arrays=False))
    assert normal(render(node)) == normal(data)


@given(EXPORTED)
def test_an_export_is_imported_as_it_was(data: Json) -> None:
    """A node's export makes the same node, with its hash."""
    node = stored(data)
    again = stored(decode(encode(render(node, priorities=True, arrays=False))))
    assert again == node
    assert again.hash == node.hash


@given(EXPORTED)
def test_order_of_writing_is_nothing(data: Json) -> None:
    """A node and its hash don't depend on the order in which its members came."""
    one, other = stored(data), stored(reversed_everywhere(data))
    assert one == other
    assert one.hash == other.hash


@given(EXPORTED, EXPORTED)
def test_hashes_tell_nodes_apart(data: Json, other: Json) -> None:
    """Two nodes have the same hash if they are the same as doubles, and not otherwise."""
    assert (stored(data).hash == stored(other).hash) == (doubles(stored(data)) == doubles(stored(other)))


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
