"""The engine: connects the parts that make the jobs of a registry run.

    ticker ─ (job, slot) ─► waves ─► lanes ─ turn, on a worker ─► runner   the ticker calls a waiting turn again
    heartbeat ─ ticket ─► waves
    heartbeat ─► recovery ─ abandoned and missed ticks ─► turn
    heartbeat ─► lateness                                             reports jobs that are late
    leaders                                                           beside all that, on threads of their own
    runner ─ a job that was run ─► publisher                          the catalogue

The parts don't know the engine. They call it by what they need of it: it is the `Receiver` of the ticker, the `Asker`
of the waves, the `Agenda` of the lanes and the claimer, and the `JobControl` of the registry.

Before `start` nothing runs but jobs that are started by hand.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime

from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.base.threads import Crew, Workers
from firecron.errors import ConfigurationError, Stopping
from firecron.jobs.job import Around, Job, explore
from firecron.jobs.registry import Checks, Registry, Result
from firecron.jobs.run import Trigger
from firecron.leaders.leader import explore_leaders
from firecron.leaders.leaders import LeaderParts, Leaders
from firecron.lock.audit_log import pause_lock
from firecron.lock.database import Database
from firecron.runs.claimer import Claimer
from firecron.runs.history import Bookkeeper, History
from firecron.runs.lanes import Lanes
from firecron.runs.runner import Runner
from firecron.runs.turn import Turn, WantedClaim
from firecron.scheduler.heartbeat import Heartbeat
from firecron.scheduler.publishing import CataloguePublisher
from firecron.scheduler.recovery import Lateness, Recovery
from firecron.scheduler.ticker import Ticker
from firecron.scheduler.waves import Waves

# Two plans this close, in milliseconds, are one.
_SAME = 1.0


class Engine:
    """The threads of a FireCron and their work. Without threads, `work` does the work. The parts are attributes."""

    def __init__(self, database: Database, history: History, crew: Crew | None, around: Sequence[Around]) -> None:
        self._database = database
        self.is_ticking = False
        # When the grace of the last stop is over, on the monotonic clock.
        self._ends = 0.0
        self.checks = Checks(database.settings, database.events)
        self.registry = Registry(database.settings.roles, self, around)
        self.crew = crew or Workers(database.settings.workers)
        history_worker = crew or Workers(1, lingers=False)
        self.bookkeeper = Bookkeeper(database, history, history_worker)
        self.claimer = Claimer(database, self)
        self.lanes = Lanes(database, self)
        self.publisher = CataloguePublisher(database, self.registry, crew or Workers(1, lingers=False), self.after)
        self.runner = Runner(database, history, self.registry, self.claimer, self.lanes, self.bookkeeper)
        parts = LeaderParts(database, history, history_worker, self.runner.open_work, lambda: self.runner.loop)
        self.leaders = Leaders(parts, self.registry.contexts)
        self.recovery = Recovery(database, self.registry, self.runner, self)
        self.ticker = Ticker(database, self)
        self.waves = Waves(database, self.registry, self.leaders, self.crew, self)
        self.leaders.tickets = self.waves
        self.lateness = Lateness(database, self.registry, self.waves, history_worker)
        self.heartbeat = Heartbeat(database, self.registry, self.runner, self.recovery, self.waves, self.lateness)

    def start(self) -> None:
        """Start the threads that tick, beat and recover."""
        self.ticker.begin()
        if self._database.has_threads:
            self.recovery.start()
            self.heartbeat.start()
            self.ticker.start()
            self.leaders.start()
            self.publisher.begin()

    def stop(self, ends: float) -> None:
        """Stop ticking, and wait for runs to end until `ends` on the monotonic clock."""
        if not self.runner.stopping:
            self._ends = ends  # a second call prolongs nothing
        # The heartbeat removes its node while runs come to their end.
        self.heartbeat.leave()
        self.publisher.forget()
        self.ticker.stop()
        self.waves.forget()
        self.recovery.forget()
        self.lateness.forget()
        self.leaders.stop()
        self.runner.stop(max(0.0, ends - self._database.timing.mono()) / 1000)
        self.leaders.abandon()
        self.heartbeat.wait(ends)
        self.ticker.wait(max(0.0, ends - self._database.timing.mono()) / 1000)
        self.crew.dismiss()
        # The turns that waited are over. Any other waiter on these locks asks, and follows again if refused.
        self.claimer.forget()
        self._database.streams.close()
        # The keeper goes on renewing the locks that the program holds by hand.
        self._database.keeper.rest()
        # A program may go on for long. What still runs, or uses the locks, opens a socket when it needs one.
        self._database.rest()

    def hurry(self) -> None:
        """End a stop that is under way soon. Without one this changes nothing. Called from any thread."""
        if self.runner.stopping:
            self.leaders.hurry()
            self.runner.hurry()

    def seconds_left(self, most: float) -> float:
        """Return how much of the grace is left to those who tell others of the runs: so many seconds at most.

        Before a stop it is all of these seconds.
        """
        return max(0.0, min(most, (self._ends - self._database.timing.mono()) / 1000)) if self.runner.stopping else most

    def work(self) -> float:
        """Do on this thread the work that is due. Return the seconds until there is more to do."""
        waits = [self.heartbeat.work_if_due(), self.ticker.work()]
        kept = self._database.keeper.work()
        return min(waits if kept is None else [*waits, max(0.0, (kept - self._database.timing.mono()) / 1000)])

    def begin_child(self) -> None:
        """Plan anew in a forked child, which doesn't tick yet: what is planned, or looked for, is the parent's."""
        self.is_ticking = False
        self.recovery.forget()
        self.lateness.forget()
        self.claimer.forget()
        self.ticker = Ticker(self._database, self)
        for job in self.registry.jobs():
            if self.registry.ticks_here(job):
                self.ticker.add(job)

    # --- the agenda, for the engine's parts

    def submit(self, turn: Turn) -> None:
        """Give the turn to a worker, which goes on with it. Once this instance stops it is dropped, as by the worker.

        A run that was left behind may still call the next one. A worker of its own would stay, and wait for work.
        """
        if self.runner.stopping:
            return
        self.crew.submit(lambda: self._go_on(turn))

    def at(self, instant: int, call: Callable[[], None]) -> None:
        """Make this call when RTDB's clock shows the instant. The call must not block."""
        self.ticker.at(instant, call)

    def look_again(self, job: Job, instant: int) -> None:
        """Look for a died run of the job when RTDB's clock shows the instant."""
        self.recovery.look_again(job, instant)

    def wake(self, job: Job) -> None:
        """Plan the next try of the job's waiting turn anew: its lock has changed, or isn't heard of any more."""
        turn = self.lanes.waiting(job)
        if turn is None or turn.pending is None:
            return
        planned = turn.tries_at - self._database.timing.mono()
        delay = self.claimer.due_in(turn.pending, planned / 1000)
        if delay is not None and abs(delay * 1000 - planned) > _SAME:
            self._plan(turn, delay)

    # --- the asker of the waves

    def ask(self, job: Job, slot: str, *, is_later: bool) -> None:
        """Run this tick, if no other instance does."""
        self.lanes.line_up(self.runner.turn(job, WantedClaim(slot, "schedule", is_later=is_later)))

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make this call in this many seconds. The call must not block."""
        self.ticker.after(seconds, call)

    # --- the ticker's receiver

    def due(self, job: Job, slot: str) -> None:
        """Run this tick, which is due, unless other instances are to ask for it."""
        self.waves.due(job, slot)

    def look_back(self, job: Job, slot: str) -> None:
        """Run this tick from before this instance had the job.

        Without `once_per_tick` the record doesn't show whether the tick has run, so it is left out.
        """
        if job.options.once_per_tick:
            is_later = job.options.asks_in_waves
            self.submit(self.runner.turn(job, WantedClaim(slot, "schedule", looks_back=True, is_later=is_later)))

    def _look_back_again(self, job: Job, wanted: WantedClaim, since: int | None) -> None:
        """Run this tick although the job has never run, if other instances had the job by then.

        They may be gone; and if any is left, it may wait for the others, whom the beats of this instance hide.
        """
        if since is not None and wanted.due is not None and since < to_milliseconds(wanted.due):
            self.submit(self.runner.turn(job, replace(wanted, had_others=True)))

    # --- the registry's control of its jobs

    def check(self, job: Job) -> None:
        """Check a job that is added while others tick. `start` checks all other jobs.

        Raise ConfigurationError for a job with a leader's name.
        """
        if self.leaders.has(job.name):
            where = self.leaders.thread(job.name).leader.where
            raise ConfigurationError(
                f"a leader and a job are named {job.name!r}: {where} and {job.where}. Each name is one node: "
                "rename one of them"
            )
        if self.is_ticking:
            self.checks.check(job)
            self.checks.warn([job])

    def explore(self, *providers: object) -> None:
        """Find the leaders and the jobs in these providers."""
        for leader in explore_leaders(*providers):
            self.leaders.add(leader)
        for job in explore(*providers):
            self.registry.add(job)

    def check_all(self) -> None:
        """Raise ConfigurationError if a job's or a leader's timings are too short for the lock's promises."""
        for job in self.registry.jobs():
            self.checks.check(job)
        self.leaders.check()

    def add(self, job: Job) -> None:
        self.ticker.add(job)
        self.publisher.add(job)

    def remove(self, name: str) -> None:
        self.ticker.remove(name)

    def has_leader(self, name: str) -> bool:
        return self.leaders.has(name)

    def pause(self, name: str, is_paused: bool, why: str | None, until: datetime | None) -> None:
        pause_lock(self._database, name, is_paused, why, until)

    def pause_leader(self, name: str, is_paused: bool) -> None:
        self.leaders.pause(name, is_paused)

    def served(self, job: Job) -> None:
        self.publisher.served(job)

    def running(self) -> dict[str, int]:
        return self.runner.running()

    def run_now(self, job: Job, slot: datetime | None, trigger: Trigger) -> Result:
        """Run the job now and return the result: for this tick, or for none."""
        with _for_a_caller(job):
            if slot is None:
                return self.runner.run_manually(job, trigger)
            return self.runner.run_tick(job, to_text(slot), trigger)

    def resume(self, job: Job, tick: datetime | str, trigger: Trigger) -> Result:
        """Run a tick once more and return the result."""
        with _for_a_caller(job):
            return self.runner.run_manually(job, trigger, tick if isinstance(tick, str) else to_text(tick))

    def now(self) -> datetime | None:
        moment = self._database.clock.peek()
        return None if moment is None else to_datetime(moment.server)

    def _go_on(self, turn: Turn) -> None:
        turn = self.lanes.heir(turn)
        delay = self.runner.go_on(turn)
        if any(result.run is not None for result in turn.results):
            self.publisher.won(turn.job)
        elif turn.wanted.looks_back and not turn.wanted.had_others and _has_never_run(turn):
            self.publisher.when_known(turn.job, lambda since: self._look_back_again(turn.job, turn.wanted, since))
        if delay is not None:
            self._plan(turn, delay)
            self.wake(turn.job)  # what was heard since the delay was computed has woken nobody

    def _plan(self, turn: Turn, delay: float) -> None:
        """Have the turn try again after so many seconds, whatever was planned for it before."""
        turn.plans, turn.tries_at = turn.plans + 1, self._database.timing.mono() + delay * 1000
        plan = turn.plans
        self.ticker.after(delay, lambda: self.submit(turn) if turn.plans == plan else None)


def _has_never_run(turn: Turn) -> bool:
    """Return whether a turn was refused because no tick of its job was ever claimed."""
    refusals = [result.refusal for result in turn.results if result.refusal is not None]
    return any(refusal.reason == "slot_done" and refusal.slot is None for refusal in refusals)


@contextmanager
def _for_a_caller(job: Job) -> Iterator[None]:
    """Word a Stopping for a caller that wants a run: its default message is for a run that should end."""
    try:
        yield
    except Stopping:
        message = f'"{job.name}" was not run: this instance is stopping, or was stopped; call start() to run jobs'
        raise Stopping(message) from None
