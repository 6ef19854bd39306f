"""Pauses between tries: each is longer than the one before, up to a limit. A random part spreads contenders."""

from __future__ import annotations

_FIRST = 0.025
_LONGEST = 2.0


def backoff(tries: int, chance: float) -> float:
    """Return the seconds to wait after the `tries`-th failure.

    `chance` (0 to 1) is random. It spreads the next tries of contenders that failed at the same time.
    """
    longest = min(_LONGEST, _FIRST * 2.0 ** min(tries - 1, 16))
    return longest * (0.5 + 0.5 * chance)
