"""The runner: what one instance does with one tick of one job.

    claim      the tick, or what the record says comes first: an abandoned run, a missed tick
    run        the job's function, with its lease renewed; again after a failure, if it has retries
    release    and so learn whether the lease lasted to the end
    record     the run, and, as the bookkeeper, what lies between the tick and the last one

A loser is done after one request. A turn blocks its worker thread from the claim to the record, and never raises.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import datetime

from firecron.backoff import backoff
from firecron.bodies import Body, Ending
from firecron.claims import MOST_CLAIMS, MOST_MISSED, Claim, between, choose
from firecron.conversation import Held
from firecron.errors import Malformed
from firecron.explorer import Job
from firecron.flag import Flag
from firecron.history import Finished, History, manual_key
from firecron.identity import Identity
from firecron.instants import to_datetime, to_milliseconds, to_text
from firecron.job_options import JobOptions
from firecron.lease import Lease
from firecron.lock import Bid, LockService, Refusal
from firecron.record import LockRecord, Request, parse
from firecron.run import Outcome, Run, Trigger
from firecron.timing import Timing
from firecron.workers import Workers

_CANCEL_AHEAD = 2.0
_LONGEST_RETRY = 3600.0


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one claim: a run and its outcome, or the refusal that kept it from running."""

    run: Run | None
    outcome: Outcome | None
    refusal: Refusal | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Active:
    run: Run
    lease: Lease | None
    body: list[Body]


