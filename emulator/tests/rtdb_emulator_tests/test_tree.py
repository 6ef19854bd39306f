"""The tree: writes make new trees that share what they don't change, and nodes have the official clients' hashes."""

import json
from base64 import b64encode
from dataclasses import dataclass
from hashlib import sha1
from pathlib import Path as FilePath

import pytest

from rtdb_emulator.database import etag
from rtdb_emulator.jsondata import parse, render
from rtdb_emulator.tree import EMPTY, Node, Path, branch, leaf


def node(data: object) -> Node:
    return parse(data, now=0)


def keys(text: str) -> Path:
    return tuple(text.split("/")) if text else ()


@dataclass(frozen=True)
class Put:
    """`new` written at `path` of `before` leaves `after`."""

    before: object
    path: str
    new: object
    after: object


PUTS = {
    "on nothing": Put(None, "", 1, 1),
    "deep on nothing": Put(None, "a/b/c", 1, {"a": {"b": {"c": 1}}}),
    "replaces": Put({"a": 1, "b": 2}, "a", "x", {"a": "x", "b": 2}),
    "replaces whole subtrees": Put({"a": {"b": 1, "c": 2}}, "a", {"d": 3}, {"a": {"d": 3}}),
    "replaces a priority": Put({".value": 1, ".priority": 2}, "", 3, 3),
    "the root": Put({"a": 1}, "", {"b": 1}, {"b": 1}),
    "below a leaf": Put({"a": 5}, "a/b/c", 1, {"a": {"b": {"c": 1}}}),
    "below a leaf keeps its priority": Put(
        {"a": {".value": 5, ".priority": "p"}}, "a/b", 1, {"a": {"b": 1, ".priority": "p"}}
    ),
    "below an object keeps its priority": Put({"b": 1, ".priority": 7}, "c", 2, {"b": 1, "c": 2, ".priority": 7}),
    "delete the root": Put({"a": 1}, "", None, None),
    "delete one of two": Put({"a": {"b": 1, "c": 2}}, "a/b", None, {"a": {"c": 2}}),
    "delete keeps priorities": Put({"b": 1, "c": 2, ".priority": 7}, "c", None, {"b": 1, ".priority": 7}),
    "delete the last child": Put({"a": {"b": {"c": 1}}, "d": 1}, "a/b/c", None, {"d": 1}),
    "delete the last child of all": Put({"a": {"b": {"c": 1}}}, "a/b/c", None, None),
    "a priority doesn't keep an object": Put({"a": {"b": 1, ".priority": 7}}, "a/b", None, None),
}

NOTHING_CHANGES = {
    "delete below a leaf": ({"a": 5}, "a/b"),
    "delete far below a leaf": ({"a": 5}, "a/b/c/d"),
    "delete below nothing": ({"a": 5}, "b/c"),
    "delete a missing child": ({"a": {"b": 1}}, "a/c"),
    "delete in the absent tree": (None, "a/b"),
    "delete the absent tree": (None, ""),
}


@pytest.mark.parametrize("case", PUTS.values(), ids=PUTS.keys())
def test_put(case: Put) -> None:
    """A write replaces what is at its path, makes the objects above it, and takes those away that it empties."""
    after = node(case.before).put(keys(case.path), node(case.new))
    assert render(after, priorities=True, arrays=False) == case.after
    assert after == node(case.after)
    assert after.at(keys(case.path)) == node(case.new)


@pytest.mark.parametrize(("before", "path"), NOTHING_CHANGES.values(), ids=NOTHING_CHANGES.keys())
def test_delete_of_nothing(before: object, path: str) -> None:
    """Deleting what isn't there gives the same tree."""
    tree = node(before)
    assert tree.put(keys(path), EMPTY) is tree


def test_delete_to_the_end_is_empty() -> None:
    """A tree that has lost its last leaf is `EMPTY` itself."""
    assert node({"a": {"b": 1, ".priority": 1}}).put(("a", "b"), EMPTY) is EMPTY
    assert branch({}, 5) is EMPTY


@pytest.mark.parametrize("case", PUTS.values(), ids=PUTS.keys())
def test_old_tree_stays(case: Put) -> None:
    """The tree before a write is the same afterwards, its hash too."""
    before = node(case.before)
    old_hash = before.hash
    before.put(keys(case.path), node(case.new))
    assert render(before, priorities=True, arrays=False) == case.before
    assert before.hash == old_hash == node(case.before).hash


def test_siblings_are_shared() -> None:
    """A write copies the nodes on its path and no other."""
    before = node({"a": {"b": 1, "c": {"d": 1}}, "e": {"f": 1}})
    after = before.put(("a", "b"), leaf(2))
    assert after.child("e") is before.child("e")
    assert after.at(("a", "c")) is before.at(("a", "c"))


def test_hash_follows_a_write() -> None:
    """A write changes the hash of every node above it, and leaves the others'."""
    before = node({"a": {"b": 1}, "c": 1})
    hashes = before.hash, before.child("a").hash, before.child("c").hash
    after = before.put(("a", "b"), leaf(2))
    anew = after.hash, after.child("a").hash, after.child("c").hash
    assert [new == old for new, old in zip(anew, hashes, strict=True)] == [False, False, True]


