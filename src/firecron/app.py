"""`FireCron`: the jobs of a program, which tick from `start` to `stop`, and what its servers can mount.

    crons = FireCron(Digests(mailer))
    app = FastAPI(lifespan=crons.lifespan)      # or:  with crons: …     or:  crons.start() … crons.stop()
    app.mount("/crons", crons.status_app(access=access))

Importing this module loads only the standard library: its functions import what they need. Creating a FireCron finds
the jobs and does no I/O. The program calls `start` once per process; a forked child ticks only if it calls it, too. The
threads are daemons. `stop` is called at the end of the process, if not before.

`stop` may be called from inside firecron: from a signal's handler that interrupts it, from a listener, or from a job.
There a stop could block itself: the interrupted line may hold a lock that the stop needs, and a job can't end before
its call returns. A lock doesn't show which thread holds it, so the stopper looks at the call stack, and stops on
another thread if it finds a frame of firecron's there.
"""

from __future__ import annotations

import atexit
import os
import random
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from functools import partial
from types import FrameType, TracebackType
from typing import TYPE_CHECKING, Literal, Self, TypeVar, Unpack, cast

from firecron.base.flag import in_each_child
from firecron.errors import ConfigurationError

if TYPE_CHECKING:
    import firebase_admin
    import flask

    from firecron.base.clocks import Timing
    from firecron.base.threads import Crew
    from firecron.jobs.job import Around
    from firecron.jobs.parameters import Parameters
    from firecron.leaders.leaders import Leadership
    from firecron.ops.schedules import Schedules
    from firecron.page.access import AccessFunction, AccessOptions, PageOptions
    from firecron.page.site import PageSite
    from firecron.scheduler.startup import Verdict
    from firecron.settings import Settings
    from firecron.store import Store
    from firecron.testing.rehearsal import Rehearsal
    from firecron.triggers.access import OneOrMore, TriggerOptions
    from firecron.triggers.handler import Handler
    from firecron.triggers.verifier import Verifier
    from firecron.web import AsgiApp


AppT = TypeVar("AppT")
StateT = TypeVar("StateT")


