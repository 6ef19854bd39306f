"""The body: one call of a job's function, with what is around it.

    Body           calls the function, and returns the error that ended the call, if one did
    outcome_of     what such an error says of a run, or of a term
    enter          enters the contexts of the function: Django's connections, and what the program gave
    LoopWatch      notices that an async function blocks the application's event loop instead of awaiting

A sync function is called on this thread. An async function runs on the application's loop if there is one, else on a
loop of its own. What is `around` it is entered before the call, in the same place, and left after it. `Body.call`
never raises: no exception of a job goes further.

`Body.call` returns only when the function has ended. A cancelled function may take its time to clean up, and the lock
is held until then. Ctrl-C, or an exception of a signal's handler, cancels an async function, and is reported as its
error once the function has ended.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import os
import sys
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    ExitStack,
    nullcontext,
    suppress,
)
from contextvars import copy_context
from pathlib import Path
from traceback import TracebackException, format_exception_only, walk_tb
from types import TracebackType
from typing import Generic, Protocol, TypeAlias, TypeVar

from firecron.base.clocks import Timing
from firecron.base.flag import Flag
from firecron.base.texts import redacted, storable
from firecron.errors import Cancelled, ConfigurationError, LeaseLost, Stopping
from firecron.jobs.job import Context, no_context, not_entered
from firecron.jobs.run import Outcome

# Seconds before the end of the grace at which what still runs is cancelled, if it is async.
CANCEL_AHEAD = 2.0

Loop: TypeAlias = asyncio.AbstractEventLoop
Error: TypeAlias = "BaseException | None"


class Subject(Protocol):
    """What a function is called for: a run, or a term."""

    @property
    def lost(self) -> Flag: ...

    @property
    def cancelled(self) -> Flag: ...

    stopping: Flag


E = TypeVar("E", bound=BaseException)
S = TypeVar("S", bound=Subject)
S_contra = TypeVar("S_contra", bound=Subject, contravariant=True)


class Callee(Protocol[S_contra]):
    """What is called: a job, or a leader. `around` returns what is around each call, the outermost first."""

    @property
    def name(self) -> str: ...

    @property
    def is_async(self) -> bool: ...

    @property
    def around(self) -> Callable[[], Iterable[Callable[[S_contra], Context]]]: ...

    def call(self, subject: S_contra, /) -> object: ...

    def enter(self, subject: S_contra, /) -> None: ...

    def turns_async(self, subject: S_contra, /) -> None: ...

    def leave(self, subject: S_contra, /) -> None: ...


# Seconds between two looks at the application's loop.
_LOOK = 1.0


class Body(Generic[S]):
    """One call of a job's function.

    Another thread can cancel the call if the function is async. `on_blocked` is called with the number of
    milliseconds for which the function blocked the application's loop.
    """

    def __init__(
        self, job: Callee[S], run: S, loop: Loop | None, timing: Timing, on_blocked: Callable[[int], None]
    ) -> None:
        self._job = job
        self._run = run
        self._loop = loop
        self._timing = timing
        self._on_blocked = on_blocked
        self._lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._raised: Error = None

    def call(self) -> Error:
        """Call the function, wait for its end, and return the error that it raised, if any."""
        try:
            # In a context of its own, so that no context variable that the job sets stays on this thread.
            error = self._await(self._call_async) if self._job.is_async else copy_context().run(self._call)
        except BaseException as raised:
            # Also SystemExit and the like: on a worker thread they end only the job.
            error = raised
        error = self._jobs_own(error)
        return None if error is None else from_users_frame(error)

    def cancel(self) -> None:
        """Cancel the function once, if it is async. A sync function has to look at the flags of its run."""
        with self._lock:
            if self._is_cancelled:
                return  # a second cancellation would interrupt the function's cleanup
            self._is_cancelled = True
            task = self._task
        if task is not None:
            with suppress(RuntimeError):  # a closed loop has nothing left to cancel
                task.get_loop().call_soon_threadsafe(task.cancel)

    def _arounds(self) -> Arounds[S]:
        return (connections, *self._job.around())

    def _call(self) -> Error:
        self._job.enter(self._run)
        with ExitStack() as stack:
            try:
                enter(stack, self._arounds(), self._run, self._job.name)
                result = self._job.call(self._run)
                if inspect.isawaitable(result):
                    self._job.turns_async(self._run)
                # A sync function, such as a lambda or a partial, may return a coroutine: it must run under the lock,
                # too.
                error = self._await(lambda: result, own_loop=True) if inspect.isawaitable(result) else None
                if error is not None:
                    raise error
            except BaseException as raised:
                self._raised = raised
                raise
            finally:
                self._job.leave(self._run)
        return None

    async def _call_async(self) -> None:
        async with AsyncExitStack() as stack:
            try:
                await enter_async(stack, self._arounds(), self._run)
                result = self._job.call(self._run)
                assert inspect.isawaitable(result), "an async function returns an awaitable"
                await result
            except BaseException as raised:
                self._raised = raised
                raise
            finally:
                # Before the loop cancels the tasks that the function has left behind.
                self._job.leave(self._run)

    def _jobs_own(self, error: Error) -> Error:
        """Return the error that decides the outcome: the first, not that of leaving the job's contexts after it."""
        own = self._raised
        if own is None or own is error:
            return error
        if error is not None:
            with suppress(Exception):  # a frozen exception takes no note
                own.add_note(
                    f"leaving the job's surroundings raised, too: {''.join(format_exception_only(error)).strip()}"
                )
        return own

    def _await(self, make: Callable[[], Awaitable[object]], *, own_loop: bool = False) -> Error:
        """Run the awaitable to its end, and return the error that it raised, if any."""
        here = _running_loop()
        if not own_loop and self._loop is not None and self._loop.is_running() and self._loop is not here:
            return self._await_on(self._loop, make)
        if here is None:
            return asyncio.run(self._await_here(make))
        # This thread already runs a loop, mostly a test's, and a thread can't run a second loop inside it.
        with concurrent.futures.ThreadPoolExecutor(1) as elsewhere:
            work = copy_context().run
            return elsewhere.submit(work, lambda: asyncio.run(self._await_here(make))).result()

    def _await_on(self, loop: Loop, make: Callable[[], Awaitable[object]]) -> Error:
        done: concurrent.futures.Future[Error] = concurrent.futures.Future()
        changed = threading.Condition()
        watch = LoopWatch(loop, self._timing, self._on_blocked)
        interrupt: Error = None

        def begin() -> None:
            watch.begin()
            self._begin(make, done)

        def wake(_: object) -> None:
            with changed:
                changed.notify_all()

        done.add_done_callback(wake)
        loop.call_soon_threadsafe(begin)
        while not (done.done() or loop.is_closed()):
            try:
                with suppress(RuntimeError):  # the loop may be closed at any moment
                    watch.probe(self._task)
                with changed:
                    if not done.done():
                        self._timing.wait(changed, _LOOK)
            except BaseException as raised:
                # Ctrl-C cancels the function, and the wait for its end goes on.
                interrupt = interrupt or raised
                self.cancel()
        watch.end()
        if interrupt is not None:
            self._raised = interrupt  # it decides the outcome, and not the error that the cancelled job raised
            return interrupt
        return done.result() if done.done() else RuntimeError("the application's event loop was closed during the job")

    async def _await_here(self, make: Callable[[], Awaitable[object]]) -> Error:
        done: concurrent.futures.Future[Error] = concurrent.futures.Future()
        await asyncio.wait([self._begin(make, done)])
        return done.result()

    def _begin(
        self, make: Callable[[], Awaitable[object]], done: concurrent.futures.Future[Error]
    ) -> asyncio.Task[None]:
        """Start the awaitable as a task on this thread's loop. `done` gets the error that it raises, or None."""

        async def call() -> None:
            self._job.enter(self._run)
            try:
                await make()
            except BaseException as error:
                # A value, not raised: a SystemExit would end the application's loop.
                done.set_result(error)
            else:
                done.set_result(None)

        task = asyncio.get_running_loop().create_task(call())
        # A task that is cancelled before it begins never runs the lines that set `done`.
        task.add_done_callback(lambda _: _set_cancelled(done))
        with self._lock:
            self._task = task
            is_cancelled = self._is_cancelled
        if is_cancelled:
            task.cancel()
        return task


