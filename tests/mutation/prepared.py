"""Runs of pytest that are forked from one that has imported all but the tests, and what these test.

pytest and what it loads take as long to import as most mutants' tests take to fail. The code is imported by each run
for itself, so a mutant may be anywhere, also in what runs at the import.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from contextlib import suppress
from pathlib import Path

from tests.mutation.overlay import Overlay

# The environment says where the plugin reads requests from and writes answers to.
PIPES = "MUTATION_PREPARED"

# Seconds for what is no test.
_READY = 120.0


class Prepared:
    """Such a pytest, on a copy of the sources in this directory."""

    def __init__(self, directory: Path) -> None:
        self.overlay = Overlay(directory)
        requests, outgoing = os.pipe()
        self._requests = os.fdopen(outgoing, "w", encoding="utf-8")
        self._answers, answers = os.pipe()
        self._read = b""
        self._child = 0
        # A test's end comes by a thread, which ends the process: an alarm may come in the middle of pytest's own code.
        limit = ("--timeout", "5", "--timeout-method", "thread")
        arguments = ["-p", "tests.mutation.preparing", "-x", *limit, "tests"]
        self.overlay.start(arguments, {PIPES: f"{requests} {answers}"}, inherited=(requests, answers))
        os.close(requests)
        os.close(answers)

    def run(self, arguments: list[str], seconds: float) -> int | None:
        """Run these tests, up to the first that fails; returns the exit code, or None where it took longer."""
        self._requests.write(json.dumps(arguments) + "\n")
        self._requests.flush()
        self._child = int(self._line(_READY) or 0)
        assert self._child, f"no run has begun:\n{self.overlay.output[-2000:]}"
        code = self._line(seconds)
        if code is None:
            self._end_child()
            self._line(_READY)
        self._child = 0
        return None if code is None else int(code)

    def kill(self) -> None:
        """End what is under way."""
        self.overlay.kill()
        self._end_child()
        with suppress(OSError):
            self._requests.close()
            os.close(self._answers)

    def _end_child(self) -> None:
        if self._child:
            with suppress(ProcessLookupError):
                os.killpg(self._child, signal.SIGKILL)

    def _line(self, seconds: float) -> str | None:
        """The next line; None if there is none for that long."""
        until = time.monotonic() + seconds
        with selectors.DefaultSelector() as selector:
            selector.register(self._answers, selectors.EVENT_READ)
            while b"\n" not in self._read:
                if not selector.select(max(0.0, until - time.monotonic())):
                    return None
                more = os.read(self._answers, 65_536)
                if not more:
                    raise RuntimeError(
                        f"the pytest that runs are forked from has ended:\n{self.overlay.output[-2000:]}"
                    )
                self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()
