"""The hash of a node, which is its ETag: as the official clients compute it."""

import json
from base64 import b64encode
from hashlib import sha1
from pathlib import Path

import pytest

from rtdb_emulator.database import etag
from rtdb_emulator.jsondata import parse
from rtdb_emulator.tree import EMPTY

# Computed by the official JavaScript client.
VECTORS = [
    *json.loads((Path(__file__).parent / "data" / "hash-vectors.json").read_text("utf-8")),
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
