"""Trials without an import: a pytest that has collected all tests, and forks for each mutant.

A fresh process takes seconds to import and to collect; most trials take milliseconds. What runs at the import can't be
changed so. Where the tests of a request all pass, the mutant has survived only if it was put there "whole".
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Literal, TypeAlias, TypedDict, cast, get_args

from tests.mutation.overlay import Overlay

# The environment says where the plugin reads requests from and writes answers to, and where the sources are.
PIPES = "MUTATION_PIPES"
SOURCE = "MUTATION_SOURCE"

# Seconds for the collection, and for what is no test.
_READY = 300.0

How: TypeAlias = Literal["whole", "late", "not"]


class Request(TypedDict):
    """What to try: a file, its text without and with the mutant, and the tests to run."""

    file: str
    before: str
    after: str
    tests: list[str]


class Warm:
    """A pytest that runs the tests in these places against this copy."""

    def __init__(self, overlay: Overlay, places: Sequence[str]) -> None:
        requests, outgoing = os.pipe()
        self._requests = os.fdopen(outgoing, "w", encoding="utf-8")
        self._answers, answers = os.pipe()
        self._read = b""
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._answers, selectors.EVENT_READ)
        # What is about mutants would try mutants.
        arguments = ["-p", "tests.mutation.serving", "--tb=no", "--ignore-glob=*mutation*", *places]
        variables = {PIPES: f"{requests} {answers}", SOURCE: str(overlay.source)}
        overlay.start(arguments, variables, inherited=(requests, answers))
        os.close(requests)
        os.close(answers)
        if self._line(_READY) != "ready":
            raise RuntimeError(f"the tests can't be collected:\n{overlay.output[-2000:]}")

    def first_failed(self, request: Request, limits: dict[str, float]) -> tuple[How, str, bool]:
        """How the mutant was put there, the first test that failed, or took longer than its limit, and whether it was
        that.
        """
        self._requests.write(json.dumps(request) + "\n")
        self._requests.flush()
        child = self._line(_READY)
        how = self._line(_READY)
        if child is None or how not in get_args(How):
            raise RuntimeError(f"a trial of {request['file']} could not begin: {child} {how}")
        test, limit, failed, hung = "", _READY, None, False
        while (line := self._line(limit)) != "end":
            if line is None:
                # It is the test that hangs, or what comes after all of them.
                with suppress(ProcessLookupError):
                    os.killpg(int(child), signal.SIGKILL)
                limit, hung = _READY, True
            elif line.startswith("> "):
                test = line[2:]
                limit = limits[test]
            else:
                failed, limit = line.removeprefix("! ").removeprefix("passed"), _READY
        # One that ends its process, or hangs, says no more.
        return cast(How, how), test if failed is None else failed, hung

    def close(self) -> None:
        """Ask nothing more."""
        self._selector.close()
        self._requests.close()
        os.close(self._answers)

    def _line(self, seconds: float) -> str | None:
        """The next line; None if there is none for that long."""
        until = time.monotonic() + seconds
        while b"\n" not in self._read:
            if not self._selector.select(max(0.0, until - time.monotonic())):
                return None
            more = os.read(self._answers, 65_536)
            if not more:
                raise RuntimeError("the pytest that trials are forked from has ended")
            self._read += more
        line, _, self._read = self._read.partition(b"\n")
        return line.decode()
