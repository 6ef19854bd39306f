"""One run under way: its body, and again after a failure if the job has retries, until it ends, is stopped or lost."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable

from firecron.base.clocks import Timing
from firecron.base.events import Events
from firecron.base.flag import Flag
from firecron.base.redaction import redacted
from firecron.errors import LeaseLost, Stopping
from firecron.jobs.job import Job
from firecron.jobs.run import Run
from firecron.runs.body import Body, Ending, Loop

_LONGEST_RETRY = 3600.0


class Unlocked:
    """Stands for the lease of a run that holds no lock: all that can befall it is `max_runtime`."""

    ends = math.inf
    renewal_due = math.inf

    def __init__(self, name: str, on_lost: Callable[[], None]) -> None:
        self.name = name
        self.lost = Flag()
        self._on_lost = on_lost

    def keep(self, seconds: float) -> bool:
        return True

    def lose(self, why: str) -> None:
        self.lost.set()
        self._on_lost()

    def disown(self) -> None:
        self.lost.set()


class Execution:
    """A run's body, from its first call to its last."""

    def __init__(self, job: Job, run: Run, loop: Loop | None, timing: Timing, events: Events) -> None:
        self.run = run
        self._job = job
        self._loop = loop
        self._timing = timing
        self._events = events
        self._changed = threading.Condition()
        self._body: Body | None = None
        self._is_cancelled = False
        self._has_blocked = False

    def perform(self) -> Ending:
        """Call the job's function, and again after a failure, as often as it has retries."""
        tries = 0
        while True:
            ending = self._call()
            if ending.how != "failed" or tries >= self._job.options.retries:
                return ending
            tries += 1
            delay = min(self._job.options.retry_backoff / 1000 * 2 ** (tries - 1), _LONGEST_RETRY)
            message = f'"{self.run.name}" failed and is tried again in {delay:g} s: {described(ending.error)}'
            self._events.emit(
                "run.retried", self.run.name, logging.WARNING, message, key=self.run.idempotency_key, tries=tries
            )
            self._pause(delay)
            if self.run.stopping and not self.run.lost:
                return Ending("stopped", Stopping())

    def stop(self) -> None:
        """Tell the run that this instance is stopping; there are no more retries."""
        self.run.stopping.set()
        self._look_up()

    def cancel(self) -> None:
        """Cancel the body if it is async, and begin none from now on."""
        with self._changed:
            self._is_cancelled = True
            body = self._body
        if body is not None:
            body.cancel()

    def on_lost(self) -> None:
        """The lease is lost: cancel the body, and try no more."""
        self._look_up()
        self.cancel()

    def _call(self) -> Ending:
        body = Body(self._job, self.run, self._loop, self._timing, self._tell_blocked)
        with self._changed:
            self._body = body
            is_cancelled = self._is_cancelled
        if self.run.lost:
            return Ending("lost", LeaseLost())
        # What was claimed is begun also while the instance stops, because nobody else can claim that tick; only the
        # last seconds of a stop are too late.
        return Ending("stopped", Stopping()) if is_cancelled else body.call()

    def _tell_blocked(self, blocked: int) -> None:
        if self._has_blocked:
            return  # once a run is enough
        self._has_blocked = True
        message = (
            f'"{self.run.name}" blocked the event loop for {blocked / 1000:.0f} s, in which nothing else ran there: '
            "declare the job with def (it then runs on a thread), or await asyncio.to_thread(...) for what blocks"
        )
        self._events.emit(
            "loop.blocked", self.run.name, logging.WARNING, message, key=self.run.idempotency_key, blocked=blocked
        )

    def _pause(self, seconds: float) -> None:
        until = self._timing.mono() + seconds * 1000
        with self._changed:
            while not (self.run.lost or self.run.stopping) and (left := until - self._timing.mono()) > 0:
                self._timing.wait(self._changed, left / 1000)

    def _look_up(self) -> None:
        with self._changed:
            self._changed.notify_all()


def described(error: BaseException | None) -> str:
    """What a job raised, in a line without secrets; whatever its `__str__` does."""
    try:
        text = str(error)
    except Exception as broken:
        text = f"(and its text can't be had: {type(broken).__name__})"
    # Half a character, as in the name of a file that is no UTF-8, is nothing that RTDB would take.
    text = redacted(text).encode("utf-8", "replace").decode()
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
