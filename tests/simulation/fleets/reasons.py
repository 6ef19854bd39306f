"""Reasons not to run a tick: what the world really had, as of a tick's time.

A tick has to run if some machine could: it was up, had no trouble of its own, and found the lock free and not paused,
long enough before the tick was too late. All of that is known from outside: from the faults, from the requests, from
the records in the database.
"""

from __future__ import annotations

from collections.abc import Mapping

from tests.simulation.fleets.happened import Body, Claim, History
from tests.simulation.fleets.instance import Instance
from tests.simulation.fleets.oracle import Oracle
from tests.simulation.fleets.scenario import Scenario
from tests.simulation.fleets.times import time_of
from tests.simulation.machines import MILLISECOND, SECOND
from tests.simulation.stand_ins import EPOCH

# After trouble a try may still be under way, and the next one follows after a pause: all within this.
_RECOVERS = 9 * SECOND
# A newly started one looks at the clock first, and a turn that waits looks again within this.
_SETTLES = 8 * SECOND
_LOOKS = 6 * SECOND
# Who waits in line and is told of nothing, by a stream that falls silent, asks every 30 s.
ASKS_UNTOLD = 31 * SECOND
# Of more machines than this, some don't ask for a tick at all. The others ask within the last wave.
_ALL_ASK = 9
_LAST_WAVE = 4 * SECOND
# In heartbeats: when the last survivor asks, and how much time a tick needs so that it is left to others.
_SURVIVOR_ASKS, _LEFT_TO_OTHERS = 1.5, 2.0
# After a request without an answer the next ones follow within this, in the same try or in the next.
_HEARS = 6 * SECOND
# A try has as long as a request has, also at the end of a grace.
_LONGEST_TRY = 3 * SECOND
# So many bodies of a job with overlap="allow" run on one machine at a time.
_AT_ONCE = 3


