"""The three orders: by key, by value, by priority."""

from collections.abc import Generator
from itertools import combinations
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator import ordering
from rtdb_emulator.ordering import Scalar, SortKey, in_key_order, key_order, priority_order, value_order

KEYS = [
    "-2147483648", "-10", "-9", "-009", "0", "-0", "00", "1", "01", "7", "007", "10", "2147483647", "00002147483647",
    # From here on they are strings: too large, no number, or not as numbers are written.
    "", "+1", "--1", "-2147483649", "1\n", "1 ", "10000000000", "1e3", "2147483648", "99999999999", "A", "[MIN_NAME]",
    "a", "a1", "b", "é",
    "\u0661",  # a digit, but no ASCII one
    "\ud7ff",
    "😀",  # two units, of which the first is \ud83d
    "\U0010ffff", "\uff5e", "\uffee",
]  # fmt: skip

VALUES: list[tuple[Scalar | None, bool]] = [
    *((value, False) for value in (None, False, True, -1e308, -1, 0, 0.5, 1, 2**53, 2**53 + 1, 1e308)),
    *((value, False) for value in ("", "10", "9", "a", "😀", "\uff5e")),
    (None, True),
]

PRIORITIES = [None, -1.5, 0, 1, 10, "", "1", "a", "😀", "\uff5e"]


def ascends(keys: list[SortKey]) -> bool:
    return all(first < second for first, second in combinations(keys, 2))


def test_keys() -> None:
    """Keys that are 32-bit integers come first, by number and then by length; the others follow as strings."""
    assert ascends([key_order(key) for key in KEYS])


def end_of(steps: Generator[None, None, list[str]]) -> list[str]:
    while True:
        try:
            next(steps)
        except StopIteration as end:
            ordered: list[str] = end.value
            return ordered


@given(st.sets(st.one_of(st.text(max_size=3), st.from_regex(r"-?[0-9]{1,11}", fullmatch=True), st.sampled_from(KEYS))))
def test_keys_are_sorted_by_their_order(keys: set[str]) -> None:
    """Whatever the keys, they are sorted as the sort key of each says; at once and in steps."""
    assert in_key_order(keys) == end_of(ordering.ordering(keys)) == sorted(keys, key=key_order)


def test_many_keys_are_sorted_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many keys, integers and words mixed, are sorted as at once, and the work is cut into many steps."""
    monkeypatch.setattr(ordering, "RUN", 10)
    keys = [*map(str, range(-300, 300)), *(f"00{number}" for number in range(50)), *(f"-k{n}" for n in range(300))]
    Random(3).shuffle(keys)
    assert end_of(ordering.ordering(keys)) == sorted(keys, key=key_order)
    assert len(list(ordering.ordering(keys))) > len(keys) / 10


def test_values() -> None:
    """Nothing, false, true, numbers, strings and objects follow one another, each kind in its own order."""
    assert ascends([value_order(value, is_object=is_object) for value, is_object in VALUES])


def test_priorities() -> None:
    """No priority comes first, then numbers, then strings."""
    assert ascends([priority_order(priority) for priority in PRIORITIES])


@pytest.mark.parametrize("digits", [1, 11, 768, 5000])
def test_many_zeros(digits: int) -> None:
    """Leading zeros don't count, however many there are."""
    assert key_order("0" * digits + "5")[:2] == key_order("5")[:2]
