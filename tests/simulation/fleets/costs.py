"""What ticks cost in requests, as docs/reference/cost.md says it, where nothing goes wrong.

5. An instance that loses a tick sends one request for its lock, two in a dead heat. The winner acquires, releases,
   and renews once for each third of the ttl. A look for late jobs may come in between: it reads the lock once.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping
from math import ceil

from tests.simulation.fleets.database import LOCKS
from tests.simulation.fleets.happened import History
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.scenario import Scenario
from tests.simulation.fleets.times import time_of
from tests.simulation.machines import SECOND

# An instance may take a tick for due a little early: its idea of the time is right to within the margin.
EARLY = SECOND
_LOSER = 2
_WINNER = 4


def check_costs(oracle: Oracle, scenario: Scenario, job: History, instances: Mapping[str, Instance]) -> None:
    """Add the instances that ask too often for a tick. Only where each instance tries once."""
    spec = job.spec
    tries_once = spec.overlap == "skip" and spec.catch_up == "skip" and spec.on_abandoned == "skip"
    if scenario.troubles or spec.cron is not None or not tries_once:
        return
    waits = int(str(scenario.settings["workers"])) <= len(scenario.jobs)
    slots = spec.slots(scenario.begins, scenario.ends)
    starts = [time_of(slot) - EARLY for slot in slots]
    for instance in instances.values():
        asked: Counter[int] = Counter()
        read: set[int] = set()
        for at, method, path in instance.wire.requests:
            if path == f"{LOCKS}{spec.name}":
                number = bisect_left(starts, at + 1) - 1
                # Just before a tick, an instance without a free worker may still ask for the one before it.
                is_behind = number > 0 and at < starts[number] + EARLY and not asked[number - 1]
                if method == "read" and number not in read:
                    read.add(number)
                else:
                    asked[number - is_behind] += 1
        for number, count in asked.items():
            if not 0 <= number < len(slots):
                continue
            # A run that outlasts its period is renewed, and released, in the next one.
            end = starts[number] + spec.period * SECOND
            here = [
                one
                for one in job.bodies
                if one.machine == instance.name and one.begun < end and (one.ended or end) >= starts[number] - SECOND
            ]
            most = _WINNER + ceil(3 * spec.period / spec.lock_ttl) + 1 if here else _LOSER
            if waits and _gets_a_worker(oracle, instance, starts[number]):
                most += _LOSER  # for the tick before, which waited until now
            if count > most:
                oracle.violated(
                    "5", "{} sends {} requests for {} of {}, which may be {}",
                    instance.name, count, slots[number], spec.name, most,
                )  # fmt: skip


def _gets_a_worker(oracle: Oracle, instance: Instance, start: int) -> bool:
    """Return whether a body ends just before a tick that may be asked for from `start` on: an older one asks then."""
    bodies = (body for job in oracle.jobs.values() for body in job.bodies if body.machine == instance.name)
    return any(body.ended is not None and start - EARLY <= body.ended <= start + EARLY for body in bodies)


def asked_a_tick(scenario: Scenario, instances: Mapping[str, Instance]) -> float:
    """Return how many requests for locks all instances together have sent, for each tick of each job."""
    ticks = sum(len(job.slots(scenario.begins, scenario.ends)) for job in scenario.jobs)
    asked = sum(path.startswith(LOCKS) for one in instances.values() for _, _, path in one.wire.requests)
    return asked / max(1, ticks)


def check_watches(oracle: Oracle, scenario: Scenario, instance: Instance) -> None:
    """Whoever is refused a watch asks for none soon again: each tick, and each run, asks once at the most."""
    for job in scenario.jobs:
        ticks = len(job.slots(scenario.begins, scenario.ends))
        asked = [at for at, path in instance.wire.watched if path == f"{LOCKS}{job.name}"]
        if len(asked) > 2 * ticks + 2:
            oracle.violated("5", "{} asks {} times to watch {}, refused each time", instance.name, len(asked), job.name)
