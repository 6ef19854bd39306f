"""Jobs that write down what they do, for programs that tests start. What they are comes from the environment.

`TICK_JOURNAL` is the file that all processes append to, a JSON object a line. `TICK_JOBS` are the jobs, as a JSON
list:

    name, line, options   what they are decorated with
    takes                 how many seconds the body works
    until                 a file that ends the work, once it is there
    obeys                 the body calls `run.check()` all the time
    freezes               the first attempt stops its own process before that
    is_async              it is an async function, which needs `cleanup` seconds when it is cancelled
"""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from firecron import FireCron, Run, distributed_cron
from firecron.base.clocks import SystemTiming
from firecron.jobs.job import Around

STEP = 0.005


def pause(seconds: float) -> None:
    """Sleep; not with `time.sleep`, whose absolute monotonic deadlines libfaketime takes for faked ones."""
    threading.Event().wait(seconds)


@contextmanager
def frozen() -> Iterator[None]:
    """Stop this process; the block is what it does first when it is woken, before any other thread has had a turn."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(30)
    try:
        last = time.monotonic()
        os.kill(os.getpid(), signal.SIGSTOP)
        # The call may return a moment before the process stands still.
        while (now := time.monotonic()) - last < 0.5:
            last = now
        yield
    finally:
        sys.setswitchinterval(interval)


class Shifted(SystemTiming):
    """A machine whose wall clock is wrong by so many seconds, and whose monotonic clock is right."""

    def __init__(self, seconds: float) -> None:
        self._ahead = seconds * 1000

    def wall(self) -> float:
        return super().wall() + self._ahead

    def sleep(self, seconds: float) -> None:
        pause(seconds)


def note(what: str, **fields: object) -> None:
    """Append a line to the journal, in one write."""
    clocks = {"mono": time.monotonic_ns() / 1e6, "wall": time.time_ns() / 1e6}
    line = json.dumps({"what": what, "pid": os.getpid(), **clocks, **fields}) + "\n"
    fd = os.open(os.environ["TICK_JOURNAL"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(fd, line.encode())
    finally:
        os.close(fd)


def make_crons(*providers: object, around: Sequence[Around] = ()) -> FireCron:
    """A FireCron with the jobs of the environment, these providers, and what is around each run."""
    timing = Shifted(float(os.environ.get("TICK_WALL_SHIFT", "0")))
    jobs = (make_job(**spec) for spec in json.loads(os.environ["TICK_JOBS"]))
    return FireCron(*jobs, *providers, around=around, timing=timing)


def make_job(
    name: str,
    line: str,
    takes: float,
    until: str | None = None,
    obeys: bool = False,
    freezes: bool = False,
    is_async: bool = False,
    cleanup: float = 0.0,
    options: dict[str, Any] | None = None,
) -> Callable[..., object]:
    def is_over(started: float) -> bool:
        return time.monotonic() - started >= takes or (until is not None and Path(until).exists())

    def work(run: Run) -> None:
        with noted(run):
            started = time.monotonic()
            if freezes and run.attempt == 1:
                with frozen():
                    run.check()
            while not is_over(started):
                if obeys:
                    run.check()
                pause(min(STEP, takes))

    async def work_async(run: Run) -> None:
        with noted(run):
            started = time.monotonic()
            try:
                while not is_over(started):  # noqa: ASYNC110  # what it waits for is a file
                    await asyncio.sleep(STEP)
            except asyncio.CancelledError:
                await asyncio.sleep(cleanup)
                raise

    function: Callable[..., object] = work_async if is_async else work
    return distributed_cron(name, line, **(options or {}))(function)


def flask_app() -> str | None:
    """The Flask application in whose context this is called; None outside of any, and in programs without Flask."""
    flask = sys.modules.get("flask")
    return flask.current_app.name if flask is not None and flask.has_app_context() else None


@contextmanager
def noted(run: Run) -> Iterator[None]:
    """Note when a run begins, and how it ends."""
    known = {
        "run": secrets.token_hex(6),
        "job": run.name,
        "slot": None if run.slot is None else run.slot.strftime("%Y-%m-%dT%H:%M:%SZ"),
        "attempt": run.attempt,
        "fence": run.fence,
        "trigger": run.trigger,
    }
    note("start", app=flask_app(), **known)
    how = "done"
    try:
        yield
    except BaseException as error:
        how = type(error).__name__
        raise
    finally:
        note("end", **known, how=how, lost=bool(run.lost), stopping=bool(run.stopping))
