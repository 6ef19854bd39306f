"""One mutant, and the tests that reach it: does one of them fail?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, TypeAlias

from tests.mutation.generate import Mutant
from tests.mutation.overlay import Overlay
from tests.mutation.plugin import CHOICE
from tests.mutation.reach import Reach
from tests.mutation.warm import How, Request, Warm

Verdict: TypeAlias = Literal["killed", "survived", "unreached"]

# Most mutants fail at once: the first tests that are asked come from so many files, and take so many seconds.
_FIRST_FILES = 6
_FIRST_SECONDS = 3.0
# What takes longer in all is not asked, but for the module's own tests: a mutant that only so many seconds of tests
# notice is as good as unnoticed.
_MOST_SECONDS = 25.0
# A test hangs that takes this much longer than otherwise.
_SLOWER = 4
_GRACE = 8.0
_VIRTUAL = "tests/unit/"

_NONE_COLLECTED = 5
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and what came of it: if it was killed, by which test."""

    mutant: Mutant
    verdict: Verdict
    by: str = ""


class Trials:
    """Trials on a copy in this directory, with the tests in these places."""

    def __init__(self, directory: Path, places: Sequence[str] = ("tests",)) -> None:
        self.overlay = Overlay(directory)
        self._places = places
        self._warm: Warm | None = None

    def judge(self, mutant: Mutant, reach: Reach) -> Judged:
        """Run the tests that reach the mutant, with it in place."""
        tests = in_order(reach.tests(mutant.file, mutant.lines), reach.seconds, Path(mutant.file).stem)
        if not tests:
            return Judged(mutant, "unreached")
        # Before the mutant is there: it must not be what the tests are collected with.
        self._warm = self._warm or Warm(self.overlay, self._places)
        file = self.overlay.source / mutant.file
        before = file.read_bytes()
        # Also in the file, for the processes that tests start.
        after = mutant.apply(before)
        file.write_bytes(after)
        how: How = "whole"

        def forked(tests: list[str]) -> str:
            nonlocal how
            assert self._warm is not None
            limits = {test: _GRACE + _SLOWER * reach.seconds[test] for test in tests}
            request = Request(file=str(file), before=before.decode(), after=after.decode(), tests=tests)
            how, failed = self._warm.first_failed(request, limits)
            return failed

        def fresh(tests: list[str]) -> str:
            return _first_failed(self.overlay, tests, reach.seconds)

        try:
            killer = _killer(tests, forked)
            if how != "whole" and not killer:
                killer = _killer(tests, fresh)
        finally:
            file.write_bytes(before)
        return Judged(mutant, "killed" if killer else "survived", killer)

    def kill(self) -> None:
        """End what is under way."""
        self.overlay.kill()
        if self._warm is not None:
            self._warm.close()
            self._warm = None


def _killer(tests: list[str], first_failed: Callable[[list[str]], str]) -> str:
    """The first of these tests that fails, and not by chance; empty if there is none."""
    while tests:
        killer = first_failed(tests)
        # In virtual time nothing fails by chance; where processes run on a busy machine, it may.
        if killer.startswith(_VIRTUAL) or killer not in tests or first_failed([killer]):
            return killer
        tests = tests[tests.index(killer) + 1 :]
    return ""


def _first_failed(overlay: Overlay, tests: list[str], seconds: dict[str, float]) -> str:
    """The first of these tests that fails on the copy as it is; empty if all pass."""
    choice = overlay.directory / "choice.json"
    choice.write_text(json.dumps(tests), "utf-8")
    files = list(dict.fromkeys(map(_file, tests)))
    usual = [seconds[test] for test in tests]
    # One test's time is over before that of all; but what hangs at the exit is seen by that only.
    arguments = ["-x", "--timeout", str(_GRACE + _SLOWER * max(usual)), *files]
    code = overlay.run(arguments, 2 * _GRACE + _SLOWER * sum(usual), {CHOICE: str(choice)})
    if code == _NONE_COLLECTED:
        raise RuntimeError(f"none of the tests was found: {tests[:5]}\n{overlay.output[-2000:]}")
    if code is None:
        return "what hangs"
    found = _FAILED.search(overlay.output)
    return "" if code == 0 else found[1] if found else "what can't be imported"


def in_order(tests: Iterable[str], seconds: dict[str, float], module: str) -> list[str]:
    """The tests in the order in which they are asked: a few cheap ones, the module's own, and then the rest, cheapest
    first.
    """
    first: list[str] = []
    own: list[str] = []
    rest: list[str] = []
    files: set[str] = set()
    spent = 0.0
    for test in tests:
        if re.search(rf"/test_{module}(_\w+)?\.py::", test):
            own.append(test)
            continue
        spent += seconds[test]
        if spent > _MOST_SECONDS:
            break
        if spent <= _FIRST_SECONDS and (_file(test) in files or len(files) < _FIRST_FILES):
            files.add(_file(test))
            first.append(test)
        else:
            rest.append(test)
    return [*_by_file(first), *_by_file(own), *_by_file(rest)]


def _by_file(tests: list[str]) -> list[str]:
    """Each file's together, for the sake of their fixtures."""
    order = {file: number for number, file in reversed(list(enumerate(map(_file, tests))))}
    return sorted(tests, key=lambda test: order[_file(test)])


def _file(test: str) -> str:
    return test.partition("::")[0]
