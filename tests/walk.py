"""What a reader passes through: each call inside `src/firecron` of a tick, a hold, a step, a term, a page, a command.

    python -m tests.walk                 the table of all six walks
    python -m tests.walk tick --list     each call of one walk, in order

A walk is warm, uncontended, on real threads and over HTTP to the emulator. It counts calls, modules, classes (the
`self` of the calls), types made (the classes whose `__init__` ran), changes of module within a thread, and how often a
lock's node is parsed. Each figure is the median of three walks. Threads wake each other in other orders from time to
time, so calls and changes vary by a few per cent; modules and classes hardly do. `tests/test_walk.py` holds these at
their ceilings.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import sys
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from statistics import median_low
from types import FrameType
from typing import NamedTuple

from tests.cli.calls import call
from tests.page.paging import asgi_call

from firecron import FireCron, LockService, Run, Term, distributed_cron, leader
from rtdb_emulator import Emulator

SRC = str(Path(__file__).parent.parent / "src" / "firecron") + os.sep
COLUMNS = ("calls", "modules", "classes", "types", "changes", "parses")
TIMES = 3
_PATIENCE = 30.0
# A walk is over when no thread has called anything for so long. The work that is counted never waits.
_QUIET = 0.15


class Call(NamedTuple):
    """A call of one of firecron's functions; `kind` is the class of its `self`, or nothing."""

    thread: int
    module: str
    name: str
    kind: str


class Counted(NamedTuple):
    """What a walk came through."""

    calls: int
    modules: int
    classes: int
    types: int
    changes: int
    parses: int


class Walk:
    """Records the calls of its own thread, and of all threads that are started after it was made."""

    def __init__(self) -> None:
        self.taken: list[Counted] = []
        self.calls: list[Call] = []
        self.last: list[Call] = []
        self._made: set[str] = set()
        threading.setprofile(self._profile)
        sys.setprofile(self._profile)

    def begin(self) -> None:
        """Forget what was called before the walk."""
        self.calls.clear()
        self._made.clear()

    def end(self) -> None:
        """Take what was called since `begin`."""
        calls, last, changes = list(self.calls), dict[int, str](), 0
        self.last = calls
        for one in calls:
            changes += last.get(one.thread, one.module) != one.module
            last[one.thread] = one.module
        modules = {one.module for one in calls}
        classes = {one.kind for one in calls if one.kind}
        parses = sum((one.module, one.name) == ("lock.record", "parse") for one in calls)
        self.taken.append(Counted(len(calls), len(modules), len(classes), len(self._made), changes, parses))

    def settle(self) -> None:
        """Wait until nothing is called any more."""
        ends, seen = time.monotonic() + _PATIENCE, -1
        while seen != len(self.calls) and time.monotonic() < ends:
            seen = len(self.calls)
            time.sleep(_QUIET)

    def _profile(self, frame: FrameType, event: str, _argument: object) -> None:
        if event != "call":
            return
        code = frame.f_code
        is_ours = code.co_filename.startswith(SRC)
        me = frame.f_locals.get("self")
        if code.co_name == "__init__" and (is_ours or code.co_filename == "<string>"):
            made = type(me)
            if made.__module__.startswith("firecron"):
                self._made.add(f"{made.__module__}.{made.__name__}")
        if is_ours:
            module = code.co_filename[len(SRC) : -len(".py")].replace(os.sep, ".")
            self.calls.append(
                Call(threading.get_ident(), module, code.co_qualname, "" if me is None else type(me).__name__)
            )


def tick(walk: Walk) -> None:
    """A tick, from the ticker to the entry in the history."""
    runs = threading.Semaphore(0)

    @distributed_cron("job", every=2, lock_ttl=30)
    def job() -> None:
        runs.release()

    with FireCron(job):
        for number in range(1 + TIMES):
            assert runs.acquire(timeout=_PATIENCE), "no tick came"
            walk.settle()
            if number:
                walk.end()
            walk.begin()


