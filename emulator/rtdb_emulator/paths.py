"""Keys and paths: their limits, how a URL's path and query become keys and parameters, and push ids."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import lru_cache
from random import SystemRandom
from urllib.parse import parse_qsl, unquote

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.tree import Path

MAX_DEPTH = 32
MAX_KEY_BYTES = 768
PRIORITY = ".priority"

_NAMESPACE = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,62}\Z")
_KEY = re.compile(r"[^.$#\[\]/\x00-\x1f\x7f]+\Z")
_BROKEN_ENCODING = re.compile(r"%(?![0-9A-Fa-f]{2})")
_INVALID_TOKEN = "Invalid path: Invalid token in path"
_MOST_KNOWN = 4096

_known: dict[str, str] = {}


def is_namespace(name: str) -> bool:
    """Return whether a database may have this name: the first label of a host name, with underscores."""
    return _NAMESPACE.match(name) is not None


def is_key(key: str) -> bool:
    """Return whether RTDB accepts a key: 1 to 768 bytes of UTF-8, no `. $ # [ ] /`, no control characters."""
    if _KEY.match(key) is None:
        return False
    if key.isascii():
        return len(key) <= MAX_KEY_BYTES
    try:
        return len(key.encode()) <= MAX_KEY_BYTES
    except UnicodeEncodeError:  # half of a surrogate pair is not a character
        return False


def known_key(key: str) -> str | None:
    """Return the key if RTDB accepts it, else None. A key that comes often is one text, and is checked once."""
    known = _known.get(key)
    if known is None and is_key(key):
        if len(_known) >= _MOST_KNOWN:
            _known.clear()
        _known[key] = key
        return key
    return known


def split_path(text: str) -> Path:
    """Return the keys of a path such as `/a/b`, without empty segments. Raises BadRequest for an invalid key."""
    return _checked([segment for segment in text.split("/") if segment])


def split_keys(text: str) -> Path:
    """Return the keys of a path inside data (a key of a PATCH). Raises BadRequest for an empty path."""
    path = split_path(text)
    if not path:
        raise BadRequest(_INVALID_TOKEN)
    return path


@lru_cache(1_000)  # clients ask for the same nodes again and again
def parse_url_path(raw: str) -> Path:
    """Return the keys of a URL's percent-encoded path, whose `.json` the caller has removed."""
    return _checked([_decoded(segment) for segment in raw.split("/") if segment])


@lru_cache(1_000)
def shown_path(raw: str) -> str:
    """Return a URL's percent-encoded path as a log shows it: decoded, without `.json`, whatever keys it has."""
    return "/" + "/".join(filter(None, unquote(raw.removesuffix(".json")).split("/")))


def check_depth(depth: int) -> None:
    if depth > MAX_DEPTH:
        raise BadRequest(f"Invalid data; the tree would be {depth} levels deep, {MAX_DEPTH} are allowed.")


def parse_url_query(raw: str) -> dict[str, str]:
    """Return the parameters of a URL's percent-encoded query."""
    return dict(_parameters(raw))


@lru_cache(1_000)
def _parameters(raw: str) -> list[tuple[str, str]]:
    try:
        if not _BROKEN_ENCODING.search(raw):
            return parse_qsl(raw, keep_blank_values=True, errors="strict")
    except UnicodeDecodeError:
        pass  # the error is below
    raise BadRequest("Invalid query: its percent-encoding is broken")


def _decoded(segment: str) -> str:
    try:
        if not _BROKEN_ENCODING.search(segment):
            return unquote(segment, errors="strict")
    except UnicodeDecodeError:
        pass  # the error is below
    raise BadRequest(_INVALID_TOKEN)


def _checked(keys: list[str]) -> Path:
    # `.priority` is a virtual child: any path may end in it.
    stored = keys[:-1] if keys and keys[-1] == PRIORITY else keys
    for key in stored:
        if not is_key(key):
            raise BadRequest(_INVALID_TOKEN)
    if len(stored) > MAX_DEPTH:
        raise BadRequest(f"Invalid path: it has {len(stored)} levels, {MAX_DEPTH} are allowed.")
    return tuple(keys)


# --- push ids: 20 characters that sort by time, and by order within one millisecond

ALPHABET = "-0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ_abcdefghijklmnopqrstuvwxyz"
_TIME_LENGTH = 8
_TAIL_BITS = 72


class PushIds:
    """A source of push ids: 8 characters of time, then 12 random ones, which count up within one millisecond.

    If the clock steps back, the ids don't: they keep the last time until the clock has passed it.
    """

    def __init__(self, random_bits: Callable[[int], int] | None = None) -> None:
        self._random_bits = random_bits or SystemRandom().getrandbits
        self._time = -1
        self._tail = 0

    def next(self, now: int) -> str:
        if now > self._time:
            self._time = now
            self._tail = self._random_bits(_TAIL_BITS)
        else:
            self._tail += 1
            if self._tail >> _TAIL_BITS:  # the millisecond is used up
                self._time += 1
                self._tail = 0
        return _digits(self._time, _TIME_LENGTH) + _digits(self._tail, 12)


def _digits(number: int, length: int) -> str:
    digits = []
    for _ in range(length):
        number, digit = divmod(number, 64)
        digits.append(ALPHABET[digit])
    return "".join(reversed(digits))
