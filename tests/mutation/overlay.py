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
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from pathlib import Path
from py_compile import PycInvalidationMode
from typing import TypeVar

from tests.conftest import INSTALLED, PLUGIN

ROOT = Path(__file__).parents[2]

Task = TypeVar("Task")
Answer = TypeVar("Answer")


class Overlay:
    """The copy, in this directory."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self.source = directory / "src"
        self._process: subprocess.Popen[bytes] | None = None
        shutil.copytree(ROOT / "src", self.source, ignore=shutil.ignore_patterns("__pycache__"))
        # By the hash of the source: a changed file may have the size and, in seconds, the time of the one before it.
        compileall.compile_dir(self.source, quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)

    def put(self, file: str, text: bytes) -> None:
        """Have this text in a file of src."""
        (self.source / file).write_bytes(text)

    def run(self, arguments: list[str], seconds: float, variables: Mapping[str, str]) -> int | None:
        """Run pytest against the copy; returns its exit code, or None where it took longer than that."""
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "COV"))},
            "PYTHONPATH": os.pathsep.join([str(self.source), str(ROOT / "emulator")]),
            "PYTHONDONTWRITEBYTECODE": "1",
            # What a mutant makes fail is no example for the runs of the code itself.
            "HYPOTHESIS_STORAGE_DIRECTORY": str(self.directory / "hypothesis"),
            **variables,
        }
        plugins = ["-p", "tests.mutation.plugin", "-p", "no:cacheprovider", "-p", "no:xdist"]
        plugins += [] if INSTALLED else ["-p", PLUGIN]
        base = f"--basetemp={self.directory / 'temporary'}"
        with Path(self.directory, "output").open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "pytest", "-q", base, *plugins, *arguments],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
            try:
                return self._process.wait(seconds)
            except subprocess.TimeoutExpired:
                return None
            finally:
                self.kill()
                self._process.wait()

    def kill(self) -> None:
        """End the run, if there is one, with what its tests have started."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, signal.SIGKILL)

    @property
    def output(self) -> str:
        """What the last run printed."""
        return (self.directory / "output").read_text("utf-8", "replace")


def each(tasks: Iterable[Task], work: Callable[[Overlay, Task], Answer], jobs: int) -> Iterator[Answer]:
    """What `work` answers to each task, as it comes: so many at a time, each of them on a copy of its own."""
    copies: queue.SimpleQueue[Overlay] = queue.SimpleQueue()

    def run(task: Task) -> Answer:
        copy = copies.get()
        try:
            return work(copy, task)
        finally:
            copies.put(copy)

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as directory, ThreadPoolExecutor(jobs) as pool:
        overlays = [Overlay(Path(directory, str(number))) for number in range(jobs)]
        for overlay in overlays:
            copies.put(overlay)
        futures = [pool.submit(run, task) for task in tasks]
        try:
            for done in as_completed(futures):
                yield done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)
            for overlay in overlays:
                overlay.kill()
