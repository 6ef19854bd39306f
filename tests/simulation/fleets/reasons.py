"""Reasons not to run a tick: what the world really had, as of a tick's time.

A tick has to run if some machine could: it was up, had no trouble of its own, and found the lock free and not paused,
long enough before the tick was too late. All of that is known from outside: from the faults, from the requests, from
the records in the database.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Claim, History, Oracle
from tests.simulation.fleets.scenario import Scenario
from tests.simulation.fleets.times import time_of
from tests.simulation.greenlets import MILLISECOND, SECOND
from tests.simulation.stand_ins import EPOCH

# An instance that had trouble goes on after pauses. They are shorter than this.
_RECOVERS = 45 * SECOND
# A newly started one looks at the clock first, and a turn that waits looks again within this.
_SETTLES = 8 * SECOND
_LOOKS = 6 * SECOND
# After a request without an answer the next ones follow within this, in the same try or in the next.
_HEARS = 10 * SECOND


class Reasons:
    """Looks for reasons in one job of a run."""

    def __init__(self, scenario: Scenario, job: History, instances: Mapping[str, Instance], oracle: Oracle) -> None:
        self._scenario = scenario
        self._job = job
        self._instances = instances
        self._bodies = [body for one in oracle.jobs.values() for body in one.bodies]
        self._workers = int(str(scenario.settings["workers"]))
        # A claim takes a few requests, and each way may take its longest.
        self._needs = (
            int(job.spec.jitter * SECOND) + 3 * SECOND + 10 * scenario.latency[1] + 4 * scenario.temper.longest
        )

    def able(self, slot: str) -> tuple[str, int] | None:
        """Return a machine that could have run the tick, and when; None if there is none."""
        spec, time = self._job.spec, time_of(slot)
        ends = time + int(min(spec.starts_within, spec.period) * SECOND)
        for begins in self._chances(time, ends):
            until = begins + self._needs + (_LOOKS if begins > time else 0)
            if until > min(ends, self._scenario.ends):
                continue
            if held(self._job, time if begins == time else begins, until) or self._is_paused(time, until):
                continue
            for instance in self._instances.values():
                if self._is_well(instance, time, until):
                    return instance.name, begins
        return None

    def must_begin(self, claim: Claim) -> bool:
        """Return whether a claim's run must have begun: its winner lived on, and heard of it in time.

        A tick that is tried again until its grace is over also hears of a claim whose reply was lost.
        """
        instance, spec = self._instances[claim.machine], self._job.spec
        start, end = claim.at - SECOND, claim.at + self._needs
        troubles = [trouble for trouble in instance.wire.troubles if trouble[1] >= start and trouble[0] <= end]
        if troubles:
            is_patient = claim.slot is not None and claim.attempt == 1 and claim.trigger_may_wait(spec.starts_within)
            heard = max(until for _, until in troubles) + _HEARS
            if not is_patient or len(troubles) > 1 or heard > claim.at + int((spec.lock_ttl - 3) * SECOND):
                return False
            end = max(end, heard)
            if claim.slot is not None and end > time_of(claim.slot) + int(spec.starts_within * SECOND):
                return False
            if sum(until >= start and since <= end for since, until in instance.wire.troubles) > 1:
                return False
        ended = (instance.stopping_from, instance.killed_at)
        return (
            not claim.is_meddled_with
            and not any(at is not None and at < end for at in ended)
            and not any(since <= end and until >= start for since, until in instance.frozen)
            and not any(since <= end and until >= start for since, until in instance.paused_here(spec.name))
        )

    def _chances(self, time: int, ends: int) -> list[int]:
        """Return when the tick may be claimed: at its time, or, if it waits, whenever the lock becomes free."""
        if self._job.spec.overlap != "queue":
            return [time]
        frees = [(claim.held_until * MILLISECOND - EPOCH) + SECOND for claim in self._job.claims]
        return [time, *(free for free in frees if time < free < ends)]

    def _is_paused(self, start: int, end: int) -> bool:
        return any(begun <= end and (until is None or until >= start) for begun, until in self._job.paused)

    def _is_well(self, instance: Instance, time: int, until: int) -> bool:
        since = time - _SETTLES
        if instance.ticking_from is None or instance.ticking_from > since:
            return False
        ended = (instance.stopping_from, instance.killed_at)
        if any(at is not None and at < until for at in ended):
            return False
        troubles = instance.wire.troubles
        if any(start <= until and end >= time - _RECOVERS for start, end in troubles):
            return False
        spans = [*instance.frozen, *instance.paused_here(self._job.spec.name)]
        if any(start <= until and end >= since for start, end in spans):
            return False
        if any(since <= stepped <= until for stepped in instance.stepped):
            return False
        return self._workers > len(self._scenario.jobs) or not self._is_busy(instance, since, until)

    def _is_busy(self, instance: Instance, since: int, until: int) -> bool:
        return any(
            body.machine == instance.name and body.begun <= until and (body.ended is None or body.ended >= since)
            for body in self._bodies
        )


def held(job: History, start: int, end: int) -> Claim | None:
    """Return a claim whose lock counts as held at some time from `start` to `end`; None if it is free all along."""
    for number, claim in enumerate(job.claims):
        until = claim.held_until * MILLISECOND - EPOCH
        after = job.claims[number + 1].at if number + 1 < len(job.claims) else until
        if claim.at <= end and min(until, max(after, claim.at)) >= start:
            return claim
    return None
