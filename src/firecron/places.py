"""Places: how many bodies of one job an instance runs at the same time.

One, so that an instance doesn't compete for a job that it still runs; more only with overlap="allow". Ticks that queue
wait here for the run before them, others are skipped.
"""

from __future__ import annotations

import logging
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from firecron.events import Events
from firecron.explorer import Job
from firecron.job_options import JobOptions
from firecron.timing import Timing

_LOOK = 1.0


class Place:
    """One of a job's places, until it is left."""

    def __init__(self, leave: Callable[[], None]) -> None:
        self._leave: Callable[[], None] | None = leave

    def leave(self) -> None:
        """Give it back; once."""
        leave, self._leave = self._leave, None
        if leave is not None:
            leave()


class Places:
    """All places of an instance. `ends` says until when a tick may start, on the monotonic clock, if that is known;
    `most` is how many a job with overlap="allow" has.
    """

    def __init__(
        self,
        most: int,
        ends: Callable[[JobOptions, str], float | None],
        is_stopping: Callable[[], bool],
        timing: Timing,
        events: Events,
    ) -> None:
        self._most = most
        self._ends = ends
        self._is_stopping = is_stopping
        self._timing = timing
        self._events = events
        self._changed = threading.Condition()
        self._taken: Counter[str] = Counter()

    @contextmanager
    def take(self, job: Job, due: str | None) -> Iterator[Place | None]:
        """A place for the tick `due` of the job, beside what runs of it already; None if there is none."""
        with self._changed:
            has_place = self._is_free(job) or (due is not None and self._wait(job, due))
            if has_place:
                self._taken[job.name] += 1
        if not has_place:
            if due is not None and not self._is_stopping():
                message = f'"{job.name}" still runs on this instance, skipping its tick {due}'
                self._events.emit("run.skipped", job.name, logging.INFO, message, slot=due)
            yield None
            return
        taken = self._taken
        place = Place(lambda: self._leave(taken, job))
        try:
            yield place
        finally:
            place.leave()

    def look_up(self) -> None:
        """Have those that wait look whether the instance stops."""
        with self._changed:
            self._changed.notify_all()

    def after_fork(self) -> None:
        """In a forked child: nothing runs here."""
        self._changed = threading.Condition()
        self._taken = Counter()

    def _is_free(self, job: Job) -> bool:
        return self._taken[job.name] < (self._most if job.options.overlap == "allow" else 1)

    def _wait(self, job: Job, due: str) -> bool:
        """Wait for the run here to end, if ticks queue; False once the tick's time is over. Called under the lock."""
        ends: float | None = None
        while job.options.overlap == "queue" and not self._is_stopping():
            ends = self._ends(job.options, due) if ends is None else ends
            left = _LOOK if ends is None else (ends - self._timing.mono()) / 1000
            if left <= 0:
                break
            self._timing.wait(self._changed, left)
            if self._is_free(job):
                return True
        return False

    def _leave(self, taken: Counter[str], job: Job) -> None:
        with self._changed:
            taken[job.name] -= 1
            self._changed.notify_all()
