"""Keys and paths: which are legal, and how a text becomes a path."""

import pytest

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.paths import MAX_DEPTH, check_depth, is_key, parse_url_path, split_keys, split_path

INVALID = "Invalid path: Invalid token in path"
CONTROLS = [chr(code) for code in (*range(0x20), 0x7F)]
GOOD_KEYS = [
    "a",
    " ",
    "-",
    "0",
    "a b",
    "é",
    "😀",
    "\x80",
    "a" * 768,
    "é" * 384,
    "😀" * 192,
    "a~!@%^&*()_+=|\\'\"<>?,;:`",
]
BAD_KEYS = [
    "",
    *(f"a{character}b" for character in ".$#[]/"),
    *CONTROLS,
    "a\n",
    "a" * 769,
    "é" * 384 + "a",
    "😀" * 192 + "a",
    "\ud800",
    "a\udfffb",
]


@pytest.mark.parametrize("key", GOOD_KEYS)
def test_good_key(key: str) -> None:
    """A key is 1 to 768 bytes of UTF-8, of nearly any characters."""
    assert is_key(key)
    assert split_path(f"/{key}/") == (key,)


@pytest.mark.parametrize("key", BAD_KEYS)
def test_bad_key(key: str) -> None:
    """A key has no `. $ # [ ] /`, no control characters, no halves of characters, and not more than 768 bytes."""
    assert not is_key(key)


PATHS = [
    ("", ()),
    ("/", ()),
    ("a", ("a",)),
    ("/a/b", ("a", "b")),
    ("//a///b//", ("a", "b")),
    ("/.priority", (".priority",)),
    ("/a/.priority/", ("a", ".priority")),
    ("/".join("a" * MAX_DEPTH), ("a",) * MAX_DEPTH),
    ("/".join([*"a" * MAX_DEPTH, ".priority"]), (*("a",) * MAX_DEPTH, ".priority")),
]
BAD_PATHS = [".priority/a", ".priority/.priority", "a/.value", ".sv", ".info/connected", "a/b.json", "$a", "a\x00"]


@pytest.mark.parametrize(("text", "path"), PATHS)
def test_path(text: str, path: tuple[str, ...]) -> None:
    """Empty segments don't count, and `.priority` may be the last."""
    assert split_path(text) == parse_url_path(text) == path


@pytest.mark.parametrize("text", BAD_PATHS)
def test_bad_path(text: str) -> None:
    """A path with a segment that is no key is refused."""
    for parser in (split_path, parse_url_path, split_keys):
        with pytest.raises(BadRequest) as caught:
            parser(text)
        assert caught.value.text == INVALID


def test_too_deep() -> None:
    """A path has 32 levels, not 33."""
    for parser in (split_path, parse_url_path):
        with pytest.raises(BadRequest, match="it has 33 levels, 32 are allowed"):
            parser("a/" * 33)
    check_depth(32)
    with pytest.raises(BadRequest, match="33 levels deep, 32 are allowed"):
        check_depth(33)


@pytest.mark.parametrize("text", ["", "/", "//"])
def test_no_keys(text: str) -> None:
    """A path inside of data names at least one key."""
    assert split_keys("a/b") == ("a", "b")
    with pytest.raises(BadRequest) as caught:
        split_keys(text)
    assert caught.value.text == INVALID


ENCODED = [
    ("/sp%20ace/%C3%A9/%25", ("sp ace", "é", "%")),
    ("/a%3Ab", ("a:b",)),
    ("/a+b", ("a+b",)),
    ("/a/%2Epriority", ("a", ".priority")),
]


@pytest.mark.parametrize(("raw", "path"), ENCODED)
def test_percent_encoding(raw: str, path: tuple[str, ...]) -> None:
    """Each segment of a URL's path is percent-decoded once, as UTF-8."""
    assert parse_url_path(raw) == path


@pytest.mark.parametrize("raw", ["%FF", "a%C3", "%", "a%2", "%zz", "%%25", "a%2Fb", "%2E", "a%00", "%ED%A0%80", "%5B"])
def test_bad_percent_encoding(raw: str) -> None:
    """What is no key once it is decoded, or can't be decoded, is refused."""
    with pytest.raises(BadRequest) as caught:
        parse_url_path(raw)
    assert caught.value.text == INVALID
