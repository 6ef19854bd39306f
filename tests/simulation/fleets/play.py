"""Plays a seed: one run of its scenario, two of them, or a fleet of `rows`."""

from __future__ import annotations

from dataclasses import replace

from tests.simulation.fleets.pairs import play_pair
from tests.simulation.fleets.reigns import Reigns
from tests.simulation.fleets.richer import RICHER, enriched
from tests.simulation.fleets.rows import ROWS, Row, Tick, measure, scenario_of
from tests.simulation.fleets.run import Played, World, under_way
from tests.simulation.fleets.scenario import make

__all__ = ["ROWS", "Played", "Row", "World", "play", "play_leading", "play_pair", "play_row"]


def play(seed: int, size: int | None = None, contenders: int | None = None) -> Played:
    """Play a seed from beginning to end."""
    scenario = make(seed, size, contenders)
    world = World(enriched(scenario) if seed >= RICHER else scenario)
    with under_way(world):
        return world.play()


def play_leading(seed: int) -> Played:
    """Play a seed in which each machine also stands for a leader, and judge only that."""
    world = World(make(seed))
    reigns = Reigns(world.scheduler)
    for instance in world.instances.values():
        instance.declared.append(reigns.leader_of(instance.machine))
    with under_way(world):
        played = world.play()
        return replace(played, violations=tuple(reigns.violations(world.scenario.ends)))


def play_row(row: Row, seed: int) -> tuple[Played, list[Tick]]:
    """Play one of the fleets of `rows`, and measure its ticks."""
    world = World(scenario_of(row, seed))
    with under_way(world):
        return world.play(), measure(row, world.oracle, world.instances, world.database)
