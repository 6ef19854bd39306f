"""`FireCron`: the jobs of a program, ticking from `start` to `stop`.

    crons = FireCron(Digests(mailer))
    app = FastAPI(lifespan=crons.lifespan)      # or:  with crons: …     or:  crons.start() … crons.stop()

Making one finds the jobs and does no I/O. `start` is explicit, and counts once per process: a forked child has the
jobs but ticks only if it calls `start` itself. The threads are daemons, and at the end of the process `stop` is
called if nobody has.
"""

from __future__ import annotations

import asyncio
import atexit
import logging
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from firecron.bookkeeper import Bookkeeper
from firecron.checks import Checks
from firecron.claims import missed, needs_rerun
from firecron.errors import ConfigurationError, Malformed, StoreError
from firecron.explorer import Job, explore
from firecron.forks import tell_after_fork
from firecron.frameworks import reason_not_to_start
from firecron.guard import judge
from firecron.heartbeat import Heartbeat
from firecron.history import History
from firecron.instants import to_datetime, to_text
from firecron.lock import LockService
from firecron.record import LockRecord, parse
from firecron.registry import Registry
from firecron.run import Trigger
from firecron.runner import Runner
from firecron.settings import Settings, load
from firecron.ticker import Ticker
from firecron.timing import SystemTiming, Timing
from firecron.workers import Crew, Workers

if TYPE_CHECKING:
    import firebase_admin

    from firecron.rtdb.store import Store
    from firecron.testing.rehearsal import Rehearsal


AppT = TypeVar("AppT")
StateT = TypeVar("StateT")


