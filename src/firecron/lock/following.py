"""Following: when a candidate that was refused asks again. Pure.

By polling, a follower asks every 5 s at the latest: so it finds a clean release within 5 s. It asks just after the
record of the leader may be taken, if that comes first: a margin after `expiresAt`, by RTDB's time.
"""

from __future__ import annotations

from datetime import datetime

from firecron.base.clocks import Moment
from firecron.base.instants import exact_milliseconds

# Seconds between two asks at the most, and at the least.
LONGEST = 5.0
SHORTEST = 0.05
# A body that raises stands again after a pause: a second, doubled for each further failure up to a minute.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
# A term that lasted for as long as this, in milliseconds, was good: the pauses after failures begin anew.
GOOD_TERM = 60_000


def next_ask(until: datetime | None, now: Moment | None, margin: int, chance: float) -> float:
    """Return the seconds until the next ask. `until` is when the record that stands in the way expires, if known.

    `chance` (0 to 1) is random: it keeps the followers of one leader from asking all at once.
    """
    patience = LONGEST * (0.5 + 0.5 * chance)
    if until is None or now is None:
        return patience
    free = (exact_milliseconds(until) + margin - now.server) / 1000 + SHORTEST * (1 + chance)
    return min(patience, max(free, SHORTEST))


def pause_after(failures: int, chance: float) -> float:
    """Return the seconds before a candidate stands again whose body has raised so many times in a row."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
    return max(_FIRST_PAUSE, longest * (0.5 + 0.5 * chance))