def outcome_of(subject: Subject, error: BaseException | None) -> Outcome:
    """Return how a call has ended that raised this error, or none.

    It is `interrupted` if the stop of the instance ended it, `lost` if the loss of the lease did, and `cancelled` if an
    operator or a later tick did.
    """
    if error is None:
        return "succeeded"
    is_cut = isinstance(error, asyncio.CancelledError | concurrent.futures.CancelledError)
    if subject.lost and (is_cut or isinstance(error, LeaseLost)):
        return "lost"
    if subject.cancelled and (is_cut or isinstance(error, Cancelled)):
        return "cancelled"
    if isinstance(error, Stopping) or (is_cut and subject.stopping):
        return "interrupted"
    return "failed"


def _set_cancelled(done: concurrent.futures.Future[Error]) -> None:
    if not done.done():
        done.set_result(asyncio.CancelledError())


def _running_loop() -> Loop | None:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        return None  # none runs on this thread


# --- the contexts of the function
#
#     Django's connections      `connections`
#     Flask's context           after `init_app`
#     what the program gave     `FireCron(around=…)`, for jobs
#
# They are entered on the thread, or in the task, in which the function is called, and inside the lease. What was
# entered is left in the opposite order, also if a later one can't be entered, and if the task is cancelled. Each learns
# how the function ended, as in a `with` statement. None of them can hide an exception from the others, or from the run.

