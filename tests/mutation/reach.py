"""Which tests reach which lines of the sources, and how long each takes: asked once for each state of both.

Files of tests run under coverage, some in a process, and are asked again when they change, or the sources do.
"""

from __future__ import annotations

import hashlib
import json
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from coverage import CoverageData
from coverage.exceptions import DataError
from tests.mutation.overlay import ROOT, Overlay, each
from tests.mutation.plugin import NOTES, TEST
from tests.mutation.source import without_words

# Files of tests that one process runs, and the seconds that it may take.
_TOGETHER = 12
_LONGEST = 900
# What starts coverage in each process. A file `.pth` of coverage does the same, where it is in `site-packages` itself.
_START = "import coverage\n\ncoverage.process_startup()\n"
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
        parts = [missing[first : first + _TOGETHER] for first in range(0, len(missing), _TOGETHER)]
        for done, _ in enumerate(each(parts, _ask, jobs, Overlay), 1):
            print(f"\rasking the tests what they reach: {done} of {len(parts)} parts", end="", flush=True)
        print()
    reach = Reach()
    for answer in asked.values():
        reach.add(json.loads(answer.read_text("utf-8")))
    return reach


def digest(files: Iterable[Path], read: Callable[[Path], bytes] = Path.read_bytes) -> str:
    """A hash of the names of these files and of what is read of them."""
    found = hashlib.sha1(usedforsecurity=False)
    for file in sorted(files):
        found.update(f"{file.relative_to(ROOT)}\n".encode() + read(file))
    return found.hexdigest()[:12]


def meaning(file: Path) -> bytes:
    """What a source does: a comment or a docstring changes no verdict."""
    return without_words(file.read_bytes()).encode()


def _ask(overlay: Overlay, tasks: list[tuple[Path, Path]]) -> None:
    with tempfile.TemporaryDirectory() as name:
        directory = Path(name)
        settings, notes, data = directory / "coveragerc", directory / "notes.json", directory / "data"
        Path(overlay.source, "sitecustomize.py").write_text(_START, "utf-8")
        settings.write_text(_SETTINGS.format(source=overlay.source, data=data, test=TEST), "utf-8")
        # The tests' bytecode is kept for the trials; that of the sources is there.
        keep = {"PYTHONDONTWRITEBYTECODE": ""}
        # From Python 3.14 on coverage would count by the interpreter's own events, which know nothing of contexts.
        core = {"COVERAGE_CORE": "ctrace"}
        variables = {"COVERAGE_PROCESS_START": str(settings), NOTES: str(notes), **core, **keep}
        overlay.run([str(file.relative_to(ROOT)) for file, _ in tasks], _LONGEST, variables)
        if not notes.exists():
            raise RuntimeError(f"the tests of {tasks} did not run:\n{overlay.output[-2000:]}")
        told = json.loads(notes.read_text("utf-8"))
        reached = _reached(directory, overlay.source)
        for file, answer in tasks:
            of_file = f"{file.relative_to(ROOT)}::"
            seconds = {test: spent for test, spent in told["passed"].items() if test.startswith(of_file)}
            others = [test for test in told["others"] if test.startswith(of_file)]
            answered = {"seconds": seconds, "others": others, "lines": _numbered(reached, list(seconds))}
            partial = answer.with_suffix(".partial")
            partial.write_text(json.dumps(answered), "utf-8")
            partial.replace(answer)


def _reached(directory: Path, source: Path) -> dict[str, dict[int, set[str]]]:
    """By file and line, the tests that reach it, from what coverage has written to the directory."""
    found: dict[str, dict[int, set[str]]] = {}
    for part in directory.glob("data.*"):
        measured = CoverageData(str(part))
        try:
            measured.read()
        except DataError:
            continue  # a test killed its child while the child wrote this
        for path in measured.measured_files():
            by_line = found.setdefault(str(Path(path).relative_to(source)), {})
            for line, tests in measured.contexts_by_lineno(path).items():
                by_line.setdefault(line, set()).update(tests)
    return found


def _numbered(reached: dict[str, dict[int, set[str]]], tests: list[str]) -> dict[str, dict[int, list[int]]]:
    """The same for these tests alone, by their numbers."""
    numbers = {test: number for number, test in enumerate(tests)}
    found: dict[str, dict[int, list[int]]] = {}
    for file, by_line in reached.items():
        for line, reached_by in by_line.items():
            if known := sorted(numbers[test] for test in reached_by if test in numbers):
                found.setdefault(file, {})[line] = known
    return found
