"""Starts programs that tick, and reads what they wrote; none outlives its test.

Each is a process group of its own, so that the workers of a server end with it whatever happens.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from tests.process.checker import History, Line, Ran, findings, runs_of, tally

import firecron
import rtdb_emulator
from rtdb_emulator.pytest_plugin import Rtdb

HERE = Path(__file__).parent

# Seconds. Nothing here takes a third of it; what hangs is killed then, so that its test fails.
BOUND = 40.0

# A fleet whose crashes take seconds.
SETTINGS = {
    "RUNTIME_INSTANCE": "production",
    "FIRECRON_MARGIN": "0.2",
    "FIRECRON_HEARTBEAT": "1",
    "FIRECRON_HISTORY_LIMIT": "1000",
    "FIRECRON_SHUTDOWN_GRACE": "5",
}


class Process:
    """A program that was started."""

    def __init__(self, popen: subprocess.Popen[bytes], log: Path) -> None:
        self.popen = popen
        self.pid = popen.pid
        self._log = log

    @property
    def log(self) -> str:
        """What it wrote to standard output and error."""
        return self._log.read_text("utf-8", "replace")

    def send(self, number: signal.Signals) -> None:
        os.kill(self.pid, number)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end, and wait for it; returns its exit code."""
        self.send(number)
        return self.wait()

    def wait(self) -> int:
        return self.popen.wait(BOUND)

    def freeze(self) -> None:
        """Stop it in its tracks; returns when it stands still."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.pid, os.WSTOPPED)


class Ticking:
    """The programs of one test, and their journal."""

    def __init__(self, rtdb: Rtdb, folder: Path, ending: ExitStack) -> None:
        self.rtdb = rtdb
        self.folder = folder
        self._journal = folder / "journal"
        self._journal.touch()
        self._ending = ending
        self._number = 0

    def start(self, *command: str, jobs: list[dict[str, Any]] | None = None, **environment: str) -> Process:
        """This interpreter with these arguments; in the environment the jobs, and what else it shall find there."""
        # What the run around the tests says about itself is no business of a child's.
        inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
        sources = [str(Path(package.__file__ or "").parents[1]) for package in (firecron, rtdb_emulator)]
        self._number += 1
        log = self.folder / f"log-{self._number}"
        with log.open("wb") as output:
            popen = subprocess.Popen(
                [sys.executable, *command],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                start_new_session=True,
                env={
                    **inherited,
                    **SETTINGS,
                    "PYTHONPATH": os.pathsep.join([str(HERE.parents[1]), *sources]),
                    "PYTHONUNBUFFERED": "1",
                    "TICK_JOURNAL": str(self._journal),
                    **({} if jobs is None else {"TICK_JOBS": json.dumps(jobs)}),
                    **environment,
                },
            )
        process = Process(popen, log)
        watchdog = threading.Timer(BOUND, _kill, [process])
        watchdog.daemon = True
        watchdog.start()
        self._ending.callback(_end, process, watchdog)
        return process

    def instance(self, *jobs: dict[str, Any], **environment: str) -> Process:
        """A plain program with these jobs."""
        return self.start("-m", "tests.process.tick_child", jobs=list(jobs), **environment)

    def lines(self, what: str | None = None, **fields: object) -> list[Line]:
        """The lines of the journal that say this."""
        *complete, _ = self._journal.read_text("utf-8").split("\n")
        lines: list[Line] = [json.loads(line) for line in complete]
        return [
            line
            for line in lines
            if what in (None, line["what"]) and all(line.get(key) == value for key, value in fields.items())
        ]

    def wait_for(self, number: int = 1, what: str | None = None, **fields: object) -> list[Line]:
        """Return once so many lines of the journal say this."""
        until(lambda: len(self.lines(what, **fields)) >= number, f"{number} lines {what} {fields}")
        return self.lines(what, **fields)

    def wait_until_up(self, *processes: Process) -> None:
        """Return once they have started, or one of them has ended instead."""

        def is_up(process: Process) -> bool:
            assert process.popen.poll() is None, f"it ended at once:\n{process.log}"
            return bool(self.lines("up", pid=process.pid))

        until(lambda: all(map(is_up, processes)), "processes that are up")

    def history(self, job: str) -> History:
        found = self.rtdb.get(f"/cron-runs/{job}")
        return found if isinstance(found, dict) else {}

    def lock(self, job: str) -> Mapping[str, Any]:
        found = self.rtdb.get(f"/cron-locks/{job}")
        return found if isinstance(found, dict) else {}

    def instances(self) -> set[str]:
        """The processes that say that they are alive."""
        found = self.rtdb.get("/cron-instances")
        return {*found} - {"clock"} if isinstance(found, dict) else set()

    def wait_for_instances(self, number: int) -> set[str]:
        until(lambda: len(self.instances()) == number, f"{number} instances in {self.instances()}")
        return self.instances()

    def wait_for_entry(self, job: str, slot: str) -> Mapping[str, Any]:
        """Return once the history has something to say of a slot."""
        until(lambda: slot in self.history(job), f"{job} {slot} in the history")
        return self.history(job)[slot]

    def assert_released_after(self, end: Line) -> None:
        """The lock was held until the body's last line, which comes 0.3 s (`cleanup`) after its cancellation; half of
        that is left to the instance's idea of the time.
        """
        assert self.lock(end["job"])["releasedAt"] > end["wall"] - 150

    def assert_kept(self, job: str, *, reruns: bool = False) -> list[Ran]:
        """The promise was kept; returns the runs."""
        runs, history = runs_of(job, self.lines()), self.history(job)
        print(f"{job}: {tally(runs, history)}")
        found = findings(runs, history, reruns=reruns)
        assert not found, f"{job}: {found}\n{runs}\n{history}"
        assert runs, f"{job} never ran"
        return runs


@contextmanager
def ticking(rtdb: Rtdb, folder: Path) -> Iterator[Ticking]:
    """Programs for one test."""
    with ExitStack() as ending:
        yield Ticking(rtdb, folder, ending)


def until(is_so: Callable[[], bool], what: str) -> None:
    """Return once it is so; AssertionError if it takes too long."""
    end = time.monotonic() + BOUND / 2
    while not is_so():
        assert time.monotonic() < end, f"it never came to this: {what}"
        time.sleep(0.01)


def _kill(process: Process) -> None:
    """Kill the whole group, also if its first process has ended."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def _end(process: Process, watchdog: threading.Timer) -> None:
    watchdog.cancel()
    _kill(process)
    process.popen.wait()
    # Shown with a test that fails.
    print(f"--- process {process.pid} ended with {process.popen.returncode}; it said:\n{process.log}")
