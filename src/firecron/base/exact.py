"""Numbers from the database as integers that a double holds exactly. A node may hold any value."""

from __future__ import annotations

from math import isfinite

# RTDB stores doubles. Beyond this limit a double is not an exact integer, and no count or instant is that large.
_MOST = 2**53 - 1


def number(value: object) -> int | None:
    """Return the number that a node holds, as an integer; None for any other value."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        return None
    return whole(value)


def whole(value: int | float) -> int:
    """Return the number as an integer, limited to what a double holds exactly.

    A number with a digit too many, typed by hand, may be far out of range. The limit keeps it from becoming 300 digits.
    """
    return min(max(int(value), -_MOST), _MOST)
