"""Claiming: from a tick that is due to a lock in hand, or to the reason why not.

A tick is tried until there is an answer that lasts, or until its grace is over, with one token: so a write whose reply
was lost becomes a win. A loser is done after one request; if it saw a lock that somebody may die under, it has the
ticker look again when that lock expires.
"""

from __future__ import annotations

import logging
import math
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Protocol

from firecron.base.backoff import backoff
from firecron.base.clocks import Timing
from firecron.base.instants import to_milliseconds
from firecron.cron.ticks import is_tick
from firecron.errors import Malformed
from firecron.jobs.job import Job
from firecron.jobs.options import JobOptions
from firecron.jobs.run import Trigger
from firecron.lock.protocol import Held
from firecron.lock.record import LockRecord, Refused, Request, parse
from firecron.lock.refusal import Refusal
from firecron.lock.service import Bid, LockService
from firecron.runs.missing import remember
from firecron.runs.policy import Claim, choose, start_ends


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lock in hand, and what it was claimed for (None: no tick, but a run by hand)."""

    bid: Bid
    held: Held
    claim: Claim | None


@dataclass(frozen=True, slots=True)
class Wish:
    """What a claim is wanted for: the tick `due`, and before it what the record says; without a tick, only for the
    latter.

    A patient wish is tried until the tick's grace is over, another once, whatever the grace. One that `looks_back`
    is for a tick of before this instance was there: it counts only where the job has run before.
    """

    due: str | None
    trigger: Trigger
    is_patient: bool = True
    looks_back: bool = False


@dataclass(eq=False)
class Pursuit:
    """A wish through all its tries, which share a token.

    `asked` are the claims that were asked for, by the instant of the asking: any of them may have been written although
    its reply was lost. `in_doubt` are earlier ticks for which that is still open, with the last refusal of each.
    """

    job: Job
    wish: Wish
    bid: Bid = field(init=False)
    ends: float | None = None
    tries: int = 0
    refusal: Refusal | None = None
    asked: dict[int, Claim] = field(default_factory=dict)
    in_doubt: list[tuple[str, Refusal]] = field(default_factory=list)

    def move_on(self, wish: Wish) -> None:
        """Go after another tick, with the same token: a write whose reply was lost may still become a win."""
        self.wish = wish
        self.ends = None
        self.tries = 0
        self.refusal = None


class Lookout(Protocol):
    """Looks for runs that died."""

    def look_again(self, job: Job, instant: int) -> None:
        """Look when RTDB's clock shows the instant: a lock that was seen expires then."""


