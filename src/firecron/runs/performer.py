"""Performing a claimed run: its body, with its lease renewed, to the release that tells whether the lease lasted."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from firecron.base.clocks import Timing
from firecron.base.identity import Identity
from firecron.base.instants import to_milliseconds, to_text
from firecron.jobs.job import Job
from firecron.jobs.run import Outcome, Run
from firecron.lock.lease import Lease
from firecron.lock.service import LockService
from firecron.runs.body import Ending, Loop
from firecron.runs.claimer import Claimed
from firecron.runs.execution import Execution, Unlocked, described
from firecron.runs.history import Finished, manual_key

_LEVELS = {"succeeded": logging.INFO, "interrupted": logging.WARNING}
# The ending of a run whose thread was interrupted, so that its body has not come to its own.
_CUT_SHORT = Ending("stopped")


@dataclass(frozen=True, slots=True)
class Ran:
    """A run that has ended, and what the history is to say of it: nothing, if it is another process's."""

    run: Run
    outcome: Outcome
    error: BaseException | None = None
    finished: Finished | None = None


@dataclass(frozen=True, slots=True)
class Active:
    """A run under way."""

    execution: Execution
    lease: Lease | Unlocked

    @property
    def run(self) -> Run:
        return self.execution.run


class Performer:
    """Performs runs, several at a time, each on the thread that asks for it."""

    def __init__(self, locks: LockService, timing: Timing, identity: Identity, is_stopping: Callable[[], bool]) -> None:
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._identity = identity
        self._is_stopping = is_stopping
        self._lock = threading.Lock()
        self._active: list[Active] = []

    def active(self) -> list[Active]:
        """The runs under way."""
        with self._lock:
            return list(self._active)

    def after_fork(self) -> None:
        """In a forked child: nothing runs here."""
        self._lock = threading.Lock()
        self._active = []

    def perform(self, job: Job, run: Run, claimed: Claimed, loop: Loop | None, run_id: str | None = None) -> Ran:
        """Run and release. Async jobs run on the `loop`, if there is one; a run by hand has a `run_id`."""
        execution = Execution(job, run, loop, self._timing, self._events)
        lease = self._lease(job, claimed, execution)
        active = Active(execution, lease)
        under_way = self._active
        started = claimed.held.term.reading
        lag = None if run.slot is None else started.server - to_milliseconds(run.slot)
        said = f'"{run.name}" runs ({run.idempotency_key}, {run.trigger})'
        # What Ctrl-C, a signal's handler or a listener raises may come at any line: nothing is kept outside of this.
        try:
            try:
                self._keep(job, claimed, lease)
                with self._lock:
                    # A stop either finds this run here, or is found by it.
                    under_way.append(active)
                    if self._is_stopping():
                        run.stopping.set()
                self._emit(run, "run.started", logging.INFO, said, lag=lag)
                ending = execution.perform()
                outcome = self._release(run, lease, ending, self._is_over(job, claimed))
            except BaseException:
                self._release(run, lease, _CUT_SHORT)
                raise
            finally:
                self._end(active, under_way)
        except BaseException:
            self._end(active, under_way)  # Ctrl-C interrupts the end as well, at any line
            raise
        if self._active is not under_way:
            return Ran(run, "lost")  # the body has forked, and this is the child: the parent records the run
        took = round(self._timing.mono() - started.mono)
        error = ending.error if outcome in ("failed", "lost") else None
        said = f'"{run.name}" {outcome} after {took / 1000:g} s' + (f": {described(error)}" if error else "")
        self._emit(run, f"run.{outcome}", _LEVELS.get(outcome, logging.ERROR), said, error, took=took)
        finished = Finished(
            key=manual_key(started.server, run_id) if run_id is not None else str(_text(run.slot)),
            outcome=outcome,
            trigger=run.trigger,
            slot=_text(run.slot),
            started_at=started.server,
            ended_at=started.server + took,
            attempt=run.attempt,
            fence=run.fence,
            instance=self._identity.instance,
            instance_id=self._identity.instance_id,
            error=None if error is None else described(error),
        )
        return Ran(run, outcome, error, finished)

    def _lease(self, job: Job, claimed: Claimed, execution: Execution) -> Lease | Unlocked:
        """The run's lease, which nobody renews yet."""
        lease: Lease | Unlocked
        if claimed.bid.request.momentary:
            lease = Unlocked(job.name, execution.on_lost)
        else:
            lease = self._locks.unkept(claimed.bid, claimed.held)
            lease.when_lost(execution.on_lost)
        execution.run.look_at(lambda: lease.lost)
        return lease

    def _keep(self, job: Job, claimed: Claimed, lease: Lease | Unlocked) -> None:
        limit = claimed.held.term.reading.mono + job.options.max_runtime
        self._locks.keeper.keep(lease, renews=job.options.renew, limit=limit)

    def _end(self, active: Active, under_way: list[Active]) -> None:
        """Its lease is kept no more, and it is not under way; however often this is said."""
        self._locks.keeper.forget(active.lease)
        with self._lock:
            under_way[:] = [other for other in under_way if other is not active]

    def _is_over(self, job: Job, claimed: Claimed) -> bool:
        """Whether the job's own options have ended the run: a rerun would only be ended by them once more."""
        held_for = self._timing.mono() - claimed.held.term.reading.mono
        return not job.options.renew or held_for >= job.options.max_runtime

    def _release(self, run: Run, lease: Lease | Unlocked, ending: Ending, is_over: bool = False) -> Outcome:
        """Give the lock back; only then is it known whether the run had it to the end. A run that `is_over` is finished
        although it was lost.
        """
        outcome: Outcome = "interrupted" if ending.how == "stopped" else ending.how
        if run.lost:
            outcome = "lost"
        if isinstance(lease, Unlocked):
            self._locks.keeper.forget(lease)
            return outcome
        # What was cut short stays unfinished, so that it is found.
        is_finished = ending.how in ("succeeded", "failed") or (ending.how == "lost" and is_over)
        finished = _text(run.slot) if is_finished else None
        lease.release(outcome=outcome, finished=finished)
        return "lost" if lease.was_lost else outcome

    def _emit(
        self, run: Run, slug: str, level: int, message: str, error: BaseException | None = None, **fields: int | None
    ) -> None:
        self._events.emit(
            slug,
            run.name,
            level,
            message,
            error,
            key=run.idempotency_key,
            slot=_text(run.slot),
            attempt=run.attempt,
            fence=run.fence,
            trigger=run.trigger,
            **fields,
        )


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else to_text(instant)
