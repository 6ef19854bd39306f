"""The limits of written data, and bodies that are none: always a BadRequest, never another error."""

import json

import pytest

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import decode, decode_patch, parse, parse_priority
from rtdb_emulator.tree import Node

INVALID = "Invalid data; couldn't parse JSON object, array, or value."
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
    b" ",
    b"{",
    b"[1,]",
    b'{"a":1,}',
    b"{'a':1}",
    b"undefined",
    b"1 2",
    b'"\n"',
    b"\xff",
    b'"\xc3"',
    b'"\xed\xa0\x80"',
    b"\xef\xbb\xbf1",
    b"NaN",
    b"Infinity",
    b"-Infinity",
    b'{"a":[NaN]}',
    b"1e400",
    b"-1e400",
    b"1" + b"0" * 400,
    b"1" + b"0" * 5000,
    b'"\\ud800"',
    b'"a\\udfffb"',
    b'{"\\ud800":1}',
    b'{"a":1,".priority":1e400}',
    b'{"a":1,".priority":"\\ud800"}',
    b'{".sv":{"increment":1e400}}',
]


@pytest.mark.parametrize("body", NO_DATA)
def test_no_data(body: bytes) -> None:
    """A body that isn't JSON, isn't UTF-8, or holds numbers and strings that can't be stored, is refused."""
    with pytest.raises(BadRequest) as caught:
        stored(body)
    assert caught.value.text == INVALID


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
        with pytest.raises(BadRequest) as caught:
            decoder(b"")
        assert caught.value.text == "Error: No data supplied."


@pytest.mark.parametrize("body", [b"[]", b"1", b"true", b'"a"', b"{", b"\xff", b"[" * 10_000])
def test_no_object(body: bytes) -> None:
    """The body of a PATCH is an object, or null."""
    assert decode_patch(b'{"a":1}') == {"a": 1}
    assert decode_patch(b"null") is None
    with pytest.raises(BadRequest) as caught:
        decode_patch(body)
    assert caught.value.text == INVALID_OBJECT


@pytest.mark.parametrize("text", ["a", "é", "😀", "\x00", "\\", '"'])
def test_every_character(text: str) -> None:
    """A string may hold any character, escaped or not."""
    for body in (json.dumps(text).encode(), json.dumps(text, ensure_ascii=False).encode()):
        assert stored(body).value == text
