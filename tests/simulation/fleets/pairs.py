"""Pairs: one world twice, once with tickets, and once with `FIRECRON_CONTENDERS=0`, so that all machines ask.

5. All that ask miss no fewer ticks than tickets do.

A pair is the scenario of a seed without what depends on the machines' own steps: no ambushes, no requests that are lost
by chance, and no few workers that are busy with what only this machine has claimed. What is left happens in both worlds
at the same times: machines die, freeze, come and go, and clocks and networks fail. A tick is missed if nobody began it
although its lock was free when it came.

Which machine runs a tick differs, so it differs what the death of a machine leaves behind: where the lock of a tick was
held in one of the worlds, the worlds are not the same as to this tick. Nor are they if an outage hits all machines
while the tick may start, or if an operator pauses or resumes its job then: that decides which tries are in time.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from tests.simulation.fleets.costs import asked_a_tick
from tests.simulation.fleets.happened import History
from tests.simulation.fleets.reasons import held
from tests.simulation.fleets.run import World, under_way
from tests.simulation.fleets.scenario import Scenario, make
from tests.simulation.fleets.times import time_of
from tests.simulation.machines import SECOND

CONTENDERS = 3
# How long after its time a tick that is asked for at once has been claimed.
_CLAIMED = 10 * SECOND


@dataclass(frozen=True, slots=True)
class Side:
    """One of the two worlds: the ticks that it missed, those that it began, what it asked a tick, what it broke."""

    missed: frozenset[str]
    begun: frozenset[str]
    asked: float
    violations: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """What came of a seed in both worlds."""

    seed: int
    tickets: Side
    all_ask: Side

    @property
    def violations(self) -> tuple[str, ...]:
        """What either world broke, and the ticks that only tickets have missed."""
        lost = sorted(self.tickets.missed & self.all_ask.begun)
        said = tuple(f"5: tickets miss {tick}, and it is run where all ask" for tick in lost)
        return (*self.tickets.violations, *self.all_ask.violations, *said)


def play_pair(seed: int, size: int | None = None) -> Pair:
    """Play the world of a seed twice."""
    return Pair(seed, _played(seed, size, CONTENDERS), _played(seed, size, 0))


def _played(seed: int, size: int | None, contenders: int) -> Side:
    scenario = make(seed, size, contenders)
    spells = tuple(replace(spell, part=1.0) for spell in scenario.spells)
    settings = {**scenario.settings, "workers": 10}
    scenario = replace(scenario, ambushes=0.0, ways=(), chances={}, spells=spells, settings=settings)
    world = World(scenario)
    with under_way(world):
        played = world.play()
    return Side(
        _missed(world.oracle.jobs, scenario),
        frozenset(f"{name} {body.slot}" for name, job in world.oracle.jobs.items() for body in job.bodies),
        asked_a_tick(scenario, world.instances),
        played.violations,
    )


def _missed(jobs: Mapping[str, History], scenario: Scenario) -> frozenset[str]:
    found = set()
    for name, job in jobs.items():
        begun = {body.slot for body in job.bodies} | {claim.slot for claim in job.claims}
        lasts = int(min(job.spec.starts_within, job.spec.period) * SECOND)
        for slot in job.spec.slots(0, scenario.ends - lasts):
            time = time_of(slot)
            is_out = any(
                one.machine is None and one.start <= time + lasts and one.end >= time for one in scenario.spells
            )
            is_paused = any(
                start <= time + lasts and (end is None or end >= time - SECOND) for start, end in job.paused
            )
            if slot not in begun and not is_out and not is_paused and held(job, time - SECOND, time + _CLAIMED) is None:
                found.add(f"{name} {slot}")
    return frozenset(found)
