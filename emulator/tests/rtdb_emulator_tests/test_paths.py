"""Paths: which keys there may be, how URLs become paths and parameters, and push ids."""

from collections.abc import Callable

import pytest

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.ordering import key_order
from rtdb_emulator.paths import (
    ALPHABET,
    MAX_DEPTH,
    PushIds,
    check_depth,
    is_key,
    parse_url_path,
    split_keys,
    split_path,
)

INVALID = "Invalid path: Invalid token in path"
CONTROLS = [chr(code) for code in (*range(0x20), 0x7F)]
GOOD_KEYS = ["a", " ", "-", "0", "a b", "é", "😀", "\x80", "a" * 768, "é" * 384, "😀" * 192]
GOOD_KEYS += ["a~!@%^&*()_+=|\\'\"<>?,;:`"]
BAD_KEYS = ["", *(f"a{character}b" for character in ".$#[]/"), *CONTROLS, "a\n"]
BAD_KEYS += ["a" * 769, "é" * 384 + "a", "😀" * 192 + "a", "\ud800", "a\udfffb"]


@pytest.mark.parametrize("key", GOOD_KEYS)
def test_good_key(key: str) -> None:
    """A key is 1 to 768 bytes of UTF-8, of nearly any characters."""
    assert is_key(key)
    assert split_path(f"/{key}/") == (key,)


@pytest.mark.parametrize("key", BAD_KEYS)
def test_bad_key(key: str) -> None:
    """A key has no `. $ # [ ] /`, no control characters, no halves of characters, and not more than 768 bytes."""
    assert not is_key(key)


def refusal(parser: Callable[[str], object], text: str) -> str:
    with pytest.raises(BadRequest) as caught:
        parser(text)
    return caught.value.text


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
        assert refusal(parser, text) == INVALID


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
    assert refusal(split_keys, text) == INVALID


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
    assert refusal(parse_url_path, raw) == INVALID


NOW = 1_700_000_000_000


def test_shape() -> None:
    """An id is 20 characters of the alphabet, whose order is that of ASCII; the first 8 are the time."""
    assert sorted(ALPHABET) == list(ALPHABET)
    assert len(set(ALPHABET)) == 64
    push_id = PushIds(lambda bits: 1 << (bits - 1)).next(NOW)
    assert push_id[8:] == "V" + "-" * 11
    assert sum(ALPHABET.index(digit) * 64**place for place, digit in enumerate(reversed(push_id[:8]))) == NOW
    assert len(push_id) == 20
    assert is_key(push_id)


def test_chance() -> None:
    """Two sources give different ids in the same millisecond."""
    assert PushIds().next(NOW) != PushIds().next(NOW)


def test_later_ids_sort_later() -> None:
    """Ids sort as they were made: over milliseconds, within one, and when the clock steps back."""
    chance = iter([900, 100, 500, 200])
    source = PushIds(lambda bits: next(chance))
    ids = [source.next(NOW + step) for step in (0, 1, 1, 1, 2, -1000, 1, 2, 64)]
    assert ids == sorted(set(ids), key=key_order)


def test_counts_up_within_a_millisecond() -> None:
    """The second id of a millisecond is the first one plus one, with a carry."""
    source = PushIds(lambda bits: 63)
    assert [source.next(NOW)[8:] for _ in range(2)] == ["-----------z", "----------0-"]


def test_time_after_a_step_back() -> None:
    """While the clock is behind, ids keep the last time; after that they have the clock's."""
    source = PushIds()
    times = [source.next(now)[:8] for now in (NOW, NOW - 5, NOW, NOW + 1)]
    assert times == [PushIds().next(now)[:8] for now in (NOW, NOW, NOW, NOW + 1)]


@pytest.mark.parametrize("now", [NOW, NOW - 1])
def test_used_up_millisecond(now: int) -> None:
    """When the chance part can't be counted up any more, the time is."""
    source = PushIds(lambda bits: 2**bits - 1)
    assert source.next(NOW)[8:] == "z" * 12
    assert source.next(now) == PushIds(lambda bits: 0).next(NOW + 1)
