"""Richer worlds: with jobs at even distances, with runs in recorded steps, and with an operator who cancels runs.

They are the worlds of the seeds from `RICHER` on. The others stay what they were: what a seed has found stays a test.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random

from tests.simulation.fleets.scenario import Ambush, Event, JobSpec, Scenario, Trouble
from tests.simulation.machines import SECOND

# No even distance divides a minute, and none is longer than the cron line's that it replaces.
_DISTANCES = {10: 9, 15: 14, 20: 18, 30: 25, 60: 45}


def enriched(scenario: Scenario) -> Scenario:
    """Return the scenario with what only richer worlds have."""
    random = Random(f"richer {scenario.seed}")
    jobs = list(scenario.jobs)
    chosen = random.randrange(len(jobs))
    if random.random() < 0.8:
        jobs[chosen] = with_steps(jobs[chosen], random)
    for number, job in enumerate(jobs):
        if random.random() < 0.4:
            jobs[number] = replace(job, period=_DISTANCES[job.period], has_line=False)
    cancels: list[Event] = []
    ways: tuple[Ambush, ...] = ()
    if random.random() < 0.5:
        times = (int(random.random() * scenario.fair_from) for _ in range(random.choice((2, 5, 10))))
        cancels = [Event(at, "cancel", random.choice(jobs).name) for at in times]
        ways = ("cancel", "cancel") if random.random() < 0.5 else ()
    strikes = random.choice((0.0, 0.05, 0.15))
    troubles: set[Trouble] = {*scenario.troubles}
    troubles |= {"ambushes"} if strikes else set()
    troubles |= {"operator"} if cancels else set()
    return replace(
        scenario,
        troubles=tuple(sorted(troubles)),
        jobs=tuple(jobs),
        events=tuple(sorted((*scenario.events, *cancels), key=lambda event: event.at)),
        ambushes=max(scenario.ambushes, 0.3) if ways else scenario.ambushes,
        ways=(*scenario.ways, *ways),
        strikes=strikes,
        has_rules=random.random() < 0.5,
        ends=scenario.ends + 10 * SECOND,
    )


def with_steps(job: JobSpec, random: Random) -> JobSpec:
    """Return the job with steps: it has a lease and a tick, and takes some time."""
    work = replace(
        job.work, most=max(job.work.most, 3.0), recorded=random.choice((1, 2, 4)), at_most_once=random.random() < 0.4
    )
    return replace(
        job,
        work=work,
        once_per_tick=True,
        overlap="skip" if job.overlap == "allow" else job.overlap,
        on_abandoned="rerun" if random.random() < 0.8 else "skip",
    )
