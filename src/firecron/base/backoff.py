"""Pauses between tries: each is longer than the one before, up to a limit. A random part spreads contenders."""

from __future__ import annotations

from firecron.base.clocks import Deadline, Timing
from firecron.errors import StoreError, Unavailable

_FIRST = 0.025
_LONGEST = 2.0


def backoff(tries: int, chance: float) -> float:
    """Return the seconds to wait after the `tries`-th failure.

    `chance` (0 to 1) is random. It spreads the next tries of contenders that failed at the same time.
    """
    longest = min(_LONGEST, _FIRST * 2.0 ** min(tries - 1, 16))
    return longest * (0.5 + 0.5 * chance)


def pause_within(left: float, error: StoreError, tries: int, chance: float) -> float:
    """Return the seconds to wait after the `tries`-th failure, if `left` seconds are left for what has failed.

    They are as many as the server has asked for, within a third of what is left: it is tried again all the same.
    """
    return max(backoff(tries, chance), min(_asked(error), left / 3))


def wait_or_raise(error: StoreError, tries: int, deadline: Deadline, timing: Timing, chance: float) -> None:
    """Wait after the `tries`-th failure, at least as long as the server has asked for.

    Raise the `error` of the failure if the deadline comes before the next try.
    """
    delay = max(backoff(tries, chance), _asked(error))
    if delay >= deadline.remaining():
        raise error
    timing.sleep(delay)


def _asked(error: StoreError) -> float:
    """Return the seconds that the server has asked for."""
    return (error.retry_after or 0.0) if isinstance(error, Unavailable) else 0.0
