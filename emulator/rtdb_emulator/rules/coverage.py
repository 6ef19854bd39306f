"""Coverage: how often each rule was evaluated, and to what.

A rule is covered by its outcomes: one that depends on the request has two, true and not true (false, or broken by a
value that it can't work with), a constant has one. The share of the outcomes that were seen is the percentage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias, final

from rtdb_emulator.rules.evaluate import Rule
from rtdb_emulator.rules.syntax import show

# The counts of one rule: true, false, and broken.
Counts: TypeAlias = list[int]

_COLUMN = {True: 0, False: 1, None: 2}


@dataclass(frozen=True, slots=True)
class Row:
    """One rule and its counts.

    Args:
        rule: The rule.
        counts: How often it was true, false, and broken.
    """

    rule: Rule
    counts: Counts

    @property
    def seen(self) -> int:
        """The number of its outcomes that were seen."""
        if self.rule.is_constant:
            return int(any(self.counts))
        return (self.counts[0] > 0) + (self.counts[1] + self.counts[2] > 0)

    @property
    def possible(self) -> int:
        """The number of its outcomes: 1 for a constant rule, else 2."""
        return 1 if self.rule.is_constant else 2

    def as_json(self) -> dict[str, object]:
        """Return the row as `/.inspect/coverage.json` shows it."""
        line, column = self.rule.place
        true, false, error = self.counts
        return {
            "path": "/" + "/".join(self.rule.path),
            "rule": self.rule.kind,
            "line": line,
            "column": column,
            "expression": show(self.rule.expression),
            "true": true,
            "false": false,
            "error": error,
        }


@final
class Coverage:
    """The counts of one database's rules. `total` counts the same outcomes as well."""

    __slots__ = ("_counts", "_rules", "_total")

    def __init__(self, rules: Sequence[Rule], total: Coverage | None = None) -> None:
        self._rules = rules
        self._total = total
        self._counts: list[Counts] = [[0, 0, 0] for _ in rules]

    def count(self, rule: Rule, outcome: bool | None) -> None:
        self._counts[rule.number][_COLUMN[outcome]] += 1
        if self._total is not None:
            self._total.count(rule, outcome)

    def add(self, counts: Sequence[Counts]) -> None:
        """Add the counts of another process, of the same rules."""
        for mine, theirs in zip(self._counts, counts, strict=True):
            mine[:] = [ours + others for ours, others in zip(mine, theirs, strict=True)]

    @property
    def counts(self) -> list[Counts]:
        return [list(counts) for counts in self._counts]

    @property
    def rows(self) -> list[Row]:
        """All rules, in the order of the rules' text."""
        rows = map(Row, self._rules, self.counts)
        return sorted(rows, key=lambda row: row.rule.place)


def percent(rows: Sequence[Row]) -> float:
    """Return the percentage of the outcomes that were seen; 100 without rules."""
    possible = sum(row.possible for row in rows)
    return 100.0 * sum(row.seen for row in rows) / possible if possible else 100.0