class Reasons:
    """Looks for reasons in one job of a run."""

    def __init__(self, scenario: Scenario, job: History, instances: Mapping[str, Instance], oracle: Oracle) -> None:
        self._scenario = scenario
        self._job = job
        self._instances = instances
        self._bodies = [body for one in oracle.jobs.values() for body in one.bodies]
        self._workers = int(str(scenario.settings["workers"]))
        # A claim takes a few requests, and each way may take its longest.
        self.needs = int(job.spec.jitter * SECOND) + 3 * SECOND + 10 * scenario.latency[1] + 4 * scenario.temper.longest
        # A clock that is behind lets its machine ask so much later.
        self.needs += max(abs(machine.skew) for machine in scenario.machines)

    def _patience(self, time: int) -> int:
        """Return how much later than at once the machine asks that asks first for a tick, at the most."""
        spec, settings = self._job.spec, self._scenario.settings
        heartbeat = float(str(settings["heartbeat"]))
        lasts = min(spec.starts_within, spec.period) - spec.jitter
        if settings["contenders"] == 0 or not spec.asks_in_waves or lasts < _LEFT_TO_OTHERS * heartbeat:
            return 0
        # Machines that have gone count until the others have beaten twice without them.
        since = time - int(3 * heartbeat * SECOND)
        around = [
            one
            for one in self._instances.values()
            if one.started_at is not None and one.started_at <= time and not one.has_gone(since)
        ]
        asks_at_once = len(around) <= _ALL_ASK and not self._is_misled(around, time, int(heartbeat * SECOND))
        return _LAST_WAVE if asks_at_once else int(_SURVIVOR_ASKS * heartbeat * SECOND)

    def _is_misled(self, around: list[Instance], time: int, heartbeat: int) -> bool:
        """Return whether somebody has set the counter as a machine had but one count: there is no smaller one then."""
        sets = [event.at for event in self._scenario.events if event.act == "set_beats"]
        return any(
            at <= time <= at + 3 * heartbeat and (one.ticking_from or 0) >= at - 2 * heartbeat
            for at in sets
            for one in around
        )

    def able(self, slot: str, claimed_at: int | None) -> tuple[str, int] | None:
        """Return a machine that could have run the tick, and when; None if there is none.

        For a tick that was claimed: a machine that could have done it before. Whoever asks first may be dead, or have
        no free worker: then it is for the later waves to begin the tick, and they have a time for that.
        """
        spec, time = self._job.spec, time_of(slot)
        ends = min(time + int(min(spec.starts_within, spec.period) * SECOND), self._scenario.ends)
        ends = ends if claimed_at is None else min(ends, claimed_at - 1)
        patience = self._patience(time)
        for instance in self._instances.values():
            for begins in self._chances(instance, time, ends):
                # Who is refused a stream knows that it hears nothing, and asks every few seconds.
                may_be_silent = spec.waits and not self._scenario.refuses_watches
                looks = ASKS_UNTOLD if may_be_silent else _LOOKS if spec.waits or begins > time else 0
                until = begins + self.needs + patience + looks
                # Where a tick doesn't wait, the first look at a lock that is held is the last one.
                free_from = begins if spec.waits else time
                if (
                    until <= ends
                    and held(self._job, free_from, until, as_found=True) is None
                    and not self._is_paused(time, until)
                    and self._is_well(instance, time, begins, until)
                    and not self._was_releasing(instance, time)
                ):
                    return instance.name, begins
        return None

    def sees(self, time: int, until: int) -> str | None:
        """Return a machine that looks at a tick as it comes, whether it may run it or not; None if there is none."""
        if self._is_paused(time, until):
            return None
        for one in self._instances.values():
            has_worker = self._workers > len(self._scenario.jobs) or not self._is_busy(one, time - _SETTLES, until)
            if has_worker and self._is_up(one, time, time, until):
                return one.name
        return None

    def may_starve(self) -> bool:
        """Return whether long runs of other jobs may take all workers, so that a turn waits for one (seed 1000350)."""
        spec = self._job.spec
        others = [one for one in self._scenario.jobs if one is not spec]
        longer = [one for one in others if one.work.most * (one.retries + 1) > 0.2 * spec.period]
        return sum(_AT_ONCE if one.overlap == "allow" else 1 for one in longer) >= self._workers

    def _was_releasing(self, instance: Instance, time: int) -> bool:
        """Return whether a tick that doesn't wait came while the machine awaited the answer to a release.

        The run goes on until then, and the tick is over for this machine (seed 1004771).
        """
        heard = self._scenario.latency[1] + 4 * self._scenario.temper.longest
        return self._job.spec.overlap == "skip" and any(
            claim.machine == instance.name
            and claim.body is not None
            and claim.body.ended is not None
            and claim.released_at is not None
            and claim.body.ended <= time <= claim.released_at + heard
            for claim in self._job.claims
        )

    def must_begin(self, claim: Claim) -> bool:
        """Return whether a claim's run must have begun: its winner lived on, and heard of it in time.

        A tick that is tried again until its grace is over also hears of a claim whose reply was lost.
        """
        instance, spec = self._instances[claim.machine], self._job.spec
        # The last try may have begun in trouble, and have had little time left after it (seed 2002457).
        is_last = claim.slot is None or not self._is_tried_again(claim)
        start, end = claim.at - (_LONGEST_TRY if is_last else SECOND), claim.at + self.needs
        lease_ends = claim.at + int((spec.lock_ttl - 3) * SECOND)
        # Who has given up a write looks again only while the tick can still start.
        troubles = [*instance.wire.troubles, *((at, at) for at in instance.wire.belated)]
        # Trouble that comes after the lease has kept nobody from beginning (seeds 12415 and 12774).
        ended = [until for since, until in troubles if until >= start and since <= min(end, lease_ends)]
        if ended:
            if is_last or claim.slot is None or claim.attempt > 1:
                return False
            end = max(until for since, until in troubles if until >= start and since <= lease_ends) + _HEARS
            if any(claim.at <= at <= end for at in instance.wire.denied):
                return False  # a refusal of the rules ends a tick (seed 1000432)
            if end > min(lease_ends, time_of(claim.slot) + int(spec.starts_within * SECOND), self._shows_until(claim)):
                return False
        if self._workers <= len(self._scenario.jobs) and self._is_busy(instance, start, end):
            return False
        return (
            not claim.is_meddled_with
            and not instance.has_gone(end)
            and not any(since <= end and until >= start for since, until in instance.away)
            and not any(since <= end and until >= start for since, until in instance.paused_here(spec.name))
        )

    def _shows_until(self, claim: Claim) -> int:
        """Return until when the node shows a claim: with overlap="allow" no lease keeps the next one out."""
        later = self._job.claims[self._job.claims.index(claim) + 1 :]
        return later[0].at if later and self._job.spec.overlap == "allow" else self._scenario.ends

    def _is_tried_again(self, claim: Claim) -> bool:
        """Return whether a claim is of a tick that is not too late yet: it is tried until then.

        Who finds that another machine has claimed the tick, or that the job is paused, doesn't try again, though an
        operator deletes the node while the own claim is still on its way (seeds 2203 and 3721).
        """
        assert claim.slot is not None
        is_taken = any(
            one.machine != claim.machine
            and one.slot is not None
            and one.slot >= claim.slot
            and claim.dated <= one.at < claim.at
            for one in self._job.claims
        )
        is_final = is_taken or self._is_paused(claim.dated, claim.at)
        return not is_final and claim.at - time_of(claim.slot) < self._job.spec.starts_within * SECOND

    def _chances(self, instance: Instance, time: int, ends: int) -> list[int]:
        """Return when the tick may be claimed: at its time, when trouble has ended, when the lock becomes free.

        What had the job as the tick came runs it also if it is still starting, or hears of the time only later.
        """
        later = [until + _RECOVERS for _, until in instance.wire.troubles]
        later += [at + _SETTLES for at in (instance.ticking_from, instance.wire.first_answer) if at is not None]
        if self._job.spec.waits:
            later += [(claim.held_until * MILLISECOND - EPOCH) + SECOND for claim in self._job.claims]
        return [time, *(begins for begins in later if time < begins < ends)]

    def _is_paused(self, start: int, end: int) -> bool:
        return any(begun <= end and (until is None or until >= start) for begun, until in self._job.paused)

    def _is_well(self, instance: Instance, time: int, begins: int, until: int) -> bool:
        """Return whether the machine lived and had no trouble, and had a place and a worker for the tick."""
        since = time - _SETTLES
        if not self._is_up(instance, time, begins, until):
            return False
        # A body has its job's place, perhaps without its lease.
        places = _AT_ONCE if self._job.spec.overlap == "allow" else 1
        if _at_once(self._job.bodies, instance, begins, until) >= places:
            return False
        if _at_once(self._bodies, instance, since, until) >= self._workers:
            return False
        return self._workers > len(self._scenario.jobs) or not self._is_busy(instance, since, until)

    def _is_up(self, instance: Instance, time: int, begins: int, until: int) -> bool:
        """Return whether the machine lived from before the tick's time on, and had no trouble from `begins` on."""
        since, wire = time - _SETTLES, instance.wire
        if self._job.spec not in instance.jobs:
            return False
        if instance.ticking_from is None or instance.ticking_from > min(time - SECOND, begins - _SETTLES):
            return False
        if wire.first_answer is None or wire.first_answer > begins - _SETTLES:
            return False
        if instance.has_gone(until):
            return False
        if any(start <= until and end > begins - _RECOVERS for start, end in wire.troubles):
            return False
        if any(time - _RECOVERS <= at <= until for at in wire.denied):
            return False  # a refusal of the rules ends a tick
        spans = [*instance.away, *instance.paused_here(self._job.spec.name), *instance.absent(self._job.spec.name)]
        if any(start <= until and end >= since for start, end in spans):
            return False
        return not any(since <= stepped <= until for stepped in instance.stepped)

    def _is_busy(self, instance: Instance, since: int, until: int) -> bool:
        return _at_once(self._bodies, instance, since, until) > 0


