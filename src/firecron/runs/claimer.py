"""Claiming: the claimer takes the lock for a tick that is due, for a run by hand or to resume a tick, or returns the
refusal.

    Claimer    claims a tick that is due, and what the record leaves to do before it. With `overlap="cancel_previous"`
               it asks the run of an earlier tick to end
    Resumer    claims a tick anew, by hand, and looks at its history under the lock

A claim is tried until its answer is final, or until the tick's grace is over. All tries share one token, so a write
whose reply was lost becomes a win. An instance that loses a tick makes one request. If the refused lock belongs to a
run that may die, the lanes look again when that lock expires.

A claim replaces the record, so it owes the history what the record knew, as each claim does. The runner has the
history write that for a run that begins, and the resumer for a claim that it gives back.
"""

from __future__ import annotations

import logging
import math
import weakref
from collections.abc import Iterable
from dataclasses import dataclass, replace

from firecron.base.clocks import LONGEST_HEEDED, backoff, heeding
from firecron.base.instants import to_milliseconds
from firecron.cron.schedule import is_tick
from firecron.errors import ConfigurationError, Denied, Malformed, StoreError
from firecron.jobs.job import Job
from firecron.jobs.options import JobOptions
from firecron.lock.blocks import Tries
from firecron.lock.database import Database
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid, Held, is_outdated
from firecron.lock.record import IDLE, Choose, Current, LockRecord, Refused, Request, parse
from firecron.lock.refusal import Refusal, claimed_since, not_known, paused
from firecron.runs.history import History
from firecron.runs.lane import Attempt, PendingClaim
from firecron.runs.lanes import Lanes, report_missed, report_skipped
from firecron.runs.look import claimable
from firecron.runs.policy import (
    Claim,
    Resumed,
    before_manual,
    check_key,
    choose,
    evaluate_resume,
    is_late_for,
    remember,
    start_ends,
    time_to_start,
)


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
    def is_of_its_tick(self) -> bool:
        """Whether the node has this run for that of its tick: it has claimed the tick, or resumes the unfinished one.

        A run by hand that resumes any other tick is a run by hand to all.
        """
        return self.slot is not None and self.slot == self.held.record.unfinished

    @property
    def is_first(self) -> bool:
        """Whether nobody can have claimed this tick before: an attempt counts the claims since its own first one."""
        return self.resumed is None and (self.claim is None or self.held.record.attempt == 1)


# Seconds for which a tick is left to the instance that has run the one before.
_HEAD_START = 0.005
# Seconds between two looks for a run to cancel on this instance.
_AGAIN = 1.0


