"""Claiming: the claimer takes the lock for a tick that is due, or returns the refusal.

A claim is tried until its answer is final, or until the tick's grace is over. All tries share one token, so a write
whose reply was lost becomes a win. An instance that loses a tick makes one request. If the refused lock belongs to a
run that may die, the claimer asks the agenda to look again when that lock expires.
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
from firecron.lock.bid import Bid
from firecron.lock.protocol import Choose, Held
from firecron.lock.record import LockRecord, Refused, parse
from firecron.lock.refusal import Refusal
from firecron.lock.request import Request
from firecron.lock.service import LockService
from firecron.runs.agenda import Agenda
from firecron.runs.cancelling import Canceller
from firecron.runs.ears import Ears
from firecron.runs.missing import remember
from firecron.runs.policy import Claim, choose, is_late_for, start_ends
from firecron.runs.resuming import Resumed
from firecron.runs.turn import PendingClaim, WantedClaim
from firecron.runs.unrun import report_missed, report_skipped


@dataclass(frozen=True, slots=True)
class Claimed:
    """An acquired lock and its claim. The claim is None for a run by hand, which claims no tick; it may resume one."""

    bid: Bid
    held: Held
    claim: Claim | None
    resumed: Resumed | None = None

    @property
    def slot(self) -> str | None:
        """The tick that is run."""
        if self.resumed is not None:
            return self.resumed.slot
        return None if self.claim is None else self.claim.slot

    @property
    def key(self) -> str | None:
        """The key of the run in the history; None for a run by hand, which makes a new one."""
        return self.slot if self.resumed is None else self.resumed.key

    @property
    def is_first(self) -> bool:
        """Whether nobody can have claimed this tick before: an attempt counts the claims since its own first one."""
        return self.resumed is None and (self.claim is None or self.held.record.attempt == 1)


class Claimer:
    """Makes claims. The `agenda` is asked to look again at a refused lock when it expires, in case its run has died."""

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
        self._request_timeout = locks.settings.request_timeout
        self._canceller = Canceller(locks)
        self._strange: set[str] = set()
        self._ears = Ears(locks, timing, agenda, chance)

    def prepare(self, job: Job, wanted: WantedClaim) -> PendingClaim:
        """Return a pending claim, with a token of its own, for a wanted claim."""
        pending = PendingClaim(job, wanted)
        pending.bid = self._bid_for(pending)
        return pending

    def retarget(self, pending: PendingClaim, wanted: WantedClaim) -> None:
        """Give a pending claim another tick, and give up the tick that it was for.

        If that tick may have been claimed by a write whose reply was lost, it is given up once this is known.
        """
        due, refusal = pending.wanted.due, pending.refusal
        assert due is not None, "only a tick is tried again"
        assert refusal is not None, "it has been tried"
        if refusal.reason == "unavailable" and any(claim.slot == due for claim in pending.asked.values()):
            pending.in_doubt.append((due, refusal))
        else:
            self._give_up(pending.job, due, refusal)
        pending.retarget(wanted)

    def drop(self, pending: PendingClaim) -> None:
        """End a pending claim: give up the ticks that are in doubt."""
        self._ears.close(pending.job)
        self._settle_doubts(pending)

    def claim(self, pending: PendingClaim) -> Claimed | Refusal | float | None:
        """Try once. Return the acquired lock, the final refusal, or the seconds until the next try.

        Return None once the tick's grace is over.
        """
        answer: Claimed | Refusal | float | None = None
        try:
            answer = self._claim(pending)
        finally:
            if not isinstance(answer, float):
                self._ears.close(pending.job)
        return answer

    def pause(self, pending: PendingClaim, planned: float) -> float | None:
        """Return the seconds until the next try of a claim that may hear of another instance's release.

        `planned` are those until the planned try. If nothing is heard any more, no try comes later than planned: a
        stream that fails again and again would put it off each time. Return None if this claim never hears anything.
        """
        if pending.refusal is None or pending.refusal.reason != "held" or not self._ears.has_one(pending.job):
            return None
        heard = self._ears.seconds(pending.job)
        pause = min(self._polled(), planned) if heard is None else heard
        # The next try comes at the end of the grace at the latest.
        return max(0.0, min(pause, self._left(pending)))

    def forget(self) -> None:
        """Listen for no turn any more: the turns are dropped, or a forked child's parent has them."""
        self._ears.forget()

    def _claim(self, pending: PendingClaim) -> Claimed | Refusal | float | None:
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
            # `ask` claims nothing after the grace, but the reply may come later. Without time for it, a claim that was
            # written would keep the lock for a ttl, without a run.
            self._ears.start(job)
            answer = self._locks.contender.attempt(pending.bid, within=max(left, self._request_timeout))
            if isinstance(answer, Held):
                replaced = _record(answer.replaced, answer.term.reading.server)
                self._compare(job, None if replaced is None else replaced.slot)
                # The claim that was asked for at the reading from which this lease's age is counted.
                claim = pending.asked[answer.term.reading.server]
                self._settle_doubts(pending, claim.slot)
                return Claimed(pending.bid, answer, claim)
            pending.refusal = answer
            if answer.reason != "unavailable":
                self._settle_doubts(pending)
            self._note(job, answer)
            self._canceller.cancel_elsewhere(pending, answer)
            pending.tries += 1
            delay = self._delay(pending, answer)
            if not (wanted.is_patient and pending.ends is None and self._is_late(job.options, due)):
                break  # else RTDB's time has just become known, and shows that the grace is over
        if delay is None:
            if answer.reason == "unavailable" and wanted.insists:
                self._look_again_soon(job)
            # A look (a claim without a tick) that finds nothing to do is not worth an event.
            slot = wanted.tick_to_report
            if answer.reason != "slot_done" or slot is not None:
                self._locks.contender.tell(answer)
            if slot is not None and _is_no_overlap(answer):
                report_missed(self._events, job.name, slot, f"its lock is held, and {answer.problem}")
            return answer
        if pending.tries == 1:
            self._say_that_it_waits(job, due, answer)
        # The next try comes at the end of the grace at the latest.
        return max(0.0, min(delay, self._left(pending)))

    def claim_manually(self, job: Job) -> Claimed | Refusal:
        """Acquire the lock for a run by hand, which claims no tick."""
        options = job.options

        def ask(request: Request, node: object, now: int) -> Request | Refused:
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
        """Return until when the tick may start, on the monotonic clock.

        Return None without a tick, or while RTDB's time is not known.
        """
        moment = self._locks.clock.peek()
        if due is None or moment is None:
            return None
        # RTDB's time is cut to whole milliseconds, and the tick may still start within its last one.
        return moment.mono + start_ends(options, due) - moment.server + 1

    def _is_late(self, options: JobOptions, due: str | None) -> bool:
        ends = self._ends(options, due)
        return ends is not None and self._timing.mono() >= ends

    def _bid_for(self, pending: PendingClaim) -> Bid:
        """Return a bid that asks at each try for the claim that is wanted at that time."""
        options = pending.job.options

        def ask(request: Request, node: object, now: int) -> Request | Refused:
            try:
                current = parse(node, now)
            except Malformed:
                return request  # `decide` refuses a malformed record, with the reason
            wanted, due = pending.wanted, pending.wanted.due
            record = current if isinstance(current, LockRecord) else None
            if due is not None and wanted.is_patient and now > start_ends(options, due):
                due = None  # RTDB's time has just become known: too late for the tick, not for the record's own claims
            if wanted.looks_back and (record is None or record.slot is None):
                return Refused("slot_done", current)
            is_late = wanted.is_later and due is not None and is_late_for(record, due, now, self._margin)
            claim = choose(record, options, None if is_late else due, now, self._margin, wanted.trigger)
            if claim is None:
                return Refused("held" if is_late else "slot_done", current)
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
        """Return the seconds until the next try for the same tick; None if this refusal is final."""
        if pending.wanted.due is None or not pending.wanted.is_patient:
            return None
        if refusal.reason in ("unavailable", "slot_early"):
            return backoff(pending.tries + 2, self._chance())
        if refusal.reason == "held" and pending.job.options.waits:
            self._ears.refused(pending.job, refusal)
            return self._pause(pending.job)
        return None

    def _pause(self, job: Job) -> float:
        heard = self._ears.seconds(job)
        return self._polled() if heard is None else heard

    def _polled(self) -> float:
        return 0.5 + 4.5 * self._chance()

    def _settle_doubts(self, pending: PendingClaim, claimed: str | None = None) -> None:
        """Give up the ticks in doubt, except the `claimed` one: it is now known which tick was claimed, if any."""
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
        message = f'"{job.name}" can\'t start its tick {due} yet, and tries again: {refusal.message}'
        self._events.emit("run.delayed", job.name, level, message, slot=due, reason=refusal.reason)

    def _note(self, job: Job, refusal: Refusal) -> None:
        """Look in a refusal for a run that may have to be taken over, and for a tick of another schedule."""
        self._compare(job, refusal.slot)
        if job.options.reruns and refusal.unfinished is not None and refusal.until is not None:
            expires = to_milliseconds(refusal.until) + self._margin
            moment = self._locks.clock.peek()
            if moment is not None and expires > moment.server:
                self._agenda.look_again(job, expires)

    def _look_again_soon(self, job: Job) -> None:
        """Ask the agenda to look again in a few seconds.

        The database could not be reached when a run was to be taken over.
        """
        moment = self._locks.clock.peek()
        self._agenda.look_again(job, 0 if moment is None else moment.server + round(2_000 + 3_000 * self._chance()))

    def _compare(self, job: Job, slot: str | None) -> None:
        """Log once per job a claimed slot that is no tick of this instance's schedule."""
        if slot is None or job.name in self._strange or not job.options.once_per_tick:
            return
        schedule = job.options.schedule
        if is_tick(schedule, slot):
            return
        self._strange.add(job.name)
        message = (
            f'"{job.name}" ran a tick at {slot}, which its schedule {schedule} doesn\'t have: another '
            "revision has another schedule, and each revision runs its own ticks until one is gone; or somebody has "
            "started a run for that instant by hand"
        )
        self._events.emit("job.schedule_differs", job.name, logging.WARNING, message, slot=slot, line=schedule.line)


def _is_no_overlap(refusal: Refusal) -> bool:
    """Return whether a lock is held although no run is under way.

    Its holder's instance is silent, or only an operator can free the lock.
    """
    return refusal.reason == "held" and refusal.is_strange


def _record(node: object, now: int) -> LockRecord | None:
    try:
        current = parse(node, now)
    except Malformed:
        return None  # `decide` refuses it, with the reason
    return current if isinstance(current, LockRecord) else None
