"""Threads for the jobs, and marks of the work that is under way, for which the end of the program may have to wait.

Each piece of work has a mark from its beginning to its end. A mark may be removed twice, so code that Ctrl-C interrupts
at any line can remove its mark again.

The threads are limited in number, started when they are needed, and end when they had nothing to do for a while. They
are daemon threads instead of an executor's.
Python joins an executor's threads before it runs `atexit`, so a job that does not know of the shutdown would delay the
end of the process without limit.

A blocking call of a coroutine is made on another thread, so that the event loop goes on meanwhile (`off_loop`).
`asyncio.to_thread` won't do: the executor of the loop has few threads, and the jobs that such a call is to stop may
occupy all of them.
"""

from __future__ import annotations

import logging
import math
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import TYPE_CHECKING, Protocol, TypeAlias, TypeVar

from firecron.base.clocks import SystemTiming, Timing
from firecron.base.flag import in_each_process

if TYPE_CHECKING:
    # At run time by the coroutines themselves: a program that has none, such as a command, needn't load it.
    import asyncio

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


# Seconds. After a burst its threads end within a minute, and a job that ticks every few seconds keeps the one it has.
LINGERS = 30.0


class _Worker:
    """A thread, and the work that it is to begin next, if it was given any."""

    def __init__(self, lock: threading.RLock, run: Callable[[_Worker], None]) -> None:
        self.work: Callable[[], object] | None = None
        self.called = threading.Condition(lock)
        self.thread = threading.Thread(target=run, args=(self,), name="firecron-worker", daemon=True)


class Workers:
    """At most `number` threads, which take the submitted work in order.

    A thread that finds no work for `lingers` seconds ends. Work goes to the thread that has been idle for the shortest
    time, so the others end although there is some work now and then. It is given to one thread, which can't be ending:
    both need the lock.
    """

    def __init__(self, number: int, *, lingers: float = LINGERS, timing: Timing | None = None) -> None:
        self._number = number
        self._lingers = lingers * 1000
        self._timing = timing or SystemTiming()
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.RLock()
        # Work that waits for a thread: then none is idle, and no other can be started.
        self._work: deque[Callable[[], object]] = deque()
        self._workers: set[_Worker] = set()
        self._idle: list[_Worker] = []

    @property
    def threads(self) -> int:
        """The number of threads."""
        with self._lock:
            return len(self._workers)

    @property
    def idle(self) -> int:
        """The number of threads that wait for work."""
        with self._lock:
            return len(self._idle)

    @property
    def is_full(self) -> bool:
        with self._lock:
            return len(self._workers) - len(self._idle) + len(self._work) >= self._number

    def submit(self, work: Callable[[], object]) -> None:
        """Do the work on a worker, as soon as one is free."""
        with self._lock:
            if self._idle:
                worker = self._idle.pop()
                worker.called.notify()  # first: after Ctrl-C here it ends without work
                worker.work = work
            elif len(self._workers) < self._number:
                self._start(work)
            else:
                self._work.append(work)

    def _start(self, work: Callable[[], object]) -> None:
        worker = _Worker(self._lock, self._run)
        worker.work = work
        try:
            self._workers.add(worker)
            worker.thread.start()
        except BaseException as error:
            # No thread could be started, for want of memory or at the end of the process. The existing threads will do
            # the work. Without any thread the work is refused, and also after Ctrl-C here.
            worker.work = None
            if worker.thread.ident is None:
                self._workers.discard(worker)
            if not isinstance(error, RuntimeError) or not self._workers:
                raise
            self._work.append(work)

    def dismiss(self) -> None:
        """Drop the work that has not begun, and end each thread after its present work.

        A later submit starts new threads.
        """
        with self._lock:
            self._work.clear()
            self._workers.clear()
            for worker in self._idle:
                worker.called.notify()
            self._idle.clear()

    def _run(self, worker: _Worker) -> None:
        while (work := self._next(worker)) is not None:
            try:
                work()
            except BaseException:
                # This is a defect of firecron: a job's exceptions are caught where the job is called. Log it and go
                # on.
                logger.exception("A worker's task failed", extra={"json_fields": {"event": "worker.failed"}})

    def _next(self, worker: _Worker) -> Callable[[], object] | None:
        """Wait for the next work and return it; None if this thread is to end."""
        with self._lock:
            if worker.work is None and not self._work:
                self._wait(worker)
            work, worker.work = worker.work, None
            if worker not in self._workers:
                return None
            if work is None and self._work:
                work = self._work.popleft()
            if work is None:
                self._workers.discard(worker)
            return work

    def _wait(self, worker: _Worker) -> None:
        """Wait until the worker is given work, is dismissed, or has lingered for long enough."""
        ends = self._timing.mono() + self._lingers
        self._idle.append(worker)
        while worker.work is None and worker in self._workers and (left := ends - self._timing.mono()) > 0:
            self._timing.wait(worker.called, left / 1000)
        if worker in self._idle:
            self._idle.remove(worker)


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
    import asyncio

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
    import asyncio

    return await asyncio.to_thread(call)


async def to_its_end(work: Coroutine[object, object, T]) -> Ended[T]:
    """Let the work end even if this task is cancelled meanwhile. Return the work, and the cancellation.

    The caller raises the cancellation once it has done with the work.
    """
    import asyncio

    task = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not task.done():
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError as raised:
            cancelled = raised
    return task, cancelled
