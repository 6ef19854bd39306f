"""Threads for the jobs: a bounded number, made when they are needed.

Daemon threads of its own instead of an executor, because Python waits for an executor's threads before it runs
`atexit`, and a job that nobody told to stop would hold up the end of the process for as long as it likes.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Protocol

logger = logging.getLogger("firecron")


class Crew(Protocol):
    """Who does the jobs' work."""

    def submit(self, work: Callable[[], object]) -> None: ...

    def dismiss(self) -> None: ...

    def after_fork(self) -> None: ...


class Workers:
    """At most `number` threads, which take what was submitted in order. Where they don't linger, one ends as soon as
    there is nothing to do. What a worker waits for changes while `changed` is locked.
    """

    def __init__(self, number: int, *, lingers: bool = True) -> None:
        self._number = number
        self._lingers = lingers
        self.changed = threading.Condition()
        self._work: deque[Callable[[], object]] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle: set[threading.Thread] = set()

    @property
    def threads(self) -> int:
        """How many threads there are."""
        with self.changed:
            return len(self._threads)

    @property
    def idle(self) -> int:
        """How many of them wait for something to do."""
        with self.changed:
            return len(self._idle)

    def submit(self, work: Callable[[], object]) -> None:
        """Have it done on a worker as soon as one is free."""
        with self.changed:
            self._work.append(work)
            if len(self._idle) < len(self._work) and len(self._threads) < self._number:
                thread = threading.Thread(target=self._run, name="firecron-worker", daemon=True)
                try:
                    self._threads.add(thread)
                    thread.start()
                except BaseException as error:
                    # No more threads, or the end of the process: those that there are will do it; without any it is
                    # refused. So it is where Ctrl-C comes in between.
                    if thread.ident is None:
                        self._threads.discard(thread)
                    if not isinstance(error, RuntimeError) or not self._threads:
                        self._work.pop()
                        raise
            self.changed.notify()

    def dismiss(self) -> None:
        """Drop what nobody has begun yet, and send the threads home when they are done; a later submit makes new
        ones.
        """
        with self.changed:
            self._work.clear()
            self._threads.clear()
            self._idle.clear()
            self.changed.notify_all()

    def after_fork(self) -> None:
        """In a forked child: no thread is here, and what was submitted is the parent's to do."""
        self.changed = threading.Condition()
        self._work.clear()
        self._threads.clear()
        self._idle.clear()

    def _run(self) -> None:
        while (work := self._next()) is not None:
            try:
                work()
            except BaseException:
                # A defect of firecron's own, since jobs' exceptions are caught where they are called: say so, and go
                # on.
                logger.exception("A worker's task failed", extra={"json_fields": {"event": "worker.failed"}})

    def _next(self) -> Callable[[], object] | None:
        """The next thing to do, however long it takes to come; None for a thread that is to end."""
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
