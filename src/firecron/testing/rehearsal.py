"""Jobs in a test, on a clock that the test moves.

    def test_the_digest_goes_out_at_nine():
        crons = FireCron(Digests(mailer))
        with crons.testing("2026-11-18T08:59:00Z") as test:
            test.move_to("2026-11-18T09:00:00Z")
            assert test.outcomes("send-daily-digest") == ["succeeded"]

Everything else is the same as in production: the schedule, the claim, the lease, the history and the FireCron's
settings. A job that `start` would refuse is refused here too. The database is in memory. Time stands still until the
test moves it. Jobs run on the test's own thread, one after another, as soon as they are due. If the settings name no
roles, jobs of all roles run, because no other instance could run them. The FireCron itself is not changed.

Operators' verbs are here as well: `ask`, `mute`, `unmute`, `cancel`; `notify` says what people would be told. Nothing
is declared in the catalogue before `ask` or `notify` is called.

No leader stands by itself here. `elect` makes this instance the leader, and calls the body on a thread of its own, as
in production; `depose` ends its term, and returns once the body has ended.

`crash_after` lets the process die at a step, as by `kill -9`. A process that is dead makes no request any more: its
lock is not released, and nothing is recorded. Python can't end a function from outside, so the body is left by an
exception that a job doesn't catch; its `finally` blocks run, which in a real crash they would not.
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Self

from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.base.instants import Duration, to_milliseconds
from firecron.errors import ConfigurationError
from firecron.jobs.job import Job
from firecron.jobs.run import check_step_name, to_key
from firecron.ops.asks import NotAsked, RunAsks
from firecron.ops.mutes import Mutes
from firecron.ops.operator import Operator
from firecron.runs.entry import read_entry
from firecron.settings import Settings, given
from firecron.steps.protocol import read_step
from firecron.store import Paths, Querying, Snapshot, Store, split_name
from firecron.testing.clocks import FakeClock
from firecron.testing.memory import MemoryStore

if TYPE_CHECKING:
    from firecron.app import FireCron
    from firecron.jobs.registry import Result
    from firecron.leaders.leader import Leader, Term
    from firecron.locks import LockService
    from firecron.ops.schedules import Schedules


# Who asks and mutes.
_OPERATOR = "the test"
_SMALLEST_STEP = 0.001
# In seconds: after so much time another look is made at an entry of which a look could make nothing.
_STALE = 60.0
# RTDB's time comes in whole milliseconds, so the instance's idea of it may be so many seconds behind the clock.
_MOST_BEHIND = 0.002


class Rehearsal:
    """Jobs on a clock that a test moves; made by `FireCron.testing`, to be used as a context manager.

    `clock` is the clock, `store` the database in memory, `events` what has happened so far.

    Args:
        jobs: The jobs.
        at: What the clock shows at first: an aware `datetime`, or a text such as `2026-11-18T09:00:00Z`.
        store: A database in memory that another rehearsal has used.
        settings: Settings; without them, those of the environment.
        leaders: The leaders.
        chance: Returns a random number from 0 to 1, which decides jitter, pauses and pruning.
    """

    def __init__(
        self,
        jobs: Iterable[Job],
        at: datetime | str = "2026-01-01T00:00:00Z",
        *,
        store: MemoryStore | None = None,
        settings: Settings | None = None,
        leaders: Iterable[Leader] = (),
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._clock = _RenewingClock(at)
        self.clock: FakeClock = self._clock
        self.store = store or MemoryStore(self.clock.now)
        self.events: list[Event] = []
        self._chance = chance
        self._jobs = jobs = list(jobs)
        self._deaths: list[Death] = []
        settings = given(settings)
        self._leaders = leaders = list(leaders)
        wanted = {job.options.role for job in jobs} | {leader.options.role for leader in leaders}
        roles = settings.roles or tuple(sorted(role for role in wanted if role is not None))
        # A leap of hours must not make the time uncertain. Asking for it costs nothing here: ask at least every second.
        interval = min(settings.clock_interval, 1.0)
        self._settings = replace(settings, database_url=None, roles=roles, clock_interval=interval)
        self._messages: list[dict[str, object]] | None = None
        self._look: Callable[[], object] = lambda: None
        # Only the jobs that need recovery need its rounds.
        self._has_rounds = any(job.options.needs_recovery for job in jobs)
        self._crons = self._begin()
        self._crons.check_jobs()

    def _begin(self) -> FireCron:
        """Begin a process: the only one, until it crashes."""
        from firecron.app import FireCron

        def die() -> None:
            unsubscribe()  # nobody hears of what a dead process does
            crons.database.keeper.stop()
            for execution in crons.engine.runner.active():
                execution.stop()  # so that it is not called again

        store = MortalStore(self.store, self._deaths, die)
        crons = FireCron(
            settings=self._settings,
            store=store,
            timing=self.clock,
            crew=Inline(),
            has_threads=False,
            chance=self._chance,
        )
        store.paths = crons.database.paths
        for leader in self._leaders:
            crons.engine.leaders.add(leader)
        for job in self._jobs:
            crons.registry.add(job)
        self._clock.renew = crons.database.keeper.work
        unsubscribe = crons.events.subscribe(self.events.append)
        self._listen(crons)
        return crons

    def __enter__(self) -> Self:
        self._work()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Depose the leaders: nothing else has a thread. Raise ConfigurationError if a crash was never reached."""
        for name in self._crons.engine.leaders.leading():
            self.depose(name)
        if error is None and self._deaths:
            names = ", ".join(f'"{death.step}"' for death in self._deaths)
            raise ConfigurationError(f"crash_after({names}) was never reached: no run has recorded a step of that name")

    def crash_after(self, step: str, *, recorded: bool = True) -> None:
        """Let the process die once, as by `kill -9`, when a run has done this step. Another process goes on after it.

        The lock of the run stays held until it expires. `locks` is the new process's from then on.

        Args:
            step: The name of a step.
            recorded: False lets the process die between the call of the step and its record.
        """
        self._deaths.append(Death(step, recorded=recorded))

    @property
    def locks(self) -> LockService:
        """Locks in the same database, on the same clock."""
        return self._crons.locks

    @property
    def schedules(self) -> Schedules:
        """The stored schedules in the same database: put, get, list, remove and count them."""
        return self._crons.schedules

    @property
    def time(self) -> datetime:
        """The time that the clock shows, in UTC."""
        return self.clock.time

    def advance(self, duration: Duration) -> None:
        """Let time pass, and run each job at its ticks.

        Args:
            duration: How much: seconds or a `timedelta`.
        """
        span = duration if isinstance(duration, timedelta) else timedelta(seconds=duration)
        self.move_to(self.clock.time + span)

    def move_to(self, instant: datetime | str) -> None:
        """Let time pass up to and including the instant, and run each job at its ticks.

        Args:
            instant: An aware `datetime`, or a text such as `2026-11-18T09:00:00Z`. ValueError if it is past.
        """
        target = FakeClock(instant).time
        if target < self.clock.time:
            raise ValueError(f"it is {self.clock.time.isoformat()}: time can't be moved back to {instant}")
        while True:
            wait = self._work()
            left = (target - self.clock.time).total_seconds()
            if left > 0:
                self.clock.advance(min(max(wait, _SMALLEST_STEP), left))
            else:
                # A tick that is due has not come yet, where RTDB's time isn't known to be so late.
                start = self._crons.engine.ticker.next_start()
                if left <= -_MOST_BEHIND or start is None or start > to_milliseconds(target):
                    self._look()
                    return
                self.clock.advance(_SMALLEST_STEP)

    def run(self, name: str, *, resume: datetime | str | None = None) -> Result:
        """Run a job by hand, now, without claiming a tick. The result has the job's exception, if it raised one.

        Its outcome is `abandoned` if the process died.

        Args:
            name: The job's name.
            resume: The tick to resume, as in `registry.trigger`.
        """
        from firecron.jobs.registry import Result

        try:
            return self._crons.registry.trigger(name, resume=resume)
        except Crash:
            self._crons = self._begin()
            return Result(None, "abandoned")

    def ask(
        self,
        name: str,
        *,
        slot: datetime | str | None = None,
        resume: str | None = None,
        why: str | None = None,
    ) -> str | None:
        """Ask for a run, as `firecron ask` does. The run is made at once, or as time passes if its lock is held.

        Return None if it was asked for, else why not. Raise UnknownJob for an unknown name.

        Args:
            name: The job's name.
            slot: The missed tick to run.
            resume: The tick to resume.
            why: The reason, for the acts.
        """
        self._crons.registry.get(name)
        self._crons.engine.publisher.begin()
        tick = None if slot is None else FakeClock(slot).time
        found = RunAsks(self._crons.database).ask(name, slot=tick, resume=resume, why=why, by=_OPERATOR)
        if isinstance(found, NotAsked):
            return found.why
        self._crons.engine.asks.look_if_due()
        return None

    def mute(self, name: str, until: datetime | str, why: str = "a test") -> None:
        """Let nobody be told of a job until then, as `firecron mute` does. Raise UnknownJob for an unknown name.

        Args:
            name: The job's name.
            until: When the mute ends: an aware `datetime`, or a text such as `2026-11-18T09:00:00Z`.
            why: The reason.
        """
        self._crons.registry.get(name)
        Mutes(self._crons.database).mute(name, FakeClock(until).time, why, by=_OPERATOR)

    def unmute(self, name: str) -> bool:
        """End the mute of a job. Return False if there was none.

        Args:
            name: The job's name.
        """
        return Mutes(self._crons.database).unmute(name, by=_OPERATOR)

    def notify(self) -> list[dict[str, object]]:
        """Return the list to which each message is added from now on that `firecron.notify` would send to a webhook.

        What no run says, such as that a job is late, is found at the end of `move_to` and `advance`, in one look.
        """
        if self._messages is None:
            self._messages = []
            self._listen(self._crons)
        return self._messages

    def _listen(self, crons: FireCron) -> None:
        if self._messages is not None:
            from firecron.notify import rehearse

            crons.engine.publisher.begin()
            self._look = rehearse(crons, self._messages.append)

    def cancel(self, name: str, why: str | None = None) -> bool:
        """Cancel the run of a job, as `firecron cancel` does. Call this while the job runs, from code that it calls.

        The job learns of it at its next renewal: let time pass by `clock.advance`. Return False if no run is under way.

        Args:
            name: The job's name.
            why: The reason, for the history.
        """
        self._crons.registry.get(name)
        operator = Operator(self._crons.database)
        seen = operator.read(name)
        return seen.view.why_not_cancelled is None and operator.cancel(seen, why)

    def elect(self, name: str) -> Term:
        """Make this instance the leader, and call its body on a thread. Return the term.

        Raise NotAcquired if it can't be elected: its name is paused, or held by another holder.

        Args:
            name: The leader's name.
        """
        return self._crons.engine.leaders.thread(name).start_term()

    def depose(self, name: str, patience: float = 10) -> None:
        """Let the leader lose its lease, and wait until its body has ended. Raise AssertionError if it doesn't end.

        Args:
            name: The leader's name.
            patience: The real seconds that the body may take to end.
        """
        thread = self._crons.engine.leaders.thread(name)
        assert thread.lose_term(patience), f"the body of {name} still runs {patience:g} s after its term was lost"

    def history(self, name: str) -> list[dict[str, object]]:
        """Return the entries of a job or a leader in `cron-runs`, oldest first. Raise UnknownJob for an unknown name.

        Args:
            name: The name of the job or the leader.
        """
        return [entry for entry in self._nodes(name).values() if isinstance(entry, dict)]

    def tracebacks(self, name: str) -> dict[str, str]:
        """Return the tracebacks that the failed runs of a job or a leader have left, by the keys of their entries.

        Args:
            name: The name of the job or the leader.
        """
        self._nodes(name)
        return self._crons.history.tracebacks(name)

    def outcomes(self, name: str) -> list[str]:
        """Return the outcomes of a job's runs and of its ticks that did not run, or of a leader's terms, oldest first.

        Args:
            name: The name of the job or the leader.
        """
        return [read_entry(key, node).outcome for key, node in self._nodes(name).items()]

    def _nodes(self, name: str) -> Mapping[str, object]:
        if not self._crons.engine.leaders.has(name):
            self._crons.registry.get(split_name(name)[0])  # or UnknownJob
        return self._crons.history.read(name)

    def _work(self) -> float:
        """Do the work that is due. Return the seconds until more work can be due."""
        try:
            wait = self._crons.work()
        except Crash:
            self._crons = self._begin()
            return 0.0
        ticker, recovery = self._crons.engine.ticker, self._crons.engine.recovery
        now = self._crons.database.clock.peek()
        if now is None:
            return wait  # the ticker has to ask for the time again
        # The ticker cuts its wait short, for machines that are suspended and for heartbeats that other instances read.
        # Here these steps change nothing, and a year has a million of them. So only starts and rounds end the wait. A
        # heartbeat that is due is written at the end of the leap.
        self._look_at_schedules(now.server)
        start = ticker.next_start()
        waits = [] if start is None else [(start - now.server) / 1000]
        if self._has_rounds:
            waits.append((recovery.due - self.clock.mono()) / 1000)
        ticker.expect_leap()
        looks = [
            at for job in self._crons.registry.jobs(stored=True) if (at := self._crons.engine.lookers.earliest(job))
        ]
        waits += [max((at - now.server) / 1000, _STALE if at <= now.server else 0.0) for at in looks]
        return max(0.0, min(waits, default=math.inf))

    def _look_at_schedules(self, now: int) -> None:
        """Look at the stored schedules that are due, as a looker does at its beat."""
        lookers = self._crons.engine.lookers
        for job in self._crons.registry.jobs(stored=True):
            at = lookers.earliest(job)
            if at is not None and at <= now:
                lookers.look(job)


