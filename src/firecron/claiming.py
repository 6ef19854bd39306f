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
from dataclasses import dataclass, replace
from datetime import datetime

from firecron.backoff import backoff
from firecron.claims import Claim, choose, is_tick, missed_after
from firecron.conversation import Held
from firecron.errors import Malformed
from firecron.explorer import Job
from firecron.instants import to_datetime, to_milliseconds
from firecron.job_options import JobOptions
from firecron.lock import Bid, LockService
from firecron.record import LockRecord, Refused, Request, parse
from firecron.refusal import Refusal
from firecron.run import Trigger
from firecron.timing import Timing


@dataclass(frozen=True, slots=True)
class Claimed:
    """A lock in hand, and what it was claimed for (None: no tick, but a run by hand)."""

    bid: Bid
    held: Held
    claim: Claim | None


class Claimer:
    """Claims. `pause` waits so many seconds, and says whether to go on; `look_again` gets a job and the moment (RTDB's
    time) when a lock expires.
    """

    def __init__(
        self,
        locks: LockService,
        timing: Timing,
        pause: Callable[[float], bool],
        look_again: Callable[[Job, int], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._pause = pause
        self._look_again = look_again
        self._chance = chance
        self._margin = round(locks.settings.margin * 1000)
        self._strange: set[str] = set()

    def claim(self, job: Job, due: str | None, trigger: Trigger) -> Claimed | Refusal | None:
        """Claim the tick `due`, or what the record says comes before it. None: its time is over, or the instance
        stops.
        """
        bid = self._bid_for(job.options, due)
        ends: float | None = None
        tries = 0
        refusal: Refusal | None = None
        while True:
            ends = self.ends(job.options, due) if ends is None else ends
            left = math.inf if ends is None else (ends - self._timing.mono()) / 1000
            if left <= 0:
                self._give_up(job, due, refusal)
                return None
            answer = self._locks.attempt(bid, within=left)
            if isinstance(answer, Held):
                replaced = _record(answer.replaced, answer.term.reading.server)
                self._compare(job, None if replaced is None else replaced.slot)
                return Claimed(bid, answer, _claimed(answer.record, job.options, due, trigger))
            refusal = answer
            self._note(job, answer)
            tries += 1
            delay = self._delay(job.options, answer, due, tries)
            if ends is None and self._is_late(job.options, due):
                continue  # it was not known before how late it is
            if delay is None:
                if due is not None or answer.reason != "slot_done":
                    self._locks.tell(answer)
                return answer
            if tries == 1:
                self._say_that_it_waits(job, due, answer)
            left = math.inf if ends is None else max(0.0, ends - self._timing.mono()) / 1000
            # Not past the end, and at least a little.
            if not self._pause(max(min(delay, left), 0.001)):
                return None

    def claim_manually(self, job: Job) -> Claimed | Refusal:
        """The lock for a run that claims no tick."""
        options = job.options

        def ask(request: Request, node: object, now: int) -> Request:
            record = _record(node, now)
            return request if record is None else replace(request, missed_after=missed_after(record, options, now))

        bid = self._bid(options, choose=ask)
        answer = self._locks.attempt(bid)
        if isinstance(answer, Refusal):
            self._locks.tell(answer)
            return answer
        return Claimed(bid, answer, None)

    def ends(self, options: JobOptions, due: str | None) -> float | None:
        """Until when a tick may start, on the monotonic clock; None without a tick, or where RTDB's time isn't
        known.
        """
        moment = self._locks.clock.peek()
        if due is None or moment is None:
            return None
        # The reading is cut to the millisecond: at that very one it may start still.
        return moment.mono + start_ends(options, due) - moment.server + 1

    def _is_late(self, options: JobOptions, due: str | None) -> bool:
        ends = self.ends(options, due)
        return ends is not None and self._timing.mono() >= ends

    def _bid_for(self, options: JobOptions, due: str | None) -> Bid:
        def ask(request: Request, node: object, now: int) -> Request | Refused:
            try:
                current = parse(node, now)
            except Malformed:
                return request  # which `decide` will refuse, saying why
            if due is not None and now > start_ends(options, due):
                return Refused("slot_done", current)  # the time was not known when it was asked for
            if not options.once_per_tick:
                return request
            record = current if isinstance(current, LockRecord) else None
            claim = choose(record, options, due, now, self._margin)
            if claim is None:
                return Refused("slot_done", current)
            return replace(request, slot=claim.slot, rerun=claim.is_rerun, missed_after=claim.missed_after)

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

    def _delay(self, options: JobOptions, refusal: Refusal, due: str | None, tries: int) -> float | None:
        """Seconds until the next try for the same tick; None: this refusal is the answer."""
        if due is None:
            return None
        if refusal.reason in ("unavailable", "slot_early"):
            return backoff(tries + 2, self._chance())
        if refusal.reason == "held" and options.overlap == "queue":
            return 0.5 + 4.5 * self._chance()
        return None

    def _give_up(self, job: Job, due: str | None, refusal: Refusal | None) -> None:
        if refusal is not None:
            self._locks.tell(refusal)
        if refusal is not None and refusal.reason == "held":
            message = f'"{job.name}" skips its tick {due}: the run before it did not end in time'
            self._events.emit("run.skipped", job.name, logging.INFO, message, slot=due)
        else:
            message = f'"{job.name}" missed its tick {due}: it could not start within its grace'
            self._events.emit("run.missed", job.name, logging.WARNING, message, slot=due)

    def _say_that_it_waits(self, job: Job, due: str | None, refusal: Refusal) -> None:
        level = logging.WARNING if refusal.reason == "unavailable" else logging.INFO
        message = f'"{job.name}" can\'t start its tick {due} yet, and goes on trying: {refusal.message}'
        self._events.emit("run.delayed", job.name, level, message, slot=due, reason=refusal.reason)

    def _note(self, job: Job, refusal: Refusal) -> None:
        """What a refusal tells beside the answer: who may have to take a dead run over, and other schedules."""
        self._compare(job, refusal.slot)
        if job.options.on_abandoned == "rerun" and refusal.unfinished is not None and refusal.until is not None:
            expires = round(refusal.until.timestamp() * 1000) + self._margin
            moment = self._locks.clock.peek()
            if moment is not None and expires > moment.server:
                self._look_again(job, expires)

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
            "have: another revision has another schedule, and each runs its own while both are there"
        )
        self._events.emit("job.schedule_differs", job.name, logging.WARNING, message, slot=slot, line=schedule.line)


# A tick that is handed over within its own second is never late.
_LEAST_GRACE = 1_000


def start_ends(options: JobOptions, due: str) -> int:
    """Until when a tick may start, in RTDB's time: its grace; a queued one waits until the next tick, or for a grace
    that was given.
    """
    if options.overlap == "queue" and not options.grace_given:
        return round(options.schedule.after(_instant(due)).timestamp() * 1000)
    return to_milliseconds(due) + max(options.grace, _LEAST_GRACE)


def _claimed(record: LockRecord, options: JobOptions, due: str | None, trigger: Trigger) -> Claim:
    """Which slot a record says was claimed, and why."""
    # Only a run that is watched is unfinished, and may be a rerun.
    is_watched = options.once_per_tick and options.overlap != "allow"
    slot = record.unfinished if is_watched else record.slot if options.once_per_tick else due
    assert slot is not None, "a tick is due, or a slot was claimed"
    if is_watched and (record.attempt or 1) > 1:
        return Claim(slot, "rerun")
    return Claim(slot, trigger if slot == due else "catch_up")


def _record(node: object, now: int) -> LockRecord | None:
    try:
        current = parse(node, now)
    except Malformed:
        return None
    return current if isinstance(current, LockRecord) else None


def _instant(slot: str) -> datetime:
    return to_datetime(to_milliseconds(slot))
