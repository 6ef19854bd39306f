"""Plays a seed: one run of its scenario, two of them, or a fleet of `rows`."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.fleets.entries import Entries, stored
from tests.simulation.fleets.held import Operators, held
from tests.simulation.fleets.pairs import play_pair
from tests.simulation.fleets.reigns import Reign, Reigns, led
from tests.simulation.fleets.richer import enriched
from tests.simulation.fleets.rows import ROWS, Row, Tick, measure, scenario_of, too_many
from tests.simulation.fleets.run import Played, World, under_way
from tests.simulation.fleets.scenario import Scenario, make
from tests.simulation.fleets.wider import widened
from tests.simulation.seeds import ENTRIES, HELD, REIGNS, RICHER, WIDER

__all__ = ["ROWS", "Played", "Row", "World", "play", "play_leading", "play_pair", "play_row"]


def play(seed: int, size: int | None = None, contenders: int | None = None) -> Played:
    """Play a seed from beginning to end."""
    if seed >= HELD:
        return play_held(seed)
    if seed >= ENTRIES:
        return play_entries(seed)
    if seed >= REIGNS:
        return play_leading(seed)
    world = World(scenario_of_seed(seed, size, contenders))
    with under_way(world):
        return world.play()


def scenario_of_seed(seed: int, size: int | None = None, contenders: int | None = None) -> Scenario:
    """Return the scenario that a seed means."""
    if seed >= WIDER:
        return widened(seed, size, contenders)
    scenario = make(seed, size, contenders)
    return enriched(scenario) if seed >= RICHER else scenario


def play_leading(seed: int) -> Played:
    """Play a seed in which each machine also stands for a leader, and judge only that. From `REIGNS` on it is more than
    one whose bodies heed their end.
    """
    scenario, reign = led(make(seed)) if seed >= REIGNS else (make(seed), Reign())
    world = World(scenario)
    reigns = Reigns(world, reign)
    with under_way(world):
        played = world.play()
        return replace(played, violations=tuple(reigns.violations(scenario.ends)))


def play_entries(seed: int) -> Played:
    """Play a seed with stored schedules, and judge these beside the rest."""
    scenario, job = stored(seed)
    world = World(scenario)
    entries = Entries(world, job)
    with under_way(world):
        played = world.play()
        entries.judge()
        return replace(played, violations=tuple(world.oracle.violations))


def play_held(seed: int) -> Played:
    """Play a seed with operators who hold, pause, and ask for runs, and judge these beside the rest."""
    scenario, operated = held(seed)
    world = World(scenario)
    operators = Operators(world, operated)
    with under_way(world):
        played = world.play()
        operators.judge()
        return replace(played, violations=tuple(world.oracle.violations))


def play_row(row: Row, seed: int) -> tuple[Played, list[Tick]]:
    """Play one of the fleets of `rows`, and measure its ticks."""
    world = World(scenario_of(row, seed))
    with under_way(world):
        played, ticks = world.play(), measure(row, world.oracle, world.instances, world.database)
    return replace(played, violations=(*played.violations, *too_many(row, ticks))), ticks
