"""All benchmarks, one after another, and then a table of the goals that were not met: `make bench`.

    python tests/bench/run.py [--json] [NAME ...]

Each benchmark is a process of its own, which is stopped when its time is over. All of them together take ten minutes at
most. With `--json`, standard output is one JSON object, and what the benchmarks print goes to standard error.

The exit code says whether everything was measured: 1 if a benchmark failed or was stopped. A goal that is missed is
told, but it is no failure, because other programs on the machine may be the reason.
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
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any

import goals

# The most seconds that each may take. A quiet machine needs about half.
BENCHMARKS = {
    "imports": 30,
    "lock": 90,
    "handover": 120,
    "steps": 30,
    "schedule": 90,
    "lags": 240,
    "fleet": 240,
    "leaders": 90,
    "verdict": 20,
    "told": 40,
    "page": 60,
    "emulator": 180,
}
ALL = 600
_TO_END = 5


def main() -> int:
    parser = argparse.ArgumentParser(prog="run.py", description="Measure what firecron and the emulator cost.")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("names", metavar="NAME", nargs="*", help=f"benchmarks: {', '.join(BENCHMARKS)} (default: all)")
    asked = parser.parse_args()
    if unknown := set(asked.names) - BENCHMARKS.keys():
        parser.error(f"there is no benchmark {', '.join(sorted(unknown))}: name some of {', '.join(BENCHMARKS)}")
    started = time.monotonic()
    found: dict[str, list[goals.Goal]] = {}
    problems: dict[str, str] = {}
    for name in asked.names or BENCHMARKS:
        seconds = min(BENCHMARKS[name], started + ALL - time.monotonic())
        found[name], problem = measure(name, seconds, sys.stderr if asked.json else sys.stdout)
        if problem is not None:
            problems[name] = problem
    took = time.monotonic() - started
    if asked.json:
        print(json.dumps(as_json(found, problems, took), indent=2))
    else:
        print("\n".join(["", *summary(found, problems, took)]))
    return 1 if problems else 0


def measure(name: str, seconds: float, output: Any) -> tuple[list[goals.Goal], str | None]:
    """Run a benchmark. Return the goals that it measured, and why it did not come to its end, if it did not."""
    if seconds <= _TO_END:
        return [], "there was no time left for it"
    print(f"\n--- {name}", file=output, flush=True)
    with tempfile.NamedTemporaryFile() as file:
        script = str(Path(__file__).with_name(f"{name}.py"))
        environment = {**os.environ, goals.VARIABLE: file.name, "PYTHONUNBUFFERED": "1"}
        # Its own group, so that what it has started ends with it.
        process = subprocess.Popen([sys.executable, script], stdout=output, env=environment, start_new_session=True)
        try:
            code = process.wait(seconds - _TO_END)
            problem = None if code == 0 else f"it failed with exit code {code}"
        except subprocess.TimeoutExpired:
            problem = f"it was stopped after {seconds - _TO_END:.0f} s"
        finally:
            end(process)
        return goals.read(Path(file.name)), problem


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
    lines += [f"{name} was not measured to its end: {problem}." for name, problem in problems.items()]
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
