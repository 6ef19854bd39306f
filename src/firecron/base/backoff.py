"""Pauses between tries: longer each time, never the same for two, never without bound."""

from __future__ import annotations

_FIRST = 0.025
_LONGEST = 2.0


def backoff(tries: int, chance: float) -> float:
    """Seconds to wait after the `tries`-th failure; `chance` (0 to 1) spreads those who failed together."""
    longest = min(_LONGEST, _FIRST * 2.0 ** min(tries - 1, 16))
    return longest * (0.5 + 0.5 * chance)
