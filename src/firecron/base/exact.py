"""Numbers as the database holds them, which may be anything: as integers that a double holds exactly."""

from __future__ import annotations

from math import isfinite

# Beyond it a double, which is what RTDB stores, is no exact integer; nor is it any count or instant.
_MOST = 2**53 - 1


def number(value: object) -> int | None:
    """The integer that a node holds; None for anything else."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        return None
    return whole(value)


def whole(value: int | float) -> int:
    """The number as an integer, cut to what a double holds exactly: what a slipped digit makes is no 300 digits."""
    return min(max(int(value), -_MOST), _MOST)