class Claimer:
    """Makes claims. The `lanes` look again at a refused lock when it expires, in case its run has died."""

    def __init__(self, database: Database, lanes: Lanes) -> None:
        self._database = database
        self._lanes = lanes
        self._strange: set[str] = set()

    def prepare(self, attempt: Attempt) -> PendingClaim:
        """Return a pending claim for an attempt, with a token of its own."""
        pending = PendingClaim(attempt)
        pending.bid = self._bid_for(pending)
        return pending

    def retarget(self, pending: PendingClaim, attempt: Attempt) -> None:
        """Give a pending claim another attempt, and give up the tick that it was for.

        That tick may have been claimed since it was refused: by another instance that has waited for the same lock, or
        by a write of this claim whose reply was lost. Then it is given up once the answer for the other tick shows it.
        """
        due, refusal = pending.attempt.tick_to_report, pending.refusal
        assert refusal is not None, "it has been tried"
        may_be_ours = refusal.reason == "unavailable" and any(claim.slot == due for claim in pending.asked.values())
        if due is None:
            pass  # a tick from before this instance had the job is for the others to report
        elif may_be_ours or refusal.reason == "held":
            pending.in_doubt.append((due, refusal))
        else:
            self._give_up(attempt.job, due, refusal, None)
        pending.retarget(attempt)

    def drop(self, pending: PendingClaim) -> None:
        """End a pending claim: give up the ticks that are in doubt."""
        pending.unfollow()
        if pending.in_doubt:
            self._settle_doubts(pending, self._newest_claimed(pending.attempt.job))

    def claim(self, pending: PendingClaim) -> Claimed | Refusal | float | None:
        """Try once. Return the acquired lock, the final refusal, or the seconds until the next try.

        Return None once the tick's grace is over.
        """
        answer: Claimed | Refusal | float | None = None
        try:
            answer = self._claim(pending)
        finally:
            if not isinstance(answer, float):
                pending.unfollow()
        return answer

    def _claim(self, pending: PendingClaim) -> Claimed | Refusal | float | None:
        attempt = pending.attempt
        job, due = attempt.job, attempt.due
        known = self._database.known.get(job.name)
        if due is not None and not pending.tries and is_outdated(known, pending.bid):
            # Who has run the last tick knows the node, and writes at once. A read after that sends no write in vain.
            self._database.timing.sleep(_HEAD_START)
        while True:
            if pending.ends is None and attempt.is_patient:
                pending.ends = self._ends(job.options, due)
            left = pending.seconds_left(self._database.timing.mono())
            if left <= 0:
                assert due is not None, "only a tick has an end"
                self._end(pending, due)
                return None
            # The bid claims nothing after the grace, but the reply may come later. Without time for it, a claim that
            # was written would keep the lock for a ttl, without a run.
            if pending.follow is not None:
                pending.follow.start(0.0)
            answer = self._try(pending, left)
            if isinstance(answer, Held):
                replaced = _replaced_by(answer)
                before = None if replaced is None else replaced.slot
                self._compare(job, before)
                claim = pending.asked[answer.trust.reading.server, _slot_of(answer, job.options)]
                self._settle_doubts(pending, before, claim.slot)
                return Claimed(pending.bid, answer, claim)
            last, pending.refusal = pending.refusal, answer
            if answer.reason != "unavailable":
                self._settle_doubts(pending, answer.slot)
            self._observe(job, answer)
            self._cancel_elsewhere(pending, answer)
            pending.tries += 1
            delay = self._delay(pending, answer)
            is_done = answer.reason == "slot_done"
            is_for_others = is_done and (answer.slot or "") < (due or "")
            has_news = is_for_others if is_done else pending.ends is None
            if not (has_news and attempt.is_patient and self._is_late(job.options, due)):
                break
            # The time has shown during the try that the grace is over, so that perhaps no tick was asked for.
            pending.refusal = last if is_for_others else answer
        if delay is None:
            if answer.reason == "unavailable" and attempt.insists:
                self._look_again_soon(job, answer)
            # A look that finds nothing to do is not worth an event.
            slot = attempt.tick_to_report
            if answer.reason != "slot_done" or slot is not None:
                self._database.emit_refusal(answer)
            if slot is not None and _is_no_overlap(answer):
                report_missed(self._database.events, job.name, slot, f"its lock is held, and {answer.problem}")
            return answer
        if pending.tries == 1:
            self._say_that_it_waits(job, due, answer)
        # The next try comes at the end of the grace at the latest.
        return max(0.0, min(delay, pending.seconds_left(self._database.timing.mono())))

    def _try(self, pending: PendingClaim, left: float) -> Held | Refusal:
        """Ask for the lock; of a stored job whose tick waits for the run before it, only if the job is not paused now.

        The look that found the tick has read the pause, but that may be hours ago. A claim that may have been written
        goes on.
        """
        job, database = pending.attempt.job, self._database
        refusals = [refusal for _, refusal in pending.in_doubt]
        refusals += [] if pending.refusal is None else [pending.refusal]
        waits = bool(refusals) and all(refusal.reason == "held" for refusal in refusals)
        if job.declared is not None and (waits or pending.is_pause_unknown):
            try:
                pause = database.pause_of(job.declared.name)
                pending.is_pause_unknown = False
            except StoreError as error:
                pending.is_pause_unknown = True  # nothing was written, so the next try reads it again
                return not_known(job.name, "denied" if isinstance(error, Denied) else "unavailable", error)
            if pause is not None:
                return paused(job.name, job.declared.name, pause)
        return database.try_to_acquire(pending.bid, within=max(left, database.settings.request_timeout))

    def claim_manually(self, job: Job, resumes: str | None = None, *, quietly: bool = False) -> Claimed | Refusal:
        """Acquire the lock for a run by hand, which claims no tick, but may resume the unfinished one.

        A refusal is told `quietly` if there will be more.
        """
        options = job.options

        def fit(request: Request, current: Current, now: int) -> Request | Refused:
            request, schedule = replace(request, resumes=resumes), options.schedule
            if job.declared is not None:
                found = claimable(current, options, None, job.problem_of)
                if isinstance(found, Refused):
                    return found
                schedule = found[1].schedule
            if not isinstance(current, LockRecord):
                return request
            return replace(request, missed=remember(current, schedule, now))

        bid = self._bid(options, fit)
        answer = self._database.try_to_acquire(bid)
        if isinstance(answer, Refusal):
            self._database.emit_refusal(answer, quietly=quietly)
            return answer
        return Claimed(bid, answer, None)

    def _time_left(self, job: Job, due: str) -> float:
        """Return for how many seconds the tick may still start: until its grace is over, or the next tick comes."""
        time, moment = time_to_start(job.options, due), self._database.clock.peek()
        gone = 0 if moment is None else moment.server - to_milliseconds(due)
        return max(0.0, time - gone) / 1000

    def _ends(self, options: JobOptions, due: str | None) -> float | None:
        """Return until when the tick may start, on the monotonic clock.

        Return None without a tick, or while RTDB's time is not known.
        """
        moment = self._database.clock.peek()
        if due is None or moment is None:
            return None
        # RTDB's time is cut to whole milliseconds, and the tick may still start within its last one.
        return moment.mono + start_ends(options, due) - moment.server + 1

    def _is_late(self, options: JobOptions, due: str | None) -> bool:
        ends = self._ends(options, due)
        return ends is not None and self._database.timing.mono() >= ends

    def _bid_for(self, pending: PendingClaim) -> Bid:
        """Return a bid that asks at each try for the claim that is wanted at that time.

        `lock/record.py` calls `fit` for each state of the record on the way, before it decides.
        """
        # The claim has the bid. If the bid had the claim, too, both would wait for the collector of garbage.
        claim_of_bid = weakref.ref(pending)

        def fit(request: Request, current: Current, now: int) -> Request | Refused:
            pending = claim_of_bid()
            assert pending is not None, "a bid is made while its claim is tried"
            attempt, due, job = pending.attempt, pending.attempt.due, pending.attempt.job
            options = job.options
            record = current if isinstance(current, LockRecord) else None
            if job.declared is not None:
                found = claimable(current, options, due, job.problem_of)
                if isinstance(found, Refused):
                    return found
                record, options, due = found
            if due is not None and attempt.is_patient and now > start_ends(options, due):
                due = None  # RTDB's time has just become known: too late for the tick, not for the record's own claims
            if attempt.looks_back and not attempt.had_others and (record is None or record.slot is None):
                return Refused("slot_done", current)
            is_late = attempt.is_later and due is not None and is_late_for(record, due, now, self._database.margin)
            claim = choose(record, options, None if is_late else due, now, self._database.margin, attempt.trigger)
            if claim is None:
                return Refused("held" if is_late else "slot_done", current)
            pending.asked[now, claim.slot if options.once_per_tick else None] = claim
            if not options.once_per_tick:
                return request
            return replace(request, slot=claim.slot, rerun=claim.is_rerun, missed=claim.missed)

        return self._bid(pending.attempt.job.options, fit)

    def _bid(self, options: JobOptions, choose: Choose) -> Bid:
        return self._database.bid(
            options.name,
            options.lock_ttl / 1000,
            hold_at_least=options.hold_at_least / 1000,
            renews=options.renew,
            max_runtime=options.max_runtime,
            fenced=options.once_per_tick,
            momentary=not options.has_lease,
            choose=choose,
            look=options.look(self._database.margin),
        )

    def _delay(self, pending: PendingClaim, refusal: Refusal) -> float | None:
        """Return the seconds until the next try for the same tick; None if this refusal is final."""
        job, due = pending.attempt.job, pending.attempt.due
        if due is None or not pending.attempt.is_patient:
            return None
        if refusal.reason in ("unavailable", "slot_early"):
            # Whatever the database asks for, there is another try before the tick is too late.
            affordable = min(self._time_left(job, due) / 2, LONGEST_HEEDED)
            return heeding(backoff(pending.tries + 2, self._database.chance()), refusal.error, affordable)
        if refusal.reason == "held" and job.options.waits:
            self._follow(pending, refusal)
            return pending.seconds(self._database.chance)
        return None

    def _follow(self, pending: PendingClaim, refusal: Refusal) -> None:
        """Follow the job's lock, whose ticks wait for other instances: a try was refused."""
        if not self._database.streams.can_watch:
            return
        if pending.follow is None:
            lane = pending.attempt.lane
            pending.follow = Tries(self._database, refusal.name, math.inf, lambda: self._lanes.replan(lane))
            pending.follow.start(0.0)
        pending.follow.goes_on(refusal)

    def _end(self, pending: PendingClaim, due: str) -> None:
        """Give up the tick of a pending claim at the end of its grace, and those in doubt.

        Another instance may have claimed a tick since it was refused because of the run before it. So the node is
        looked at. Where the database didn't answer, or no worker was free, this instance could not start the tick: that
        is so whatever the others did. A tick from before this instance had the job is for the others to report.
        """
        job, refusal = pending.attempt.job, pending.refusal
        was_held = refusal is not None and refusal.reason == "held"
        newest = self._newest_claimed(job) if was_held else None
        self._settle_doubts(pending, newest)
        if pending.attempt.tick_to_report is not None:
            self._give_up(job, due, refusal, newest)

    def _newest_claimed(self, job: Job) -> str | None:
        """Return the newest tick that was claimed, by the node; None if there is none, or if it can't be read."""
        clock, database = self._database.clock.peek(), self._database
        try:
            node = database.node(database.paths.lock(job.name))
            current = IDLE if clock is None else parse(node, clock.server)
        except (StoreError, Malformed):
            return None
        return current.slot if isinstance(current, LockRecord) else None

    def _settle_doubts(self, pending: PendingClaim, newest: str | None, claimed: str | None = None) -> None:
        """Give up the ticks in doubt, except the `claimed` one: it is now known which tick was claimed, if any.

        `newest` is the newest tick that others have claimed.
        """
        doubts, pending.in_doubt = pending.in_doubt, []
        for due, refusal in doubts:
            if due != claimed:
                self._give_up(pending.attempt.job, due, refusal, newest)

    def _give_up(self, job: Job, due: str, refusal: Refusal | None, newest: str | None) -> None:
        """Say why this instance has not run the tick. `newest` is the newest tick that others have claimed since.

        If that is this tick, it is neither skipped nor missed. Nor is it skipped, as far as this instance knows, if
        that is a later tick: the claims of both may have come since the refusal.
        """
        was_held = refusal is not None and refusal.reason == "held"
        if newest is not None and (due == newest or (was_held and due < newest)):
            self._database.emit_refusal(claimed_since(job.name, newest))
            return
        if refusal is not None:
            self._database.emit_refusal(refusal)
        if refusal is None or refusal.reason != "held":
            report_missed(self._database.events, job.name, due, "it could not start in time")
        elif _is_no_overlap(refusal):
            report_missed(self._database.events, job.name, due, f"its lock is held, and {refusal.problem}")
        else:
            report_skipped(self._database.events, job.name, due, "the run before it did not end in time")

    def _say_that_it_waits(self, job: Job, due: str | None, refusal: Refusal) -> None:
        level = logging.WARNING if refusal.reason == "unavailable" else logging.INFO
        message = f'"{job.name}" can\'t start its tick {due} yet, and tries again: {refusal.message}'
        self._database.events.emit("run.delayed", job.name, level, message, slot=due, reason=refusal.reason)

    def _observe(self, job: Job, refusal: Refusal) -> None:
        """Look in a refusal for a run that may have to be taken over, and for a tick of another schedule."""
        self._compare(job, refusal.slot)
        if job.declared is not None:
            return  # its node says when to look at it again
        if job.options.reruns and refusal.unfinished is not None and refusal.free_at is not None:
            free_at = to_milliseconds(refusal.free_at)
            moment = self._database.clock.peek()
            if moment is not None and free_at > moment.server:
                self._lanes.look_again(job, free_at)

    def _look_again_soon(self, job: Job, refusal: Refusal) -> None:
        """Have the lanes look again in a few seconds.

        The database could not be reached when a run was to be taken over.
        """
        moment, seconds = self._database.clock.peek(), heeding(2 + 3 * self._database.chance(), refusal.error)
        self._lanes.look_again(job, 0 if moment is None else moment.server + round(1000 * seconds))

    def _compare(self, job: Job, slot: str | None) -> None:
        """Log once per job a claimed slot that is no tick of this instance's schedule."""
        if slot is None or job.name in self._strange or not job.options.once_per_tick or job.declared is not None:
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
        self._database.events.emit(
            "job.schedule_differs", job.name, logging.WARNING, message, slot=slot, line=schedule.line
        )

    # --- cancelling the run before a tick
    #
    # Every run is asked by its node, also a run on this instance: if an instance dies in between, no other one runs
    # the cancelled tick again. The tick then waits for the end of the run, as with `overlap="queue"`.
    #
    # A run by hand is not cancelled on its own instance, which knows it. Another instance knows only the node, and
    # takes the holder for the run of the tick that is unfinished there. So it leaves a run by hand alone if no tick is
    # unfinished. If the run of a tick has died or was interrupted, that tick stays unfinished in the node while a run
    # by hand has the lock, and a tick on another instance cancels the run by hand. A run by hand that resumes the
    # unfinished tick is that tick's run to all instances.

    def _cancel_elsewhere(self, pending: PendingClaim, refusal: Refusal) -> None:
        """Cancel the run that holds the lock, by the refusal of a claim. The claim's next try follows it up.

        A claim that does not wait for the end of the run does not cancel it.
        """
        job, due = pending.attempt.job, pending.attempt.due
        if not job.options.cancels_previous or due is None or not pending.attempt.is_patient:
            return
        if refusal.reason != "held" or refusal.unfinished is None:
            return
        if refusal.holder is None or refusal.fence is None or pending.cancelled == refusal.holder:
            return
        if self._ask(job, due, refusal.holder, refusal.fence) is None:
            pending.cancelled = refusal.holder

    def cancel_here(self, job: Job, due: str, leases: Iterable[Lease]) -> float | None:
        """Cancel the runs with these leases, which are under way on this instance.

        Return the seconds until another look; None if all are cancelled, or over.
        """
        again: list[float] = []
        for lease in leases:
            if lease.fence is None or lease.cancelled:
                continue
            pause = self._ask(job, due, lease.holder, lease.fence)
            if pause is None:
                lease.cancel(_why(due))
            else:
                again.append(pause)
        return max(again, default=None)

    def _ask(self, job: Job, due: str, holder: str, fence: int) -> float | None:
        """Ask the run to end. Return None if it is asked, or over; else the seconds until a later look asks again."""
        try:
            self._database.cancel(job.name, holder, fence, _why(due))
        except StoreError as error:
            message = f'"{job.name}" can\'t cancel the run before its tick {due} yet, and tries again: {error}'
            self._database.events.emit("run.delayed", job.name, logging.WARNING, message, slot=due, reason="held")
            # The node is that of the run's renewals, which come as often as this.
            return heeding(_AGAIN, error, job.options.lock_ttl / 3000)
        return None


