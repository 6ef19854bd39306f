"""One mutant, and the tests that reach it: does one of them fail?"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tests.mutation.generate import Mutant
from tests.mutation.overlay import Overlay
from tests.mutation.plugin import CHOICE
from tests.mutation.reach import Reach

Verdict: TypeAlias = Literal["killed", "survived", "unreached"]

# Most mutants fail at once: the first tests that are asked come from so many files, and take so many seconds.
_FIRST_FILES = 6
_FIRST_SECONDS = 3.0
# What takes longer in all is not asked: a mutant that only minutes of tests notice is as good as unnoticed.
_MOST_SECONDS = 40.0
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


def judge(overlay: Overlay, mutant: Mutant, reach: Reach) -> Judged:
    """Run the tests that reach the mutant, with it in place."""
    verdict: Verdict = "unreached"
    source = (overlay.source / mutant.file).read_bytes()
    overlay.put(mutant.file, mutant.apply(source))
    try:
        for tests in batches(reach.tests(mutant.file, mutant.lines), reach.seconds):
            verdict = "survived"
            if killer := _killer(overlay, tests, reach.seconds):
                return Judged(mutant, "killed", killer)
    finally:
        overlay.put(mutant.file, source)
    return Judged(mutant, verdict)


def _killer(overlay: Overlay, tests: list[str], seconds: dict[str, float]) -> str:
    """The first of these tests that fails, and not by chance; empty if there is none."""
    while tests:
        killer = _first_failed(overlay, tests, seconds)
        # In virtual time nothing fails by chance; where processes run on a busy machine, it may.
        if killer.startswith(_VIRTUAL) or killer not in tests or _first_failed(overlay, [killer], seconds):
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


def batches(tests: Iterable[str], seconds: dict[str, float]) -> Iterator[list[str]]:
    """The tests in the order in which they are asked, cheapest first: a few, and then the rest."""
    first: list[str] = []
    rest: list[str] = []
    files: set[str] = set()
    spent = 0.0
    for test in tests:
        spent += seconds[test]
        if spent > _MOST_SECONDS:
            break
        if spent <= _FIRST_SECONDS and (_file(test) in files or len(files) < _FIRST_FILES):
            files.add(_file(test))
            first.append(test)
        else:
            rest.append(test)
    for batch in (first, rest):
        if batch:
            # Each file's together, for the sake of their fixtures.
            order = {file: number for number, file in reversed(list(enumerate(map(_file, batch))))}
            yield sorted(batch, key=lambda test: order[_file(test)])


def _file(test: str) -> str:
    return test.partition("::")[0]