class Claimer:
    """Claims; the `lookout` is told of locks that may be a dead run's when they expire."""

    def __init__(
        self,
        locks: LockService,
        timing: Timing,
        lookout: Lookout,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._lookout = lookout
        self._chance = chance
        self._margin = locks.settings.margin_ms
        self._strange: set[str] = set()

    def pursue(self, job: Job, wish: Wish) -> Pursuit:
        """Set out for a claim."""
        pursuit = Pursuit(job, wish)
        pursuit.bid = self._bid_for(pursuit)
        return pursuit

    def move_on(self, pursuit: Pursuit, wish: Wish) -> None:
        """Leave its tick for another. A tick that may have been claimed is not given up before that is known."""
        due, refusal = pursuit.wish.due, pursuit.refusal
        assert due is not None, "only a tick is tried again"
        assert refusal is not None, "it has been tried"
        if refusal.reason == "unavailable" and any(claim.slot == due for claim in pursuit.asked.values()):
            pursuit.in_doubt.append((due, refusal))
        else:
            self._give_up(pursuit.job, due, refusal)
        pursuit.move_on(wish)

    def abandon(self, pursuit: Pursuit) -> None:
        """Try no more: whatever was in doubt is given up."""
        self._settle_doubts(pursuit)

    def claim(self, pursuit: Pursuit) -> Claimed | Refusal | float | None:
        """Try once: a claim, the refusal that is the answer, or the seconds until the next try. None: its time is
        over.
        """
        job, wish, due = pursuit.job, pursuit.wish, pursuit.wish.due
        while True:
            if pursuit.ends is None and wish.is_patient:
                pursuit.ends = self._ends(job.options, due)
            left = self._left(pursuit)
            if left <= 0:
                self._settle_doubts(pursuit)
                assert due is not None, "only a tick has an end"
                self._give_up(job, due, pursuit.refusal)
                return None
            answer = self._locks.attempt(pursuit.bid, within=left)
            if isinstance(answer, Held):
                replaced = _record(answer.replaced, answer.term.reading.server)
                self._compare(job, None if replaced is None else replaced.slot)
                # What was asked for at the reading that this very lease is aged from.
                claim = pursuit.asked[answer.term.reading.server]
                self._settle_doubts(pursuit, claim.slot)
                return Claimed(pursuit.bid, answer, claim)
            pursuit.refusal = answer
            if answer.reason != "unavailable":
                self._settle_doubts(pursuit)
            self._note(job, answer)
            pursuit.tries += 1
            delay = self._delay(pursuit, answer)
            if not (wish.is_patient and pursuit.ends is None and self._is_late(job.options, due)):
                break  # else it was not known before how late it is
        if delay is None:
            if answer.reason == "unavailable" and wish.trigger == "rerun":
                self._look_again_soon(job)
            # Who only looks whether there is something to do is no loser if there isn't.
            if answer.reason != "slot_done" or (due is not None and not wish.looks_back):
                self._locks.tell(answer)
            if due is not None and not wish.looks_back and _is_no_overlap(answer):
                self._miss(job, due, f"its lock is held, and {answer.problem}")
            return answer
        if pursuit.tries == 1:
            self._say_that_it_waits(job, due, answer)
        # Not past the end.
        return max(0.0, min(delay, self._left(pursuit)))

    def claim_manually(self, job: Job) -> Claimed | Refusal:
        """The lock for a run that claims no tick."""
        options = job.options

        def ask(request: Request, node: object, now: int) -> Request:
            record = _record(node, now)
            return request if record is None else replace(request, missed=remember(record, options.schedule, now))

        bid = self._bid(options, choose=ask)
        answer = self._locks.attempt(bid)
        if isinstance(answer, Refusal):
            self._locks.tell(answer)
            return answer
        return Claimed(bid, answer, None)

    def _left(self, pursuit: Pursuit) -> float:
        return math.inf if pursuit.ends is None else (pursuit.ends - self._timing.mono()) / 1000

    def _ends(self, options: JobOptions, due: str | None) -> float | None:
        """Until when a tick may start, on the monotonic clock; None without a tick, or where RTDB's time isn't
        known.
        """
        moment = self._locks.clock.peek()
        if due is None or moment is None:
            return None
        # The reading is cut to the millisecond: at that very one it may start still.
        return moment.mono + start_ends(options, due) - moment.server + 1

    def _is_late(self, options: JobOptions, due: str | None) -> bool:
        ends = self._ends(options, due)
        return ends is not None and self._timing.mono() >= ends

    def _bid_for(self, pursuit: Pursuit) -> Bid:
        """What to ask for; each time for the tick that is pursued by then."""
        options = pursuit.job.options

        def ask(request: Request, node: object, now: int) -> Request | Refused:
            try:
                current = parse(node, now)
            except Malformed:
                return request  # which `decide` will refuse, saying why
            wish, due = pursuit.wish, pursuit.wish.due
            record = current if isinstance(current, LockRecord) else None
            if due is not None and wish.is_patient and now > start_ends(options, due):
                due = None  # the time was not known before; what others left is claimed all the same
            if wish.looks_back and (record is None or record.slot is None):
                return Refused("slot_done", current)
            claim = choose(record, options, due, now, self._margin)
            if claim is None:
                return Refused("slot_done", current)
            pursuit.asked[now] = replace(claim, trigger=wish.trigger) if claim.trigger == "schedule" else claim
            if not options.once_per_tick:
                return request
            return replace(request, slot=claim.slot, rerun=claim.is_rerun, missed=claim.missed)

        return self._bid(options, choose=ask)

    def _bid(self, options: JobOptions, **wishes: object) -> Bid:
        return self._locks.bid(
            options.name,
            options.lock_ttl / 1000,
            hold_at_least=options.hold_at_least / 1000,
            renews=options.renew,
            max_runtime=options.max_runtime,
            fenced=options.once_per_tick,
            momentary=options.overlap == "allow",
            **wishes,  # type: ignore[arg-type]  # the keywords of `bid`, from the callers above
        )

    def _delay(self, pursuit: Pursuit, refusal: Refusal) -> float | None:
        """Seconds until the next try for the same tick; None: this refusal is the answer."""
        if pursuit.wish.due is None or not pursuit.wish.is_patient:
            return None
        if refusal.reason in ("unavailable", "slot_early"):
            return backoff(pursuit.tries + 2, self._chance())
        if refusal.reason == "held" and pursuit.job.options.overlap == "queue":
            return 0.5 + 4.5 * self._chance()
        return None

    def _settle_doubts(self, pursuit: Pursuit, claimed: str | None = None) -> None:
        """It is known now which tick was claimed, if any: the others are given up."""
        doubts, pursuit.in_doubt = pursuit.in_doubt, []
        for due, refusal in doubts:
            if due != claimed:
                self._give_up(pursuit.job, due, refusal)

    def _give_up(self, job: Job, due: str, refusal: Refusal | None) -> None:
        if refusal is not None:
            self._locks.tell(refusal)
        if refusal is None or refusal.reason != "held":
            self._miss(job, due, "it could not start in time")
        elif _is_no_overlap(refusal):
            self._miss(job, due, f"its lock is held, and {refusal.problem}")
        else:
            message = f'"{job.name}" skips its tick {due}: the run before it did not end in time'
            self._events.emit("run.skipped", job.name, logging.INFO, message, slot=due)

    def _miss(self, job: Job, due: str, why: str) -> None:
        message = f'"{job.name}" missed its tick {due}: {why}'
        self._events.emit("run.missed", job.name, logging.WARNING, message, slot=due)

    def _say_that_it_waits(self, job: Job, due: str | None, refusal: Refusal) -> None:
        level = logging.WARNING if refusal.reason == "unavailable" else logging.INFO
        message = f'"{job.name}" can\'t start its tick {due} yet, and goes on trying: {refusal.message}'
        self._events.emit("run.delayed", job.name, level, message, slot=due, reason=refusal.reason)

    def _note(self, job: Job, refusal: Refusal) -> None:
        """What a refusal tells beside the answer: who may have to take a dead run over, and other schedules."""
        self._compare(job, refusal.slot)
        if job.options.on_abandoned == "rerun" and refusal.unfinished is not None and refusal.until is not None:
            expires = to_milliseconds(refusal.until) + self._margin
            moment = self._locks.clock.peek()
            if moment is not None and expires > moment.server:
                self._lookout.look_again(job, expires)

    def _look_again_soon(self, job: Job) -> None:
        """The database could not be reached at the moment when a run was to be taken over."""
        moment = self._locks.clock.peek()
        self._lookout.look_again(job, 0 if moment is None else moment.server + round(2_000 + 3_000 * self._chance()))

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
