"""Members in tables: the same as in a dict, at every size, and what others hold of them never changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator import table
from rtdb_emulator.steps import at_once
from rtdb_emulator.table import Members, Table, compact, filling, with_member, without

KEYS = st.sampled_from([f"k{number}" for number in range(40)])
STEPS = st.lists(st.tuples(KEYS, st.one_of(st.none(), st.integers(0, 3))), max_size=80)


@pytest.fixture(autouse=True, scope="module")
def _early_tables() -> Any:
    """Tables from the third member on, so that a few keys grow and shrink through several of them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(table, "SMALL", 2)
        yield


def check(members: Members[int], model: dict[str, int]) -> None:
    assert dict(members.items()) == model
    assert (len(members), sorted(members)) == (len(model), sorted(model))
    assert sorted(members.values()) == sorted(model.values())
    assert [members.get(f"k{number}") for number in range(40)] == [model.get(f"k{number}") for number in range(40)]
    assert [members[key] for key in model] == list(model.values())


@given(STEPS)
def test_a_table_is_a_dict_that_never_changes(steps: list[tuple[str, int | None]]) -> None:
    """After each step the members are a dict's, and those from before the step are what they were."""
    members: Members[int] = {}
    model: dict[str, int] = {}
    for key, value in steps:
        before, old = members, dict(model)
        if value is not None:
            members, model[key] = with_member(members, key, value), value
        elif key in model:
            members = without(members, key)
            del model[key]
        check(members, model)
        check(before, old)


@given(st.dictionaries(KEYS, st.integers()), st.dictionaries(KEYS, st.integers()))
def test_differing_buckets_hold_every_difference(mine: dict[str, int], theirs: dict[str, int]) -> None:
    """What two tables hold differently is in the pairs of buckets that differ, however they were made."""
    left, right = compact(mine), compact(theirs)
    if isinstance(left, Table) and isinstance(right, Table):
        pairs = list(left.differing(right))
        changed = {key for key in mine | theirs if mine.get(key) != theirs.get(key)}
        assert changed <= {key for pair in pairs for key in (*pair[0], *pair[1])}
        assert list(left.differing(left)) == []


def test_a_write_shares_all_buckets_but_one() -> None:
    """Of a table of many members a write changes one bucket."""
    many = compact({f"k{number}": number for number in range(200)})
    assert isinstance(many, Table)
    changed = with_member(many, "k7", -1)
    assert isinstance(changed, Table)
    assert len(list(many.differing(changed))) == 1


def by_value(key: str, member: int) -> tuple[int, str]:
    return member, key


@given(STEPS, st.booleans())
def test_a_kept_order_follows_the_members(steps: list[tuple[str, int | None]], goes_back: bool) -> None:
    """An order that was asked for once is right for every later table, and for earlier ones, or is not known."""
    members: Members[int] = {f"k{number}": 0 for number in range(20)}
    for key, value in steps:
        before = members
        if value is not None:
            members = with_member(members, key, value)
        elif key in dict(members.items()):
            members = without(members, key)
        for seen in (members, before) if goes_back else (members,):
            if isinstance(seen, Table):
                expected = sorted(seen, key=lambda key, seen=seen: by_value(key, seen[key]))  # type: ignore[misc]  # mypy infers no type of a default
                assert seen.in_order("by value", by_value) in (expected, None)
                seen.keep_order("by value", expected)


def test_an_order_is_moved_and_not_sorted_again() -> None:
    """After a few writes an order is known still, also of members that came and went; after many it is not."""
    many = compact({f"k{number}": number for number in range(900)})
    assert isinstance(many, Table)
    many.keep_order("by value", sorted(many, key=lambda key: by_value(key, many[key])))
    changed = without(with_member(with_member(many, "k7", 5_000), "new", -1), "k0")
    assert isinstance(changed, Table)
    keys = changed.in_order("by value", by_value)
    assert keys is not None
    assert (keys[:2], keys[-1], len(keys)) == (["new", "k1"], "k7", 900)
    assert changed.in_order("by value", by_value) is keys
    rest: Members[int] = changed
    for number in range(300):
        rest = with_member(rest, f"k{number}", -number)
    assert isinstance(rest, Table)
    assert rest.in_order("by value", by_value) is None


def test_few_orders_are_kept() -> None:
    """Orders that nobody asks for any more make room for new ones."""
    many = compact({f"k{number}": number for number in range(9)})
    assert isinstance(many, Table)
    for number in range(9):
        many.keep_order(str(number), list(many))
    assert [many.in_order(str(number), by_value) is None for number in range(9)] == [True] + [False] * 8


def test_a_table_is_filled_in_pieces() -> None:
    """A table that was filled piece by piece has the last of two members with one key."""
    members = [(f"k{number}", turn) for turn in (0, 1) for number in range(10 * turn, 20 + 10 * turn)]
    check(at_once(filling(members, 30, 7)), {f"k{number}": int(number >= 10) for number in range(30)})
