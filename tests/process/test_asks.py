"""Takers of asks as real processes, that are killed and frozen: an ask begins once at most, and never goes without a
reason.
"""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import firecron
import rtdb_emulator
from firecron.lock.asks import AskedRun, Asks, new_ask
from firecron.locks import LockService
from rtdb_emulator.pytest_plugin import Rtdb

PROGRAM = Path(__file__).with_name("ask_child.py")
BOUND = 40.0
ASK = "/cron-asks/job"


class Taker:
    """A process that takes asks, and what it says."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.said: queue.Queue[str] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.put(line.strip())

    def began(self) -> list[str]:
        """The keys of the runs that have begun here so far."""
        return [line.removeprefix("began ") for line in list(self.said.queue) if line.startswith("began ")]


@contextmanager
def taker(valid: int) -> Iterator[Taker]:
    sources = [str(Path(package.__file__ or "").parents[1]) for package in (firecron, rtdb_emulator)]
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    environment["PYTHONPATH"] = os.pathsep.join(sources)
    with ExitStack() as ending:
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(valid)], stdout=subprocess.PIPE, text=True, env=environment
        )
        ending.enter_context(process)
        ending.callback(process.kill)
        watchdog = threading.Timer(BOUND, process.kill)
        watchdog.daemon = True
        watchdog.start()
        ending.callback(watchdog.cancel)
        found = Taker(process)
        assert found.said.get(timeout=BOUND) == "ready"
        yield found


def until(is_so: Callable[[], bool], what: str) -> None:
    ends = time.monotonic() + BOUND
    while not is_so():
        assert time.monotonic() < ends, f"it never came to this: {what}"
        time.sleep(0.02)


def ask(service: LockService) -> AskedRun:
    database = service.database
    made = new_ask("job", "ann@laptop", database.now(database.deadline()), None, "run", None)
    assert Asks(database).make(made) is None
    return made


def lapses(rtdb: Rtdb) -> list[str]:
    acts: Any = rtdb.get("/cron-acts") or {}
    return [act["why"].rpartition("not run: ")[2] for act in acts.values() if act["act"] == "lapse"]


def test_a_taker_that_is_killed_after_it_has_taken_leaves_a_reason(rtdb: Rtdb) -> None:
    """Killed before its reply comes, it has begun nothing. Nobody else begins either; once the ask is over another
    instance removes it, and says why. The next ask is run by that one.
    """
    service = LockService()
    with taker(4_000) as dying, rtdb.faults.hold(path=ASK, method="PUT", moment="after", nth=2) as taking:
        ask(service)
        taking.wait(BOUND)
        dying.process.kill()
        dying.process.wait()
        taken: Any = rtdb.get(ASK)
        assert taken["takenBy"]
    with taker(4_000) as heir:
        until(lambda: rtdb.get(ASK) is None, "the ask that is over is removed")
        until(lambda: bool(lapses(rtdb)), "the reason is told")
        assert lapses(rtdb) == ["the instance that took it died, or could not begin in time"]
        again = ask(service)
        until(lambda: bool(heir.began()), "the next ask begins")
        assert (dying.began(), heir.began()) == ([], [f"job:manual:{again.id}"])


def test_a_frozen_taker_leaves_the_ask_to_another(rtdb: Rtdb) -> None:
    """Frozen once it has the lock, and before it takes the ask, its lease runs out; another instance runs what is asked
    for. It wakes, finds the ask gone, and begins nothing.
    """
    service = LockService()
    with taker(300_000) as frozen, rtdb.faults.hold(path=ASK, method="PUT", nth=2) as taking:
        made = ask(service)
        taking.wait(BOUND)
        frozen.process.send_signal(signal.SIGSTOP)
        with taker(300_000) as other:
            until(lambda: bool(other.began()), "another one runs it")
            until(lambda: rtdb.get(ASK) is None, "the ask is gone")
            frozen.process.send_signal(signal.SIGCONT)
            taking.release()
            more = ask(service)
            until(lambda: len(other.began() + frozen.began()) == 2, "the next ask begins")
            assert sorted(other.began() + frozen.began()) == sorted([f"job:manual:{made.id}", f"job:manual:{more.id}"])
            assert other.began()[0] == f"job:manual:{made.id}"
    assert lapses(rtdb) == []
