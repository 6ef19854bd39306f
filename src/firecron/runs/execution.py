"""Executions: a claimed run, and the calls of its function.

run_of      the run of a claim, as the job sees it: its tick, its keys, and what came before it
Execution   calls the body, and calls it again after a failure if the job has retries
Unlocked    stands in for the lease of a run that holds no lock
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from datetime import datetime

from firecron.base.flag import Flag, in_each_process
from firecron.base.instants import to_datetime, to_milliseconds
from firecron.base.texts import described
from firecron.cron.schedule import Schedule, newest
from firecron.errors import Cancelled, LeaseLost, Stopping
from firecron.jobs.job import Job
from firecron.jobs.run import Outcome, Run, Trigger
from firecron.lock.database import Database
from firecron.lock.lease import Lease
from firecron.runs.body import Body, Error, Loop, outcome_of
from firecron.runs.claimer import Claimed
from firecron.runs.entry import key_of_run, manual_key
from firecron.steps.steps import Steps


def run_of(job: Job, claimed: Claimed, trigger: Trigger, run_id: str = "") -> Run:
    """Return the run of a claim. `trigger` and `run_id` are those of a run by hand; a claimed tick has its own."""
    claim, resumed, record = claimed.claim, claimed.resumed, claimed.held.record
    if claim is not None:
        attempt, key, trigger = int(record.attempt or 1), f"{job.name}:{claim.slot}", claim.trigger
    elif resumed is not None:
        attempt, key = resumed.attempt, key_of_run(job.name, resumed.key)
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
    began = claimed.key or manual_key(claimed.held.trust.reading.server, run_id)
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
    bid, newest_success = claimed.bid, claimed.held.record.newest_success()
    if bid.momentary or not bid.fenced or newest_success is None:
        return None
    return newest_success if claimed.slot is None or newest_success < claimed.slot else None


def _fence(claimed: Claimed) -> int | None:
    fence = claimed.held.record.fence
    return int(fence) if claimed.bid.fenced and fence is not None else None


# --- a run under way

_LONGEST_RETRY = 3600.0


class Execution:
    """A run under way: all calls of its body. The loss of its `lease`, or a cancel of it, cancels the body.

    `slot` is the run's slot in the record's form. `limit` is when its max_runtime ends, on the monotonic clock.
    `is_of_its_tick` says that the run is that of its tick, and not one by hand. `outcome` and `error` say how the last
    call ended. A run whose thread was interrupted before that is `interrupted`.
    """

    def __init__(
        self,
        database: Database,
        job: Job,
        run: Run,
        slot: str | None,
        lease: Lease | Unlocked,
        loop: Loop | None,
        make_steps: Callable[[Run], Steps] | None = None,
        *,
        is_of_its_tick: bool = False,
    ) -> None:
        self.run = run
        self.slot = slot
        self.is_of_its_tick = is_of_its_tick
        self.lease = lease
        self.limit = math.inf
        self.outcome: Outcome = "interrupted"
        self.error: Error = None
        self._job = job
        self._loop = loop
        self._database = database
        self._is_cancelled = False
        self._has_blocked = False
        in_each_process(self._begin_process)
        run.look_at(lambda: lease.lost)
        if make_steps is not None:
            run.take_steps(make_steps)
        lease.when_lost(self.on_lost)
        lease.when_cancelled(self.on_cancelled)

    def _begin_process(self) -> None:
        """Begin without a call. In a forked child nobody cancels the parent's, from whose body the child comes back."""
        self._changed = threading.Condition()
        self._body: Body[Run] | None = None

    def call_with_retries(self) -> None:
        """Call the job's function, after a failure again, as often as it has retries."""
        tries = 0
        while True:
            error = self._call()
            outcome = outcome_of(self.run, error)
            if outcome != "failed" or tries >= self._job.options.retries or self.run.cancelled:
                break
            tries += 1
            delay = min(self._job.options.retry_backoff / 1000 * 2 ** (tries - 1), _LONGEST_RETRY)
            message = f'"{self.run.name}" failed and is called again in {delay:g} s: {described(error)}'
            self._database.events.emit(
                "run.retried", self.run.name, logging.WARNING, message, key=self.run.idempotency_key, tries=tries
            )
            self._back_off(delay)
            if self.run.stopping and not (self.run.lost or self.run.cancelled):
                outcome, error = "interrupted", Stopping()
                break
        self.outcome, self.error = outcome, error

    def stop(self) -> None:
        """Set `run.stopping`, and begin no more retries."""
        self.run.stopping.set()
        self._wake()

    def cancel(self) -> None:
        """Cancel the body if it is async, and begin no other body."""
        with self._changed:
            self._is_cancelled = True
            body = self._body
        if body is not None:
            body.cancel()

    def on_lost(self) -> None:
        """Cancel the body, and begin no more retries: the lease is lost."""
        self._wake()
        self.cancel()

    def on_cancelled(self) -> None:
        """Tell the run that it is cancelled, cancel its body, and begin no more retries. The lease stays."""
        self.run.cancelled.set()
        self._wake()
        self.cancel()

    def _call(self) -> Error:
        """Call the body, unless the run has to end before. Return the error that ends it."""
        body = Body(self._job, self.run, self._loop, self._database.timing, self._emit_blocked)
        with self._changed:
            self._body = body
            is_cancelled = self._is_cancelled
        if self.run.lost:
            return LeaseLost()
        if self.run.cancelled:
            return Cancelled()
        # A claimed run begins even while the instance stops, because no other instance can claim its tick. In the last
        # seconds of a stop all runs are cancelled, and then it doesn't begin.
        try:
            return Stopping() if is_cancelled else self._call_with_steps(body)
        finally:
            self._body = None  # each would keep the other until the garbage is collected

    def _call_with_steps(self, body: Body[Run]) -> Error:
        self.run.begin_steps()
        error = body.call()
        return self.run.steps_left if error is None else error

    def _emit_blocked(self, blocked: int) -> None:
        if self._has_blocked:
            return  # one event a run is enough
        self._has_blocked = True
        message = (
            f'"{self.run.name}" blocked the event loop for {blocked / 1000:.0f} s, and nothing else ran there: '
            "declare the job with def (it then runs on a thread), or await asyncio.to_thread(...) where it blocks"
        )
        self._database.events.emit(
            "loop.blocked", self.run.name, logging.WARNING, message, key=self.run.idempotency_key, blocked=blocked
        )

    def _back_off(self, seconds: float) -> None:
        run, timing = self.run, self._database.timing
        until = timing.mono() + seconds * 1000
        with self._changed:
            while not (run.lost or run.cancelled or run.stopping) and (left := until - timing.mono()) > 0:
                timing.wait(self._changed, left / 1000)

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()


class Unlocked:
    """Stand-in lease for `overlap="allow"`: only `max_runtime` ends it."""

    ends = math.inf
    renewal_due = math.inf
    why_cancelled = None

    def __init__(self, database: Database, name: str) -> None:
        self.name = name
        self.database = database
        self._process = database.process
        self._lost = Flag()
        self._on_lost: Callable[[], object] | None = None

    @property
    def lost(self) -> Flag:
        """Set when `max_runtime` has ended it, and in a forked child."""
        if self._process is not self.database.process and not self._lost:
            self._lost = Flag()  # a thread that only the parent has may hold the lock of the old one
            self._lost.set()
        return self._lost

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
        self._lost.set()
        if self._on_lost is not None:
            self._on_lost()

    def release(self, *, outcome: str | None = None, finished: str | None = None, tick: str | None = None) -> bool:
        """Return False: there is no lock to release."""
        return False
