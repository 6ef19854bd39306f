"""The fixtures of the unit tests, for the invariants too."""

from __future__ import annotations

from tests.unit.conftest import by_hand, fleet, go_on, one

__all__ = ["by_hand", "fleet", "go_on", "one"]
