"""Which tests reach which lines of the sources, and how long each takes: asked once for each state of both.

Each file of tests runs alone, under coverage, and is asked again when it changes, or the sources do.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from coverage import CoverageData
from tests.mutation.overlay import ROOT, Overlay, each
from tests.mutation.plugin import NOTES, TEST

# Seconds that one file of tests may take.
_LONGEST = 600
_SETTINGS = """\
[run]
source = {source}
data_file = {data}
parallel = true
sigterm = true
context = ${{{test}-}}
"""


@dataclass
class Reach:
    """The seconds of each test, and the tests that reach a line of a file of src."""

    seconds: dict[str, float] = field(default_factory=dict)
    lines: dict[str, dict[int, set[str]]] = field(default_factory=dict)
    others: list[str] = field(default_factory=list)

    def tests(self, file: str, lines: Iterable[int]) -> list[str]:
        """The tests that reach one of these lines, cheapest first."""
        by_line = self.lines.get(file, {})
        found = {test for line in lines for test in by_line.get(line, ())}
        return sorted(found, key=lambda test: (self.seconds[test], test))

    def files(self, file: str, lines: Iterable[int]) -> tuple[Path, ...]:
        """The files of the tests that reach one of these lines."""
        return tuple(sorted({ROOT / test.partition("::")[0] for test in self.tests(file, lines)}))

    def add(self, notes: dict[str, object]) -> None:
        """Add what one file of tests has brought."""
        seconds, lines, others = notes["seconds"], notes["lines"], notes["others"]
        assert isinstance(seconds, dict)
        assert isinstance(lines, dict)
        assert isinstance(others, list)
        tests = list(seconds)
        self.seconds |= seconds
        self.others += others
        for file, by_line in lines.items():
            known = self.lines.setdefault(file, {})
            for line, numbers in by_line.items():
                known.setdefault(int(line), set()).update(tests[number] for number in numbers)


def collect(files: Iterable[Path], state: Path, jobs: int) -> Reach:
    """Ask the files of tests that were not asked yet, as they are; the answers are kept in the directory `state`."""
    asked = {file: state / f"{file.parent.name}-{file.stem}-{digest([file])}.json" for file in files}
    missing = [(file, answer) for file, answer in asked.items() if not answer.exists()]
    if missing:
        state.mkdir(parents=True, exist_ok=True)
        for done, _ in enumerate(each(missing, _ask, jobs, Overlay), 1):
            print(f"\rasking the tests what they reach: {done} of {len(missing)} files", end="", flush=True)
        print()
    reach = Reach()
    for answer in asked.values():
        reach.add(json.loads(answer.read_text("utf-8")))
    return reach


def digest(files: Iterable[Path]) -> str:
    """A hash of the names and texts of these files."""
    found = hashlib.sha1(usedforsecurity=False)
    for file in sorted(files):
        found.update(f"{file.relative_to(ROOT)}\n".encode() + file.read_bytes())
    return found.hexdigest()[:12]


def _ask(overlay: Overlay, task: tuple[Path, Path]) -> None:
    file, answer = task
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        settings, notes, data = directory / "coveragerc", directory / "notes.json", directory / "data"
        settings.write_text(_SETTINGS.format(source=overlay.source, data=data, test=TEST), "utf-8")
        # The tests' bytecode is kept for the trials; that of the sources is there.
        keep = {"PYTHONDONTWRITEBYTECODE": ""}
        variables = {"COVERAGE_PROCESS_START": str(settings), NOTES: str(notes), **keep}
        overlay.run([str(file.relative_to(ROOT))], _LONGEST, variables)
        if not notes.exists():
            raise RuntimeError(f"the tests of {file} did not run:\n{overlay.output[-2000:]}")
        told = json.loads(notes.read_text("utf-8"))
        lines = _lines(directory, overlay.source, list(told["passed"]))
    partial = answer.with_suffix(".partial")
    partial.write_text(json.dumps({"seconds": told["passed"], "others": told["others"], "lines": lines}), "utf-8")
    partial.replace(answer)


def _lines(directory: Path, source: Path, tests: list[str]) -> dict[str, dict[int, list[int]]]:
    """By file and line, the numbers of the tests that reach it, from what coverage has written to the directory."""
    numbers = {test: number for number, test in enumerate(tests)}
    found: dict[str, dict[int, set[int]]] = {}
    for part in directory.glob("data.*"):
        measured = CoverageData(str(part))
        measured.read()
        for path in measured.measured_files():
            for line, reached_by in measured.contexts_by_lineno(path).items():
                if known := {numbers[test] for test in reached_by if test in numbers}:
                    by_line = found.setdefault(str(Path(path).relative_to(source)), {})
                    by_line.setdefault(line, set()).update(known)
    return {file: {line: sorted(reached_by) for line, reached_by in by_line.items()} for file, by_line in found.items()}