class FireCron:
    """Finds the jobs in `providers`, and runs each of their ticks on exactly one of the instances.

    `registry` holds the jobs of this process, `history` reads past runs, `events` reports what happens, and `locks` is
    the LockService of the same database, for everything that is not a job. `database`, `engine`, `board` and
    `start_watch` are internal.

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
        from firecron.base.threads import Workers
        from firecron.jobs.job import without_jobs
        from firecron.lock.database import Database
        from firecron.locks import LockService
        from firecron.ops.board import Board
        from firecron.ops.late import LateJobs
        from firecron.runs.history import History
        from firecron.scheduler.engine import Engine
        from firecron.scheduler.start_watch import StartWatch

        self.database = database = Database(
            app, settings, store=store, timing=timing, has_threads=has_threads, chance=chance
        )
        self.settings, self.events = database.settings, database.events
        self.locks = LockService(database=database)
        self._enabled = enabled
        self.history = History(database, crew or Workers(1, lingers=0))
        # Reentrant: a signal's handler may call `stop` while this thread is inside `start`.
        self._state_lock = threading.RLock()
        self._started_in: int | None = None
        # Why the last start was kept from ticking.
        self._against: str | None = None
        self._stops = 0
        self._stopper = Stopper(self._stop, has_threads=has_threads)
        self.engine = Engine(database, self.history, crew, around)
        self.registry = self.engine.registry
        self.board = Board(database)
        self.engine.lateness.evaluator = LateJobs(database, self.engine.publisher.since, self.board.note)
        self.engine.explore(*providers)
        self._jobless = without_jobs(*providers)
        in_each_child(self.after_fork)
        self.start_watch = StartWatch(self, sys._getframe(1).f_globals.get("__name__"))
        if has_threads and store is None and timing is None:  # otherwise a test made it
            self.start_watch.begin()

    @property
    def verdict(self) -> Verdict:
        """The production guard's decision about this process."""
        from firecron.scheduler.startup import evaluate_guard

        return evaluate_guard(self._enabled, self.settings)

    @property
    def schedules(self) -> Schedules:
        """The stored schedules of the jobs: put, get, list, remove and count them."""
        from firecron.jobs.parameters import not_stored
        from firecron.ops.schedules import Schedules

        def find(name: str) -> Parameters | None:
            job = next((job for job in self.registry.jobs() if job.name == name), None)
            if job is not None and job.parameters is None:
                raise not_stored(name)
            return None if job is None else job.parameters

        return Schedules(self.database, find)

    def check_jobs(self) -> None:
        """Raise ConfigurationError if a job's timings are too short for the lock's promises, as `start` does first."""
        self.engine.check_all()

    def leadership(self, name: str) -> Leadership:
        """Return the leader of this name, as this instance sees it. Raise UnknownJob if there is none.

        Args:
            name: The leader's name.
        """
        from firecron.leaders.leaders import Leadership

        return Leadership(self.engine.leaders.thread(name), self.database)

    # --- start and stop

    def start(self) -> Self:
        """Start ticking, if the production guard allows it. A second call in the same process changes nothing.

        A call that was kept from ticking, because the process is a command of Django or the like, counts as none once
        its reason is gone: `manage.py firecron work` sets the project up, and then starts its jobs.

        Raises ConfigurationError for timings too short for the lock's promises, or if jobs tick without a database.
        """
        from firecron.scheduler.startup import named_database, reason_not_to_start, say_start

        self.start_watch.settle()
        with self._state_lock:
            verdict = self.verdict
            # Checked before the database: other commands of Flask and Django need none.
            against = reason_not_to_start() if verdict.may_tick else None
            if self._started_in == os.getpid() and self._against in (None, against):
                return self
            stops = self._stops
            ticks = verdict.may_tick and against is None
            try:
                self.check_jobs()
                address = self.database.connect() if ticks else named_database(self.settings.database_url)
            except ConfigurationError as error:
                # The sentence says it all: the frames between the call of `start` and the check don't help.
                raise error.with_traceback(None) from error.__cause__
            if self._stops != stops:
                return self  # a listener has called `stop` meanwhile
            # Runs by hand are possible even where jobs don't tick; they end with the process.
            self.engine.runner.open()
            self._started_in, self._against = os.getpid(), against
        atexit.register(self.stop)
        try:
            say_start(self, against, address, self._jobless)
            if ticks:
                self._begin(stops)
        except BaseException:
            self._stopper.stop_here()  # else a part of the engine would go on without the program's knowledge
            raise
        return self

    def _begin(self, stops: int) -> None:
        from firecron.scheduler.startup import say_jobs

        self.engine.is_ticking = True
        say_jobs(self)
        self.engine.start()
        if self._stops != stops:
            self._stopper.stop_here()  # `stop` was called while the engine started

    def stop(self) -> None:
        """Stop ticking, ask the runs to end, and release the locks of those that have ended.

        All of this takes `shutdown_grace` at most. Runs by hand end as well, even if `start` was not called. After that
        a run by hand is refused until the next `start`.

        If the call comes from inside firecron (a signal's handler that interrupts it, a listener, or a job), `stop`
        returns at once. Another thread then stops everything, and the end of the process waits for that thread.
        """
        self.start_watch.settle()
        self._stopper.stop(sys._getframe().f_back)

    def _stop(self) -> None:
        from firecron.scheduler.startup import say_stopped

        ends = self.database.timing.mono() + self.settings.shutdown_grace * 1000
        with self._state_lock:
            self._stops += 1
            was_ticking, self.engine.is_ticking = self.engine.is_ticking, False
            if self._started_in == os.getpid():
                self._started_in = None
        atexit.unregister(self.stop)
        self.engine.stop(ends)
        if was_ticking:
            say_stopped(self.events)

    def after_fork(self) -> None:
        """Stop ticking in a forked child, until `start` is called there. The jobs stay."""
        was_ticking = self.engine.is_ticking
        self.start_watch.settle()
        self._state_lock = threading.RLock()
        self.engine.begin_child()
        atexit.unregister(self.stop)
        if was_ticking:
            from firecron.scheduler.startup import say_forked

            say_forked(self.events)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stopper.stop_here()

    async def __aenter__(self) -> Self:
        import asyncio

        from firecron.base.threads import off_loop
        from firecron.scheduler.startup import say_without_traceback

        self.engine.runner.loop = asyncio.get_running_loop()
        starting = asyncio.ensure_future(off_loop(self.start))
        try:
            return await asyncio.shield(starting)
        except BaseException as error:
            # Also when this task is cancelled: the jobs must not tick if nothing waits for the start.
            await asyncio.wait([starting])
            await off_loop(self._stopper.stop_here)
            self.engine.runner.loop = None
            if isinstance(error, ConfigurationError):
                say_without_traceback(error)
                raise error.with_traceback(None) from error.__cause__
            raise

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        from firecron.base.threads import off_loop

        # Stop on another thread, so that runs on this loop can end meanwhile.
        with hurried_by_ctrl_c(self.engine.hurry):
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

    # --- in tests

    def testing(self, at: datetime | str = "2026-01-01T00:00:00Z") -> Rehearsal:
        """Return a rehearsal of these jobs: on a clock that the test moves, with a database in memory, without threads.

            with crons.testing("2026-11-18T08:59:00Z") as test:
                test.move_to("2026-11-18T09:00:00Z")

        Args:
            at: The time that the clock shows at first: an aware `datetime`, or a text as above.
        """
        from firecron.testing.rehearsal import Rehearsal

        self.start_watch.settle()
        return Rehearsal(
            self.registry.jobs(),
            at,
            settings=self.settings,
            leaders=self.engine.leaders.all(),
            chance=self.database.chance,
        )

    def work(self) -> float:
        """Do the work of the background threads on this thread. Return the seconds until there is more to do."""
        return self.engine.work()

    # --- HTTP doors: what can be mounted. They load the framework and the room behind the door when they are called
    # and neither start a job nor read the database.

    def trigger_app(
        self,
        *,
        audience: OneOrMore | None = None,
        email: OneOrMore | None = None,
        trust_cloud_run_iam: bool = False,
        verifier: Verifier | None = None,
        health_email: OneOrMore | None = None,
    ) -> AsgiApp:
        """Return an ASGI application that runs a job at a request, such as Cloud Scheduler's: `POST /<name>`.

        Mount it, or serve it alone: then jobs start and stop with the server. No caller is allowed by default. Give
        either `audience` and `email`, or `trust_cloud_run_iam`, or a `verifier`.

        Args:
            audience: The audience of the caller's OIDC token: the URL of the service, or several.
            email: The service account of the token, or several.
            trust_cloud_run_iam: True if Cloud Run asks IAM before each request; then no token is verified here.
            verifier: A `Verifier` of your own, instead of the three above.
            health_email: With `audience` and `email`: the account of a monitoring service, or several, which may read
                `GET /health`, and run nothing.
        """
        from firecron.web import AsgiApp

        handler = _handler(
            self,
            audience=audience,
            email=email,
            trust_cloud_run_iam=trust_cloud_run_iam,
            verifier=verifier,
            health_email=health_email,
        )
        return AsgiApp(handler, self.settings.workers, self)

    def trigger_blueprint(self, *, name: str = "firecron", **options: Unpack[TriggerOptions]) -> flask.Blueprint:
        """Return the triggers for Flask: `app.register_blueprint(crons.trigger_blueprint(...), url_prefix="/cron")`.

        Args:
            name: The blueprint's name, if an application has two.
            options: As with `trigger_app`.
        """
        from firecron.web import make_blueprint

        return make_blueprint(_handler(self, **options), name, "serve")

    def trigger_urls(self, **options: Unpack[TriggerOptions]) -> list[object]:
        """Return the triggers for Django: `path("cron/", include(crons.trigger_urls(...)))`.

        Args:
            options: As with `trigger_app`.
        """
        from firecron.web import make_urls

        return make_urls(_handler(self, **options))

    def status_app(
        self,
        *,
        access: AccessFunction | None = None,
        basic: tuple[str, str] | None = None,
        iap_audience: OneOrMore | None = None,
        audience: OneOrMore | None = None,
        email: OneOrMore | None = None,
        open_to_all: Literal["read"] | None = None,
        read_only: bool = False,
        open_health: bool = False,
    ) -> AsgiApp:
        """Return an ASGI application with the page: `app.mount("/crons", crons.status_app(access=access))`.

        Mount it, or serve it alone: then jobs start and stop with the server. No visitor is served by default. Give one
        of `access`, `basic`, `iap_audience`, `audience` with `email`, or `open_to_all`.

        Args:
            access: A function of a `Visitor` that returns an `Access`, or None to refuse. It may be async.
            basic: A user and a password, which the browser asks for. They need TLS.
            iap_audience: The audience of Identity-Aware Proxy's assertion, such as
                `/projects/NUMBER/locations/REGION/services/SERVICE`, or several.
            audience: The audience of an OIDC token, as with `trigger_app`; with `email`.
            email: The account of the token, or several.
            open_to_all: "read" lets everybody look, and nobody act.
            read_only: Whether nobody may do more than look.
            open_health: Whether `/health` is served to everybody.
        """
        from firecron.web import AsgiApp

        site = _page(
            self,
            may_wait=True,
            read_only=read_only,
            open_health=open_health,
            access=access,
            basic=basic,
            iap_audience=iap_audience,
            audience=audience,
            email=email,
            open_to_all=open_to_all,
        )
        return AsgiApp(site, self.settings.workers, self, site.live)

    def status_blueprint(self, *, name: str = "firecron_page", **options: Unpack[PageOptions]) -> flask.Blueprint:
        """Return the page for Flask: `app.register_blueprint(crons.status_blueprint(...), url_prefix="/crons")`.

        Args:
            name: The blueprint's name, if an application has two.
            options: As with `status_app`; `access` can't be async.
        """
        from firecron.web import make_blueprint

        return make_blueprint(_page(self, may_wait=False, **options), name, "page")

    def status_urls(self, **options: Unpack[PageOptions]) -> list[object]:
        """Return the page for Django: `path("crons/", include(crons.status_urls(...)))`.

        Args:
            options: As with `status_app`; `access` can't be async.
        """
        from firecron.web import make_urls

        return make_urls(_page(self, may_wait=False, **options))


