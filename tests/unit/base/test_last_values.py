"""What is remembered of keys without end."""

from __future__ import annotations

import pytest

from firecron.base.last_values import LastValues


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
