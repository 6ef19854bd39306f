"""Executions: a claimed run from the call of its function to the release of its lock.

    run_of      the run of a claim, as the job sees it: its tick, its keys, and what came before it
    Execution   calls the body, and calls it again after a failure if the job has retries
    Performer   performs executions, several at a time: keeps the lease renewed, releases the lock, returns the outcome
    Unlocked    stands in for the lease of a run that holds no lock

An interruption at any line, such as Ctrl-C, never leaves a lease that is still renewed, or a run that still counts as
under way. It may leave the lock held: if the release is interrupted, the lock becomes free when it expires.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from firecron.base.clocks import Timing
from firecron.base.events import Events, Slug
from firecron.base.flag import Flag
from firecron.base.identity import Identity
from firecron.base.instants import to_datetime, to_milliseconds
from firecron.base.texts import described
from firecron.cron.schedule import Schedule, newest
from firecron.errors import Cancelled, LeaseLost, Stopping
from firecron.jobs.job import Job
from firecron.jobs.registry import Result
from firecron.jobs.run import Outcome, Run, Trigger
from firecron.lock.lease import Lease
from firecron.lock.service import LockService
from firecron.runs.body import Body, Ending, Loop
from firecron.runs.claimer import Claimed
from firecron.runs.entry import Entry, manual_key
from firecron.steps.protocol import Claimant
from firecron.steps.steps import Steps


def run_of(job: Job, claimed: Claimed, trigger: Trigger, run_id: str = "") -> Run:
    """Return the run of a claim. `trigger` and `run_id` are those of a run by hand; a claimed tick has its own."""
    claim, resumed, record = claimed.claim, claimed.resumed, claimed.held.record
    if claim is not None:
        attempt, key, trigger = int(record.attempt or 1), f"{job.name}:{claim.slot}", claim.trigger
    elif resumed is not None:
        attempt, key = resumed.attempt, resumed.idempotency_key(job.name)
    else:
        attempt, key = 1, f"{job.name}:manual:{run_id}"
    success = last_success(claimed)
    run = Run(
        job.name,
        slot=None if claimed.slot is None else to_datetime(claimed.slot),
        attempt=attempt,
        fence=_fence(claimed),
        idempotency_key=key,
        trigger=trigger,
        last_success=None if success is None else to_datetime(success),
    )
    began = claimed.key or manual_key(claimed.held.term.reading.server, run_id)
    run.look_back(lambda: previous_slot(job.options.schedule, claimed.slot, began))
    return run


_LENGTH = len("2026-11-18T09:00:00Z")


def previous_slot(schedule: Schedule, slot: str | None, key: str) -> datetime | None:
    """Return the tick before this slot; without one, the newest up to the start of the run by hand with this key.

    Each attempt has the same slot and key, so each has the same tick before it.
    """
    end = to_milliseconds(key[:_LENGTH]) if slot is None else to_milliseconds(slot) - 1
    found = newest(schedule, 0, end, 1)
    return to_datetime(found[0]) if found else None


def last_success(claimed: Claimed) -> str | None:
    """Return the newest tick before this one that succeeded, by the record that the claim replaced.

    None is known of a job that holds no lock while it runs, or claims no ticks.
    """
    request, newest_success = claimed.bid.request, claimed.held.record.newest_success()
    if request.momentary or not request.fenced or newest_success is None:
        return None
    return newest_success if claimed.slot is None or newest_success < claimed.slot else None


def _fence(claimed: Claimed) -> int | None:
    fence = claimed.held.record.fence
    return int(fence) if claimed.bid.request.fenced and fence is not None else None


# --- performing a run

_LONGEST_RETRY = 3600.0


class Execution:
    """A run under way: all calls of its body. The loss of its `lease`, or a cancel of it, cancels the body.

    `slot` is the run's slot in the record's form. `limit` is when its max_runtime ends, on the monotonic clock.
    `is_of_its_tick` says that the run is that of its tick, and not one by hand.
    """

    def __init__(
        self,
        job: Job,
        run: Run,
        slot: str | None,
        lease: Lease | Unlocked,
        loop: Loop | None,
        timing: Timing,
        events: Events,
        steps: Steps | None = None,
        *,
        is_of_its_tick: bool = False,
    ) -> None:
        self.run = run
        self.slot = slot
        self.is_of_its_tick = is_of_its_tick
        self.lease = lease
        self.limit = math.inf
        self._job = job
        self._loop = loop
        self._timing = timing
        self._events = events
        self._steps = steps
        self._changed = threading.Condition()
        self._body: Body[Run] | None = None
        self._is_cancelled = False
        self._has_blocked = False
        run.look_at(lambda: lease.lost)
        if steps is not None:
            run.take_steps(steps)
        lease.when_lost(self.on_lost)
        lease.when_cancelled(self.on_cancelled)

    def perform(self) -> Ending:
        """Call the job's function, after a failure again, as often as it has retries. Return the last ending."""
        tries = 0
        while True:
            ending = self._call()
            if ending.outcome != "failed" or tries >= self._job.options.retries or self.run.cancelled:
                return ending
            tries += 1
            delay = min(self._job.options.retry_backoff / 1000 * 2 ** (tries - 1), _LONGEST_RETRY)
            message = f'"{self.run.name}" failed and is called again in {delay:g} s: {described(ending.error)}'
            self._events.emit(
                "run.retried", self.run.name, logging.WARNING, message, key=self.run.idempotency_key, tries=tries
            )
            self._pause(delay)
            if self.run.stopping and not (self.run.lost or self.run.cancelled):
                return Ending("interrupted", Stopping())

    def stop(self) -> None:
        """Tell the run that this instance is stopping, and begin no more retries."""
        self.run.stopping.set()
        self._look_up()

    def cancel(self) -> None:
        """Cancel the body if it is async, and begin no other body."""
        with self._changed:
            self._is_cancelled = True
            body = self._body
        if body is not None:
            body.cancel()

    def on_lost(self) -> None:
        """Cancel the body, and begin no more retries: the lease is lost."""
        self._look_up()
        self.cancel()

    def on_cancelled(self) -> None:
        """Tell the run that it is cancelled, cancel its body, and begin no more retries. The lease stays."""
        self.run.cancelled.set()
        self._look_up()
        self.cancel()

    def _call(self) -> Ending:
        body = Body(self._job, self.run, self._loop, self._timing, self._tell_blocked)
        with self._changed:
            self._body = body
            is_cancelled = self._is_cancelled
        if self.run.lost:
            return Ending("lost", LeaseLost())
        if self.run.cancelled:
            return Ending("cancelled", Cancelled())
        # A claimed run begins even while the instance stops, because no other instance can claim its tick. In the last
        # seconds of a stop all runs are cancelled, and then it doesn't begin.
        return Ending("interrupted", Stopping()) if is_cancelled else self._call_with_steps(body)

    def _call_with_steps(self, body: Body[Run]) -> Ending:
        if self._steps is None:
            return body.call()
        self._steps.begin_try()
        ending = body.call()
        left = self._steps.left
        return Ending("failed", left) if ending.outcome == "succeeded" and left is not None else ending

    def _tell_blocked(self, blocked: int) -> None:
        if self._has_blocked:
            return  # one event a run is enough
        self._has_blocked = True
        message = (
            f'"{self.run.name}" blocked the event loop for {blocked / 1000:.0f} s, and nothing else ran there: '
            "declare the job with def (it then runs on a thread), or await asyncio.to_thread(...) where it blocks"
        )
        self._events.emit(
            "loop.blocked", self.run.name, logging.WARNING, message, key=self.run.idempotency_key, blocked=blocked
        )

    def _pause(self, seconds: float) -> None:
        run, until = self.run, self._timing.mono() + seconds * 1000
        with self._changed:
            while not (run.lost or run.cancelled or run.stopping) and (left := until - self._timing.mono()) > 0:
                self._timing.wait(self._changed, left / 1000)

    def _look_up(self) -> None:
        with self._changed:
            self._changed.notify_all()