def _is_no_overlap(refusal: Refusal) -> bool:
    """Return whether a lock is held although no run is under way.

    Its holder's instance is silent, or only an operator can free the lock.
    """
    return refusal.reason == "held" and refusal.is_strange


def _replaced_by(held: Held) -> LockRecord | None:
    """Return the record that the claim has replaced, if there was one."""
    return held.replaced if isinstance(held.replaced, LockRecord) else None


def _slot_of(held: Held, options: JobOptions) -> str | None:
    """Return the tick that the write has claimed; None for a job whose record names no tick."""
    if not options.once_per_tick:
        return None
    return held.record.unfinished if options.has_lease else held.record.slot


def _why(due: str) -> str:
    return f"the tick {due} came"


# --- resuming a tick by hand


class Resumer:
    """Claims ticks anew, by hand."""

    def __init__(self, database: Database, history: History, claimer: Claimer) -> None:
        self._database = database
        self._history = history
        self._claimer = claimer

    def claim(self, job: Job, key: str, *, quietly: bool = False) -> Claimed | Refusal:
        """Return the acquired lock for the next attempt at a tick, or the refusal.

        `key` is the key of the tick's entry in the history. Raise ConfigurationError if there can be no such tick.
        """
        check_key(key)
        if not job.options.has_steps:
            raise ConfigurationError(
                f'"{job.name}" has no steps, so a second attempt doesn\'t know what the first has done. A job with '
                'overlap="allow" or once_per_tick=False can\'t be resumed: run it by hand'
            )
        claimed = self._claimer.claim_manually(job, resumes=key, quietly=quietly)
        if isinstance(claimed, Refusal):
            return claimed
        try:
            found = self._evaluated(job, key, claimed)
        except BaseException:
            self.give_back(job, claimed)
            raise
        if isinstance(found, Resumed):
            return replace(claimed, resumed=found)
        self.give_back(job, claimed)
        self._database.emit_refusal(found)
        return found

    def _evaluated(self, job: Job, key: str, claimed: Claimed) -> Resumed | Refusal:
        record, before = claimed.held.record, _replaced_by(claimed.held)
        try:
            entry = self._history.entry(job.name, key)
        except StoreError as error:
            return not_known(job.name, "denied" if isinstance(error, Denied) else "unavailable", error)
        # A tick that the record before it has left unfinished need not be in the history yet.
        owed = next((entry.slot for entry in before_manual(before)), None)
        claims = 1 if before is None else int(before.attempt or 1)
        found = evaluate_resume(key, entry, record.unfinished or owed, claims)
        if isinstance(found, Resumed):
            return found
        return Refusal(job.name, "slot_done", f'"{job.name}" is not resumed: {found}', slot=record.slot)

    def give_back(self, job: Job, claimed: Claimed) -> None:
        """Release the lock without a run, as it was: it remembers the outcome of the last run, and counts no claim.

        A tick that was claimed stays claimed: its run was interrupted before it began. What the claim has removed from
        the record is written to the history, whatever becomes of the release.
        """
        lease = Lease(self._database, claimed.bid, claimed.held)
        try:
            if claimed.bid.momentary:
                return  # it is released already
            if claimed.claim is None:
                lease.release(before=_replaced_by(claimed.held))
            else:
                lease.release(outcome="interrupted", tick=claimed.slot)
        finally:
            self._history.record_passed_over(job, claimed.held, claimed.claim)
