"""The body: one call of a job's function.

A sync function is called on this thread. An async function runs on the application's loop if there is one, else on a
loop of its own. What is `around` it is entered before the call, in the same place, and left after it. `Body.call`
always returns an `Ending`: no exception of a job goes further.

`Body.call` returns only when the function has ended. A cancelled function may take its time to clean up, and the lock
is held until then. Ctrl-C, or an exception of a signal's handler, cancels an async function, and is reported as its
error once the function has ended.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import inspect
import threading
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, ExitStack, suppress
from contextvars import copy_context
from dataclasses import dataclass
from traceback import format_exception_only
from typing import Generic, Protocol, TypeAlias, TypeVar

from firecron.base.clocks import Timing
from firecron.base.flag import Flag
from firecron.errors import Cancelled, LeaseLost, Stopping
from firecron.jobs.around import Context
from firecron.jobs.run import Outcome
from firecron.runs.connections import connections
from firecron.runs.loop_watch import LoopWatch
from firecron.runs.surroundings import Arounds, enter, enter_async

Loop: TypeAlias = asyncio.AbstractEventLoop
Error: TypeAlias = "BaseException | None"

# Seconds between two looks at the application's loop.
_LOOK = 1.0


@dataclass(frozen=True, slots=True)
class Ending:
    """How a call ended.

    It is `interrupted` if the stop of the instance ended it, `lost` if the loss of the lease did, and `cancelled` if an
    operator or a later tick did.
    """

    outcome: Outcome
    error: BaseException | None = None


class Subject(Protocol):
    """What a function is called for: a run, or a term."""

    @property
    def lost(self) -> Flag: ...

    @property
    def cancelled(self) -> Flag: ...

    stopping: Flag


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


class Body(Generic[S]):
    """One call of a job's function.

    Another thread can cancel the call if the function is async. `tell_blocked` is called with the number of
    milliseconds for which the function blocked the application's loop.
    """

    def __init__(
        self, job: Callee[S], run: S, loop: Loop | None, timing: Timing, tell_blocked: Callable[[int], None]
    ) -> None:
        self._job = job
        self._run = run
        self._loop = loop
        self._timing = timing
        self._tell_blocked = tell_blocked
        self._lock = threading.Lock()
        self._task: asyncio.Task[None] | None = None
        self._is_cancelled = False
        self._raised: Error = None

    def call(self) -> Ending:
        """Call the function, wait for its end, and return how it ended."""
        try:
            # In a context of its own, so that no context variable that the job sets stays on this thread.
            error = self._await(self._call_async) if self._job.is_async else copy_context().run(self._call)
        except BaseException as raised:
            # Also SystemExit and the like: on a worker thread they end only the job.
            error = raised
        error = self._jobs_own(error)
        return Ending(outcome_of(self._run, error), error)

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
        """Return the error that decides the outcome: the first, not that of leaving the job's surroundings after it."""
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
        watch = LoopWatch(loop, self._timing, self._tell_blocked)
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
                    watch.look(self._task)
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
    """Return how a call has ended that raised this error, or none."""
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
