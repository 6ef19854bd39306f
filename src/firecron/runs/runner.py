"""The runner: takes a tick of a job through this instance.

    Lanes.enter                    may the attempt claim now, or does it stand in line?
    Claimer.claim                  the tick, or what comes before it by the record: an abandoned run, a missed tick
    Execution.call_with_retries    call the job's function while its lease is renewed; the runner then releases the lock
    History.record                 write the run to the history, which has begun to write the ticks that the claim has
                                   passed over

`go_on` is called by the lanes, on a worker's thread, which goes on with an attempt until it has to wait. `run_tick` and
`run_manually` are called for a run now, on the thread of the caller that waits for its result.

An interruption at any line, such as Ctrl-C, never leaves a lease that is still renewed, or a run that still counts as
under way. It may leave the lock held: if the release is interrupted, the lock becomes free when it expires.
"""

from __future__ import annotations

import logging
import math
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeAlias

from firecron.base.events import Slug
from firecron.base.flag import Flag, in_each_process
from firecron.base.instants import number, to_milliseconds
from firecron.base.texts import described
from firecron.base.threads import OpenWork
from firecron.errors import Stopping
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry, Result
from firecron.jobs.run import Outcome, Run, Trigger
from firecron.jobs.turns import emit_recovery, emit_trouble
from firecron.lock.asks import Taking
from firecron.lock.database import Database
from firecron.lock.lease import Lease
from firecron.lock.record import MOST_CLAIMS, LockRecord, after_release
from firecron.lock.refusal import Refusal
from firecron.runs.body import CANCEL_AHEAD, Loop
from firecron.runs.claimer import Claimed, Claimer, Resumer
from firecron.runs.entry import Entry, manual_key
from firecron.runs.execution import Execution, Unlocked, run_of
from firecron.runs.history import History
from firecron.runs.lane import Attempt, Lane, PendingClaim
from firecron.runs.lanes import Lanes
from firecron.runs.policy import MOST_MISSED
from firecron.steps.protocol import Claimant
from firecron.steps.steps import Steps

_LOOK_AGAIN = 1.0

_SLUGS: dict[Outcome, Slug] = {
    "succeeded": "run.succeeded",
    "failed": "run.failed",
    "lost": "run.lost",
    "interrupted": "run.interrupted",
    "cancelled": "run.cancelled",
}
_LEVELS = {"succeeded": logging.INFO, "cancelled": logging.INFO, "interrupted": logging.WARNING}
# The result of a run that has ended, and its entry for the history: None if another process writes the entry.
Ended: TypeAlias = tuple[Result, Entry | None]
# Another instance has taken what was asked for, or it is over.
_NOT_TAKEN = Result(None, None)


