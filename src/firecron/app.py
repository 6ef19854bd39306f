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
from firecron.claiming import Wish
from firecron.errors import ConfigurationError
from firecron.explorer import Job, explore
from firecron.forks import tell_after_fork
from firecron.frameworks import is_a_servers_process, reason_not_to_start
from firecron.guard import judge
from firecron.heartbeat import Heartbeat
from firecron.history import History
from firecron.instants import to_datetime, to_text
from firecron.lock import LockService
from firecron.places import Turn
from firecron.registry import Registry
from firecron.rounds import Rounds
from firecron.run import Stopping, Trigger
from firecron.runner import Result, Runner
from firecron.settings import Settings, load
from firecron.ticker import Ticker
from firecron.timing import SystemTiming, Timing
from firecron.workers import Crew, Workers

if TYPE_CHECKING:
    import firebase_admin
    import flask

    from firecron.rtdb.store import Store
    from firecron.testing.rehearsal import Rehearsal
    from firecron.triggers.access import OneOrMore
    from firecron.triggers.asgi import TriggerApp
    from firecron.triggers.desk import Desk
    from firecron.triggers.verifier import Verifier


AppT = TypeVar("AppT")
StateT = TypeVar("StateT")


class FireCron:
    """Finds the jobs in `providers`, and runs each of their ticks on one of all instances.

    `enabled` overrides the production guard, and nothing else: where the process is none that should tick (see
    `frameworks`), it does not. `locks` is the LockService of the same database, for everything that is not a job. With
    a `crew` the runs are its work, instead of threads'; without threads nothing happens but in `work`.
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
        scribe = crew or Workers(1, lingers=False)
        bookkeeper = Bookkeeper(self.history, scribe, identity, self._timing, self.events)
        self._rounds = Rounds(
            self.locks.store,
            f"{root}cron-locks",
            self.locks.clock,
            self.settings,
            jobs=self._wanted_jobs,
            is_wanted=self._is_wanted,
            take_turn=self._take_left_over,
            at=self._call_at,
        )
        self._runner = Runner(
            self.locks, self._timing, self.history, identity, self._rounds.look_again, self._submit, bookkeeper
        )
        self._crew = crew or Workers(self.settings.workers)
        self._has_threads = has_threads
        self._state_lock = threading.Lock()
        self._is_ticking = False
        self._started_in: int | None = None
        self._checks = Checks(self.settings, self.events)
        self._ticker = self._make_ticker()
        self._heartbeat = Heartbeat(
            self.locks.store,
            f"{root}cron-instances",
            self.locks.clock,
            self._timing,
            self.events,
            self.settings,
            identity,
            self._describe,
            self._rounds.make,
        )
        self.registry = Registry(
            self.settings.roles,
            check=self._check_added,
            on_add=self._added,
            on_remove=self._removed,
            running=self._runner.running,
            is_ticking=lambda: self._is_ticking,
            pause_everywhere=self.locks.pause,
            run_now=self._run_now,
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
            self.check_jobs()
            if verdict.may_tick:
                self.locks.connect()
            self._started_in = os.getpid()
        # Runs by hand are possible in any case, and end with the process.
        self._runner.stopping.clear()
        atexit.register(self.stop)
        against = reason_not_to_start() if verdict.may_tick else None
        if against is not None:
            why = f"{against} (enabled=True opens the production guard, not this)" if self._enabled else against
            self._say("crons.not_started", logging.INFO, f"Distributed crons don't tick in this process: {why}")
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
        """Stop ticking, let runs end within `shutdown_grace`, release what has ended, and go: all of it in that time.

        Runs by hand end as well, also where nothing was started; there are no more of them until a `start`.
        """
        ends = self._timing.mono() + self.settings.shutdown_grace * 1000
        with self._state_lock:
            was_ticking, self._is_ticking = self._is_ticking, False
            if self._started_in == os.getpid():
                self._started_in = None
        atexit.unregister(self.stop)
        # It removes its node while runs come to their end.
        self._heartbeat.leave()
        self._ticker.stop()
        self._rounds.forget()
        self._runner.stop(max(0.0, ends - self._timing.mono()) / 1000)
        self._heartbeat.wait(ends)
        if isinstance(self._crew, Workers):
            self._crew.dismiss()
        # Locks that somebody holds by hand are kept on.
        self.locks.keeper.rest()
        if was_ticking:
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

        return Rehearsal(self.registry.jobs(), at, settings=self.settings)

    def check_jobs(self) -> None:
        """What `start` does first: ConfigurationError for a job whose timings can't hold what the lock promises, a
        WARNING for what is odd.
        """
        for job in self.registry.jobs():
            self._checks.check(job)

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

    def trigger_app(
        self,
        *,
        audience: OneOrMore | None = None,
        email: OneOrMore | None = None,
        trust_cloud_run_iam: bool = False,
        verifier: Verifier | None = None,
    ) -> TriggerApp:
        """An ASGI application that runs jobs when it is told to, such as by Cloud Scheduler: `POST /<name>`.

        The caller shows an OIDC token for this `audience`, of one of these service accounts (`email`); or Cloud Run
        has asked IAM, which `trust_cloud_run_iam=True` relies on. Mount it, or serve it alone: then jobs start and stop
        with the server.
        """
        from firecron.triggers.access import choose_verifier
        from firecron.triggers.asgi import TriggerApp

        desk = self._desk(choose_verifier(self.events, audience, email, trust_cloud_run_iam, verifier))
        return TriggerApp(desk, self, self.settings.workers)

    def trigger_blueprint(
        self,
        *,
        audience: OneOrMore | None = None,
        email: OneOrMore | None = None,
        trust_cloud_run_iam: bool = False,
        verifier: Verifier | None = None,
        name: str = "firecron",
    ) -> flask.Blueprint:
        """The same for Flask: `app.register_blueprint(crons.trigger_blueprint(...), url_prefix="/cron")`."""
        from firecron.triggers.access import choose_verifier
        from firecron.triggers.blueprint import make_blueprint

        desk = self._desk(choose_verifier(self.events, audience, email, trust_cloud_run_iam, verifier))
        return make_blueprint(desk, name)

    def _desk(self, verifier: Verifier) -> Desk:
        from firecron.triggers.desk import Desk
        from firecron.triggers.overview import Overview

        root = f"{self.settings.prefix}/cron-runs" if self.settings.prefix else "cron-runs"
        overview = Overview(self.registry, self.locks, root)
        return Desk(self.registry, self.locks, self.history, overview, verifier)

    def after_fork(self) -> None:
        """In a forked child: the jobs are known, and nothing ticks until `start`."""
        was_ticking = self._is_ticking
        self._state_lock = threading.Lock()
        self._is_ticking = False
        self._rounds.forget()
        self.registry.after_fork()
        self._runner.after_fork()
        self._crew.after_fork()
        self._heartbeat.after_fork()
        self._ticker = self._make_ticker()
        for job in self.registry.jobs():
            self._added(job)
        atexit.unregister(self.stop)
        if was_ticking:
            # A server's child was meant to tick; of others, such as a pool's, nobody expects it.
            level = logging.WARNING if is_a_servers_process() else logging.INFO
            message = (
                "Distributed crons were started before a fork, and don't tick in the child: call start() there "
                "(gunicorn --preload: in post_fork), if it is to run jobs"
            )
            self._say("crons.forked", level, message)

    # --- the parts, put together

    def _begin(self) -> None:
        self._is_ticking = True
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
            self._submit(self._runner.turn(job, Wish(due, "schedule")))
        else:
            message = f'"{job.name}" is paused on this instance, skipping its tick {due}'
            self.events.emit("run.skipped", job.name, logging.INFO, message, slot=due)

    def _look_back(self, job: Job, slot: datetime) -> None:
        if self.registry.is_wanted(job) and job.options.once_per_tick:
            due = to_text(round(slot.timestamp() * 1000))
            self._submit(self._runner.turn(job, Wish(due, "schedule", looks_back=True)))

    def _submit(self, turn: Turn) -> None:
        """Have a worker go on with it."""
        self._crew.submit(lambda: self._go_on(turn))

    def _go_on(self, turn: Turn) -> None:
        delay = self._runner.go_on(turn)
        if delay is not None:
            self._ticker.after(delay, lambda: self._submit(turn))

    def _run_now(self, job: Job, slot: datetime | None, trigger: Trigger) -> Result:
        try:
            if slot is None:
                return self._runner.run_manually(job, trigger)
            return self._runner.run_tick(job, to_text(round(slot.timestamp() * 1000)), trigger)
        except Stopping:
            # What a run is told when it should end says nothing to somebody who wants one.
            message = f'"{job.name}" is not run: this instance is stopping, or was stopped and not started again'
            raise Stopping(message) from None

    def _make_ticker(self) -> Ticker:
        return Ticker(self.locks.clock, self._timing, self.events, self._dispatch, self._look_back)

    def _wanted_jobs(self) -> list[Job]:
        return [job for job in self.registry.jobs() if self.registry.is_wanted(job)]

    def _is_wanted(self, job: Job) -> bool:
        return not self._runner.stopping and self.registry.is_wanted(job)

    def _take_left_over(self, job: Job, trigger: Trigger) -> None:
        self._submit(self._runner.turn(job, Wish(None, trigger)))

    def _call_at(self, instant: int, call: Callable[[], None]) -> None:
        self._ticker.at(instant, call)

    def _describe(self) -> dict[str, int]:
        return {"jobs": len(self.registry.jobs()), "running": sum(self._runner.running().values())}

    def _server_now(self) -> datetime | None:
        moment = self.locks.clock.peek()
        return None if moment is None else to_datetime(moment.server)

    def _check_added(self, job: Job) -> None:
        """A job that comes while others tick; at the start all are checked."""
        if self._is_ticking:
            self._checks.check(job)

    def _say(self, slug: str, level: int, message: str, name: str = "firecron") -> None:
        self.events.emit(slug, name, level, message)
