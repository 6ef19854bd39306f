"""What is remembered of keys without end; and remarks that somebody outside can cause: one a minute, with the number of
those that it is for.
"""

from __future__ import annotations

import pytest

from firecron.base.clocks import Deadline
from firecron.base.events import MOST_KINDS, LastValues, Seldom, how_often
from firecron.testing import FakeTiming


def test_the_oldest_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of more keys than are remembered, the last ones put are there; a key put again is the newest."""
    monkeypatch.setattr(LastValues, "most", 2)
    recent: LastValues[str, int] = LastValues()
    for key, value in (("a", 1), ("b", 2), ("a", 3), ("c", 4)):
        recent.put(key, value)
    assert list(recent) == ["a", "c"]
    assert (recent.get("a"), recent.get("b"), recent.get("c")) == (3, None, 4)
    assert ("a" in recent, "b" in recent) == (True, False)


def test_a_key_may_be_forgotten() -> None:
    """What is forgotten is not there, whether it was or not."""
    recent: LastValues[str, int] = LastValues()
    recent.put("a", 1)
    for _ in range(2):
        recent.forget("a")
        assert "a" not in recent


def test_one_a_minute_counts_the_others() -> None:
    """The first is made at once, and each kind has a minute of its own."""
    timing = FakeTiming()
    seldom = Seldom(lambda seconds: Deadline.after(timing, seconds))
    assert [seldom.count("401") for _ in range(3)] == [1, None, None]
    timing.advance(30)
    assert [seldom.count("403"), seldom.count("401")] == [1, None]
    timing.advance(30)
    assert [seldom.count("401"), seldom.count("403"), seldom.count("401")] == [4, None, None]
    timing.advance(60)
    assert [seldom.count("401"), seldom.count("403")] == [2, 2]
    timing.advance(3600)
    assert seldom.count("401") == 1


def test_kinds_are_kept_within_a_bound() -> None:
    """However many kinds come from outside, those beyond the bound share one line a minute."""
    seldom = Seldom(lambda seconds: Deadline.after(FakeTiming(), seconds))
    counts = [seldom.count(f"kind {number}") for number in range(MOST_KINDS + 5)]
    assert counts == [1] * (MOST_KINDS + 1) + [None] * 4
    assert seldom.count("kind 0") is None


def test_the_number_is_of_the_others() -> None:
    """A line that is for one alone says nothing of it."""
    assert [how_often(count) for count in (1, 2, 1200)] == [
        "",
        "; with 1 more since the last such line",
        "; with 1,199 more since the last such line",
    ]