# --- workers and a clock without threads


class Inline:
    """A crew that does its work at once, on the thread that submits it."""

    is_full = False

    def submit(self, work: Callable[[], object]) -> None:
        work()

    def dismiss(self) -> None:
        """Do nothing: no work is waiting."""


class _RenewingClock(FakeClock):
    """A clock that renews leases while it advances, as the keeper's thread would: a job of an hour keeps its lock.

    `renew` is called whenever it is due. It returns when it is due next, on the monotonic clock in milliseconds.
    """

    def __init__(self, at: datetime | str) -> None:
        super().__init__(at)
        self.renew: Callable[[], float | None] | None = None

    def advance(self, seconds: Duration) -> None:
        ends = self.mono() + (seconds.total_seconds() if isinstance(seconds, timedelta) else seconds) * 1000
        # A renewal may wait, and advance this clock itself: it must not start another one.
        renew, self.renew = self.renew, None
        try:
            while renew is not None and (due := renew()) is not None and due < ends:
                super().advance(max(due - self.mono(), 0.0) / 1000)
        finally:
            self.renew = renew
        super().advance(max(ends - self.mono(), 0.0) / 1000)


# --- crashes


class Crash(asyncio.CancelledError):
    """The process is dead. A cancellation, because jobs and asyncio let that through."""


