"""What tests of bodies share: a run, a function's job, an application's loop, and time that passes in waits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tests.unit.threads import PATIENCE

from firecron import Run, distributed_cron
from firecron.base.clocks import SystemTiming, Timing
from firecron.jobs.job import Job, explore
from firecron.runs.body import Body
from firecron.testing import FakeClock


def make_run() -> Run:
    return Run("job", slot=None, attempt=1, fence=None, idempotency_key="key", trigger="manual")


def job_of(function: Callable[..., object]) -> Job:
    (job,) = explore(distributed_cron("job", "* * * * *")(function))
    return job


def body_of(job: Job, run: Run, loop: asyncio.AbstractEventLoop | None, timing: Timing | None = None) -> Body[Run]:
    def tell_blocked(blocked: int) -> None:
        raise AssertionError(f"it has blocked nothing, and not for {blocked} ms")

    return Body(job, run, loop, timing or SystemTiming(), tell_blocked)


@contextmanager
def running_loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An application's loop, on a thread of its own; no callback may fail there."""
    loop = asyncio.new_event_loop()
    failures: list[object] = []
    loop.set_exception_handler(lambda _, context: failures.append(context))
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    try:
        yield loop
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join(PATIENCE)
        loop.close()
    assert failures == []


def raising(error: BaseException) -> Callable[[], object]:
    def sync() -> None:
        raise error

    return sync


class Passing(FakeClock):
    """Time that passes for whoever waits, once it has `begun` and up to a moment. Who waits from then on has `then`
    called, and waits really, unless that is the end of it.
    """

    def __init__(self, until: float, then: Callable[[], object]) -> None:
        super().__init__()
        self.begun = threading.Event()
        self.until = until * 1000
        self._then = then

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        assert self.begun.wait(PATIENCE)
        if self.mono() < self.until:
            super().wait(condition, seconds)
        elif not self._then():
            condition.wait(PATIENCE)
