"""What was found out already, so that a run that was broken off goes on: one line of JSON a mutant.

It holds for one state of the sources. A survivor is tried again when a file of tests that reach it has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.mutation.generate import Mutant
from tests.mutation.trial import Judged, Verdict


class Ledger:
    """The verdicts in this file; `tests` returns the state of the tests that reach a mutant."""

    def __init__(self, file: Path, tests: Callable[[Mutant], str]) -> None:
        self._file = file
        self._tests = tests
        self._known: dict[str, tuple[Verdict, str]] = {}
        for line in file.read_text("utf-8").splitlines() if file.exists() else []:
            mutant, verdict, asked, _ = json.loads(line)
            self._known[mutant] = verdict, asked

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """What came of this mutant; None if it is to be tried."""
        verdict, asked = self._known.get(str(mutant), (None, ""))
        return verdict if verdict == "killed" or asked == self._tests(mutant) else None

    def note(self, judged: Judged) -> None:
        """Write it down."""
        asked = self._tests(judged.mutant)
        self._known[str(judged.mutant)] = judged.verdict, asked
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([str(judged.mutant), judged.verdict, asked, judged.by]) + "\n")