T = TypeVar("T")
Arounds: TypeAlias = Iterable[Callable[[T], Context]]
Kind: TypeAlias = type[BaseException] | None


def enter(stack: ExitStack, arounds: Arounds[T], subject: T, name: str) -> None:
    """Surround a sync function, on the thread that calls it. `name` is the job's."""
    for around in arounds:
        made = around(subject)
        if not isinstance(made, AbstractContextManager):
            is_async = isinstance(made, AbstractAsyncContextManager)
            raise ConfigurationError(not_entered(around, repr(name)) if is_async else no_context(around, made))
        _enter(stack, made)


async def enter_async(stack: AsyncExitStack, arounds: Arounds[T], subject: T) -> None:
    """Surround an async function, in the task that awaits it."""
    for around in arounds:
        made = around(subject)
        if isinstance(made, AbstractAsyncContextManager):
            await _enter_async(stack, made)
        elif isinstance(made, AbstractContextManager):
            _enter(stack, made)
        else:
            raise ConfigurationError(no_context(around, made))


# The stack doesn't get what the exits return: it would take a true value for a wish to hide the error from the others.


def _enter(stack: ExitStack | AsyncExitStack, made: AbstractContextManager[object]) -> None:
    def leave(kind: Kind, error: BaseException | None, traceback: TracebackType | None) -> None:
        made.__exit__(kind, error, traceback)

    made.__enter__()
    stack.push(leave)


async def _enter_async(stack: AsyncExitStack, made: AbstractAsyncContextManager[object]) -> None:
    async def leave(kind: Kind, error: BaseException | None, traceback: TracebackType | None) -> None:
        await made.__aexit__(kind, error, traceback)

    await made.__aenter__()
    stack.push_async_exit(leave)


# --- Django's database connections, as Django has them around a request
#
# Too old or broken connections are closed before and after the call. For an async job this is done on the thread that
# has the connections of Django's async queries. Where Django isn't loaded and configured, nothing of it is imported.


def connections(subject: object) -> Context:
    """Return the context manager around a run or a term. It does nothing in a program without Django."""
    return _Connections() if has_django() else nullcontext()


def has_django() -> bool:
    """Return whether this program has loaded and configured Django."""
    if "django.db" not in sys.modules:
        return False
    from django.conf import settings

    return bool(settings.configured)


