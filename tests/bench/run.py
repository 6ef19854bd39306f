"""All benchmarks, one after another, and then a table of the goals that were not met: `make bench`.

    python tests/bench/run.py [--json] [NAME ...]

Each benchmark is a process of its own, which is stopped when its time is over. All of them together take nine and a
half minutes at most. With `--json`, standard output is one JSON object, and what the benchmarks print goes to standard
error.

The exit code says whether everything was measured: 1 if a benchmark failed, was stopped, or ended without a row of
`rows.txt`, which names each goal. The rows that are missing are told at once, and again at the end. A goal that is
missed is told, but it is no failure, because other programs on the machine may be the reason.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import goals

# The seconds that each needs on a quiet machine of two cores. The long ones are last, because a busy machine has no
# time for what comes at the end.
BENCHMARKS = {
    "imports": 8,
    "commands": 6,
    "verdict": 2,
    "told": 10,
    "holds": 6,
    "steps": 18,
    "lock": 22,
    "handover": 32,
    "page": 20,
    "leaders": 26,
    "schedule": 16,
    "many": 12,
    "schedules": 28,
    "fleet": 67,
    "lags": 122,
    "emulator": 165,
}
# These run only if they are named. They compare, and have no goals.
BY_NAME = {"peers": 280}
# For all of them; what they have started may take ten seconds more to end.
ALL = 560
_TO_END = 5
ROWS = Path(__file__).with_name("rows.txt")


def main() -> int:
    parser = argparse.ArgumentParser(prog="run.py", description="Measure what firecron and the emulator cost.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    every = f"{', '.join(BENCHMARKS)} (default: these), {', '.join(BY_NAME)}"
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"benchmarks: {every}")
    asked = parser.parse_args()
    if unknown := set(asked.names) - BENCHMARKS.keys() - BY_NAME.keys():
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: name some of {every}")
    started = time.monotonic()
    found: dict[str, list[goals.Goal]] = {}
    problems: dict[str, str] = {}
    names = list(dict.fromkeys(asked.names or BENCHMARKS))
    output = sys.stderr if asked.json else sys.stdout
    for at, name in enumerate(names):
        seconds = limit(names[at:], started + ALL - time.monotonic())
        print(f"\n--- {name}, within {seconds:.0f} s", file=output, flush=True)
        found[name], problem = measure(name, seconds, output)
        if problem is not None:
            problems[name] = problem
            print(told(name, problem), file=output, flush=True)
    took = time.monotonic() - started
    if asked.json:
        print(json.dumps(as_json(found, problems, took), indent=2))
    else:
        print("\n".join(["", *summary(found, problems, took)]))
    return 1 if problems else 0


def limit(names: Sequence[str], left: float) -> float:
    """Return how many seconds the first of these benchmarks may take, when so many are left for all of them.

    It has twice what it needs on a quiet machine, as far as the others keep half of what they need there.
    """
    first, *others = ((BENCHMARKS | BY_NAME)[name] for name in names)
    return max(0.0, min(2 * first, left - sum(others) / 2))


def measure(name: str, seconds: float, output: Any) -> tuple[list[goals.Goal], str | None]:
    """Run a benchmark. Return the goals that it measured, and what is wrong with them, if anything is."""
    with tempfile.NamedTemporaryFile() as file:
        script = str(Path(__file__).with_name(f"{name}.py"))
        environment = {**os.environ, goals.VARIABLE: file.name, "PYTHONUNBUFFERED": "1"}
        # Its own group, so that what it has started ends with it.
        process = subprocess.Popen([sys.executable, script], stdout=output, env=environment, start_new_session=True)
        try:
            code = process.wait(seconds)
            end_of_it = None if code == 0 else f"it failed with exit code {code}"
        except subprocess.TimeoutExpired:
            end_of_it = f"it was stopped after {seconds:.0f} s"
        finally:
            end(process)
        found = goals.read(Path(file.name))
        is_left_out = goals.is_left_out(Path(file.name))
    return found, problem_of(end_of_it, [] if is_left_out else rows(name), [goal.name for goal in found])


def rows(name: str) -> list[str]:
    """Return the names of a benchmark's goals."""
    lines = [line.partition(": ") for line in ROWS.read_text("utf-8").splitlines()]
    return [row for benchmark, _, row in lines if benchmark == name]


def problem_of(end_of_it: str | None, wanted: Sequence[str], found: Sequence[str]) -> str | None:
    """Return what is wrong with a benchmark that measured these rows; None if nothing is."""
    missing = [row for row in wanted if row not in found]
    unknown = [row for row in found if row not in wanted]
    parts = [] if end_of_it is None else [end_of_it]
    if missing:
        parts.append(f"{len(missing)} of its {len(wanted)} rows are missing: {'; '.join(missing)}")
    if unknown:
        parts.append(f"add to rows.txt: {'; '.join(unknown)}")
    return ", ".join(parts) or None


def told(name: str, problem: str) -> str:
    return f"{name} was not measured to its end: {problem}."


def end(process: subprocess.Popen[bytes]) -> None:
    """End a benchmark and what it has started, if anything is left."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        with suppress(ProcessLookupError):
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(_TO_END - 1)


def summary(found: dict[str, list[goals.Goal]], problems: dict[str, str], took: float) -> list[str]:
    """Return the lines of the table at the end."""
    every = [goal for some in found.values() for goal in some]
    unmet = [goal for goal in every if not goal.is_met]
    lines = [f"{len(every)} goals were measured in {took:.0f} s."]
    lines = [*(told(name, problem) for name, problem in problems.items()), *lines]
    if unmet:
        lines += [f"{len(unmet)} of them were not met:", *goals.table(unmet)]
    elif every and not problems:
        lines.append("all goals met")
    return lines


def as_json(found: dict[str, list[goals.Goal]], problems: dict[str, str], took: float) -> dict[str, object]:
    return {
        "seconds": round(took, 1),
        "goals": [
            {"benchmark": name, **asdict(goal), "is_met": goal.is_met} for name, some in found.items() for goal in some
        ],
        "problems": problems,
    }


if __name__ == "__main__":
    sys.exit(main())