def _at_once(bodies: list[Body], instance: Instance, since: int, until: int) -> int:
    """Return how many of these bodies run on a machine at one time, at the most, from `since` to `until`."""
    there = [
        body
        for body in bodies
        if body.machine == instance.name and body.begun <= until and (body.ended is None or body.ended >= since)
    ]
    times = [max(since, body.begun) for body in there]
    return max(
        (sum(one.begun <= at and (one.ended is None or one.ended >= at) for one in there) for at in times), default=0
    )


def held(job: History, start: int, end: int, *, as_found: bool = False) -> Claim | None:
    """Return a claim whose lock counts as held at some time from `start` to `end`; None if it is free all along.

    `as_found` says that the lock counts as whoever asked at that time found it, and not as its record tells it later.
    """
    for number, claim in enumerate(job.claims):
        # A release is dated by its sender. Until it arrives, whoever asks finds the lock held.
        until = claim.held_until * MILLISECOND - EPOCH
        if claim.released_at is not None and until < claim.released_at < until + SECOND:
            until = claim.released_at
        if as_found:
            until = max(until, claim.looked_held_until * MILLISECOND - EPOCH)
        after = job.claims[number + 1].at if number + 1 < len(job.claims) else until
        since = claim.at if as_found else min(claim.at, claim.dated)
        if since <= end and min(until, max(after, claim.at)) >= start:
            return claim
    return None
