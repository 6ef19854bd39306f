"""Threads for the jobs, and marks of the work that is under way, for which the end of the program may have to wait.

Each piece of work has a mark from its beginning to its end. A mark may be removed twice, so code that Ctrl-C interrupts
at any line can remove its mark again.

The threads are limited in number, and started when they are needed. They are daemon threads instead of an executor's.
Python joins an executor's threads before it runs `atexit`, so a job that does not know of the shutdown would delay the
end of the process without limit.

A blocking call of a coroutine is made on another thread, so that the event loop goes on meanwhile (`off_loop`).
`asyncio.to_thread` won't do: the executor of the loop has few threads, and the jobs that such a call is to stop may
occupy all of them.
"""

from __future__ import annotations

import asyncio
import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Protocol, TypeAlias, TypeVar

from firecron.base.clocks import Timing
from firecron.base.flag import in_each_process

logger = logging.getLogger("firecron")
T = TypeVar("T")


class OpenWork:
    """The marks of the work that is under way. `changed` is notified whenever work ends.

    No wait goes on after `latest`, on the monotonic clock.
    """

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.latest = math.inf
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self.changed = threading.Condition()
        self._marks: set[object] = set()

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, mark: object) -> None:
        """Note that the work of this mark begins."""
        with self.changed:
            self._marks.add(mark)

    def remove(self, mark: object) -> None:
        """Note that the work of this mark has ended."""
        with self.changed:
            self._marks.discard(mark)
            self.changed.notify_all()

    def wait(self, until: float) -> None:
        """Wait until no work is under way, or until `until` on the monotonic clock (in milliseconds)."""
        with self.changed:
            while self._marks and (left := min(until, self.latest) - self._timing.mono()) > 0:
                self._timing.wait(self.changed, left / 1000)

    def hurry(self, until: float) -> None:
        """Let all waits, also those that are under way, end at `until` if they would end later."""
        with self.changed:
            self.latest = min(self.latest, until)
            self.changed.notify_all()


class Crew(Protocol):
    """Carries out the jobs' work: `Workers`, or in a test what carries it out on the test's own thread."""

    @property
    def is_full(self) -> bool:
        """Whether more work would have to wait."""

    def submit(self, work: Callable[[], object]) -> None: ...

    def dismiss(self) -> None: ...


class Workers:
    """At most `number` threads, which take the submitted work in order.

    With `lingers=False` a thread ends as soon as it finds no work. The state that a worker waits for changes only while
    `changed` is locked.
    """

    def __init__(self, number: int, *, lingers: bool = True) -> None:
        self._number = number
        self._lingers = lingers
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self.changed = threading.Condition()
        self._work: deque[Callable[[], object]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle: set[threading.Thread] = set()

    @property
    def threads(self) -> int:
        """The number of threads."""
        with self.changed:
            return len(self._threads)

    @property
    def idle(self) -> int:
        """The number of threads that wait for work."""
        with self.changed:
            return len(self._idle)

    @property
    def is_full(self) -> bool:
        with self.changed:
            return len(self._threads) - len(self._idle) + len(self._work) >= self._number

    def submit(self, work: Callable[[], object]) -> None:
        """Do the work on a worker, as soon as one is free."""
        with self.changed:
            self._work.append(work)
            if len(self._idle) < len(self._work) and len(self._threads) < self._number:
                thread = threading.Thread(target=self._run, name="firecron-worker", daemon=True)
                try:
                    self._threads.add(thread)
                    thread.start()
                except BaseException as error:
                    # No thread could be started, for want of memory or at the end of the process. The existing
                    # threads will do the work. Without any thread the work is refused, and also after Ctrl-C here.
                    if thread.ident is None:
                        self._threads.discard(thread)
                    if not isinstance(error, RuntimeError) or not self._threads:
                        self._work.pop()
                        raise
            self.changed.notify()

    def dismiss(self) -> None:
        """Drop the work that has not begun, and end each thread after its present work.

        A later submit starts new threads.
        """
        with self.changed:
            self._work.clear()
            self._threads.clear()
            self._idle.clear()
            self.changed.notify_all()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except BaseException:
                # This is a defect of firecron: a job's exceptions are caught where the job is called. Log it and go
                # on.
                logger.exception("A worker's task failed", extra={"json_fields": {"event": "worker.failed"}})

    def _next(self) -> Callable[[], object] | None:
        """Wait for the next work and return it; None if this thread is to end."""
        me = threading.current_thread()
        with self.changed:
            while self._lingers and not self._work and me in self._threads:
                self._idle.add(me)
                self.changed.wait()
            self._idle.discard(me)
            if self._work and me in self._threads:
                return self._work.popleft()
            self._threads.discard(me)
            return None


# --- off the event loop

# How an awaitable ended: its result or its error, and the cancellation that came meanwhile, if one did.
Ended: TypeAlias = tuple["asyncio.Task[T]", "asyncio.CancelledError | None"]

# A function that makes a call on another thread.
Submit: TypeAlias = Callable[[Callable[[], object]], object]


def on_new_thread(call: Callable[[], object]) -> None:
    """Make the call on a new thread. The end of the process waits for this thread."""
    threading.Thread(target=call, name="firecron-call", daemon=False).start()


async def off_loop(
    call: Callable[[], T], submit: Submit = on_new_thread, *, unwanted: Callable[[T], object] | None = None
) -> T:
    """Make the call on another thread, by `submit`. Return what the call returns, or raise what it raises.

    If the task is cancelled, a call that has begun goes on to its end, and a call that has not begun is never made. Its
    result then goes to `unwanted` (if given), on a thread that `submit` provides.
    """
    future: Future[T] = Future()

    def make_the_call() -> None:
        if future.set_running_or_notify_cancel():
            try:
                future.set_result(call())
            except BaseException as error:
                future.set_exception(error)

    def hand_on(ended: Future[T]) -> None:
        if unwanted is not None and not ended.cancelled() and ended.exception() is None:
            result = ended.result()
            try:
                submit(lambda: unwanted(result))
            except RuntimeError:  # the threads were closed meanwhile, but a lease must still be released
                on_new_thread(lambda: unwanted(result))

    submit(make_the_call)
    try:
        return await asyncio.wrap_future(future)
    except asyncio.CancelledError:
        future.add_done_callback(hand_on)
        raise


async def in_thread(call: Callable[[], T]) -> T:
    """Make somebody's blocking call on a thread of the loop's executor, in the context of this task."""
    return await asyncio.to_thread(call)


async def to_its_end(work: Coroutine[object, object, T]) -> Ended[T]:
    """Let the work end even if this task is cancelled meanwhile. Return the work, and the cancellation.

    The caller raises the cancellation once it has done with the work.
    """
    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as raised:
            cancelled = raised
    return task, cancelled
