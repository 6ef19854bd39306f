"""Copies of the sources, which tests run against in processes of their own: the work tree is never changed."""

from __future__ import annotations

import compileall
import os
import queue
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import Protocol, TypeVar

from rtdb_emulator_tests.helpers.processes import INSTALLED, PLUGIN

ROOT = Path(__file__).parents[2]

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Worker(Protocol):
    """What has a copy, and can be ended."""

    def kill(self) -> None: ...


Hand = TypeVar("Hand", bound=Worker)


class Overlay:
    """The copy, in this directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.source = directory / "src"
        self._started: list[subprocess.Popen[bytes]] = []
        shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__"))
        # By the hash of the source: a changed file may have the size and, in seconds, the time of the one before it.
        compileall.compile_dir(self.source, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)

    def put(self, file: str, text: bytes) -> None:
        """Have this text in a file of src."""
        (self.source / file).write_bytes(text)

    def run(self, arguments: list[str], seconds: float, variables: Mapping[str, str]) -> int | None:
        """Run pytest against the copy; returns its exit code, or None where it took longer than that."""
        process = self.start(arguments, variables)
        try:
            return process.wait(seconds)
        except subprocess.TimeoutExpired:
            return None
        finally:
            self._end(process)

    def start(
        self, arguments: list[str], variables: Mapping[str, str], inherited: Sequence[int] = ()
    ) -> subprocess.Popen[bytes]:
        """Start pytest against the copy; it inherits these file descriptors."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))},
            "PYTHONPATH": os.pathsep.join(map(str, (self.source, ROOT / "emulator", ROOT / "emulator" / "tests"))),
            "PYTHONDONTWRITEBYTECODE": "1",
            # What a mutant makes fail is no example for the runs of the code itself.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.directory / "hypothesis"),
            "HYPOTHESIS_PROFILE": "first-example",
            **variables,
        }
        plugins = ["-p", "tests.mutation.plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]
        plugins += [] if INSTALLED else ["-p", PLUGIN]
        base = f"--basetemp={self.directory / 'temporary'}"
        with Path(self.directory, "output").open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", base, *plugins, *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
                pass_fds=inherited,
            )
        self._started.append(process)
        return process

    def kill(self) -> None:
        """End all runs, with what their tests have started."""
        for process in list(self._started):
            self._end(process)

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process in self._started:
            self._started.remove(process)

    @property
    def output(self) -> str:
        """What the last run printed."""
        return (self.directory / "output").read_text("utf-8", "replace")


def each(
    tasks: Iterable[Task], work: Callable[[Hand, Task], Answer], jobs: int, make: Callable[[Path], Hand]
) -> Iterator[Answer]:
    """What `work` returns for each task, as it comes: `jobs` at a time, each with what `make` makes of a directory."""
    idle: queue.SimpleQueue[Hand] = queue.SimpleQueue()

    def run(task: Task) -> Answer:
        hand = idle.get()
        try:
            return work(hand, task)
        finally:
            idle.put(hand)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, ThreadPoolExecutor(jobs) as pool:
        hands = [make(Path(directory, str(number))) for number in range(jobs)]
        for hand in hands:
            idle.put(hand)
        futures = [pool.submit(run, task) for task in tasks]
        try:
            for done in as_completed(futures):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for hand in hands:
                hand.kill()
