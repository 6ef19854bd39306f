"""The fixtures of the unit tests, for the invariants too."""

from __future__ import annotations

from tests.unit.conftest import by_hand, go_on, one, world

__all__ = ["by_hand", "go_on", "one", "world"]
