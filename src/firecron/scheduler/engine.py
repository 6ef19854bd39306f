"""The engine: what makes the jobs of a registry run, put together.

    ticker ─ (job, slot) ─► turn ─ on a worker ─► runner       a turn that has to wait comes back by the ticker
    heartbeat ─► rounds ─ what was left behind ─► turn

Nothing happens before `start`, but for runs that somebody asks for by hand.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from firecron.base.clocks import Timing
from firecron.base.instants import to_text
from firecron.base.workers import Crew, Workers
from firecron.errors import Stopping
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.jobs.result import Result
from firecron.jobs.run import Trigger
from firecron.lock.service import LockService
from firecron.runs.bookkeeper import Bookkeeper
from firecron.runs.claimer import Wish
from firecron.runs.history import History
from firecron.runs.lanes import Turn
from firecron.runs.runner import Runner
from firecron.scheduler.heartbeat import Heartbeat
from firecron.scheduler.recovery import Rounds
from firecron.scheduler.ticker import Ticker


class Engine:
    """The threads of a FireCron and what they do; without threads it goes on in `work`."""

    def __init__(
        self,
        locks: LockService,
        history: History,
        timing: Timing,
        registry: Registry,
        crew: Crew | None,
        *,
        has_threads: bool,
    ) -> None:
        settings = locks.settings
        self._locks = locks
        self._events = locks.events
        self._timing = timing
        self._registry = registry
        self._has_threads = has_threads
        self.crew = crew or Workers(settings.workers)
        self.rounds = Rounds(
            locks.store,
            locks.paths.locks,
            locks.clock,
            settings,
            jobs=lambda: [job for job in registry.jobs() if registry.is_wanted(job)],
            is_wanted=lambda job: not self.runner.stopping and registry.is_wanted(job),
            take_turn=lambda job, trigger: self._submit(self.runner.turn(job, Wish(None, trigger))),
            at=self._call_at,
        )
        scribe = crew or Workers(1, lingers=False)
        bookkeeper = Bookkeeper(history, scribe, locks.identity, timing, self._events, locks.roster)
        self.runner = Runner(
            locks,
            timing,
            history,
            locks.identity,
            registry.is_wanted,
            self.rounds.look_again,
            self._submit,
            bookkeeper,
        )
        self.ticker = self._make_ticker()
        self.heartbeat = Heartbeat(
            locks.store,
            locks.paths.instances,
            locks.clock,
            timing,
            self._events,
            settings,
            locks.identity,
            locks.roster,
            self._describe,
            self.rounds.make,
        )

    def start(self) -> None:
        """Tick."""
        if self._has_threads:
            self.heartbeat.start()
            self.ticker.start()

    def stop(self, ends: float) -> None:
        """Tick no more, and let runs come to their end by then (on the monotonic clock)."""
        # It removes its node while runs come to their end.
        self.heartbeat.leave()
        self.ticker.stop()
        self.rounds.forget()
        self.runner.stop(max(0.0, ends - self._timing.mono()) / 1000)
        self.heartbeat.wait(ends)
        self.ticker.wait(max(0.0, ends - self._timing.mono()) / 1000)
        if isinstance(self.crew, Workers):
            self.crew.dismiss()
        # Locks that somebody holds by hand are kept on.
        self._locks.keeper.rest()

    def work(self) -> float:
        """Do on this thread what the threads do by themselves; answers with the seconds until there is more to do."""
        waits = [self.heartbeat.work_if_due(), self.ticker.work()]
        kept = self._locks.keeper.work()
        return min(waits if kept is None else [*waits, max(0.0, (kept - self._timing.mono()) / 1000)])

    def run_now(self, job: Job, slot: datetime | None, trigger: Trigger) -> Result:
        """One run for somebody who waits for it: of this tick, or of none."""
        try:
            if slot is None:
                return self.runner.run_manually(job, trigger)
            return self.runner.run_tick(job, to_text(slot), trigger)
        except Stopping:
            # What a run is told when it should end says nothing to somebody who wants one.
            message = f'"{job.name}" is not run: this instance is stopping, or was stopped and not started again'
            raise Stopping(message) from None

    def after_fork(self) -> None:
        """In a forked child: no thread is here, and nothing that the parent does is the child's."""
        self.rounds.forget()
        self.runner.after_fork()
        self.crew.after_fork()
        self.heartbeat.after_fork()
        self.ticker = self._make_ticker()

    def _make_ticker(self) -> Ticker:
        return Ticker(self._locks.clock, self._timing, self._events, self._dispatch, self._look_back)

    def _dispatch(self, job: Job, slot: datetime) -> None:
        self._submit(self.runner.turn(job, Wish(to_text(slot), "schedule")))

    def _look_back(self, job: Job, slot: datetime) -> None:
        if job.options.once_per_tick:
            self._submit(self.runner.turn(job, Wish(to_text(slot), "schedule", looks_back=True)))

    def _submit(self, turn: Turn) -> None:
        """Have a worker go on with it."""
        self.crew.submit(lambda: self._go_on(turn))

    def _go_on(self, turn: Turn) -> None:
        delay = self.runner.go_on(turn)
        if delay is not None:
            self.ticker.after(delay, lambda: self._submit(turn))

    def _call_at(self, instant: int, call: Callable[[], None]) -> None:
        self.ticker.at(instant, call)

    def _describe(self) -> dict[str, int]:
        return {"jobs": len(self._registry.jobs()), "running": sum(self.runner.running().values())}
