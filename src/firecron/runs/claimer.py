"""Claiming: from a tick that is due to a lock in hand, or to the reason why not.

A claim is tried until there is an answer that lasts, or until the tick's grace is over. All tries share one token, so a
write whose reply was lost becomes a win. A loser is done after one request. If the lock that it saw is of a run that
may die, it has the ticker look again when that lock expires.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from firecron.base.backoff import backoff
from firecron.base.clocks import Timing
from firecron.base.instants import to_milliseconds
from firecron.cron.ticks import is_tick
from firecron.errors import Malformed
from firecron.jobs.job import Job
from firecron.jobs.options import JobOptions
from firecron.lock.contender import Bid
from firecron.lock.protocol import Choose, Held
from firecron.lock.record import LockRecord, Refused, Request, parse
from firecron.lock.refusal import Refusal
from firecron.lock.service import LockService
from firecron.runs.agenda import Agenda
from firecron.runs.missing import remember
from firecron.runs.policy import Claim, choose, start_ends
from firecron.runs.turn import PendingClaim, WantedClaim
from firecron.runs.unrun import report_missed, report_skipped


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lock in hand, and the claim that it was taken with (None: a run by hand, which claims no tick)."""

    bid: Bid
    held: Held
    claim: Claim | None


class Claimer:
    """Makes claims. The `agenda` is given each lock that was seen, to look again in case its run dies."""

    def __init__(
        self,
        locks: LockService,
        timing: Timing,
        agenda: Agenda,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._agenda = agenda
        self._chance = chance
        self._margin = locks.settings.margin_ms
        self._strange: set[str] = set()

    def prepare(self, job: Job, wanted: WantedClaim) -> PendingClaim:
        """Give a wanted claim its token."""
        pending = PendingClaim(job, wanted)
        pending.bid = self._bid_for(pending)
        return pending

    def retarget(self, pending: PendingClaim, wanted: WantedClaim) -> None:
        """Leave the tick for another one, and give it up; one that may have been claimed, once that is known."""
        due, refusal = pending.wanted.due, pending.refusal
        assert due is not None, "only a tick is tried again"
        assert refusal is not None, "it has been tried"
        if refusal.reason == "unavailable" and any(claim.slot == due for claim in pending.asked.values()):
            pending.in_doubt.append((due, refusal))
        else:
            self._give_up(pending.job, due, refusal)
        pending.retarget(wanted)

    def drop(self, pending: PendingClaim) -> None:
        """Try no more: give up the ticks that are in doubt."""
        self._settle_doubts(pending)

    def claim(self, pending: PendingClaim) -> Claimed | Refusal | float | None:
        """Try once. Returns the claim, the refusal that is final, or the seconds until the next try; None once the
        tick's grace is over.
        """
        job, wanted, due = pending.job, pending.wanted, pending.wanted.due
        while True:
            if pending.ends is None and wanted.is_patient:
                pending.ends = self._ends(job.options, due)
            left = self._left(pending)
            if left <= 0:
                self._settle_doubts(pending)
                assert due is not None, "only a tick has an end"
                self._give_up(job, due, pending.refusal)
                return None
            answer = self._locks.contender.attempt(pending.bid, within=left)
            if isinstance(answer, Held):
                replaced = _record(answer.replaced, answer.term.reading.server)
                self._compare(job, None if replaced is None else replaced.slot)
                # What was asked for at the reading from which this very lease is aged.
                claim = pending.asked[answer.term.reading.server]
                self._settle_doubts(pending, claim.slot)
                return Claimed(pending.bid, answer, claim)
            pending.refusal = answer
            if answer.reason != "unavailable":
                self._settle_doubts(pending)
            self._note(job, answer)
            pending.tries += 1
            delay = self._delay(pending, answer)
            if not (wanted.is_patient and pending.ends is None and self._is_late(job.options, due)):
                break  # else RTDB's time was not known before, and so not how late the tick is
        if delay is None:
            if answer.reason == "unavailable" and wanted.trigger == "rerun":
                self._look_again_soon(job)
            # A look that finds nothing to do has lost nothing.
            slot = wanted.tick_to_report
            if answer.reason != "slot_done" or slot is not None:
                self._locks.contender.tell(answer)
            if slot is not None and _is_no_overlap(answer):
                report_missed(self._events, job.name, slot, f"its lock is held, and {answer.problem}")
            return answer
        if pending.tries == 1:
            self._say_that_it_waits(job, due, answer)
        # Not past the end of its grace.
        return max(0.0, min(delay, self._left(pending)))

    def claim_manually(self, job: Job) -> Claimed | Refusal:
        """Take the lock for a run that claims no tick."""
        options = job.options

        def ask(request: Request, node: object, now: int) -> Request:
            record = _record(node, now)
            return request if record is None else replace(request, missed=remember(record, options.schedule, now))

        bid = self._bid(options, ask)
        answer = self._locks.contender.attempt(bid)
        if isinstance(answer, Refusal):
            self._locks.contender.tell(answer)
            return answer
        return Claimed(bid, answer, None)

    def _left(self, pending: PendingClaim) -> float:
        return math.inf if pending.ends is None else (pending.ends - self._timing.mono()) / 1000

    def _ends(self, options: JobOptions, due: str | None) -> float | None:
        """Until when a tick may start, on the monotonic clock; None without a tick, or while RTDB's time is not
        known.
        """
        moment = self._locks.clock.peek()
        if due is None or moment is None:
            return None
        # The reading is cut to the millisecond, and within that one the tick may still start.
        return moment.mono + start_ends(options, due) - moment.server + 1

    def _is_late(self, options: JobOptions, due: str | None) -> bool:
        ends = self._ends(options, due)
        return ends is not None and self._timing.mono() >= ends

    def _bid_for(self, pending: PendingClaim) -> Bid:
        """A bid that asks, at each try, for the claim that is wanted by then."""
        options = pending.job.options

        def ask(request: Request, node: object, now: int) -> Request | Refused:
            try:
                current = parse(node, now)
            except Malformed:
                return request  # `decide` will refuse it, and say why
            wanted, due = pending.wanted, pending.wanted.due
            record = current if isinstance(current, LockRecord) else None
            if due is not None and wanted.is_patient and now > start_ends(options, due):
                due = None  # RTDB's time was not known before; what the record says is claimed all the same
            if wanted.looks_back and (record is None or record.slot is None):
                return Refused("slot_done", current)
            claim = choose(record, options, due, now, self._margin, wanted.trigger)
            if claim is None:
                return Refused("slot_done", current)
            pending.asked[now] = claim
            if not options.once_per_tick:
                return request
            return replace(request, slot=claim.slot, rerun=claim.is_rerun, missed=claim.missed)

        return self._bid(options, ask)

    def _bid(self, options: JobOptions, choose: Choose) -> Bid:
        return self._locks.contender.bid(
            options.name,
            options.lock_ttl / 1000,
            hold_at_least=options.hold_at_least / 1000,
            renews=options.renew,
            max_runtime=options.max_runtime,
            fenced=options.once_per_tick,
            momentary=not options.has_lease,
            choose=choose,
        )

    def _delay(self, pending: PendingClaim, refusal: Refusal) -> float | None:
        """Seconds until the next try for the same tick; None if this refusal is final."""
        if pending.wanted.due is None or not pending.wanted.is_patient:
            return None
        if refusal.reason in ("unavailable", "slot_early"):
            return backoff(pending.tries + 2, self._chance())
        if refusal.reason == "held" and pending.job.options.waits:
            return 0.5 + 4.5 * self._chance()
        return None

    def _settle_doubts(self, pending: PendingClaim, claimed: str | None = None) -> None:
        """Which tick was claimed, if any, is known now: give up the others."""
        doubts, pending.in_doubt = pending.in_doubt, []
        for due, refusal in doubts:
            if due != claimed:
                self._give_up(pending.job, due, refusal)

    def _give_up(self, job: Job, due: str, refusal: Refusal | None) -> None:
        if refusal is not None:
            self._locks.contender.tell(refusal)
        if refusal is None or refusal.reason != "held":
            report_missed(self._events, job.name, due, "it could not start in time")
        elif _is_no_overlap(refusal):
            report_missed(self._events, job.name, due, f"its lock is held, and {refusal.problem}")
        else:
            report_skipped(self._events, job.name, due, "the run before it did not end in time")

    def _say_that_it_waits(self, job: Job, due: str | None, refusal: Refusal) -> None:
        level = logging.WARNING if refusal.reason == "unavailable" else logging.INFO
        message = f'"{job.name}" can\'t start its tick {due} yet, and goes on trying: {refusal.message}'
        self._events.emit("run.delayed", job.name, level, message, slot=due, reason=refusal.reason)

    def _note(self, job: Job, refusal: Refusal) -> None:
        """What a refusal shows besides: a run that may have to be taken over, or another schedule."""
        self._compare(job, refusal.slot)
        if job.options.reruns and refusal.unfinished is not None and refusal.until is not None:
            expires = to_milliseconds(refusal.until) + self._margin
            moment = self._locks.clock.peek()
            if moment is not None and expires > moment.server:
                self._agenda.look_again(job, expires)

    def _look_again_soon(self, job: Job) -> None:
        """Look again in a few seconds: the database could not be reached when a run was to be taken over."""
        moment = self._locks.clock.peek()
        self._agenda.look_again(job, 0 if moment is None else moment.server + round(2_000 + 3_000 * self._chance()))

    def _compare(self, job: Job, slot: str | None) -> None:
        """Say once that somebody claims ticks that this instance's schedule doesn't have."""
        if slot is None or job.name in self._strange or not job.options.once_per_tick:
            return
        schedule = job.options.schedule
        if is_tick(schedule, slot):
            return
        self._strange.add(job.name)
        message = (
            f'"{job.name}" ran a tick at {slot}, which its schedule [{schedule.line}] ({schedule.timezone}) doesn\'t '
            "have: another revision has another schedule, and each runs its own while both are there; or somebody ran "
            "that instant by hand"
        )
        self._events.emit("job.schedule_differs", job.name, logging.WARNING, message, slot=slot, line=schedule.line)


def _is_no_overlap(refusal: Refusal) -> bool:
    """Whether the lock in the way is no run's that is under way: its holder is silent, or nothing frees it but an
    operator.
    """
    return refusal.reason == "held" and refusal.is_strange


def _record(node: object, now: int) -> LockRecord | None:
    try:
        current = parse(node, now)
    except Malformed:
        return None
    return current if isinstance(current, LockRecord) else None
