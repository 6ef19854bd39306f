"""What is wanted of the figures that the benchmarks measure.

A benchmark calls `at_most` or `at_least` for each figure that has a goal. Under `run.py` the goal is also written to a
file, a line of JSON each, from which `run.py` makes its table. A goal is not an assertion: a benchmark goes on where it
misses one.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

# The path of the file.
VARIABLE = "BENCH_GOALS"


@dataclass(frozen=True, slots=True)
class Goal:
    """A figure beside the figure that is wanted, which is the most that it may be, or (`is_least`) the least."""

    name: str
    measured: float
    wanted: float
    unit: str
    is_least: bool

    @property
    def is_met(self) -> bool:
        return self.measured >= self.wanted if self.is_least else self.measured <= self.wanted

    @property
    def bound(self) -> str:
        return f"{number(self.wanted)} at {'least' if self.is_least else 'most'}"


def at_most(name: str, measured: float, wanted: float, unit: str) -> None:
    _add(Goal(name, measured, wanted, unit, is_least=False))


def at_least(name: str, measured: float, wanted: float, unit: str) -> None:
    _add(Goal(name, measured, wanted, unit, is_least=True))


def leave_out(why: str) -> None:
    """Say that this machine can't measure any of the benchmark's goals."""
    print(f"nothing was measured: {why}")
    _write({"left_out": why})


def read(path: Path) -> list[Goal]:
    """Return the goals that were written to the file so far."""
    return [Goal(**line) for line in _lines(path) if "left_out" not in line]


def is_left_out(path: Path) -> bool:
    """Whether the benchmark has said that it can't measure anything."""
    return any("left_out" in line for line in _lines(path))


def table(goals: Iterable[Goal]) -> list[str]:
    """Return the lines of a table of goals."""
    rows = [("goal", "measured", "wanted", "unit")]
    rows += [(goal.name, number(goal.measured), goal.bound, goal.unit) for goal in goals]
    name, measured, wanted = (max(len(row[column]) for row in rows) for column in range(3))
    return [f"  {row[0]:{name}}  {row[1]:>{measured}}  {row[2]:>{wanted}}  {row[3]}".rstrip() for row in rows]


def number(value: float) -> str:
    """Return the figure as a text, with three digits or more."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def _add(goal: Goal) -> None:
    _write(asdict(goal))


def _write(line: dict[str, object]) -> None:
    path = os.environ.get(VARIABLE)
    if path is not None:
        with Path(path).open("a", encoding="utf-8") as file:
            print(json.dumps(line), file=file)


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]
