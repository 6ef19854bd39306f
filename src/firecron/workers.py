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

    def after_fork(self) -> None: ...


class Workers:
    """At most `number` threads, which take what was submitted in order."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._changed = threading.Condition()
        self._work: deque[Callable[[], object]] = deque()
        self._threads = 0
        self._idle = 0

    def submit(self, work: Callable[[], object]) -> None:
        """Have it done on a worker as soon as one is free."""
        with self._changed:
            self._work.append(work)
            if self._idle < len(self._work) and self._threads < self._number:
                self._threads += 1
                threading.Thread(target=self._run, name="firecron-worker", daemon=True).start()
            else:
                self._changed.notify()

    def after_fork(self) -> None:
        """In a forked child: no thread is here, and what was submitted is the parent's to do."""
        self._changed = threading.Condition()
        self._work.clear()
        self._threads = self._idle = 0

    def _run(self) -> None:
        while True:
            with self._changed:
                self._idle += 1
                while not self._work:
                    self._changed.wait()
                self._idle -= 1
                work = self._work.popleft()
            try:
                work()
            except Exception:
                # A defect of firecron's own, since jobs' exceptions are caught where they are called: say so, and go
                # on.
                logger.exception("A worker's task failed", extra={"json_fields": {"event": "worker.failed"}})