# --- what is behind the doors


def _handler(crons: FireCron, **options: Unpack[TriggerOptions]) -> Handler:
    from firecron.triggers.access import choose_access
    from firecron.triggers.handler import Handler

    access = choose_access(crons.events, **options)
    asked = partial(crons.start_watch.asked, "its triggers")
    return Handler(crons.registry, crons.history, crons.board, access, asked)


def _page(
    crons: FireCron,
    *,
    may_wait: bool,
    read_only: bool = False,
    open_health: bool = False,
    **ways: Unpack[AccessOptions],
) -> PageSite:
    from firecron.page.access import choose_authenticator
    from firecron.page.reads import Code
    from firecron.page.site import PageSite

    return PageSite(
        choose_authenticator(crons.events, may_wait=may_wait, **ways),
        crons.board,
        Code(crons.registry, crons.engine.leaders.all()),
        read_only=read_only,
        open_health=open_health,
        asked=partial(crons.start_watch.asked, "its page"),
    )


# --- stopping without waiting for oneself

# Programs around the engine: they hold none of its locks.
_OUTSIDE = ("firecron.cli.", "firecron.demo.")


class Stopper:
    """Calls `work`, which stops everything and may be called twice. Without threads, the calling thread does it."""

    def __init__(self, work: Callable[[], None], *, has_threads: bool) -> None:
        self._work = work
        self._has_threads = has_threads
        self._here = threading.local()

    def stop(self, caller: FrameType | None) -> None:
        """Stop here, or, if the caller is inside firecron, on a thread that the end of the process waits for."""
        if not (self._has_threads and is_inside(caller)):
            self.stop_here()
        elif not getattr(self._here, "is_at_it", False):
            # The stop at the end of the process does the work that this thread has not done yet, and waits for it.
            atexit.register(self.stop_here)
            threading.Thread(target=self.stop_here, name="firecron-stop", daemon=True).start()

    def stop_here(self) -> None:
        try:
            self._here.is_at_it = True
            self._work()
            atexit.unregister(self.stop_here)
        finally:
            self._here.is_at_it = False


