"""What the numbers of seeds mean: plain worlds, and those that have more (`fleets/richer`, `wider`, `reigns`, `entries`
and `held`).

No world is known by the engine, so both sides of the fresh import read this.
"""

from __future__ import annotations

from typing import Final

# From here on worlds also have steps, cancelled runs, and ticks at even distances.
RICHER: Final = 1_000_000
# From here on each world has one of the following, in turn.
WIDER: Final = 2_000_000
# From here on worlds have leaders whose bodies do more than heed their end (`fleets/reigns`).
REIGNS: Final = 3_000_000
# From here on worlds have stored schedules, and operators who edit them (`fleets/entries`).
ENTRIES: Final = 4_000_000
# From here on they have holds, and asks for runs (`fleets/held`).
HELD: Final = 5_000_000
WORLDS: Final = (
    "first ticks", "cancels previous", "resumes", "locks", "comes and goes", "skewed clocks", "zones", "window",
    "counter", "no watches",
)  # fmt: skip


def world_of(seed: int) -> str | None:
    """Return which of the wider worlds a seed is; None if it is none of them."""
    return WORLDS[(seed - WIDER) % len(WORLDS)] if WIDER <= seed < REIGNS else None


def seeds_of(world: str, number: int, first: int = 1) -> range:
    """Return so many seeds of one of the wider worlds, from its `first` one on."""
    start = WIDER + WORLDS.index(world) + (first - 1) * len(WORLDS)
    return range(start, start + number * len(WORLDS), len(WORLDS))