class Runner:
    """Takes turns. `look_again` is called with a job and the moment (RTDB's time) when a lock that it saw expires."""

    def __init__(
        self,
        locks: LockService,
        timing: Timing,
        history: History,
        identity: Identity,
        look_again: Callable[[Job, int], None],
    ) -> None:
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._history = history
        self._identity = identity
        self._look_again = look_again
        self._margin = round(locks.settings.margin * 1000)
        self._clerk = Workers(1)
        self.loop: asyncio.AbstractEventLoop | None = None
        self.stopping = Flag()
        self._changed = threading.Condition()
        self._running: Counter[str] = Counter()
        self._active: list[_Active] = []

    def take_turn(self, job: Job, due: str | None, trigger: Trigger = "schedule") -> list[Result]:
        """Claim and run what is due: the tick `due`, and before it whatever the record says. Without one, only the
        latter.
        """
        results: list[Result] = []
        with self._place(job, due) as has_place:
            # Each round claims another slot, so this many are more than there can be.
            for _ in range(MOST_MISSED + MOST_CLAIMS + 1 if has_place else 0):
                result = self._claim_and_run(job, due, trigger)
                if result is None:
                    break
                results.append(result)
                if result.run is None or self.stopping or (due is not None and result.run.slot == _instant(due)):
                    break
        return results

    def run_manually(self, job: Job) -> Result:
        """One run that claims no tick."""
        run_id = secrets.token_hex(3)
        with self._place(job, None) as has_place:
            if not has_place:
                message = f'"{job.name}" still runs on this instance'
                return Result(None, None, Refusal(job.name, "held", message))
            bid = self._bid(job.options, fenced=job.options.once_per_tick)
            answer = self._locks.attempt(bid)
            if isinstance(answer, Refusal):
                self._locks.tell(answer)
                return Result(None, None, answer)
            self._keep_books(job, answer, None)
            run = Run(
                job.name,
                slot=None,
                attempt=1,
                fence=_fence(answer.record),
                idempotency_key=f"{job.name}:manual:{run_id}",
                trigger="manual",
            )
            key = manual_key(answer.term.reading.server, run_id)
            return self._run(job, run, bid, answer, key)

    def running(self) -> dict[str, int]:
        """How many runs of each job are under way on this instance."""
        with self._changed:
            return {name: number for name, number in self._running.items() if number}

    def stop(self, grace: float) -> None:
        """Tell all runs to stop, and wait for them; async ones are cancelled shortly before the end. The rest keep
        their locks.
        """
        self.stopping.set()
        for active in self._actives():
            active.run.stopping.set()
        deadline = self._timing.mono() + grace * 1000
        self._wait_until_idle(deadline - _CANCEL_AHEAD * 1000)
        for active in self._actives():
            for body in active.body:
                body.cancel()
        self._wait_until_idle(deadline)
        for active in self._actives():
            if active.lease is not None:
                self._locks.let_go(active.lease)
            message = f'"{active.run.name}" still runs as the instance stops; its lock frees itself when it expires'
            self._emit("run.left_behind", active.run.name, logging.WARNING, message, key=active.run.idempotency_key)

    def after_fork(self) -> None:
        """In a forked child: nothing runs here."""
        self._changed = threading.Condition()
        self._running.clear()
        self._active.clear()
        self._clerk.after_fork()
        self.loop = None

    # --- the claim

    @contextmanager
    def _place(self, job: Job, due: str | None) -> Iterator[bool]:
        """Whether this instance may run the job beside what it runs of it already."""
        most = self._locks.settings.max_concurrent if job.options.overlap == "allow" else 1
        with self._changed:
            while self._running[job.name] >= most and job.options.overlap == "queue" and not self.stopping:
                if due is None or not self._wait_for_place(job, due):
                    break
            has_place = self._running[job.name] < most
            if has_place:
                self._running[job.name] += 1
        if not has_place:
            message = f'"{job.name}" still runs on this instance, skipping'
            self._emit("run.skipped", job.name, logging.INFO, message, slot=due)
        try:
            yield has_place
        finally:
            if has_place:
                with self._changed:
                    self._running[job.name] -= 1
                    self._changed.notify_all()

    def _wait_for_place(self, job: Job, due: str) -> bool:
        """Wait a while for the run here to end; False once the tick's time is over. Called under the lock."""
        left = self._queue_ends(job.options, due) - self._server_now()
        if left <= 0:
            return False
        self._timing.wait(self._changed, left / 1000)
        return True

    def _claim_and_run(self, job: Job, due: str | None, trigger: Trigger) -> Result | None:
        options = job.options
        if options.once_per_tick:
            bid = self._bid(
                options,
                fenced=True,
                slot=due,
                momentary=options.overlap == "allow",
                choose=lambda request, node, now: _choose(request, node, options, due, now, self._margin),
            )
        else:
            bid = self._bid(options, fenced=False)
        answer = self._claim(job, bid, due)
        if answer is None or isinstance(answer, Refusal):
            return None if answer is None else Result(None, None, answer)
        claim = _claimed(answer.record, options, due, trigger)
        self._keep_books(job, answer, claim)
        run = Run(
            job.name,
            slot=_instant(claim.slot),
            attempt=int(answer.record.attempt or 1),
            fence=_fence(answer.record),
            idempotency_key=f"{job.name}:{claim.slot}",
            trigger=claim.trigger,
        )
        return self._run(job, run, bid, answer, claim.slot)

    def _claim(self, job: Job, bid: Bid, due: str | None) -> Held | Refusal | None:
        """Try until there is an answer that lasts, or the tick's grace is over."""
        tries = 0
        while not self.stopping:
            if due is not None and self._server_now() > self._start_ends(job.options, due):
                self._miss(job, due)
                return None
            answer = self._locks.attempt(bid)
            if isinstance(answer, Held):
                return answer
            if job.options.on_abandoned == "rerun":
                self._look_when_it_expires(job, answer)
            tries += 1
            delay = self._delay(job.options, answer, due, tries)
            if delay is None:
                if due is not None or answer.reason != "slot_done":
                    self._locks.tell(answer)
                return answer
            with self._changed:
                self._timing.wait(self._changed, delay)
        return None

    def _look_when_it_expires(self, job: Job, refusal: Refusal) -> None:
        """A lock was seen that somebody holds, whatever it was refused for: if it expires, its run has died."""
        expires_at = 0 if refusal.until is None else round(refusal.until.timestamp() * 1000) + self._margin
        if expires_at > self._server_now():
            self._look_again(job, expires_at)

    def _delay(self, options: JobOptions, refusal: Refusal, due: str | None, tries: int) -> float | None:
        """Seconds until the next try for the same tick; None: this refusal is the answer."""
        if due is None:
            return None
        if refusal.reason in ("unavailable", "slot_early"):
            return backoff(tries + 2, random.random())
        if refusal.reason == "held" and options.overlap == "queue":
            left = (self._queue_ends(options, due) - self._server_now()) / 1000
            return min(random.uniform(0.5, 5.0), left) if left > 0 else None
        return None

    def _start_ends(self, options: JobOptions, due: str) -> int:
        """Until when a tick may start."""
        if options.overlap == "queue":
            return self._queue_ends(options, due)
        return to_milliseconds(due) + options.grace

    def _queue_ends(self, options: JobOptions, due: str) -> int:
        """Until when a tick waits for the run before it: the next tick, or a grace that was given."""
        if options.grace_given:
            return to_milliseconds(due) + options.grace
        return round(options.schedule.after(_instant(due)).timestamp() * 1000)

    def _miss(self, job: Job, due: str) -> None:
        message = f'"{job.name}" missed its tick {due}: it could not start within its grace'
        self._emit("run.missed", job.name, logging.WARNING, message, slot=due)

    def _bid(self, options: JobOptions, **wishes: object) -> Bid:
        return self._locks.bid(
            options.name,
            options.lock_ttl / 1000,
            hold_at_least=options.hold_at_least / 1000,
            renews=options.renew,
            max_runtime=options.max_runtime,
            **wishes,  # type: ignore[arg-type]  # the keywords of `bid`, from the two callers above
        )

    def _keep_books(self, job: Job, held: Held, claim: Claim | None) -> None:
        """Have what the claim owes to the history written, off the way of the run."""
        if claim is None:
            return
        try:
            record = parse(held.replaced, held.term.reading.server)
        except Malformed:
            return  # nobody could have replaced such a record; an operator's hand was in between
        entries = between(record if isinstance(record, LockRecord) else None, job.options, claim)
        if not entries:
            return
        for entry in entries:
            message = f'"{job.name}" did not run its tick {entry.slot}: {entry.outcome}'
            self._emit(f"run.{entry.outcome}", job.name, logging.WARNING, message, slot=entry.slot, count=entry.count)
        identity = self._identity
        self._clerk.submit(
            lambda: self._history.record_unrun(job.name, entries, identity.instance, identity.instance_id)
        )

    # --- the run

    def _run(self, job: Job, run: Run, bid: Bid, held: Held, key: str) -> Result:
        lease = None if bid.request.momentary else self._locks.lease(bid, held)
        if lease is not None:
            run.lost = lease.lost
        active = _Active(run, lease, [])
        with self._changed:
            self._active.append(active)
        if self.stopping:
            run.stopping.set()
        started = held.term.reading
        self._emit_run("run.started", run, logging.INFO, f'"{run.name}" runs ({run.idempotency_key}, {run.trigger})')
        try:
            ending = self._call(job, active)
            outcome = self._outcome(run, ending)
            if lease is not None:
                finished = None if outcome == "interrupted" or run.slot is None else to_text(_ms(run.slot))
                lease.release(outcome=outcome, finished=finished)
                if lease.lost:
                    outcome = "lost"
        finally:
            with self._changed:
                self._active.remove(active)
                self._changed.notify_all()
        ended = started.server + round(self._timing.mono() - started.mono)
        error = ending.error if outcome in ("failed", "lost") else None
        self._tell_end(run, outcome, error, ended - started.server)
        self._history.record(
            job.name,
            Finished(
                key=key,
                outcome=outcome,
                trigger=run.trigger,
                slot=None if run.slot is None else to_text(_ms(run.slot)),
                started_at=started.server,
                ended_at=ended,
                attempt=run.attempt,
                fence=run.fence,
                instance=self._identity.instance,
                instance_id=self._identity.instance_id,
                error=None if error is None else f"{type(error).__name__}: {error}",
            ),
        )
        return Result(run, outcome, error=error)

    def _call(self, job: Job, active: _Active) -> Ending:
        """Call the job's function, and again after a failure, as often as it has retries."""
        tries = 0
        while True:
            body = Body(job, active.run, self.loop)
            active.body[:] = [body]
            if active.lease is not None:
                active.lease.when_lost(body.cancel)
            ending = body.call()
            if ending.how != "failed" or tries >= job.options.retries or active.run.lost or active.run.stopping:
                return ending
            tries += 1
            delay = min(job.options.retry_backoff / 1000 * 2 ** (tries - 1), _LONGEST_RETRY)
            message = f'"{job.name}" failed and is tried again in {delay:g} s: {ending.error!r}'
            self._emit_run("run.retried", active.run, logging.WARNING, message)
            if not self._pause(active.run, delay):
                return ending

    def _pause(self, run: Run, seconds: float) -> bool:
        """Wait before a retry; False if the run is lost or stopped meanwhile."""
        until = self._timing.mono() + seconds * 1000
        with self._changed:
            while not (run.lost or run.stopping):
                left = (until - self._timing.mono()) / 1000
                if left <= 0:
                    return True
                # In steps, because the loss of a lease doesn't notify this condition.
                self._timing.wait(self._changed, min(left, 1.0))
        return False

    def _outcome(self, run: Run, ending: Ending) -> Outcome:
        if run.lost or ending.how == "lost":
            return "lost"
        return "interrupted" if ending.how == "stopped" else ending.how

    def _tell_end(self, run: Run, outcome: Outcome, error: BaseException | None, took: int) -> None:
        level = {"succeeded": logging.INFO, "interrupted": logging.WARNING}.get(outcome, logging.ERROR)
        said = f'"{run.name}" {outcome} after {took / 1000:g} s' + (f": {error!r}" if error else "")
        self._emit_run(f"run.{outcome}", run, level, said, error, took=took)

    def _emit_run(
        self, slug: str, run: Run, level: int, message: str, error: BaseException | None = None, **fields: int
    ) -> None:
        slot = None if run.slot is None else to_text(_ms(run.slot))
        self._events.emit(
            slug,
            run.name,
            level,
            message,
            error,
            key=run.idempotency_key,
            slot=slot,
            attempt=run.attempt,
            fence=run.fence,
            trigger=run.trigger,
            **fields,
        )

    def _emit(self, slug: str, name: str, level: int, message: str, **fields: str | int | None) -> None:
        self._events.emit(slug, name, level, message, **fields)

    # --- waiting

    def _actives(self) -> list[_Active]:
        with self._changed:
            self._changed.notify_all()  # those that wait for a place or before a retry look up
            return list(self._active)

    def _wait_until_idle(self, until: float) -> None:
        with self._changed:
            while self._active and (left := until - self._timing.mono()) > 0:
                self._timing.wait(self._changed, left / 1000)

    def _server_now(self) -> int:
        """RTDB's time as far as it is known; without any, waiting is not what ends a tick."""
        moment = self._locks.clock.peek()
        return 0 if moment is None else moment.server