def is_inside(frame: FrameType | None) -> bool:
    """Return whether this frame, or one of its callers, is inside a function of firecron's engine."""
    while frame is not None:
        module = f"{frame.f_globals.get('__name__')}."
        if module.startswith("firecron.") and not module.startswith(_OUTSIDE):
            return True
        frame = frame.f_back
    return False


@contextmanager
def hurried_by_ctrl_c(hurry: Callable[[], object], environment: Mapping[str, str] = os.environ) -> Iterator[None]:
    """Call `hurry`, on a thread of its own, at each Ctrl-C that comes in the block; its handler is called as before.

    A server has stopped at the first Ctrl-C, and ignores the second one while it waits for its application. SIGTERM
    doesn't count: the server's parent may pass it on beside the system's own. On Cloud Run nobody presses Ctrl-C, and
    the grace is as long as the platform's. Only the main thread can hear signals.

    Two stops on one event loop may overlap. The first to end can't take its handler away from under the other's, so the
    other takes both away:

        stop A   hears, before: the program's                  ends: B's handler is there
        stop B                   hears, before: A's                                        ends: the program's is back
    """
    import signal

    from firecron.base.identity import find_cloud_run

    before = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if not is_main or not callable(before) or find_cloud_run(environment) is not None:
        yield
        return

    handler = _CtrlC(hurry, before)
    signal.signal(signal.SIGINT, handler)
    try:
        yield
    finally:
        handler.is_over = True
        while isinstance(there := signal.getsignal(signal.SIGINT), _CtrlC) and there.is_over:
            signal.signal(signal.SIGINT, there.before)


class _CtrlC:
    """The handler of Ctrl-C during a stop, and the handler before it."""

    def __init__(self, hurry: Callable[[], object], before: Callable[[int, FrameType | None], object]) -> None:
        self.before = before
        self.is_over = False
        self._hurry = hurry

    def __call__(self, number: int, frame: FrameType | None) -> object:
        if not self.is_over:
            # Not on this thread: the line that the signal interrupts may hold a lock that this needs.
            threading.Thread(target=self._hurry, name="firecron-hurry", daemon=True).start()
        return self.before(number, frame)