class _Connections(AbstractContextManager[None], AbstractAsyncContextManager[None]):
    def __enter__(self) -> None:
        _close_old()

    def __exit__(self, *raised: object) -> None:
        _close_old()

    async def __aenter__(self) -> None:
        from asgiref.sync import SyncToAsync

        # Let Django's async work of this task use another thread than the request's. Else a run that a sync view starts
        # under ASGI would wait for the request's only thread, and the view, which waits for the run, occupies it.
        # asgiref reads None as "in no context", but its types have no such value.
        SyncToAsync.thread_sensitive_context.set(None)  # type: ignore[arg-type]  # see above
        await _close_old_async()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, frames: TracebackType | None
    ) -> None:
        # At the end of the process that thread takes no more work, and its connections end with the process.
        with suppress(RuntimeError):
            await _close_old_async()
        if error is not None:
            # asgiref raises the job's error again in that thread, and its frames are none of the job's.
            error.__traceback__ = frames


def _close_old() -> None:
    from django.db import close_old_connections

    close_old_connections()


async def _close_old_async() -> None:
    from asgiref.sync import sync_to_async

    await sync_to_async(_close_old)()


# --- a task that blocks its event loop
#
# Another thread calls `probe` from time to time, which sends a probe through the loop. If the probe is overdue while
# the loop is running that task, the task blocks the loop.

# Milliseconds from the loop's last sign of life to the next probe, and from a probe to when it is overdue.
_PAUSE = 1_000
_OVERDUE = 2_000
# A task that blocks for longer than this many milliseconds may never end, so it is reported while it still blocks.
_LONGEST = 30_000


class LoopWatch:
    """Watches `loop` for one task. `on_blocked` gets the milliseconds for which the task blocked it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timing: Timing, on_blocked: Callable[[int], None]) -> None:
        self._loop = loop
        self._timing = timing
        self._on_blocked = on_blocked
        self._alive_at = timing.mono()
        self._sent_at: float | None = None
        self._blocked = 0.0

    def begin(self) -> None:
        """Begin to watch. Called on the loop, before the task begins."""
        self._alive_at = self._timing.mono()

    def probe(self, task: asyncio.Task[None] | None) -> None:
        """Send a probe, or check whether the last one is overdue. Raise RuntimeError if the loop is closed."""
        now, alive_at, sent_at = self._timing.mono(), self._alive_at, self._sent_at
        if sent_at is None:
            self.end()
            if now - alive_at >= _PAUSE:
                self._sent_at = now
                self._loop.call_soon_threadsafe(self._return)
        elif now - sent_at >= _OVERDUE and task is not None and asyncio.current_task(self._loop) is task:
            self._blocked = now - alive_at
            if self._blocked >= _LONGEST:
                self.end()

    def end(self) -> None:
        """Report for how long the task has blocked the loop, if it has."""
        if self._blocked:
            self._on_blocked(round(self._blocked))

    def _return(self) -> None:
        """Note that the probe has come through. Called on the loop."""
        now = self._timing.mono()
        if self._blocked:
            self._blocked = now - self._alive_at
        self._alive_at = now
        self._sent_at = None


# --- tracebacks for users

_PACKAGE = f"{Path(__file__).parents[1]}{os.sep}"


def from_users_frame(error: E) -> E:
    """Return the error with its traceback from the first frame on that is not firecron's; whole, if all of them are."""
    frames = first = error.__traceback__
    while frames is not None and frames.tb_frame.f_code.co_filename.startswith(_PACKAGE):
        frames = frames.tb_next
    return error.with_traceback(frames or first)


LONGEST_TRACEBACK = 2_000
# Redaction takes its time: more than this is not looked at.
_MOST_READ = 20_000
_LONGEST_LINE = 300


def last_frames(error: BaseException) -> str | None:
    """Return the end of an error's traceback, without what looks like a secret; None if all its frames are firecron's.

    With the errors that led to it, or that it groups. It has 2,000 characters at most, and begins with a whole line.
    """
    if all(frame.f_code.co_filename.startswith(_PACKAGE) for frame, _ in walk_tb(error.__traceback__)):
        return None
    lines = "".join(TracebackException.from_exception(error, compact=True).format()).splitlines()
    text = "\n".join(line[:_LONGEST_LINE] for line in lines)
    return _end(storable(redacted(_end(text, _MOST_READ))), LONGEST_TRACEBACK)


def _end(text: str, longest: int) -> str:
    """Return the end of a text, of so many characters at most, from the beginning of a line on."""
    if len(text) <= longest:
        return text
    end = text[-longest + 2 :]
    return f"…\n{end[end.find(chr(10)) + 1 :]}"