def _choose(
    request: Request, node: object, options: JobOptions, due: str | None, now: int, margin: int
) -> Request | None:
    try:
        current = parse(node, now)
    except Malformed:
        return request  # which `decide` will refuse, saying why
    claim = choose(current if isinstance(current, LockRecord) else None, options, due, now, margin)
    return None if claim is None else replace(request, slot=claim.slot, rerun=claim.is_rerun)


def _claimed(record: LockRecord, options: JobOptions, due: str | None, trigger: Trigger) -> Claim:
    """Which slot a record says was claimed, and why."""
    if not options.once_per_tick or options.overlap == "allow":
        # Without a lock by tick, or a run to be watched, there is nothing that a claim could have chosen but a slot.
        slot = record.slot if options.once_per_tick else due
        assert slot is not None, "a tick is due, or a slot was claimed"
        return Claim(slot, trigger if slot == due else "catch_up")
    slot = record.unfinished
    assert slot is not None, "a claim names its slot"
    if (record.attempt or 1) > 1:
        return Claim(slot, "rerun")
    return Claim(slot, trigger if slot == due else "catch_up")


def _fence(record: LockRecord) -> int | None:
    return None if record.fence is None else int(record.fence)


def _instant(slot: str) -> datetime:
    return to_datetime(to_milliseconds(slot))


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