class FireCron:
    """Finds the jobs in `providers`, and runs each of their ticks on one of all instances.

    `enabled` overrides the production guard; `locks` is the LockService of the same database, for everything that is
    not a job. With a `crew` the runs are its work, instead of threads'; without threads nothing happens but in `work`.
    """

    def __init__(
        self,
        *providers: object,
        app: firebase_admin.App | None = None,
        settings: Settings | None = None,
        enabled: bool | None = None,
        store: Store | None = None,
        timing: Timing | None = None,
        crew: Crew | None = None,
        has_threads: bool = True,
    ) -> None:
        self.settings = settings or load()
        self._timing = timing or SystemTiming()
        self.locks = LockService(app, self.settings, store=store, timing=self._timing, has_threads=has_threads)
        self.events = self.locks.events
        self._enabled = enabled
        root = f"{self.settings.prefix}/" if self.settings.prefix else ""
        deadline = lambda: self.locks.deadline(self.settings.release_timeout)  # noqa: E731
        identity = self.locks.identity
        self.history = History(
            self.locks.store, f"{root}cron-runs", self.settings.history_limit, self.events, deadline, self._timing
        )
        bookkeeper = Bookkeeper(self.history, crew or Workers(1), identity, self._timing, self.events)
        self._runner = Runner(self.locks, self._timing, self.history, identity, self._look_again, bookkeeper)
        self._crew = crew or Workers(self.settings.workers)
        self._has_threads = has_threads
        self._state_lock = threading.Lock()
        self._is_ticking = False
        self._started_in: int | None = None
        self._looks: set[str] = set()
        self._checks = Checks(self.settings, self.events)
        self._ticker = Ticker(self.locks.clock, self._timing, self.events, self._dispatch)
        self._heartbeat = Heartbeat(
            self.locks.store,
            f"{root}cron-instances",
            self.locks.clock,
            self._timing,
            self.events,
            self.settings,
            identity,
            self._describe,
            self._make_rounds,
        )
        self.registry = Registry(
            self.settings.roles,
            check=self._check_added,
            on_add=self._added,
            on_remove=self._removed,
            running=self._runner.running,
            is_ticking=lambda: self._is_ticking,
            pause_everywhere=self.locks.pause,
            trigger=self._runner.run_manually,
            now=self._server_now,
        )
        for job in explore(*providers):
            self.registry.add(job)
        tell_after_fork(self)

    # --- the life of it

    def start(self) -> Self:
        """Start ticking, if the production guard allows it. Once per process: a second call changes nothing.

        ConfigurationError if a job's timings can't hold what the lock promises, or, where jobs are to tick, if no
        database is named.
        """
        with self._state_lock:
            if self._started_in == os.getpid():
                return self
            verdict = judge(self._enabled, self.settings.runtime_variable, self.settings.runtime_value)
            self._check_jobs()
            if verdict.may_tick:
                self.locks.connect()
            self._started_in = os.getpid()
        against = reason_not_to_start() if verdict.may_tick else None
        if against is not None:
            self._say("crons.not_started", logging.INFO, f"Distributed crons don't tick in this process: {against}")
            return self
        if not verdict.may_tick:
            level = logging.WARNING if verdict.is_suspicious else logging.INFO
            self._say(
                "crons.disabled", level, f"Distributed crons disabled in non-production environment: {verdict.why}"
            )
            return self
        self._begin()
        return self

    def stop(self) -> None:
        """Stop ticking, let runs end within `shutdown_grace`, release what has ended, and go. It may block for so
        long, and a second or two more.
        """
        ends = self._timing.mono() + self.settings.shutdown_grace * 1000
        with self._state_lock:
            if not self._is_ticking or self._started_in != os.getpid():
                self._started_in = None if self._started_in == os.getpid() else self._started_in
                return
            self._is_ticking = False
            self._started_in = None
        atexit.unregister(self.stop)
        self._ticker.stop()
        self._looks.clear()
        self._runner.stop(max(0.0, ends - self._timing.mono()) / 1000)
        self._heartbeat.stop()
        if isinstance(self._crew, Workers):
            self._crew.dismiss()
        self._say("crons.stopped", logging.INFO, "Distributed crons stopped")

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        self._runner.loop = asyncio.get_running_loop()
        try:
            return await asyncio.to_thread(self.start)
        except BaseException:
            self._runner.loop = None
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        # On a thread, because runs on this loop are to end meanwhile.
        await asyncio.to_thread(self.stop)
        self._runner.loop = None

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """For Starlette and FastAPI: `FastAPI(lifespan=crons.lifespan)`. Async jobs run on the application's loop."""
        async with self:
            yield

    def lifespan_with(
        self, lifespan: Callable[[AppT], AbstractAsyncContextManager[StateT]]
    ) -> Callable[[AppT], AbstractAsyncContextManager[StateT]]:
        """The same around a lifespan of your own, whose state is handed on: jobs start after it and stop before it
        ends.
        """

        @asynccontextmanager
        async def both(app: AppT) -> AsyncIterator[StateT]:
            async with lifespan(app) as state, self:
                yield state

        return both

    def work(self) -> float:
        """Do on this thread what the threads do by themselves; answers with the seconds until there is more to do."""
        waits = [self._heartbeat.work_if_due(), self._ticker.work()]
        kept = self.locks.keeper.work()
        return min(waits if kept is None else [*waits, max(0.0, (kept - self._timing.mono()) / 1000)])

    def testing(self, at: datetime | str = "2026-01-01T00:00:00Z") -> Rehearsal:
        """These jobs in a test: on a clock that the test moves, with a database in memory, without threads or sleeps.

        with crons.testing("2026-11-18T08:59:00Z") as test:
            test.move_to("2026-11-18T09:00:00Z")
        """
        from firecron.testing.rehearsal import Rehearsal

        return Rehearsal(self.registry.jobs(), at)

    def init_app(self, app: object) -> None:
        """For Flask: start with the application, and be found as `app.extensions["firecron"]`.

        It doesn't start in the parent of Flask's reloader, nor for other commands than `flask run`. Under gunicorn with
        `--preload`, start in the workers: `def post_fork(server, worker): crons.start()`.
        """
        extensions = getattr(app, "extensions", None)
        if not isinstance(extensions, dict):
            raise ConfigurationError(f"init_app wants a Flask application, not {app!r}")
        extensions["firecron"] = self
        self.start()

    def after_fork(self) -> None:
        """In a forked child: the jobs are known, and nothing ticks until `start`."""
        was_ticking = self._is_ticking
        self._state_lock = threading.Lock()
        self._is_ticking = False
        self._looks.clear()
        self.registry.after_fork()
        self._runner.after_fork()
        self._crew.after_fork()
        self._heartbeat.after_fork()
        self._ticker = Ticker(self.locks.clock, self._timing, self.events, self._dispatch)
        for job in self.registry.jobs():
            self._added(job)
        if was_ticking:
            atexit.unregister(self.stop)
            message = (
                "Distributed crons were started before a fork, and don't tick in the child: call start() there "
                "(gunicorn --preload: in post_fork), if it is to run jobs"
            )
            self._say("crons.forked", logging.INFO, message)

    # --- the parts, put together

    def _begin(self) -> None:
        self._runner.stopping.clear()
        self._is_ticking = True
        atexit.register(self.stop)
        for job in self.registry.jobs():
            if not job.options.disabled:
                where = "" if self.registry.runs_here(job) else f" (not here: it needs the role {job.options.role!r})"
                line = f'Registered distributed cron "{job.name}" [{job.options.schedule.line}] -> {job.where}{where}'
                self._say("job.registered", logging.INFO, line, job.name)
        if self._has_threads:
            self._heartbeat.start()
            self._ticker.start()

    def _added(self, job: Job) -> None:
        if not job.options.disabled and self.registry.runs_here(job):
            self._ticker.add(job)

    def _removed(self, name: str) -> None:
        self._ticker.remove(name)

    def _dispatch(self, job: Job, slot: datetime) -> None:
        due = to_text(round(slot.timestamp() * 1000))
        if self.registry.is_wanted(job):
            self._take_turn(job, due, "schedule")
        else:
            message = f'"{job.name}" is paused on this instance, skipping its tick {due}'
            self.events.emit("run.skipped", job.name, logging.INFO, message, slot=due)

    def _take_turn(self, job: Job, due: str | None, trigger: Trigger) -> None:
        self._crew.submit(lambda: self._runner.take_turn(job, due, trigger))

    def _look_again(self, job: Job, instant: int) -> None:
        """A lock was seen that somebody holds: if it expires, its run died. Look once, at that time."""
        if job.name in self._looks:
            return
        self._looks.add(job.name)

        def look() -> None:
            self._looks.discard(job.name)
            if self.registry.is_wanted(job):
                self._take_turn(job, None, "rerun")

        self._ticker.at(instant, look)

    def _make_rounds(self) -> None:
        """Look after all jobs that may have been left unfinished or unrun, and run what there is."""
        for job in self.registry.jobs():
            options = job.options
            looks = options.on_abandoned == "rerun" or options.catch_up != "skip"
            if looks and self.registry.is_wanted(job) and self._has_left_overs(job):
                self._take_turn(job, None, "catch_up")

    def _has_left_overs(self, job: Job) -> bool:
        moment = self.locks.clock.peek()
        if moment is None:
            return False
        try:
            record = parse(self.locks.read(job.name), moment.server)
        except (StoreError, Malformed):
            return False  # its next tick will say so
        if not isinstance(record, LockRecord):
            return False
        margin = round(self.settings.margin * 1000)
        if record.is_live(moment.server, margin):
            if job.options.on_abandoned == "rerun":
                self._look_again(job, int(record.expiresAt) + margin)
            return False
        if needs_rerun(record, job.options, moment.server, margin):
            return True
        return job.options.catch_up != "skip" and bool(missed(record, job.options, moment.server, None))

    def _describe(self) -> dict[str, int]:
        return {"jobs": len(self.registry.jobs()), "running": sum(self._runner.running().values())}

    def _server_now(self) -> datetime | None:
        moment = self.locks.clock.peek()
        return None if moment is None else to_datetime(moment.server)

    def _check_jobs(self) -> None:
        for job in self.registry.jobs():
            self._checks.check(job)

    def _check_added(self, job: Job) -> None:
        """A job that comes while others tick; at the start all are checked."""
        if self._is_ticking:
            self._checks.check(job)

    def _say(self, slug: str, level: int, message: str, name: str = "firecron") -> None:
        self.events.emit(slug, name, level, message)
