"""The weather: what goes wrong on the way between machines and the database, and when.

Weather    the chance of each fate of a request, for all machines
Spell      a time in which requests of one machine, or of all, fail in one way
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Final

from tests.simulation.fleets.database import Fate, Kind, Method
from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import MILLISECOND, SECOND, Machine

FAIR: Final[Mapping[Kind, float]] = {}


@dataclass(slots=True)
class Spell:
    """From `start` to `end`, requests of this machine (None: of every machine) have this fate, `below` a path."""

    start: int
    end: int
    kind: Kind
    machine: str | None = None
    # What part of the requests is hit.
    part: float = 1.0
    below: str = ""


@dataclass(slots=True)
class Weather:
    """Chooses the fate of each request.

    `chances` holds until `fair_from`. From then on every request is answered. A way takes from `least` to `most`
    nanoseconds.
    """

    scheduler: Scheduler
    least: int = 2 * MILLISECOND
    most: int = 30 * MILLISECOND
    chances: Mapping[Kind, float] = field(default_factory=dict)
    fair_from: int = 0
    spells: list[Spell] = field(default_factory=list)
    random: Random = field(init=False)

    def __post_init__(self) -> None:
        self.random = self.scheduler.random

    def fate(self, machine: Machine, method: Method, path: str) -> Fate:
        random, now = self.random, self.scheduler.now
        there, back = (self.least + int((self.most - self.least) * random.random() ** 3) for _ in range(2))
        for spell in self.spells:
            if (
                spell.start <= now < spell.end
                and spell.machine in (None, machine.name)
                and path.startswith(spell.below)
                and random.random() < spell.part
            ):
                return self._made(spell.kind, there, back)
        if now < self.fair_from and self.chances:
            left = random.random()
            for kind, chance in self.chances.items():
                left -= chance
                if left < 0:
                    return self._made(kind, there, back)
        return Fate("answered", there, back)

    def is_fair(self) -> bool:
        """Return whether nothing goes wrong any more."""
        return self.scheduler.now >= self.fair_from

    def is_cut_off(self, machine: Machine) -> bool:
        """Return whether nothing reaches this machine now."""
        now = self.scheduler.now
        return any(
            spell.start <= now < spell.end and spell.machine == machine.name and spell.kind in ("lost", "unanswered")
            for spell in self.spells
        )

    def _made(self, kind: Kind, there: int, back: int) -> Fate:
        random = self.random
        if kind == "slow":
            # Up to so late that the sender has given up long before the request arrives, or the reply.
            late = int(12 * SECOND * random.random() ** 2)
            return (
                Fate("answered", there + late, back) if random.random() < 0.7 else Fate("answered", there, back + late)
            )
        retry_after = random.choice((None, None, 1.0, 30.0)) if kind in ("busy", "busy_after") else None
        return Fate(kind, there, back, retry_after)
