"""Three holders, several rounds, several faults and an operator: random walks through what can happen.

INTERLEAVINGS=<count> sets how many are played: `make interleavings` plays 40,000. A walk that fails prints its seed and
what happened; REPLAY=<seed> plays that one alone, and prints what happens also if nothing is wrong.
"""

from __future__ import annotations

import os

import pytest
from tests.interleaving.scenarios import election, walk

BATCHES = 4
WALKS = int(os.environ.get("INTERLEAVINGS", "2000"))
REPLAY = os.environ.get("REPLAY")


@pytest.mark.timeout(7200)
@pytest.mark.parametrize("batch", range(BATCHES))
def test_no_walk_breaks_a_rule(batch: int) -> None:
    """After each event of a walk all that the lock promises holds."""
    seeds = range(batch, WALKS, BATCHES) if REPLAY is None else [int(REPLAY)] * (batch == 0)
    events = 0
    for seed in seeds:
        trace = walk(seed)
        events += len(trace)
        if REPLAY is not None:
            print(*trace, sep="\n")
    print(f"{len(seeds)} walks, {events} events")


@pytest.mark.timeout(7200)
def test_no_election_breaks_a_rule() -> None:
    """Three candidates with renewals, lost replies, freezes and step-downs: one trusts its term, and fences rise."""
    events = sum(len(election(seed)) for seed in range(WALKS // 8))
    assert events > 10 * (WALKS // 8)


def test_a_walk_can_be_replayed() -> None:
    """A seed leads to the same walk each time, another seed to another one."""
    assert walk(7) == walk(7) != walk(8)
