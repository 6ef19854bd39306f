"""What was found out already, so that a run that was broken off goes on: one line of JSON a mutant.

A verdict holds for what its own source does: comments, docstrings and other sources may change. A survivor is tried
again when a file of tests that reach it has changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

from tests.mutation.generate import Mutant
from tests.mutation.trial import Judged, Verdict


class Ledger:
    """The verdicts in this file. `source` returns the state of a mutant's source, and `tests` that of its tests."""

    def __init__(self, file: Path, source: Callable[[Mutant], str], tests: Callable[[Mutant], str]) -> None:
        self._file = file
        self._source = source
        self._tests = tests
        self._known: dict[str, tuple[Verdict, str]] = {}
        self._killers: dict[str, str] = {}
        for line in file.read_text("utf-8").splitlines() if file.exists() else []:
            key, verdict, asked, by = json.loads(line)
            self._known[key], self._killers[key] = (verdict, asked), by

    def verdict(self, mutant: Mutant) -> Verdict | None:
        """What came of this mutant; None if it is to be tried."""
        verdict, asked = self._known.get(self._key(mutant), (None, ""))
        return verdict if verdict == "killed" or asked == self._tests(mutant) else None

    def killers(self) -> set[str]:
        """The tests that have killed a mutant, first of all that were asked."""
        return {by for key, by in self._killers.items() if self._known[key][0] == "killed"}

    def note(self, evaluated: Judged) -> None:
        """Write it down."""
        key, asked = self._key(evaluated.mutant), self._tests(evaluated.mutant)
        self._known[key], self._killers[key] = (evaluated.verdict, asked), evaluated.by
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([key, evaluated.verdict, asked, evaluated.by]) + "\n")

    def _key(self, mutant: Mutant) -> str:
        return f"{self._source(mutant)} {mutant}"
