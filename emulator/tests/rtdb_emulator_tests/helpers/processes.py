"""Child processes for the tests that need real ones."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from importlib.metadata import entry_points
from pathlib import Path
from typing import Protocol, TypeAlias

import pytest

import rtdb_emulator

# Nothing here takes a tenth of it; a child that hangs is killed then, so that the test fails and not the whole run.
BOUND = 40.0

PLUGIN = "rtdb_emulator.pytest_plugin"
INSTALLED = any(entry.value == PLUGIN for entry in entry_points(group="pytest11"))

Process: TypeAlias = "subprocess.Popen[str]"
Finished: TypeAlias = "subprocess.CompletedProcess[str]"


class Run(Protocol):
    def __call__(self, *command: str) -> Finished: ...


class RunPytest(Protocol):
    def __call__(self, text: str, *arguments: str) -> Finished: ...


class Start(Protocol):
    def __call__(self, *command: str, bound: float = ...) -> Process: ...


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Start]:
    """Starts this interpreter with these arguments, in a directory of the test; none outlives the test."""
    # So that a child finds the package where this process has it, also if it isn't installed.
    package = str(Path(rtdb_emulator.__file__).parents[1])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [package, os.environ.get("PYTHONPATH")])))
    # What the run around the tests says about itself is no business of a child's.
    for name in [name for name in os.environ if name.startswith(("PYTEST_", "COV_"))]:
        monkeypatch.delenv(name)
    with ExitStack() as cleanup:

        def begin(*command: str, bound: float = BOUND) -> Process:
            process = subprocess.Popen(
                [sys.executable, *command],
                cwd=tmp_path,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            cleanup.enter_context(process)
            cleanup.callback(process.kill)
            watchdog = threading.Timer(bound, process.kill)
            cleanup.callback(watchdog.cancel)
            watchdog.start()
            return process

        yield begin


@pytest.fixture
def run(start: Start) -> Run:
    """Runs this interpreter with these arguments until it ends."""

    def complete(*command: str) -> Finished:
        process = start(*command)
        stdout, stderr = process.communicate()
        return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)

    return complete


@pytest.fixture
def run_pytest(run: Run, tmp_path: Path) -> RunPytest:
    """Runs pytest, with the plugin, on a file with this text."""

    def complete(text: str, *arguments: str) -> Finished:
        Path(tmp_path, "test_it.py").write_text(text, "utf-8")
        plugin = [] if INSTALLED else ["-p", PLUGIN]
        # These take as long to import as pytest.
        unused = [f"-pno:{name}" for name in ("cacheprovider", "hypothesispytest", "anyio", "timeout")]
        return run("-m", "pytest", "-q", *unused, "-W", "error", *plugin, *arguments)

    return complete