class Death:
    """When a process dies: once a step is recorded, or once it has been called."""

    def __init__(self, step: str, *, recorded: bool) -> None:
        self.step = check_step_name(step)
        self.recorded = recorded
        self._ending = f"/{to_key(step)}"

    def is_at(self, path: str, node: object, paths: Paths) -> bool:
        """Return whether this write records the step."""
        if not (path.startswith(f"{paths.steps}/") and path.endswith(self._ending)):
            return False
        record = read_step(node)
        return record is not None and record.is_done


class MortalStore:
    """The store of one process in a rehearsal. `deaths` are to come; each process dies once, which calls `die`.

    Once it has died, every request raises Crash.
    """

    def __init__(self, store: Store, deaths: list[Death], die: Callable[[], None]) -> None:
        self._store = store
        self._deaths = deaths
        self._die = die
        self.paths: Paths | None = None  # once they are known
        self.is_dead = False

    @property
    def name(self) -> str:
        return self._store.name

    def connect(self) -> None:
        self._store.connect()

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        return self._alive().read(path, deadline)

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        store = self._alive()
        paths = self.paths
        death = None if paths is None else next((one for one in self._deaths if one.is_at(path, node, paths)), None)
        if death is None:
            return store.swap(path, etag, node, deadline)
        self._deaths.remove(death)
        if death.recorded:
            store.swap(path, etag, node, deadline)
        self.is_dead = True
        self._die()
        raise Crash(f'the process died at step "{death.step}"')

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return self._alive().timestamp(path, deadline)

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        return self._alive().merge(path, values, deadline, echo=echo)

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        return self._alive().keys(path, deadline)

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        return self._alive().newest(path, deadline)

    def query(
        self,
        path: str,
        order_by: str,
        deadline: Deadline,
        *,
        start: tuple[int, str] | int | str | None = None,
        end: int | None = None,
        most: int,
    ) -> list[tuple[str, object]]:
        store = self._alive()
        assert isinstance(store, Querying), "a store in memory is one"
        return store.query(path, order_by, deadline, start=start, end=end, most=most)

    def close(self) -> None:
        self._store.close()

    def after_fork(self) -> None:
        self._store.after_fork()

    def _alive(self) -> Store:
        if self.is_dead:
            raise Crash("the process is dead")
        return self._store