def test_with_priority() -> None:
    """A priority is put on a leaf and on an object, replaced, taken away, and has no effect on nothing."""
    for data in (1, {"a": 1}):
        assert node(data).with_priority("p").priority == "p"
        assert node(data).with_priority("p").with_priority(None) == node(data)
    assert EMPTY.with_priority(1) is EMPTY


@pytest.mark.parametrize("path", ["b", "a/b", "a/b/c"])
def test_at_is_empty_where_nothing_is(path: str) -> None:
    """There is nothing beside and below what is stored."""
    assert node({"a": 1}).at(keys(path)) is EMPTY


SAME = [(1, 1.0), ({"a": 1, "b": 2}, {"b": 2, "a": 1}), ([1, 2], {"0": 1, "1": 2}), ({"a": None}, None)]
DIFFERENT = [
    (1, True),
    (0, False),
    (1, "1"),
    (0, None),
    ("", None),
    ({"a": 1}, {"a": 2}),
    ({"a": 1}, {"b": 1}),
    ({"a": True}, {"a": 1}),
    (1, {".value": 1, ".priority": 1}),
    ({"a": 1, ".priority": 1}, {"a": 1, ".priority": 2}),
    ({"a": 1, ".priority": 1}, {"a": 1, ".priority": "1"}),
]


@pytest.mark.parametrize(
    ("one", "other", "same"), [*((*pair, True) for pair in SAME), *((*pair, False) for pair in DIFFERENT)]
)
def test_equal(one: object, other: object, same: bool) -> None:
    """Nodes are equal, and have one hash, when they hold the same: type, value, key and priority."""
    assert (node(one) == node(other)) is same
    assert (node(one).hash == node(other).hash) is same


def test_compared_with_something_else() -> None:
    """A node equals nothing that is no node."""
    assert leaf(1) != 1


def test_repr() -> None:
    """A node shows what it holds, its priority only where it has one."""
    assert repr(branch({"a": leaf(1)}, 2)) == "Node({'a': 1}, priority=2)"


# Computed by the official JavaScript client.
VECTORS = [
    *json.loads((FilePath(__file__).parent / "data" / "hash-vectors.json").read_text("utf-8")),
    (1, "YPVfR2bXt/lcDjiQZ8pOkAd3qkQ="),
    (10, "+r5aI9HvKKagELki8SYKBk0q7D4="),
    (600613, "ViJFJowpbyRvgGNPzPJdGeN+mCY="),
    ({"a": 5, "arr": ["p", "q", None, "s"], "b": {"c": 1}}, "KXeXaCjrcZqLqrjO5TXo61oeXkc="),
]


def sha(text: str) -> str:
    return b64encode(sha1(text.encode(), usedforsecurity=False).digest()).decode()


def hash_of(data: object) -> str:
    return parse(data, now=0).hash


@pytest.mark.parametrize(("data", "expected"), VECTORS)
def test_vector(data: object, expected: str) -> None:
    """A node's hash, and so its ETag, is what the official client computes for it."""
    assert hash_of(data) == expected
    assert etag(parse(data, now=0)) == expected


def test_nothing() -> None:
    """Nothing has no hash, and the ETag `null_etag`."""
    assert EMPTY.hash == ""
    assert etag(EMPTY) == "null_etag"


ONE = "number:3ff0000000000000"
TEXTS = [
    (True, "boolean:true"),
    (False, "boolean:false"),
    ("é", "string:é"),
    (1, ONE),
    (2**53 + 1, "number:4340000000000000"),
    (2**63, "number:43e0000000000000"),
    ({".value": True, ".priority": 1}, f"priority:{ONE}:boolean:true"),
    ({".value": 1, ".priority": "p"}, f"priority:string:p:{ONE}"),
    ({"a": 1, ".priority": "p"}, f"priority:string:p::a:{sha(ONE)}"),
    ({"10": 1, "9": 1, "b": 1, "-3": 1}, "".join(f":{key}:{sha(ONE)}" for key in ("-3", "9", "10", "b"))),
    (
        {"b": 1, "c": {".value": 1, ".priority": "p"}, "a": {".value": 1, ".priority": 1}},
        f":b:{sha(ONE)}:a:{sha(f'priority:{ONE}:{ONE}')}:c:{sha(f'priority:string:p:{ONE}')}",
    ),
]


@pytest.mark.parametrize(("data", "text"), TEXTS)
def test_text(data: object, text: str) -> None:
    """The hash is that of a text: the priority, then a leaf's type and value, or the children by priority and key."""
    assert hash_of(data) == sha(text)


@pytest.mark.parametrize("zeros", [("-0", "00"), ("000", "-00")])
def test_order_is_total(zeros: tuple[str, str]) -> None:
    """Two keys that are the same number and equally long still have one order, whichever was written first."""
    one, other = zeros
    assert hash_of({one: 1, other: 2}) == hash_of({other: 2, one: 1})
