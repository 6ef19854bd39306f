"""The runner: what one instance does with one tick of one job.

    claim      the tick, or what the record says comes first: an abandoned run, a missed tick
    run        the job's function, with its lease renewed; again after a failure, if it has retries
    release    and so learn whether the lease lasted to the end
    record     the run, and, as the bookkeeper, what lies between the tick and the last one

A turn blocks its worker thread from the claim to the record, and never raises.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime

from firecron.bodies import Ending, Loop
from firecron.bookkeeper import Bookkeeper
from firecron.claiming import Claimed, Claimer
from firecron.claims import MOST_CLAIMS, MOST_MISSED
from firecron.execution import Execution, Unlocked, described
from firecron.explorer import Job
from firecron.flag import Flag
from firecron.history import Finished, History, manual_key
from firecron.identity import Identity
from firecron.instants import to_datetime, to_milliseconds, to_text
from firecron.lease import Lease
from firecron.lock import LockService
from firecron.places import Place, Places
from firecron.refusal import Refusal
from firecron.run import Outcome, Run, Stopping, Trigger
from firecron.timing import Timing

_CANCEL_AHEAD = 2.0

_LEVELS = {"succeeded": logging.INFO, "interrupted": logging.WARNING}


@dataclass(frozen=True, slots=True)
class Result:
    """What came of one claim: a run and its outcome, or the refusal that kept it from running."""

    run: Run | None
    outcome: Outcome | None
    refusal: Refusal | None = None
    error: BaseException | None = None


@dataclass(frozen=True, slots=True)
class _Active:
    execution: Execution
    lease: Lease | Unlocked


class Runner:
    """Takes turns. `look_again` is called with a job and the moment (RTDB's time) when a lock that it saw expires."""

    def __init__(
        self,
        locks: LockService,
        timing: Timing,
        history: History,
        identity: Identity,
        look_again: Callable[[Job, int], None],
        bookkeeper: Bookkeeper,
    ) -> None:
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._history = history
        self._identity = identity
        self._bookkeeper = bookkeeper
        self._claimer = Claimer(locks, timing, self._pause, look_again)
        self._places = Places(
            locks.settings.max_concurrent, self._claimer.ends, lambda: bool(self.stopping), timing, locks.events
        )
        self.loop: Loop | None = None
        self.stopping = Flag()
        self._changed = threading.Condition()
        self._turns: set[object] = set()
        self._active: list[_Active] = []

    def take_turn(self, job: Job, due: str | None, trigger: Trigger = "schedule") -> list[Result]:
        """Claim and run what is due: the tick `due`, and before it whatever the record says. Without one, only the
        latter.
        """
        results: list[Result] = []
        with self._turn(), self._places.take(job, due) as place:
            # Each round claims another slot, so this many are more than there can be.
            for _ in range(0 if place is None else MOST_MISSED + MOST_CLAIMS + 1):
                claimed = None if self.stopping else self._claimer.claim(job, due, trigger)
                if claimed is None:
                    break
                if isinstance(claimed, Refusal):
                    results.append(Result(None, None, claimed))
                    break
                assert claimed.claim is not None
                self._bookkeeper.note(job, claimed.held, claimed.claim)
                is_last = claimed.claim.slot == due
                results.append(self._run(job, _run_of(job, claimed), claimed, place if is_last else None))
                if is_last:
                    break
        return results

    def run_manually(self, job: Job) -> Result:
        """One run that claims no tick. Raises Stopping once the instance stops."""
        if self.stopping:
            raise Stopping
        run_id = secrets.token_hex(3)
        with self._turn(), self._places.take(job, None) as place:
            if not place:
                return Result(None, None, Refusal(job.name, "held", f'"{job.name}" still runs on this instance'))
            claimed = self._claimer.claim_manually(job)
            if isinstance(claimed, Refusal):
                return Result(None, None, claimed)
            run = Run(
                job.name,
                slot=None,
                attempt=1,
                fence=_fence(claimed),
                idempotency_key=f"{job.name}:manual:{run_id}",
                trigger="manual",
            )
            result = self._run(job, run, claimed, place, run_id)
        if isinstance(result.error, KeyboardInterrupt):
            raise result.error  # whoever called this by hand wants to end more than the job
        return result

    def running(self) -> dict[str, int]:
        """How many runs of each job are under way on this instance."""
        with self._changed:
            return dict(Counter(active.execution.run.name for active in self._active))

    def stop(self, grace: float) -> None:
        """Tell all runs to stop, and wait for them; async ones are cancelled shortly before the end. The rest keep
        their locks.
        """
        deadline = self._timing.mono() + grace * 1000
        self.stopping.set()
        self._places.look_up()
        for active in self._actives():
            active.execution.stop()
        self._wait_until_idle(deadline - _CANCEL_AHEAD * 1000)
        for active in self._actives():
            active.execution.cancel()
        self._wait_until_idle(deadline)
        self._bookkeeper.wait(deadline)
        for active in self._actives():
            self._locks.keeper.forget(active.lease)
            run = active.execution.run
            message = f'"{run.name}" still runs as the instance stops; its lock frees itself when it expires'
            self._events.emit("run.left_behind", run.name, logging.WARNING, message, key=run.idempotency_key)

    def after_fork(self) -> None:
        """In a forked child: nothing runs here."""
        self._changed = threading.Condition()
        self.stopping = Flag()
        self._turns = set()
        self._places.after_fork()
        self._active = []
        self._bookkeeper.after_fork()
        self.loop = None

    # --- room for it

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Something that a stop waits for."""
        turn = object()
        with self._changed:
            self._turns.add(turn)
        try:
            yield
        finally:
            with self._changed:
                self._turns.discard(turn)
                self._changed.notify_all()

    # --- the run

    def _run(self, job: Job, run: Run, claimed: Claimed, place: Place | None, run_id: str | None = None) -> Result:
        """Run, release, and record; the `place` is left before that, where nothing follows this run."""
        execution = Execution(job, run, self.loop, self._timing, self._events)
        lease = self._lease(job, claimed, execution)
        active = _Active(execution, lease)
        under_way = self._active
        with self._changed:
            # A stop either finds this run here, or is found by it.
            under_way.append(active)
            if self.stopping:
                run.stopping.set()
        started = claimed.held.term.reading
        self._emit(run, "run.started", logging.INFO, f'"{run.name}" runs ({run.idempotency_key}, {run.trigger})')
        try:
            ending = execution.perform()
            outcome = self._release(run, lease, ending)
        finally:
            with self._changed:
                under_way.remove(active)
                self._changed.notify_all()
        if self._active is not under_way:
            return Result(run, "lost")  # the body has forked, and this is the child: the run is the parent's to record
        if place is not None:
            place.leave()
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
        self._history.record(job.name, finished)
        return Result(run, outcome, error=error)

    def _lease(self, job: Job, claimed: Claimed, execution: Execution) -> Lease | Unlocked:
        lease: Lease | Unlocked
        if claimed.bid.request.momentary:
            lease = Unlocked(job.name, execution.on_lost)
            limit = claimed.held.term.reading.mono + job.options.max_runtime
            self._locks.keeper.keep(lease, renews=False, limit=limit)
        else:
            lease = self._locks.lease(claimed.bid, claimed.held)
            lease.when_lost(execution.on_lost)
        execution.run.look_at(lambda: lease.lost)
        return lease

    def _release(self, run: Run, lease: Lease | Unlocked, ending: Ending) -> Outcome:
        """Give the lock back; only then is it known whether the run had it to the end."""
        outcome: Outcome = "interrupted" if ending.how == "stopped" else ending.how
        if run.lost:
            outcome = "lost"
        if isinstance(lease, Unlocked):
            self._locks.keeper.forget(lease)
            return outcome
        # What was cut short stays unfinished, so that it is found.
        finished = _text(run.slot) if ending.how in ("succeeded", "failed") else None
        lease.release(outcome=outcome, finished=finished)
        return "lost" if lease.lost else outcome

    def _emit(
        self, run: Run, slug: str, level: int, message: str, error: BaseException | None = None, **fields: int
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

    # --- waiting

    def _pause(self, seconds: float) -> bool:
        """Wait before the next try of a claim; whether to go on."""
        until = self._timing.mono() + seconds * 1000
        with self._changed:
            while not self.stopping and (left := until - self._timing.mono()) > 0:
                self._timing.wait(self._changed, left / 1000)
            return not self.stopping

    def _actives(self) -> list[_Active]:
        with self._changed:
            self._changed.notify_all()  # those that wait to claim look up
            return list(self._active)

    def _wait_until_idle(self, until: float) -> None:
        with self._changed:
            while self._turns and (left := until - self._timing.mono()) > 0:
                self._timing.wait(self._changed, left / 1000)


def _run_of(job: Job, claimed: Claimed) -> Run:
    claim = claimed.claim
    assert claim is not None
    return Run(
        job.name,
        slot=to_datetime(to_milliseconds(claim.slot)),
        attempt=int(claimed.held.record.attempt or 1),
        fence=_fence(claimed),
        idempotency_key=f"{job.name}:{claim.slot}",
        trigger=claim.trigger,
    )


def _fence(claimed: Claimed) -> int | None:
    fence = claimed.held.record.fence
    return int(fence) if claimed.bid.request.fenced and fence is not None else None


def _text(instant: datetime | None) -> str | None:
    return None if instant is None else to_text(round(instant.timestamp() * 1000))
