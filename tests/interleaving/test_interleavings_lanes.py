"""Every order of what happens to lanes, in small worlds, and random walks through larger ones: the contract holds.

In each case something comes in the way of two ticks, at any place or nowhere: a run by hand, a lost request, a stop.

With INTERLEAVINGS in the environment the cases are played deeper, and so many walks, which takes some minutes.
`REPLAY=<seed>` plays the walk of that seed alone, and prints what happens also if nothing is wrong.
"""

from __future__ import annotations

import os
from dataclasses import replace

import pytest
from tests.interleaving.lane_plays import CASES, explore_lanes, walk_lanes

DEEPER = 4 if "INTERLEAVINGS" in os.environ else 0
MOST = 40_000
BATCHES = 4
WALKS = int(os.environ.get("INTERLEAVINGS", "200"))
REPLAY = os.environ.get("REPLAY")


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CASES)
def test_no_order_breaks_the_contract_of_lanes(name: str) -> None:
    """No tick begins twice or is forgotten, no token is another claim's, what waits is woken, a stop leaves nothing."""
    scenario = replace(CASES[name], depth=CASES[name].depth + DEEPER)
    explored = explore_lanes(scenario, MOST)
    print(f"{name}: {explored.runs} runs, {explored.states} states, {'some' if explored.has_more else 'all'}")
    assert explored.runs > 1
    assert DEEPER or not explored.has_more


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_walk_breaks_the_contract_of_lanes(batch: int) -> None:
    """Nor in larger worlds, where several things come in the way."""
    seeds = range(batch, WALKS, BATCHES) if REPLAY is None else [int(REPLAY)] * (batch == 0)
    events = 0
    for seed in seeds:
        trace = walk_lanes(seed)
        events += len(trace)
        if REPLAY is not None:
            print(*trace, sep="\n")
    print(f"{len(seeds)} walks, {events} events")


def test_a_walk_of_lanes_can_be_replayed() -> None:
    """A seed leads to the same walk each time, another seed to another one."""
    assert walk_lanes(7) == walk_lanes(7) != walk_lanes(8)
