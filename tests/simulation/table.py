"""The table of `fleets/rows.py`: what a tick costs each fleet, and how late it begins.

machines     the fleet, and what happens to it
seeds        how often it was played
askers       the machines that asked for a tick: mean and most
requests     for the lock of a tick, of all machines together
at once      the part of the ticks that began in the first wave
latest       the longest time from a tick to the begin of its run
missed       ticks that did not begin
twice        ticks that began twice
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from statistics import mean
from typing import TYPE_CHECKING, cast

from tests.simulation.loading import Engine

if TYPE_CHECKING:
    from tests.simulation.fleets.rows import Row, Tick
    from tests.simulation.fleets.run import Played

# The second wave comes after a second.
_FIRST_WAVE = 0.9


@dataclass(frozen=True, slots=True)
class Measured:
    """One fleet that was played with one seed. By values, because the engine's own types are of one process."""

    row: int
    askers: list[int]
    requests: list[int]
    lags: list[float]
    missed: int
    twice: int
    violations: tuple[str, ...]


def show(most: int, first: int, jobs: int) -> int:
    """Print the table of the fleets of up to so many machines. Return 1 if any of them breaks the contract."""
    with Engine().at_work() as world:
        rows = {number: (str(row), row.seeds) for number, row in enumerate(world.ROWS) if row.largest <= most}
    print(f"{'machines':<58} seeds   askers    requests  at once   latest  missed  twice")
    numbers = [number for number, (_, seeds) in rows.items() for _ in range(seeds)]
    each = [first + seed for _, seeds in rows.values() for seed in range(seeds)]
    found: dict[int, list[Measured]] = {}
    # A process for each seed: a large fleet leaves a heap behind that no other run should carry on.
    with ProcessPoolExecutor(jobs, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as processes:
        for one in processes.map(_played, numbers, each):
            found.setdefault(one.row, []).append(one)
            said, seeds = rows[one.row]
            if len(found[one.row]) == seeds:
                _print(said, found[one.row])
    return any(one.violations or one.missed or one.twice for played in found.values() for one in played)


def _print(said: str, played: list[Measured]) -> None:
    askers = [count for one in played for count in one.askers]
    requests = mean(count for one in played for count in one.requests)
    lags = [lag for one in played for lag in one.lags]
    at_once = sum(lag < _FIRST_WAVE for lag in lags) / len(askers)
    missed, twice = sum(one.missed for one in played), sum(one.twice for one in played)
    print(
        f"{said:<58} {len(played):5} {mean(askers):6.1f} {max(askers):4} {requests:8.1f} {at_once:8.0%}"
        f" {max(lags):7.2f}s {missed:7} {twice:6}",
        flush=True,
    )
    for violation in (violation for one in played for violation in one.violations):
        print(f"    breaks rule {violation}")


def _played(number: int, seed: int) -> Measured:
    with Engine().at_work() as world:
        play = cast("Callable[[Row, int], tuple[Played, list[Tick]]]", world.play_row)
        played, ticks = play(world.ROWS[number], seed)
    return Measured(
        number,
        [tick.askers for tick in ticks],
        [tick.requests for tick in ticks],
        [tick.lag for tick in ticks if tick.lag is not None],
        sum(tick.lag is None for tick in ticks),
        sum(tick.begun > 1 for tick in ticks),
        played.violations,
    )
