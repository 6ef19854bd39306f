"""Members in tables: the same as in a dict, at every size, and what others hold of them never changes."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rtdb_emulator import table
from rtdb_emulator.table import Members, Table, compact, empty_buckets, fill, finished, with_member, without

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
    """Of a table of many members a write changes one bucket, and keeps the order of its keys."""
    many = compact({f"k{number}": number for number in range(200)})
    assert isinstance(many, Table)
    many.order = sorted(many)
    changed = with_member(many, "k7", -1)
    assert isinstance(changed, Table)
    assert len(list(many.differing(changed))) == 1
    assert changed.order is many.order
    added, removed = with_member(many, "new", 1), without(many, "k7")
    assert isinstance(added, Table)
    assert isinstance(removed, Table)
    assert (added.order, removed.order) == (None, None)


def test_a_table_is_filled_in_pieces() -> None:
    """Buckets that were filled piece by piece make a table, in which the last of two members with one key counts."""
    buckets: list[dict[str, int]] = empty_buckets(30)
    fill(buckets, ((f"k{number}", 0) for number in range(20)))
    fill(buckets, ((f"k{number}", 1) for number in range(10, 30)))
    check(finished(buckets), {f"k{number}": int(number >= 10) for number in range(30)})
