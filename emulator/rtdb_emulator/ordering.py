"""The three orders of RTDB: by key, by value, by priority.

Each function returns a tuple that sorts as the database sorts its argument. Values or priorities may be equal: then the
caller sorts by key, as RTDB does. No two keys are equal. Texts are in the order of their UTF-16 units, as the SDKs for
JavaScript and Java have it: in another order a node would have another hash than theirs, and their transactions would
be stale each time.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Generator, Iterable
from heapq import merge
from itertools import islice
from typing import TypeAlias

Scalar: TypeAlias = str | int | float | bool
SortKey: TypeAlias = tuple[int | float | str, ...]

_INTEGER = re.compile(r"(-?)0*([0-9]{1,10})\Z")
_DIGITS = frozenset("0123456789")
_FIRST = _DIGITS | {"-"}
_LETTERS = ":"  # the character after the last digit
RUN = 5_000  # keys that are sorted at once
_FIRST_WORD: SortKey = (1,)  # the integers come before it
_INT32 = range(-(2**31), 2**31)
# Characters of two units.
_PAIR = re.compile("[\U00010000-\U0010ffff]")


def key_order(key: str) -> SortKey:
    """Return the sort key of a key.

    Keys that look like integers come first, in numeric order ("7" before "007"). All others follow, as texts. The last
    item is the key.
    """
    if (match := _INTEGER.match(key)) and (number := int(match[1] + match[2])) in _INT32:
        return (0, number, len(key), key)
    return (1, key) if key.isascii() else (1, _units(key), key)


def in_key_order(keys: Iterable[str]) -> list[str]:
    """Return the keys in the order of `key_order`."""
    ordered = list(keys)
    ordered.sort(key=None if all(map(str.isascii, ordered)) else _units)
    # An integer begins with a digit or a minus sign. Most keys begin with a letter, and all these come later.
    end = bisect_left(ordered, _LETTERS)
    if end == 0:
        return ordered
    integers, words = [], []
    for key in ordered[:end]:
        # Most of them don't end in a digit: they need no closer look.
        if key[-1:] in _DIGITS and key[:1] in _FIRST and (order := key_order(key))[0] == 0:
            integers.append(order)
        else:
            words.append(key)
    integers.sort()
    return [str(key) for *_, key in integers] + words + ordered[end:]


def ordering(keys: Iterable[str]) -> Generator[None, None, list[str]]:
    """Return the same for many keys, and yield after a few milliseconds of work."""
    rest = iter(keys)
    integers: list[list[str]] = []
    words: list[str] = []
    while run := in_key_order(islice(rest, RUN)):
        end = bisect_left(run, _FIRST_WORD, key=key_order)
        integers.append(run[:end])
        words += run[end:]
        yield
    words.sort(key=None if all(map(str.isascii, words)) else _units)  # quick, because the runs are sorted
    yield
    ordered = []
    for number, key in enumerate(merge(*integers, key=key_order)):
        ordered.append(key)
        if number % RUN == 0:
            yield
    return ordered + words


def priority_order(priority: str | float | None) -> SortKey:
    """Return the sort key of a priority: None, then numbers, then strings."""
    if priority is None:
        return (0,)
    return (2, _units(priority)) if isinstance(priority, str) else (1, priority)


def value_order(value: Scalar | None, *, is_object: bool = False) -> SortKey:
    """Return the sort key of a value: None, false, true, numbers, strings, objects. All objects are equal."""
    if is_object:
        return (5,)
    if value is None:
        return (0,)
    if isinstance(value, bool):
        return (2,) if value else (1,)
    return (4, _units(value)) if isinstance(value, str) else (3, value)


def _units(text: str) -> str:
    """Return a text that sorts as the UTF-16 units of this one do."""
    return text if text.isascii() else _PAIR.sub(_as_pair, text)


def _as_pair(character: re.Match[str]) -> str:
    high, low = divmod(ord(character[0]) - 0x10000, 0x400)
    return chr(0xD800 + high) + chr(0xDC00 + low)
