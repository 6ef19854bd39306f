"""The engine: connects the parts that make the jobs of a registry run, starts them and stops them.

    ticker ─ (job, slot) ─► lanes ─ attempt, on a worker ─► runner    the ticker calls a waiting attempt again
    heartbeat ─ tickets ─► lanes
    heartbeat ─► recovery ─ abandoned and missed ticks ─► lanes
    heartbeat ─► lateness                                             reports jobs that are late
    heartbeat ─► asks ─► runner                                       takes what operators have asked for
    heartbeat ─► lookers ─ entries of stored schedules that are due ─► lanes
    leaders                                                           beside all that, on threads of their own
    lanes ─ an attempt that a worker was at ─► publisher              the catalogue

The parts don't know the engine, and no tick passes through it. The engine is the `JobControl` of the registry.

Before `start` nothing runs but jobs that are started by hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime

from firecron.base.instants import to_datetime, to_text
from firecron.base.threads import Crew, Workers
from firecron.errors import ConfigurationError, Malformed, Stopping
from firecron.jobs.job import Around, Job, explore
from firecron.jobs.registry import Checks, Registry, Result
from firecron.jobs.run import Trigger
from firecron.leaders.leader import explore_leaders
from firecron.leaders.leaders import LeaderParts, Leaders
from firecron.lock.audit_log import pause_lock
from firecron.lock.database import Database
from firecron.lock.refusal import Refusal, paused
from firecron.runs.claimer import Claimer
from firecron.runs.history import History
from firecron.runs.lanes import Lanes
from firecron.runs.runner import Runner
from firecron.scheduler.asks import AskTaker
from firecron.scheduler.heartbeat import Heartbeat, InstanceGroup
from firecron.scheduler.lateness import Lateness
from firecron.scheduler.lookers import Lookers
from firecron.scheduler.publishing import CataloguePublisher
from firecron.scheduler.recovery import Recovery
from firecron.scheduler.ticker import Ticker


class Engine:
    """The threads of a FireCron and their work. Without threads, `work` does the work. The parts are attributes."""

    def __init__(self, database: Database, history: History, crew: Crew | None, around: Sequence[Around]) -> None:
        self._database = database
        self._history = history
        self.is_ticking = False
        # When the grace of the last stop is over, on the monotonic clock.
        self._ends = 0.0
        self.checks = Checks(database.settings, database.events)
        self.registry = Registry(database.settings.roles, database.settings.prefix, self, around)
        self.crew = crew or Workers(database.settings.workers, timing=database.timing)
        self.lanes = Lanes(database, self.crew)
        self.claimer = Claimer(database, self.lanes)
        self.ticker = self._new_ticker()
        self.publisher = CataloguePublisher(database, self.registry, crew or Workers(1, lingers=0), self.lanes)
        self.runner = Runner(database, history, self.registry, self.claimer, self.lanes)
        self.lanes.worker, self.lanes.attempted = self.runner, self.publisher.attempted
        parts = LeaderParts(database, history, self.runner.open_work, lambda: self.runner.loop)
        self.leaders = Leaders(parts, self.registry.contexts)
        self.recovery = Recovery(database, self.registry, self.runner, self.lanes)
        self.group = InstanceGroup(database, self.registry, self.leaders, self.crew, self.lanes)
        self.leaders.tickets = self.group
        self.lateness = Lateness(database, self.registry, self.group, self.lanes, crew or Workers(1, lingers=0))
        looks = crew or Workers(1, lingers=0)
        self.asks = AskTaker(database, self.registry, self.runner, self.group, self.lanes, self.crew, looks)
        looking = crew or Workers(1, lingers=0)
        self.lookers = Lookers(database, self.registry, self.group.rank, self.lanes, history, looking, self.crew)
        self.lanes.attempted_entry = self.lookers.attempted
        self.heartbeat = Heartbeat(
            database, self.registry, self.runner, self.recovery, self.group, self.lateness, self.asks, self.lookers
        )

    def _new_ticker(self) -> Ticker:
        ticker = self.lanes.agenda = Ticker(self._database, self.lanes)
        return ticker

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
        self.lanes.forget_tickets()
        self.recovery.forget()
        self.lateness.forget()
        self.asks.forget()
        self.lookers.forget()
        self.leaders.stop()
        self.runner.stop(max(0.0, ends - self._database.timing.mono()) / 1000)
        self.leaders.abandon()
        self.heartbeat.wait(ends)
        self.ticker.wait(max(0.0, ends - self._database.timing.mono()) / 1000)
        self.crew.dismiss()
        # The attempts that waited are over. Any other waiter on these locks asks, and follows again if refused.
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
        self.asks.forget()
        self.ticker = self._new_ticker()
        for job in self.registry.jobs(stored=False):
            if self.registry.ticks_here(job):
                self.ticker.add(job)

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
        if job.options.stored is None:
            self.ticker.add(job)
        else:
            self._history.limits[job.name] = job.options.stored.history
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

    def entry(self, job: Job, name: str) -> Job | Refusal:
        """Return the job of an entry as its node says now; a claim finds out whether the entry is still there."""
        database = self._database
        pause = database.pause_of(job.name)
        if pause is not None:
            return paused(job.name, job.name, pause)
        found = database.node(database.paths.lock(name))
        try:
            return job.entry(name, found) if isinstance(found, dict) else job.named(name)
        except Malformed:
            return job.named(name)  # the claim is refused, with the reason

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


@contextmanager
def _for_a_caller(job: Job) -> Iterator[None]:
    """Word a Stopping for a caller that wants a run: its default message is for a run that should end."""
    try:
        yield
    except Stopping:
        message = f'"{job.name}" was not run: this instance is stopping, or was stopped; call start() to run jobs'
        raise Stopping(message) from None