_SLUGS: dict[Outcome, Slug] = {
    "succeeded": "run.succeeded",
    "failed": "run.failed",
    "lost": "run.lost",
    "interrupted": "run.interrupted",
    "cancelled": "run.cancelled",
}
_LEVELS = {"succeeded": logging.INFO, "cancelled": logging.INFO, "interrupted": logging.WARNING}
# The ending of a run whose thread was interrupted before its body returned an ending.
_CUT_SHORT = Ending("interrupted")


@dataclass(frozen=True, slots=True)
class Ran:
    """The result of a run that has ended, and its entry for the history: None if another process writes the entry."""

    result: Result
    entry: Entry | None = None


class Performer:
    """Performs runs, several at a time, each on the thread that calls `perform`."""

    def __init__(self, locks: LockService, timing: Timing, identity: Identity, is_stopping: Callable[[], bool]) -> None:
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._identity = identity
        self._is_stopping = is_stopping
        self._lock = threading.Lock()
        self._active: list[Execution] = []

    def active(self) -> list[Execution]:
        """Return the runs under way."""
        with self._lock:
            return list(self._active)

    def after_fork(self) -> None:
        """Forget the runs in a forked child: they are the parent's."""
        self._lock = threading.Lock()
        self._active = []

    def perform(self, job: Job, run: Run, claimed: Claimed, loop: Loop | None, run_id: str = "") -> Ran:
        """Run the job, release its lock, and return the result.

        `loop` is where an async job runs. `run_id` is part of the history's key for a run without a slot.
        """
        slot = claimed.slot
        lease = self._lease(claimed)
        started = claimed.held.term.reading
        key = claimed.key or manual_key(started.server, run_id)
        steps = None if isinstance(lease, Unlocked) else self._steps(job, run, claimed, lease, key)
        own = claimed.is_of_its_tick
        execution = Execution(job, run, slot, lease, loop, self._timing, self._events, steps, is_of_its_tick=own)
        under_way = self._active
        # Ctrl-C, a signal's handler or a listener may raise at any line, so the lease is kept only inside this block.
        try:
            try:
                self._begin(execution, job, claimed, under_way)
                ending = self._release(execution, execution.perform(), self._is_over(execution, job))
            except BaseException:
                self._release(execution, _CUT_SHORT)
                raise
            finally:
                self._end(execution, under_way)
        except BaseException:
            self._end(execution, under_way)  # Ctrl-C may have interrupted the first call at any line
            raise
        if self._active is not under_way:
            return Ran(Result(run, "lost"))  # the body has forked and this is the child: the parent records the run
        outcome, error = ending.outcome, ending.error
        took = round(self._timing.mono() - started.mono)
        said = f'"{run.name}" {outcome} after {took / 1000:g} s' + (f": {described(error)}" if error else "")
        self._emit(
            execution, _SLUGS[outcome], _LEVELS.get(outcome, logging.ERROR), said, error, took=took, note=run.noted
        )
        entry = Entry(
            key,
            outcome,
            slot=slot,
            trigger=run.trigger,
            started_at=started.server,
            ended_at=started.server + took,
            duration=took,
            attempt=run.attempt,
            fence=run.fence,
            instance_id=self._identity.instance_id,
            instance=self._identity.instance,
            error=_said(outcome, error, execution.lease.why_cancelled),
            note=run.noted,
        )
        return Ran(Result(run, outcome, error=error), entry)

    def _lease(self, claimed: Claimed) -> Lease | Unlocked:
        """Return the run's lease, which is not renewed yet."""
        bid = claimed.bid
        return Unlocked(bid.name) if bid.request.momentary else self._locks.contender.unkept(bid, claimed.held)

    def _steps(self, job: Job, run: Run, claimed: Claimed, lease: Lease, key: str) -> Steps | None:
        """Return the steps of the run; None for a job that has none."""
        if not job.options.has_steps or run.fence is None:
            return None
        started = claimed.held.term.reading
        return Steps(
            run,
            lease,
            self._locks.paths.steps_of(job.name, key),
            Claimant(job.name, key, run.fence, run.attempt, self._identity.instance),
            lambda: started.server + round(self._timing.mono() - started.mono),
            is_first=claimed.is_first,
            is_async=job.is_async,
        )

    def _begin(self, execution: Execution, job: Job, claimed: Claimed, under_way: list[Execution]) -> None:
        """Have the lease renewed from now on, add the run to those under way, and emit `run.started`."""
        run, started = execution.run, claimed.held.term.reading
        # From now on, and not from the claim: its reply may have been lost, and heard of much later.
        execution.limit = self._timing.mono() + job.options.max_runtime
        self._locks.contender.keeper.keep(execution.lease, renews=job.options.renew, limit=execution.limit)
        with self._lock:
            # Under the lock, so that a stop either finds this run in the list, or has set its flag before.
            under_way.append(execution)
            if self._is_stopping():
                run.stopping.set()
        lag = (
            None
            if claimed.claim is None or execution.slot is None
            else started.server - to_milliseconds(execution.slot)
        )
        said = f'"{run.name}" runs ({run.idempotency_key}, {run.trigger})'
        self._emit(execution, "run.started", logging.INFO, said, lag=lag)

    def _end(self, execution: Execution, under_way: list[Execution]) -> None:
        """Renew the lease no more, and remove the run from those under way. A second call changes nothing."""
        self._locks.contender.keeper.forget(execution.lease)
        with self._lock:
            under_way[:] = [other for other in under_way if other is not execution]

    def _is_over(self, execution: Execution, job: Job) -> bool:
        """Return whether the job's own options have ended the run: they would end a rerun in the same way."""
        return not job.options.renew or self._timing.mono() >= execution.limit

    def _release(self, execution: Execution, ending: Ending, is_over: bool = False) -> Ending:
        """Release the lock, and return the ending of the run: only the release shows whether the lease has lasted.

        A run that `is_over` counts as finished even if its lease was lost.
        """
        run, lease = execution.run, execution.lease
        run.end()
        outcome: Outcome = "lost" if run.lost else ending.outcome
        # A run that was cut short stays `unfinished` in the record, so that another claim finds it.
        is_finished = ending.outcome in ("succeeded", "failed", "cancelled") or (ending.outcome == "lost" and is_over)
        finished = execution.slot if is_finished else None
        lease.release(outcome=outcome, finished=finished, tick=execution.slot)
        outcome = "lost" if lease.was_lost else outcome
        return Ending(outcome, ending.error if outcome in ("failed", "lost") else None)

    def _emit(
        self,
        execution: Execution,
        slug: Slug,
        level: int,
        message: str,
        error: BaseException | None = None,
        **fields: int | str | None,
    ) -> None:
        run = execution.run
        self._events.emit(
            slug,
            run.name,
            level,
            message,
            error,
            key=run.idempotency_key,
            slot=execution.slot,
            attempt=run.attempt,
            fence=run.fence,
            trigger=run.trigger,
            **fields,
        )


def _said(outcome: Outcome, error: BaseException | None, why_cancelled: str | None) -> str | None:
    """Return the entry's `error`: what the body raised, or why it was cancelled if that has ended it."""
    if error is not None:
        return described(error)
    return why_cancelled if outcome == "cancelled" else None


class Unlocked:
    """Stand-in lease for `overlap="allow"`: only `max_runtime` ends it."""

    ends = math.inf
    renewal_due = math.inf
    why_cancelled = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.lost = Flag()
        self._on_lost: Callable[[], object] | None = None

    @property
    def was_lost(self) -> bool:
        """Whether `max_runtime` has ended it before the run ended."""
        return bool(self.lost)

    def when_lost(self, callback: Callable[[], object]) -> None:
        """Call this when `max_runtime` ends it."""
        self._on_lost = callback

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Do nothing: without a lock, nobody can find the run to cancel it."""

    def keep(self, seconds: float) -> bool:
        return True

    def lose(self, why: str) -> None:
        self.lost.set()
        if self._on_lost is not None:
            self._on_lost()

    def disown(self) -> None:
        self.lost.set()

    def release(self, *, outcome: str | None = None, finished: str | None = None, tick: str | None = None) -> bool:
        """Return False: there is no lock to release."""
        return False
