"""One mutant, and the tests that reach it: does one of them fail?"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias

from tests.mutation.generate import Mutant
from tests.mutation.overlay import Overlay
from tests.mutation.plugin import CHOICE
from tests.mutation.reach import Reach
from tests.mutation.warm import How, Request, Warm

# Doubtful is what has passed the tests that are asked soon, while there are more.
Verdict: TypeAlias = Literal["killed", "doubtful", "survived", "unreached"]

# Most mutants fail at once: the first tests that are asked take so many seconds in the module's room, and so many
# elsewhere, in so many files.
_NEAR_SECONDS = 4.0
_FIRST_FILES = 6
_FIRST_SECONDS = 1.5
# What takes longer in all is not asked, but for the module's own tests: a mutant that only so many seconds of tests
# notice is as good as unnoticed.
_MOST_SECONDS = 25.0
# A test hangs that takes this much longer than otherwise. It may have been the machine that was busy, so it is asked
# again, and has this many times as long.
_SLOWER = 4
_GRACE = 8.0
_AGAIN = 2
# What has noticed the last mutants of a file will notice the next: so many tests, and so many seconds for each.
_LIKELY = 6
_LIKELY_SECONDS = 1.0
_VIRTUAL = "tests/unit/"

_NONE_COLLECTED = 5
FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - |$)", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Judged:
    """A mutant and what came of it: if it was killed, by which test."""

    mutant: Mutant
    verdict: Verdict
    by: str = ""


class Failure(NamedTuple):
    """A test that failed, and whether its time was over."""

    test: str
    hung: bool = False


class Trials:
    """Trials on a copy in this directory, with the tests in these places."""

    def __init__(self, directory: Path, places: Sequence[str] = ("tests",)) -> None:
        self.overlay = Overlay(directory)
        self._places = places
        self._warm: Warm | None = None
        # By file, the tests that have killed its last mutants, the last one last.
        self._killers: dict[str, list[str]] = {}

    def judge(self, mutant: Mutant, reach: Reach, is_doubtful: bool = False) -> Judged:
        """Run the tests that reach the mutant, with it in place: those that are asked soon, or, for one `is_doubtful`
        already, the others.
        """
        reaching = reach.tests(mutant.file, mutant.lines)
        if not reaching:
            return Judged(mutant, "unreached")
        soon, later = in_order(reaching, reach.seconds, Path(mutant.file))
        if is_doubtful:
            killer = self._try(mutant, later, reach)
        else:
            killers = self._killers.setdefault(mutant.file, [])
            known = set(reaching)
            likely = [test for test in reversed(killers) if test in known and reach.seconds[test] < _LIKELY_SECONDS]
            killer = self._try(mutant, list(dict.fromkeys(likely[:_LIKELY] + soon)), reach)
            if killer:
                killers[:] = [*(test for test in killers if test != killer), killer]
        return Judged(mutant, "killed" if killer else "doubtful" if later and not is_doubtful else "survived", killer)

    def _try(self, mutant: Mutant, tests: list[str], reach: Reach) -> str:
        """The first of these tests that fails with the mutant in place; empty if there is none."""
        if not tests:
            return ""
        # Before the mutant is there: it must not be what the tests are collected with.
        self._warm = self._warm or Warm(self.overlay, self._places)
        file = self.overlay.source / mutant.file
        before = file.read_bytes()
        # Also in the file, for the processes that tests start.
        after = mutant.apply(before)
        file.write_bytes(after)
        how: How = "whole"

        def forked(tests: list[str], patience: int) -> Failure:
            nonlocal how
            assert self._warm is not None
            limits = {test: patience * (_GRACE + _SLOWER * reach.seconds[test]) for test in tests}
            request = Request(file=str(file), before=before.decode(), after=after.decode(), tests=tests)
            how, failed, hung = self._warm.first_failed(request, limits)
            return Failure(failed, hung)

        def fresh(tests: list[str], patience: int) -> Failure:
            return _first_failed(self.overlay, tests, reach.seconds, patience)

        try:
            killer = first_killer(tests, forked)
            if how != "whole" and not killer:
                killer = first_killer(tests, fresh)
        finally:
            file.write_bytes(before)
        return killer

    def kill(self) -> None:
        """End what is under way."""
        self.overlay.kill()
        if self._warm is not None:
            self._warm.close()
            self._warm = None


def first_killer(tests: list[str], first_failed: Callable[[list[str], int], Failure]) -> str:
    """The first of these tests that fails, and not by chance; empty if there is none."""
    while tests:
        killer, hung = first_failed(tests, 1)
        if not killer:
            return ""
        # In virtual time nothing fails by chance; where processes run on a busy machine, it may.
        is_sure = not hung and (killer.startswith(_VIRTUAL) or killer not in tests)
        again = [killer] if killer in tests else tests
        if is_sure or first_failed(again, _AGAIN if hung else 1).test:
            return killer
        tests = tests[tests.index(again[-1]) + 1 :]
    return ""


def _first_failed(overlay: Overlay, tests: list[str], seconds: dict[str, float], patience: int) -> Failure:
    """The first of these tests that fails on the copy as it is; its name is empty if all pass."""
    choice = overlay.directory / "choice.json"
    choice.write_text(json.dumps(tests), "utf-8")
    files = list(dict.fromkeys(map(_file, tests)))
    usual = [seconds[test] for test in tests]
    # One test's time is over before that of all; but what hangs at the exit is seen by that only.
    limit = patience * (_GRACE + _SLOWER * max(usual))
    code = overlay.run(
        ["-x", "--timeout", str(limit), *files], patience * (2 * _GRACE + _SLOWER * sum(usual)), {CHOICE: str(choice)}
    )
    if code == _NONE_COLLECTED:
        raise RuntimeError(f"none of the tests was found: {tests[:5]}\n{overlay.output[-2000:]}")
    if code is None:
        return Failure("what hangs", hung=True)
    found = FAILED.search(overlay.output)
    if code == 0:
        return Failure("")
    return Failure(found[1], f"Timeout (>{limit}" in overlay.output) if found else Failure("what can't be imported")


def in_order(tests: Iterable[str], seconds: dict[str, float], source: Path) -> tuple[list[str], list[str]]:
    """The tests in the order in which they are asked: soon the module's own, some of its room and a few cheap others,
    later the rest, those of its room first. Each part is cheapest first.
    """
    own: list[str] = []
    near: list[str] = []
    first: list[str] = []
    rest: list[str] = []
    files: set[str] = set()
    spent, spent_near = 0.0, 0.0
    for test in tests:
        if re.search(rf"/test_{source.stem}(_\w+)?\.py::", test):
            own.append(test)
            continue
        is_near = f"/{source.parent.name}/" in test
        spent_near += seconds[test] * is_near
        if is_near and spent_near <= _NEAR_SECONDS:
            near.append(test)
            continue
        spent += seconds[test]
        if spent > _MOST_SECONDS:
            continue  # of what nearly all tests reach, the module's own may be among the slower ones
        if spent <= _FIRST_SECONDS and (_file(test) in files or len(files) < _FIRST_FILES):
            files.add(_file(test))
            first.append(test)
        else:
            rest.append(test)
    rest.sort(key=lambda test: f"/{source.parent.name}/" not in test)
    quick = [test for test in own if seconds[test] <= _LIKELY_SECONDS]
    parts = [quick, near, first, own]
    return list(dict.fromkeys(test for part in parts for test in _by_file(part))), _by_file(rest)


def _by_file(tests: list[str]) -> list[str]:
    """Each file's together, for the sake of their fixtures."""
    order = {file: number for number, file in reversed(list(enumerate(map(_file, tests))))}
    return sorted(tests, key=lambda test: order[_file(test)])


def _file(test: str) -> str:
    return test.partition("::")[0]
