"""Starts processes that lock (`lock_child`), and talks to them; none outlives its test."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any

import firecron
import rtdb_emulator

PROGRAM = Path(__file__).with_name("lock_child.py")

# Seconds. Nothing here takes a tenth of it; a child that hangs is killed then, so that the test fails.
BOUND = 40.0


class Channel:
    """Commands to a process, and its answers; `tell` and `hear` apart, or both in one."""

    def __init__(self, commands: IO[str], answers: IO[str]) -> None:
        self._commands = commands
        self._answers = answers

    def tell(self, do: str, **arguments: object) -> None:
        print(json.dumps({"do": do, **arguments}), file=self._commands, flush=True)

    def hear(self) -> dict[str, Any]:
        line = self._answers.readline()
        assert line, "the process ended without an answer"
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, do: str, **arguments: object) -> dict[str, Any]:
        self.tell(do, **arguments)
        return self.hear()


class Child(Channel):
    """A process of its own; `forked` is the channel of the one that it forks."""

    def __init__(self, process: subprocess.Popen[str], forked: Channel) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        super().__init__(process.stdin, process.stdout)
        self.process = process
        self.forked = forked


@contextmanager
def children(number: int) -> Iterator[list[Child]]:
    """So many processes, all ready."""
    with ExitStack() as ending:
        started = [ending.enter_context(_child()) for _ in range(number)]
        for child in started:
            child.hear()
        yield started


@contextmanager
def _child() -> Iterator[Child]:
    sources = [str(Path(package.__file__ or "").parents[1]) for package in (firecron, rtdb_emulator)]
    # Its own errors show in the test's output. What a run around the tests says about itself is no business of its.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    environment["PYTHONPATH"] = os.pathsep.join(sources)
    with ExitStack() as ending:
        (reads, commands), (answers, writes) = os.pipe(), os.pipe()
        forked = Channel(ending.enter_context(os.fdopen(commands, "w")), ending.enter_context(os.fdopen(answers, "r")))
        process = subprocess.Popen(
            [sys.executable, str(PROGRAM), str(reads), str(writes)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env=environment,
            pass_fds=(reads, writes),
        )
        os.close(reads)
        os.close(writes)
        ending.enter_context(process)
        ending.callback(process.kill)
        watchdog = threading.Timer(BOUND, process.kill)
        watchdog.daemon = True
        watchdog.start()
        ending.callback(watchdog.cancel)
        yield Child(process, forked)
