"""The runner: takes a tick of a job through this instance.

    claim      the tick, or what comes before it by the record: an abandoned run, a missed tick
    perform    call the job's function while its lease is renewed, then release the lock
    record     write the run to the history; the bookkeeper writes the ticks that the claim has passed over

A turn has a worker thread while it claims, runs and records, but not while it waits for its next try.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from firecron.base.clocks import Timing
from firecron.base.flag import Flag
from firecron.base.identity import Identity
from firecron.base.threads import Outstanding
from firecron.errors import Stopping
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry, Result
from firecron.jobs.run import Trigger
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.lock.service import LockService
from firecron.runs.body import CANCEL_AHEAD, Loop
from firecron.runs.claimer import Canceller, Claimed, Claimer, Resumer
from firecron.runs.execution import Performer, Ran, run_of
from firecron.runs.history import Bookkeeper, History
from firecron.runs.lanes import Lanes, report_skipped
from firecron.runs.policy import MOST_CLAIMS, MOST_MISSED
from firecron.runs.turn import PendingClaim, Place, Turn, WantedClaim

_LOOK_AGAIN = 1.0


class Runner:
    """Claims and runs the turns of the jobs that the registry wants to run here, and runs jobs by hand."""

    def __init__(
        self,
        locks: LockService,
        timing: Timing,
        history: History,
        identity: Identity,
        registry: Registry,
        claimer: Claimer,
        lanes: Lanes,
        bookkeeper: Bookkeeper,
    ) -> None:
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._history = history
        self._bookkeeper = bookkeeper
        self._registry = registry
        self._claimer = claimer
        self._resumer = Resumer(locks, history, claimer, bookkeeper)
        self._lanes = lanes
        self._canceller = Canceller(locks)
        self.performer = Performer(locks, timing, identity, lambda: bool(self.stopping))
        self.loop: Loop | None = None
        self.stopping = Flag()
        self.outstanding = Outstanding(timing)
        self._unanswered: dict[str, PendingClaim] = {}

    def turn(self, job: Job, wanted: WantedClaim) -> Turn:
        """Return a new turn of a job, for `go_on`."""
        return Turn(job, wanted, self._lanes.lane(job), self._timing.mono())

    def wants(self, job: Job) -> bool:
        """Return whether turns of the job are taken: the registry wants it here, and this instance is not stopping."""
        return not self.stopping and self._registry.is_wanted(job)

    def go_on(self, turn: Turn) -> float | None:
        """Claim and run until the turn is over or has to wait.

        Return the seconds until its next try. Return None if the turn is over, or if the agenda will call it again.
        """
        job = turn.job
        with self._at_work():
            # Each round claims another slot, and there can't be as many slots as this.
            for _ in range(MOST_MISSED + MOST_CLAIMS + 1):
                if not self.wants(job):
                    self._drop(turn)
                    return None
                if (left := turn.hold_left()) > 0:
                    # The next claim would be refused until then, and what came before the hold would wait for a tick
                    # that finds the lock free. Each such tick would leave its own tick behind. Looked at before each
                    # claim, because RTDB's time may have been estimated anew since the wait began.
                    return left
                if not self._lanes.enter(turn):
                    return self._cancel_previous(turn)
                turn.take_up(self._timing.mono(), self._locks.settings.margin_ms)
                answer = self._claim(turn)
                if isinstance(answer, float):
                    return answer if self._lanes.wait(turn) else None
                if answer is None and turn.results and job.options.catches_up:
                    # Catching up has outlasted the grace of the turn's own tick, so that tick is missed, too. Catch it
                    # up now: if the next tick had to do it, that tick would be late as well, and so on.
                    turn.wanted, turn.pending = WantedClaim(None), None
                    if not self._lanes.wait(turn):
                        return None
                    continue
                if not isinstance(answer, Claimed):
                    self._lanes.give_up(turn)
                    turn.results += [] if answer is None else [Result(None, None, answer)]
                    return None
                self._lanes.begin(turn)
                is_last = _slot_of(answer) == turn.wanted.due
                ran: Ran | None = None
                try:
                    ran = self._run_slot(job, answer)
                finally:
                    turn.hold_left = partial(self._hold_left, answer)
                    holds = self._hold_left(answer) > 0
                    self._lanes.end(turn, goes_on=ran is not None and not is_last, holds=holds)
                try:
                    turn.results.append(self._record(job, ran))
                except BaseException:
                    self._lanes.give_up(turn)  # the lane would wait for it
                    raise
                if is_last:
                    return None
            self._lanes.give_up(turn)
        return None

    def run_tick(self, job: Job, slot: str, trigger: Trigger) -> Result:
        """Run this tick now, whatever its grace, unless it or a later tick was claimed already.

        An abandoned run and missed ticks are run before it. If the database does not respond, the next call for the
        same tick shares the token: a write whose reply was lost may still become a win.
        """
        wanted = WantedClaim(slot, trigger, is_patient=False)
        with self._place_at_once(job) as place:
            if place is None:
                return _still_runs(job)
            for _ in range(MOST_MISSED + MOST_CLAIMS + 1):
                if self.stopping:
                    raise Stopping
                pending = self._unanswered_for(job, wanted) or self._claimer.prepare(job, wanted)
                answer = self._claimer.claim(pending)
                if isinstance(answer, Refusal):
                    if answer.reason == "unavailable":
                        self._unanswered[job.name] = pending
                    return Result(None, None, answer)
                assert isinstance(answer, Claimed), "a claim without patience gets its final answer at once"
                self._lanes.occupy(place)
                result = self._record(job, self._run_slot(job, answer))
                if _slot_of(answer) == slot:
                    return _raised(result)
                while not self.stopping and (left := self._hold_left(answer)) > 0:
                    self._timing.sleep(min(left, _LOOK_AGAIN))
        raise AssertionError(f"{job.name}: more claims before {slot} than are possible")

    def run_manually(self, job: Job, trigger: Trigger = "manual", resume: str | None = None) -> Result:
        """Run the job once now, without claiming a tick.

        With `resume`, the key of an entry in the history, the run is the next attempt at that tick.
        """
        run_id = secrets.token_hex(3)
        with self._place_at_once(job) as place:
            if place is None:
                return _still_runs(job)
            claimed = self._claimer.claim_manually(job) if resume is None else self._resumer.claim(job, resume)
            if isinstance(claimed, Refusal):
                return Result(None, None, claimed)
            self._lanes.occupy(place)
            self._bookkeeper.note(job, claimed.held, None)
            run = run_of(job, claimed, trigger, run_id)
            return _raised(self._record(job, self.performer.perform(job, run, claimed, self.loop, run_id)))

    def running(self) -> dict[str, int]:
        """Return how many runs of each job are under way on this instance."""
        return dict(Counter(execution.run.name for execution in self.performer.active()))

    def open(self) -> None:
        """Take turns from now on, also after a stop."""
        # The turns from before a stop are dropped: nothing would call them again.
        self._lanes.clear()
        self.outstanding.latest = math.inf
        self.stopping = Flag()

    def hurry(self) -> None:
        """End the stop that is under way soon: cancel async runs now, and wait no longer for the others than for these.

        Called from any thread.
        """
        for execution in self.performer.active():
            execution.cancel()
        self.outstanding.hurry(self._timing.mono() + CANCEL_AHEAD * 1000)

    def stop(self, grace: float) -> None:
        """Tell all runs to stop, and wait up to `grace` seconds for them.

        Async runs are cancelled shortly before the end. Runs that go on after it keep their locks until these expire.
        """
        deadline = self._timing.mono() + grace * 1000
        self.stopping.set()
        self._lanes.clear()
        for execution in self.performer.active():
            execution.stop()
        self.outstanding.wait(deadline - CANCEL_AHEAD * 1000)
        for execution in self.performer.active():
            execution.cancel()
        self.outstanding.wait(deadline)
        self._bookkeeper.wait(deadline)
        for execution in self.performer.active():
            self._locks.contender.keeper.forget(execution.lease)
            run = execution.run
            message = f'"{run.name}" still runs as the instance stops; its lock stays held until it expires'
            self._events.emit("run.left_behind", run.name, logging.WARNING, message, key=run.idempotency_key)

    def after_fork(self) -> None:
        """Forget all turns and runs in a forked child: they are the parent's."""
        self.stopping = Flag()
        self.outstanding.after_fork()
        self._unanswered = {}  # the tokens are the parent's
        self._lanes.after_fork()
        self.performer.after_fork()
        self._bookkeeper.after_fork()
        self.loop = None

    def _cancel_previous(self, turn: Turn) -> float | None:
        """Cancel the run on this instance that the turn stands in line for, if it is of an earlier tick.

        Return the seconds until another look; None if nothing is left to cancel.
        """
        job, due = turn.job, turn.wanted.due
        if not job.options.cancels_previous or due is None or not self._lanes.is_in_line(turn):
            return None
        runs = [execution for execution in self.performer.active() if execution.run.name == job.name]
        earlier = [run for run in runs if run.is_of_its_tick and run.slot is not None and run.slot < due]
        leases = [run.lease for run in earlier if isinstance(run.lease, Lease)]
        # A run that has claimed and not begun is not under way yet, so look again.
        return self._canceller.cancel_here(job, due, leases) if runs else _LOOK_AGAIN

    # --- places

    @contextmanager
    def _at_work(self) -> Iterator[None]:
        """Do work that a stop waits for."""
        mark = object()
        try:
            try:
                self.outstanding.add(mark)
                yield
            finally:
                self.outstanding.remove(mark)
        except BaseException:
            self.outstanding.remove(mark)  # Ctrl-C may have interrupted the first removal at any line
            raise

    @contextmanager
    def _place_at_once(self, job: Job) -> Iterator[Place | None]:
        """Yield a place for a run by hand, None if the job's places are all taken.

        Raise Stopping once the instance stops.
        """
        with self._at_work():
            if self.stopping:
                raise Stopping
            place = Place(self._lanes.lane(job))
            try:
                try:
                    yield place if self._lanes.reserve(place) else None
                finally:
                    self._lanes.vacate(place)
            except BaseException:
                # Ctrl-C may have interrupted the first call at any line.
                self._lanes.vacate(place, again=True)
                raise

    # --- the run

    def _unanswered_for(self, job: Job, wanted: WantedClaim) -> PendingClaim | None:
        """Remove and return the pending claim of an earlier call for the same tick that got no answer, if any.

        It is removed because no two calls may share it.
        """
        pending = self._unanswered.pop(job.name, None)
        return pending if pending is not None and pending.job is job and pending.wanted == wanted else None

    def _drop(self, turn: Turn) -> None:
        """End a turn, because the instance stops or the job does not run here any more."""
        was_open, slot = self._lanes.is_open(turn), turn.wanted.tick_to_report
        self._lanes.give_up(turn)
        if not was_open or self.stopping:
            return  # the tick of a turn that a newer turn has overtaken is reported already
        if turn.pending is not None:
            self._claimer.drop(turn.pending)
        if slot is not None:
            why = "the job does not run here any more (paused, or removed)"
            report_skipped(self._events, turn.job.name, slot, why)

    def _claim(self, turn: Turn) -> Claimed | Refusal | float | None:
        try:
            if turn.pending is None:
                turn.pending = self._claimer.prepare(turn.job, turn.wanted)
            elif turn.pending.wanted != turn.wanted:
                self._claimer.retarget(turn.pending, turn.wanted)
            answer = self._claimer.claim(turn.pending)
        except BaseException:
            self._lanes.give_up(turn)
            raise
        if isinstance(answer, Claimed):
            turn.pending = None  # the next claim needs a token of its own
        return answer

    def _run_slot(self, job: Job, claimed: Claimed) -> Ran:
        assert claimed.claim is not None
        self._bookkeeper.note(job, claimed.held, claimed.claim)
        return self.performer.perform(job, run_of(job, claimed, claimed.claim.trigger), claimed, self.loop)

    def _hold_left(self, claimed: Claimed) -> float:
        """Return how many seconds are left of the minimum hold of a run that has ended."""
        reading, now = claimed.held.term.reading, self._locks.clock.peek()
        held = self._timing.mono() - reading.mono if now is None else now.server - reading.server
        return (claimed.bid.hold_at_least - held) / 1000

    def _record(self, job: Job, ran: Ran) -> Result:
        """Write the run to the history, and return its result.

        The lock is already released and a turn's place is free, so the next run doesn't wait for this.
        """
        if ran.entry is not None:
            self._history.record(job.name, ran.entry)
        return ran.result


def _slot_of(claimed: Claimed) -> str:
    assert claimed.claim is not None
    return claimed.claim.slot


def _still_runs(job: Job) -> Result:
    return Result(None, None, Refusal(job.name, "held", f'"{job.name}" still runs on this instance'))


def _raised(result: Result) -> Result:
    """Return the result, or raise its KeyboardInterrupt: Ctrl-C in a run by hand is meant for the program, too."""
    if isinstance(result.error, KeyboardInterrupt):
        raise result.error
    return result