class Runner:
    """Claims and runs the attempts at the jobs that the registry wants to run here, and runs jobs by hand."""

    def __init__(
        self,
        database: Database,
        history: History,
        registry: Registry,
        claimer: Claimer,
        lanes: Lanes,
    ) -> None:
        self._database = database
        self._history = history
        self._registry = registry
        self._claimer = claimer
        self._resumer = Resumer(database, history, claimer)
        self._lanes = lanes
        self.open_work = OpenWork(database.timing)
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self.loop: Loop | None = None
        self._lock = threading.Lock()
        self._active: list[Execution] = []

    @property
    def stopping(self) -> Flag:
        """Set once this instance stops."""
        return self._lanes.stopping

    def wants(self, job: Job) -> bool:
        """Return whether the job is run: the registry wants it here, and this instance is not stopping."""
        return not self.stopping and self._registry.is_wanted(job)

    def go_on(self, attempt: Attempt) -> float | None:
        """Claim and run until the attempt is over or has to wait.

        Return the seconds until its next try. Return None if it is over, or if its lane will call it again.
        """
        job = attempt.job
        with self._at_work():
            # Each round claims another slot, and there can't be as many slots as this.
            for _ in range(MOST_MISSED + MOST_CLAIMS + 1):
                if not self.wants(job):
                    self._lanes.play(Lane.drop, attempt)
                    return None
                if not self._lanes.enter(attempt):
                    return None
                if (left := self._hold_left(attempt)) > 0:
                    # The next claim would be refused until then, and what came before the hold would wait for a tick
                    # that finds the lock free. Each such tick would leave its own tick behind. Looked at before each
                    # claim, because RTDB's time may have been estimated anew since the wait began.
                    self._lanes.play(Lane.hold, attempt)
                    return left
                answer, pending = self._claim(attempt)
                if isinstance(answer, float):
                    self._lanes.play(Lane.wait, attempt, pending)
                    return answer
                if answer is None and attempt.results and job.options.catches_up:
                    # Catching up has outlasted the grace of the attempt's own tick, so that tick is missed, too. Catch
                    # it up now: if the next tick had to do it, that tick would be late as well, and so on.
                    attempt.due = None
                    self._lanes.play(Lane.wait, attempt, None)
                    return 0.0
                if not isinstance(answer, Claimed):
                    self._lanes.play(Lane.leave, attempt)
                    attempt.results += [] if answer is None else [Result(None, None, answer)]
                    return None
                self._lanes.play(Lane.begin, attempt)
                is_last = answer.slot == attempt.due
                ended: Ended | None = None
                try:
                    ended = self._run_slot(attempt, answer)
                finally:
                    holds = self._hold_left(attempt) > 0
                    self._lanes.play(Lane.end, attempt, goes_on=ended is not None and not is_last, holds=holds)
                try:
                    attempt.results.append(self._record(job, ended))
                except BaseException:
                    self._lanes.play(Lane.leave, attempt)  # the lane would wait for it
                    raise
                if is_last:
                    return None
            self._lanes.play(Lane.leave, attempt)
        return None

    def drop(self, pending: PendingClaim) -> None:
        """Give up a claim whose attempt was dropped."""
        with self._at_work():
            self._claimer.drop(pending)

    def run_tick(self, job: Job, slot: str, trigger: Trigger, taking: Taking | None = None) -> Result:
        """Run this tick now, whatever its grace, unless it or a later tick was claimed already.

        An abandoned run and missed ticks are run before it. If the database does not respond, the next call for the
        same tick shares the token: a write whose reply was lost may still become a win. With `taking`, as below.
        """
        with self._place_at_once(job, slot, trigger) as attempt:
            if attempt is None:
                return _still_runs(job)
            for _ in range(MOST_MISSED + MOST_CLAIMS + 1):
                if self.stopping:
                    raise Stopping
                pending = self._lanes.take_unanswered(attempt) or self._claimer.prepare(attempt)
                answer = self._claimer.claim(pending)
                if isinstance(answer, Refusal):
                    if answer.reason == "unavailable":
                        self._lanes.leave_unanswered(attempt, pending)
                    return Result(None, None, answer)
                assert isinstance(answer, Claimed), "a claim without patience gets its final answer at once"
                is_own = answer.slot == slot
                if is_own and taking is not None and not self._takes(job, answer, taking):
                    return _NOT_TAKEN
                self._lanes.play(Lane.occupy, attempt)
                result = self._record(job, self._run_slot(attempt, answer, taking if is_own else None))
                if is_own:
                    return _raised(result)
                while not self.stopping and (left := self._hold_left(attempt)) > 0:
                    self._database.timing.sleep(min(left, _LOOK_AGAIN))
        raise AssertionError(f"{job.name}: more claims before {slot} than are possible")

    def run_manually(
        self, job: Job, trigger: Trigger = "manual", resume: str | None = None, taking: Taking | None = None
    ) -> Result:
        """Run the job once now, without claiming a tick.

        With `resume`, the key of an entry in the history, the run is the next attempt at that tick. With `taking`, it
        is what somebody has asked for, with the id of the ask. If another instance has taken it, nothing is run.
        """
        run_id = secrets.token_hex(3) if taking is None else taking.ask.id
        with self._place_at_once(job, None, trigger) as attempt:
            if attempt is None:
                return _still_runs(job)
            is_asked = taking is not None
            if resume is None:
                claimed = self._claimer.claim_manually(job, quietly=is_asked)
            else:
                claimed = self._resumer.claim(job, resume, quietly=is_asked)
            if isinstance(claimed, Refusal):
                return Result(None, None, claimed)
            if taking is not None and not self._takes(job, claimed, taking):
                return _NOT_TAKEN
            self._lanes.play(Lane.occupy, attempt)
            job = _as_claimed(job, claimed)
            self._history.record_passed_over(job, claimed.held, None)
            run = run_of(job, claimed, trigger, run_id)
            return _raised(self._record(job, self._perform(job, run, claimed, run_id, taking)))

    def running(self) -> dict[str, int]:
        """Return how many runs of each job are under way on this instance."""
        return dict(Counter(execution.run.name for execution in self.active()))

    def open(self) -> None:
        """Run jobs from now on, also after a stop."""
        self.open_work.latest = math.inf
        self._lanes.open()

    def hurry(self) -> None:
        """End the stop that is under way soon: cancel async runs now, and wait no longer for the others than for these.

        Called from any thread.
        """
        for execution in self.active():
            execution.cancel()
        self.open_work.hurry(self._database.timing.mono() + CANCEL_AHEAD * 1000)

    def stop(self, grace: float) -> None:
        """Tell all runs to stop, and wait up to `grace` seconds for them.

        Async runs are cancelled shortly before the end. Runs that go on after it keep their locks until these expire.
        """
        deadline = self._database.timing.mono() + grace * 1000
        self.stopping.set()
        self._lanes.clear()
        for execution in self.active():
            execution.stop()
        self.open_work.wait(deadline - CANCEL_AHEAD * 1000)
        for execution in self.active():
            execution.cancel()
        self.open_work.wait(deadline)
        self._history.wait(deadline)
        for execution in self.active():
            self._database.keeper.forget(execution.lease)
            run = execution.run
            message = f'"{run.name}" still runs as the instance stops; its lock stays held until it expires'
            self._database.events.emit("run.left_behind", run.name, logging.WARNING, message, key=run.idempotency_key)

    def cancel_previous(self, attempt: Attempt) -> float | None:
        """Cancel the runs on this instance that are of earlier ticks than the attempt's, which stands in line for them.

        Return the seconds until another look; None if nothing is left to cancel.
        """
        job, due = attempt.job, attempt.due
        if due is None or not self.wants(job):
            return None
        with self._at_work():
            runs = [execution for execution in self.active() if execution.run.name == job.name]
            earlier = [run for run in runs if run.is_of_its_tick and run.slot is not None and run.slot < due]
            leases = [run.lease for run in earlier if isinstance(run.lease, Lease)]
            # A run that has claimed and not begun is not under way yet, so look again. One by hand is none of these.
            return self._claimer.cancel_here(job, due, leases) if earlier else _LOOK_AGAIN

    def active(self) -> list[Execution]:
        """Return the runs under way."""
        with self._lock:
            return list(self._active)

    # --- places

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Do work that a stop waits for."""
        mark = object()
        try:
            try:
                self.open_work.add(mark)
                yield
            finally:
                self.open_work.remove(mark)
        except BaseException:
            self.open_work.remove(mark)  # Ctrl-C may have interrupted the first removal at any line
            raise

    @contextmanager
    def _place_at_once(self, job: Job, slot: str | None, trigger: Trigger) -> Iterator[Attempt | None]:
        """Yield an attempt by hand that has a place, None if the job's places are all taken.

        Raise Stopping once the instance stops.
        """
        with self._at_work():
            if self.stopping:
                raise Stopping
            # Made before its place is reserved, so that the place can be left at any moment.
            attempt = self._lanes.attempt(job, slot, trigger, is_patient=False)
            try:
                try:
                    yield attempt if self._lanes.reserve(attempt) else None
                finally:
                    self._lanes.vacate(attempt)
            except BaseException:
                # Ctrl-C may have interrupted the first call at any line.
                self._lanes.vacate(attempt, again=True)
                raise

    # --- the claim

    def _claim(self, attempt: Attempt) -> tuple[Claimed | Refusal | float | None, PendingClaim]:
        """Try once, with the lane's pending claim if there is one. Return the answer and the claim."""
        try:
            pending = attempt.lane.pending
            if pending is None:
                pending = self._claimer.prepare(attempt)
            elif pending.attempt is not attempt:
                self._claimer.retarget(pending, attempt)
            return self._claimer.claim(pending), pending
        except BaseException:
            self._lanes.play(Lane.leave, attempt)
            raise

    def _takes(self, job: Job, claimed: Claimed, taking: Taking) -> bool:
        """Take an ask under the lock that was just acquired for it. If that fails, give the lock back."""
        is_taken, momentary = False, claimed.bid.momentary
        try:
            is_taken = taking.take(None if momentary else claimed.held.trust.ends(self._database.margin))
        finally:
            if not is_taken:
                self._resumer.give_back(job, claimed)
        return is_taken

    # --- the run

    def _run_slot(self, attempt: Attempt, claimed: Claimed, taking: Taking | None = None) -> Ended:
        assert claimed.claim is not None
        job, attempt.claimed_at = _as_claimed(attempt.job, claimed), claimed.held.trust.reading
        self._history.record_passed_over(job, claimed.held, claimed.claim)
        return self._perform(job, run_of(job, claimed, claimed.claim.trigger), claimed, taking=taking)

    def _hold_left(self, attempt: Attempt) -> float:
        """Return how many seconds are left of the minimum hold of the attempt's last run, if it has run."""
        hold, reading = attempt.job.options.hold_at_least, attempt.claimed_at
        if not hold or reading is None:
            return 0.0
        now = self._database.clock.peek()
        held = self._database.timing.mono() - reading.mono if now is None else now.server - reading.server
        return (hold - held) / 1000

    def _record(self, job: Job, ended: Ended) -> Result:
        """Write the run to the history, and return its result.

        The lock is already released and the attempt's place is free, so the next run doesn't wait for this.
        """
        result, entry = ended
        if entry is not None:
            self._history.record(job.name, entry, result.error)
        return result

    def _perform(self, job: Job, run: Run, claimed: Claimed, run_id: str = "", taking: Taking | None = None) -> Ended:
        """Run the job, release its lock, and return the result.

        `run_id` is part of the history's key for a run without a slot.
        """
        lease, slot, own = self._lease(claimed), claimed.slot, claimed.is_of_its_tick
        key = claimed.key or manual_key(claimed.held.trust.reading.server, run_id)
        steps = None if isinstance(lease, Unlocked) else self._steps(job, run.fence, claimed, lease, key)
        execution = Execution(self._database, job, run, slot, lease, self.loop, steps, is_of_its_tick=own)
        process = self._database.process
        # Ctrl-C, a signal's handler or a listener may raise at any line, so the lease is kept only inside this block.
        try:
            try:
                self._begin(execution, job, claimed)
                if taking is not None:
                    taking.begin()
                execution.call_with_retries()
                self._release(execution, self._is_over(execution, job))
            except BaseException:
                self._release(execution)
                raise
            finally:
                self._end(execution)
        except BaseException:
            self._end(execution)  # Ctrl-C may have interrupted the first call at any line
            raise
        if self._database.process is not process:
            return Result(run, "lost"), None  # the body has forked and this is the child: the parent records the run
        return self._report(execution, job, claimed, key)

    def _report(self, execution: Execution, job: Job, claimed: Claimed, key: str) -> Ended:
        """Emit how a run has ended whose lock is released. Return its result, and its entry for the history."""
        run, started = execution.run, claimed.held.trust.reading
        outcome, error = execution.outcome, execution.error
        took = round(self._database.timing.mono() - started.mono)
        said = f'"{run.name}" {outcome} after {took / 1000:g} s' + (f": {described(error)}" if error else "")
        self._emit(
            execution, _SLUGS[outcome], _LEVELS.get(outcome, logging.ERROR), said, error, took=took, note=run.noted
        )
        self._emit_turn(job, claimed, outcome, said)
        entry = Entry(
            key,
            outcome,
            slot=execution.slot,
            trigger=run.trigger,
            started_at=started.server,
            ended_at=started.server + took,
            duration=took,
            attempt=run.attempt,
            fence=run.fence,
            instance_id=self._database.identity.instance_id,
            instance=self._database.identity.instance,
            error=_said(outcome, error, execution.lease.why_cancelled),
            note=run.noted,
        )
        return Result(run, outcome, error=error), entry

    def _lease(self, claimed: Claimed) -> Lease | Unlocked:
        """Return the run's lease, which is not renewed yet."""
        bid = claimed.bid
        return Unlocked(self._database, bid.name) if bid.momentary else Lease(self._database, bid, claimed.held)

    def _steps(
        self, job: Job, fence: int | None, claimed: Claimed, lease: Lease, key: str
    ) -> Callable[[Run], Steps] | None:
        """Return what makes the steps of a run with this fence, if it asks for one; None for a job that has none."""
        started = claimed.held.trust.reading
        if not job.options.has_steps or fence is None:
            return None
        return lambda run: Steps(
            run,
            lease,
            self._database.paths.steps_of(job.name, key),
            Claimant(fence, run.attempt, self._database.identity.instance),
            lambda: started.server + round(self._database.timing.mono() - started.mono),
            is_first=claimed.is_first,
            is_async=job.is_async,
        )

    def _begin(self, execution: Execution, job: Job, claimed: Claimed) -> None:
        """Have the lease renewed from now on, add the run to those under way, and emit `run.started`."""
        run, started = execution.run, claimed.held.trust.reading
        # From now on, and not from the claim: its reply may have been lost, and heard of much later.
        execution.limit = self._database.timing.mono() + job.options.max_runtime
        self._database.keeper.keep(execution.lease, renews=job.options.renew, limit=execution.limit)
        with self._lock:
            # Under the lock, so that a stop either finds this run in the list, or has set its flag before.
            self._active.append(execution)
            if self.stopping:
                run.stopping.set()
        lag = (
            None
            if claimed.claim is None or execution.slot is None
            else started.server - to_milliseconds(execution.slot)
        )
        said = f'"{run.name}" runs ({run.idempotency_key}, {run.trigger})'
        self._emit(execution, "run.started", logging.INFO, said, lag=lag)

    def _end(self, execution: Execution) -> None:
        """Renew the lease no more, and remove the run from those under way. A second call changes nothing."""
        self._database.keeper.forget(execution.lease)
        with self._lock:
            self._active[:] = [other for other in self._active if other is not execution]

    def _is_over(self, execution: Execution, job: Job) -> bool:
        """Return whether the job's own options have ended the run: they would end a rerun in the same way."""
        return not job.options.renew or self._database.timing.mono() >= execution.limit

    def _release(self, execution: Execution, is_over: bool = False) -> None:
        """Release the lock. Only the release shows whether the lease has lasted, and so how the run has ended.

        A run that `is_over` counts as finished even if its lease was lost.
        """
        run, lease, ended = execution.run, execution.lease, execution.outcome
        run.end()
        outcome: Outcome = "lost" if run.lost else ended
        # A run that was cut short stays `unfinished` in the record, so that another claim finds it.
        is_finished = ended in ("succeeded", "failed", "cancelled") or (ended == "lost" and is_over)
        finished = execution.slot if is_finished else None
        lease.release(outcome=outcome, finished=finished, tick=execution.slot)
        execution.outcome = "lost" if lease.was_lost else outcome
        if execution.outcome not in ("failed", "lost"):
            execution.error = None

    def _emit_turn(self, job: Job, claimed: Claimed, outcome: Outcome, why: str) -> None:
        """Say that this run has made its job fail, or has ended that, by the count of failures in its lock."""
        options, events = job.options, self._database.events
        if not (options.has_lease and options.once_per_tick):
            return
        replaced = claimed.held.replaced
        before = number(replaced.failures) or 0 if isinstance(replaced, LockRecord) else 0
        # The claim has counted a run that died before it.
        found = number(claimed.held.record.failures) or 0
        after = number(after_release(found, outcome, is_tick=claimed.slot is not None)) or 0
        if before < options.alert_after <= after and after > found:
            emit_trouble(events, "failing", job.name, why, options.about, slot=claimed.slot, failures=after)
        elif after < options.alert_after <= found:
            emit_recovery(events, "failing", job.name, why, options.about, slot=claimed.slot)

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
        self._database.events.emit(
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


def _as_claimed(job: Job, claimed: Claimed) -> Job:
    """Return the job with the schedule and the arguments that its entry had as it was claimed.

    The node may say something else since: it may have been removed, or edited, before the claim was found to be made.
    """
    return job if job.declared is None else job.entry(job.name, claimed.held.replaced.kept)


def _still_runs(job: Job) -> Result:
    return Result(None, None, Refusal(job.name, "held", f'"{job.name}" still runs on this instance'))


def _said(outcome: Outcome, error: BaseException | None, why_cancelled: str | None) -> str | None:
    """Return the entry's `error`: what the body raised, or why it was cancelled if that has ended it."""
    if error is not None:
        return described(error)
    return why_cancelled if outcome == "cancelled" else None


def _raised(result: Result) -> Result:
    """Return the result, or raise its KeyboardInterrupt: Ctrl-C in a run by hand is meant for the program, too."""
    if isinstance(result.error, KeyboardInterrupt):
        raise result.error
    return result
