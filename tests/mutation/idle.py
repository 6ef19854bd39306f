"""Which tests guard nothing that can be seen here: `make mutations ARGS=--idle`, after `ARGS=--all`.

A test is idle if no mutant was killed by it first, and no line of src is reached by it alone. That is a reason to read
it, not to delete it: another test may have come first because it is cheaper, and a promise may deserve a test of its
own. Only the tests that reach a module with mutants are judged, and none that reaches the command line or the
demonstration, which have no mutants.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from pathlib import Path

from tests.mutation.reach import Reach


class Killers:
    """By mutant, the test that has killed it first, in this file; of listed mutants, which are tried each time."""

    def __init__(self, file: Path) -> None:
        self._file = file

    def note(self, mutant: object, by: str) -> None:
        """Write it down."""
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            file.write(json.dumps([str(mutant), by]) + "\n")

    def known(self) -> dict[str, str]:
        """What is written down."""
        lines = self._file.read_text("utf-8").splitlines() if self._file.exists() else []
        return dict(map(json.loads, lines))


def idle(reach: Reach, killers: Collection[str], mutated: Collection[str], apart: Collection[str]) -> list[str]:
    """The idle tests, by file. `mutated` are the files that have mutants, `apart` folders that have none."""
    judged: set[str] = set()
    spared = set(killers)
    for file, by_line in reach.lines.items():
        is_apart = not set(Path(file).parts).isdisjoint(apart)
        for tests in by_line.values():
            if file in mutated:
                judged |= tests
            if is_apart or len(tests) == 1:
                spared |= tests
    return sorted(judged - spared)


def report(idle_tests: list[str], reach: Reach, untried: int) -> list[str]:
    """Lines for people: how many of each file's tests are idle, and which."""
    by_file: dict[str, list[str]] = {}
    for test in idle_tests:
        file, _, name = test.partition("::")
        by_file.setdefault(file, []).append(name)
    every = [test.partition("::")[0] for test in reach.seconds]
    lines: list[str] = []
    for file, names in sorted(by_file.items(), key=lambda item: (-len(item[1]), item[0])):
        lines += [f"{len(names)} of {every.count(file)}  {file}", *(f"    {name}" for name in names)]
    lines.append(f"{len(idle_tests)} of {len(every)} tests are the first to kill no mutant and reach no line alone")
    if untried:
        lines.append(f"{untried} mutants were not tried, so some of these tests may kill one: ARGS=--all tries them")
    return lines
