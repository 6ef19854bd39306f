"""`FireCron`: the jobs of a program, which tick from `start` to `stop`.

    crons = FireCron(Digests(mailer))
    app = FastAPI(lifespan=crons.lifespan)      # or:  with crons: …     or:  crons.start() … crons.stop()

Importing this module loads only the standard library: its functions import what they need. Creating a FireCron finds
the jobs and does no I/O. The program calls `start` once per process; a forked child ticks only if it calls it, too. The
threads are daemons. `stop` is called at the end of the process, if not before.
"""

from __future__ import annotations

import atexit
import os
import random
import sys
import threading
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import datetime
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar, cast

from firecron import doors
from firecron.base.forks import tell_after_fork
from firecron.errors import ConfigurationError
from firecron.scheduler.stopper import Stopper

if TYPE_CHECKING:
    import firebase_admin
    import flask

    from firecron.base.clocks import Timing
    from firecron.base.workers import Crew
    from firecron.jobs.around import Around
    from firecron.leaders.leadership import Leadership
    from firecron.scheduler.guard import Verdict
    from firecron.settings import Settings
    from firecron.store import Store
    from firecron.testing.rehearsal import Rehearsal

AppT = TypeVar("AppT")
StateT = TypeVar("StateT")


class FireCron:
    """Finds the jobs in `providers`, and runs each of their ticks on exactly one of the instances.

    `registry` holds the jobs of this process, `history` reads past runs, `events` reports what happens, and `locks` is
    the LockService of the same database, for everything that is not a job. `engine` and `health` are internal.

    Args:
        providers: The things that have the jobs: objects, classes, modules or decorated functions.
        app: A Firebase app; without one, the default app, or an app of the environment's `FIREBASE_CONFIG`.
        settings: Settings; without them, those of the environment.
        enabled: Overrides the production guard, and nothing else: the parent of a reloader still doesn't tick.
        around: What each run is called in: functions of the run that return a context manager, the outermost first.
        store: A store to use instead of the Realtime Database, such as `firecron.testing.MemoryStore`.
        timing: The clocks, such as a `firecron.testing.FakeClock`.
        crew: The workers that run the jobs, instead of threads; for tests.
        has_threads: False in a test without threads, where only the engine's `work` does anything.
        chance: Returns a random number from 0 to 1, which decides jitter, pauses and pruning; for tests.
    """

    def __init__(
        self,
        *providers: object,
        app: firebase_admin.App | None = None,
        settings: Settings | None = None,
        enabled: bool | None = None,
        around: Sequence[Around] = (),
        store: Store | None = None,
        timing: Timing | None = None,
        crew: Crew | None = None,
        has_threads: bool = True,
        chance: Callable[[], float] = random.random,
    ) -> None:
        from firecron.base.clocks import SystemTiming
        from firecron.jobs.explorer import without_jobs
        from firecron.lock.service import LockService
        from firecron.ops.health_report import HealthReport
        from firecron.runs.history import History
        from firecron.scheduler.engine import Engine
        from firecron.settings import load

        self.settings = settings or load()
        self._timing = timing or SystemTiming()
        self.locks = LockService(app, self.settings, store=store, timing=self._timing, has_threads=has_threads)
        self.events = self.locks.events
        self._enabled = enabled
        self.history = History(self.locks, self._timing, chance)
        # Reentrant: a signal's handler may call `stop` while this thread is inside `start`.
        self._state_lock = threading.RLock()
        self._started_in: int | None = None
        self._stops = 0
        self._stopper = Stopper(self._stop, has_threads=has_threads)
        self.engine = Engine(self.locks, self.history, self._timing, crew, chance, around, has_threads=has_threads)
        self.registry = self.engine.registry
        self.health = self.engine.lateness.judge = HealthReport(self.locks, self._timing)
        self.engine.explore(*providers)
        self._jobless = without_jobs(*providers)
        tell_after_fork(self)

    @property
    def verdict(self) -> Verdict:
        """The production guard's decision about this process."""
        from firecron.scheduler.guard import judge

        return judge(self._enabled, self.settings.runtime_variable, self.settings.runtime_value)

    # What can be mounted. `crons.trigger_app(...)` is the function of that name in `doors`.
    trigger_app = doors.trigger_app
    trigger_blueprint = doors.trigger_blueprint
    status_app = doors.status_app
    status_blueprint = doors.status_blueprint
    status_urls = doors.status_urls

    # --- start and stop

    def start(self) -> Self:
        """Start ticking, if the production guard allows it. A second call in the same process changes nothing.

        Raises ConfigurationError for timings too short for the lock's promises, or if jobs tick without a database.
        """
        from firecron.scheduler.frameworks import reason_not_to_start
        from firecron.scheduler.startup import named_database, say_start

        with self._state_lock:
            if self._started_in == os.getpid():
                return self
            stops = self._stops
            verdict = self.verdict
            # Checked before the database: other commands of Flask and Django need none.
            against = reason_not_to_start() if verdict.may_tick else None
            ticks = verdict.may_tick and against is None
            self.check_jobs()
            database = self.locks.connect() if ticks else named_database(self.settings.database_url)
            if self._stops != stops:
                return self  # a listener has called `stop` meanwhile
            # Runs by hand are possible even where jobs don't tick; they end with the process.
            self.engine.runner.open()
            self._started_in = os.getpid()
        atexit.register(self.stop)
        try:
            say_start(self.locks, self.engine, verdict, against, database, self._jobless)
            if ticks:
                self._begin(stops)
        except BaseException:
            self._stopper.stop_here()  # else a part of the engine would go on without the program's knowledge
            raise
        return self

    def stop(self) -> None:
        """Stop ticking, ask the runs to end, and release the locks of those that have ended.

        All of this takes `shutdown_grace` at most. Runs by hand end as well, even if `start` was not called. After that
        a run by hand is refused until the next `start`.

        If the call comes from inside firecron (a signal's handler that interrupts it, a listener, or a job), `stop`
        returns at once. Another thread then stops everything, and the end of the process waits for that thread.
        """
        self._stopper.stop(sys._getframe().f_back)

    def _stop(self) -> None:
        from firecron.scheduler.startup import say_stopped

        ends = self._timing.mono() + self.settings.shutdown_grace * 1000
        with self._state_lock:
            self._stops += 1
            was_ticking, self.engine.is_ticking = self.engine.is_ticking, False
            if self._started_in == os.getpid():
                self._started_in = None
        atexit.unregister(self.stop)
        self.engine.stop(ends)
        if was_ticking:
            say_stopped(self.events)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopper.stop_here()

    async def __aenter__(self) -> Self:
        import asyncio

        from firecron.base.off_loop import off_loop

        self.engine.runner.loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(off_loop(self.start))
        try:
            return await asyncio.shield(starting)
        except BaseException:
            # Also when this task is cancelled: the jobs must not tick if nothing waits for the start.
            await asyncio.wait([starting])
            await off_loop(self._stopper.stop_here)
            self.engine.runner.loop = None
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        from firecron.base.off_loop import off_loop

        # Stop on another thread, so that runs on this loop can end meanwhile.
        await off_loop(self._stopper.stop_here)
        self.engine.runner.loop = None

    @asynccontextmanager
    async def lifespan(self, app: object) -> AsyncIterator[None]:
        """Start and stop with Starlette or FastAPI: `lifespan=crons.lifespan`. Async jobs run on the server's loop.

        Args:
            app: The application, which isn't used.
        """
        async with self:
            yield

    def lifespan_with(
        self, lifespan: Callable[[AppT], AbstractAsyncContextManager[StateT]]
    ) -> Callable[[AppT], AbstractAsyncContextManager[StateT]]:
        """Return a lifespan with the jobs inside your own: they start after it and stop before it. Its state is kept.

        Args:
            lifespan: Your own lifespan, as you would give it to FastAPI.
        """

        @asynccontextmanager
        async def both(app: AppT) -> AsyncIterator[StateT]:
            async with lifespan(app) as state, self:
                yield state

        return both

    def work(self) -> float:
        """Do the work of the background threads on this thread. Return the seconds until there is more to do."""
        return self.engine.work()

    def testing(self, at: datetime | str = "2026-01-01T00:00:00Z") -> Rehearsal:
        """Return a rehearsal of these jobs: on a clock that the test moves, with a database in memory, without threads.

            with crons.testing("2026-11-18T08:59:00Z") as test:
                test.move_to("2026-11-18T09:00:00Z")

        Args:
            at: The time that the clock shows at first: an aware `datetime`, or a text as above.
        """
        from firecron.testing.rehearsal import Rehearsal

        return Rehearsal(self.registry.jobs(), at, settings=self.settings, leaders=self.engine.leaders.all())

    def leadership(self, name: str) -> Leadership:
        """Return the leader of this name, as this instance sees it. Raise UnknownJob if there is none.

        Args:
            name: The leader's name.
        """
        from firecron.leaders.leadership import Leadership

        return Leadership(self.engine.leaders.office(name), self.locks)

    def check_jobs(self) -> None:
        """Raise ConfigurationError if a job's timings are too short for the lock's promises, as `start` does first."""
        self.engine.check_all()

    def init_app(self, app: object) -> None:
        """Start with a Flask application. `app.extensions["firecron"]` is this FireCron.

        Each call of a job has an application context of its own, so `current_app` and extensions work. Jobs don't start
        in the parent of Flask's reloader, or for commands other than `flask run`. Under gunicorn with `--preload`,
        start them in the workers instead: `def on_starting(server): crons.stop()`, and
        `def post_fork(server, worker): crons.start()`.

        Args:
            app: The Flask application. If there are several, the jobs belong to the last one.
        """
        extensions = getattr(app, "extensions", None)
        if not isinstance(extensions, dict) or not hasattr(app, "app_context"):
            raise ConfigurationError(f"init_app got {app!r}, which is not a Flask application: pass a flask.Flask")
        extensions["firecron"] = self
        self.registry.context = cast("flask.Flask", app).app_context
        self.start()

    def after_fork(self) -> None:
        """Stop ticking in a forked child, until `start` is called there. The jobs stay."""
        was_ticking = self.engine.is_ticking
        self._state_lock = threading.RLock()
        self.engine.after_fork()
        atexit.unregister(self.stop)
        if was_ticking:
            from firecron.scheduler.startup import say_forked

            say_forked(self.events)

    def _begin(self, stops: int) -> None:
        from firecron.scheduler.startup import say_jobs

        self.engine.is_ticking = True
        say_jobs(self.events, self.registry, self.engine.leaders)
        self.engine.start()
        if self._stops != stops:
            self._stopper.stop_here()  # `stop` was called while the engine started