def hold(walk: Walk) -> None:
    """`with locks.hold()` around nothing."""
    locks = LockService()
    for number in range(1 + TIMES):
        walk.begin()
        with locks.hold(f"lock-{number}", ttl=10):
            pass
        if number:
            walk.end()
    locks.close()


def step(walk: Walk) -> None:
    """`run.step` in the body of a job, the first of its run but one."""

    @distributed_cron("job", "0 9 * * *", lock_ttl=30)
    def job(run: Run) -> None:
        run.step("warm", lambda: 1)
        walk.settle()
        walk.begin()
        run.step("counted", lambda: 1)
        walk.end()

    with FireCron(job) as crons:
        for _ in range(TIMES):
            walk.settle()
            crons.registry.trigger("job")


def term(walk: Walk) -> None:
    """A term of a leader: start, election, body, release, stop."""
    led = threading.Semaphore(0)

    @leader("line", ttl=30)
    def line(term: Term) -> None:
        led.release()
        term.stopping.wait()

    for number in range(1 + TIMES):
        crons = FireCron(line)
        walk.settle()
        walk.begin()
        with crons:
            assert led.acquire(timeout=_PATIENCE), "no term began"
            walk.settle()
        if number:
            walk.end()
        crons.locks.close()


def page(walk: Walk) -> None:
    """The first `GET /api/jobs` of a page."""

    @distributed_cron("job", "0 9 * * *")
    def job() -> None: ...

    for number in range(1 + TIMES):
        with FireCron(job) as crons:
            app = crons.status_app(open_to_all="read")
            walk.settle()
            walk.begin()
            assert asgi_call(app, "GET", "/api/jobs").status == HTTPStatus.OK
            if number:
                walk.end()


def status(walk: Walk) -> None:
    """`firecron status`, of a job that was declared."""

    @distributed_cron("job", "0 9 * * *")
    def job() -> None: ...

    with FireCron(job) as crons:
        crons.registry.trigger("job")
        walk.settle()
    for number in range(1 + TIMES):
        walk.begin()
        call("status")
        if number:
            walk.end()


WALKS: dict[str, Callable[[Walk], None]] = {walk.__name__: walk for walk in (tick, hold, step, term, page, status)}


def measure(name: str) -> Walk:
    """Walk in this process, which ticks from then on as an instance of production."""
    walk = Walk()
    try:
        WALKS[name](walk)
    finally:
        threading.setprofile(None)
        sys.setprofile(None)
    return walk


def median(walk: Walk) -> Counted:
    return Counted(*(median_low(figures) for figures in zip(*walk.taken, strict=True)))


def main() -> None:
    parser = argparse.ArgumentParser(description="What a reader passes through.")
    parser.add_argument("walks", nargs="*", help=f"some of {', '.join(WALKS)}; all without")
    parser.add_argument("--list", action="store_true", help="each call of the last of the walks, in order")
    parser.add_argument("--json", action="store_true", help="the figures in one line of JSON")
    chosen = parser.parse_args()
    logging.disable(logging.CRITICAL)
    os.environ["RUNTIME_INSTANCE"] = "production"
    found: dict[str, Counted] = {}
    for name in chosen.walks or WALKS:
        with Emulator() as emulator:
            os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = emulator.host
            os.environ["FIRECRON_DATABASE_URL"] = emulator.database_url(f"walk-{name}")
            walk = measure(name)
        found[name] = median(walk)
        if chosen.list:
            sys.stdout.writelines(f"{one.module:28} {one.name}\n" for one in walk.last)
    if chosen.json:
        print(json.dumps({name: dict(zip(COLUMNS, counted, strict=True)) for name, counted in found.items()}))
        return
    print(
        "| walk (warm, uncontended) | calls | modules | classes | types made | changes of module | parses of a node |"
    )
    print("|---|---|---|---|---|---|---|")
    for name, counted in found.items():
        print(f"| {name} | {' | '.join(map(str, counted))} |")


if __name__ == "__main__":
    main()
