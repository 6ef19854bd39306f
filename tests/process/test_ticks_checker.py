"""The checker of the other tests here: what it says of histories that were made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.process.checker import Ran, findings, runs_of, tally


def slot(second: int) -> str:
    return f"2026-11-18T09:00:{second:02}Z"


def ran(second: int, **changes: Any) -> Ran:
    """A run that is as it should be, but for the changes."""
    good = Ran(slot(second), 1, 100 + second, 7, started=10 * second, ended=10 * second + 5, lost=False)
    return replace(good, **changes)


def entry(second: int, outcome: str = "succeeded", **changes: Any) -> dict[str, Any]:
    return {"outcome": outcome, "fence": 100 + second, "attempt": 1, **changes}


RUNS = [ran(0), ran(1), ran(2)]
HISTORY = {slot(second): entry(second) for second in range(3)}


def test_a_good_history_has_no_findings() -> None:
    """Each slot run once, with rising fences and one outcome: nothing to say."""
    assert findings(RUNS, HISTORY) == []


def test_what_was_not_run_may_be_recorded_one_by_one_or_counted() -> None:
    """Skipped and missed slots have an outcome and no run; an entry with a count stands for several."""
    history = {slot(0): entry(0), slot(1): {"outcome": "skipped"}, slot(5): {"outcome": "missed", "count": 4}}
    assert findings([ran(0)], history) == []
    assert tally([ran(0)], history).outcomes == {"succeeded": 1, "skipped": 1, "missed": 4}


def test_a_rerun_is_one_more_attempt_whose_outcome_counts() -> None:
    """With reruns a killed run and its successor are two runs of one slot."""
    again = ran(0, attempt=2, fence=101, started=20, ended=25)
    assert findings([ran(0, ended=None), again], {slot(0): entry(1, attempt=2)}, reruns=True) == []


def test_a_run_that_was_told_of_its_loss_may_go_on_beside_its_successor() -> None:
    """A zombie's overlap is no finding if its lease was lost, nor is a killed run's silence."""
    zombie = ran(0, ended=99, lost=True)
    assert findings([zombie, ran(1)], {slot(0): entry(0, "lost"), slot(1): entry(1)}) == []
    assert findings([ran(0, ended=None), ran(1)], {slot(0): entry(0, "abandoned"), slot(1): entry(1)}) == []


@pytest.mark.parametrize(
    ("runs", "history", "reruns", "finding"),
    [
        ([*RUNS, ran(2, fence=103, started=30, ended=31)], HISTORY, False, "was started 2 times"),
        ([*RUNS, ran(2, fence=103, started=30, ended=31)], HISTORY, True, "twice for one claim"),
        (
            [ran(0, attempt=2), ran(0, fence=101, started=20, ended=21)],
            {slot(0): entry(1)},
            True,
            "out of order",
        ),
        ([ran(0), ran(1, ended=25), ran(2)], HISTORY, False, "began while"),
        ([ran(0), ran(1), ran(2, fence=101)], HISTORY | {slot(2): entry(1)}, False, "the fence of"),
        ([ran(0), ran(1), ran(2, fence=50)], HISTORY | {slot(2): entry(-50)}, False, "the fence of"),
        (RUNS, {slot(0): entry(0), slot(2): entry(2)}, False, "09:00:01Z has 0 outcomes"),
        (RUNS, {slot(0): entry(0), slot(1): entry(1)}, False, "09:00:02Z has 0 outcomes"),
        (RUNS, HISTORY | {slot(4): {"outcome": "missed", "count": 3}}, False, "09:00:02Z has 2 outcomes"),
        (RUNS, HISTORY | {"2026-11-18T09:00:01.500Z": entry(1)}, False, "is no slot"),
        (RUNS, HISTORY | {slot(1): entry(1, "skipped")}, False, "recorded as skipped, and was started"),
        (RUNS, HISTORY | {slot(1): entry(1, "missed")}, False, "recorded as missed, and was started"),
        ([ran(0), ran(2)], HISTORY, False, "was never started"),
        (RUNS, HISTORY | {slot(1): entry(1, "odd")}, False, "recorded as 'odd'"),
        (RUNS, HISTORY | {slot(1): entry(2)}, False, "is that of fence 102"),
        (RUNS, HISTORY | {slot(1): entry(1, attempt=2)}, False, "attempt 2, not of 101, attempt 1"),
        (
            [ran(0, lost=True, ended=30), ran(0, attempt=2, fence=105, started=20, ended=25)],
            {slot(0): entry(0, "lost")},
            True,
            "is that of fence 100, attempt 1, not of 105, attempt 2",
        ),
        ([ran(0), ran(1, ended=None), ran(2)], HISTORY, False, "its last run never ended"),
        (RUNS, HISTORY | {slot(1): entry(1, "abandoned")}, False, "came to its end"),
    ],
)
def test_each_kind_of_broken_promise_is_found(
    runs: list[Ran], history: dict[str, Any], reruns: bool, finding: str
) -> None:
    """A made-up history that breaks one rule has a finding that says which."""
    found = findings(runs, history, reruns=reruns)
    assert any(finding in sentence for sentence in found), found


def test_duplicates_are_counted() -> None:
    """Two starts for one claim are one duplicate."""
    assert tally([*RUNS, ran(2, started=30)], HISTORY).duplicates == 1
    assert str(tally(RUNS, HISTORY)) == "slots 3, runs 3, duplicates 0: succeeded 3"


def test_runs_are_read_in_the_order_of_the_journal() -> None:
    """A run has the places of its lines; one that was killed has no end, and other jobs' lines don't count."""
    known = {"job": "job", "slot": slot(0), "attempt": 1, "fence": 5, "pid": 7}
    lines = [
        {"what": "up", "pid": 7},
        {"what": "start", "run": "a", **known},
        {"what": "start", "run": "b", **known, "job": "other"},
        {"what": "start", "run": "c", **known, "slot": slot(1)},
        {"what": "end", "run": "a", **known, "lost": True},
    ]
    assert runs_of("job", lines) == [
        Ran(slot(0), 1, 5, 7, started=1, ended=4, lost=True),
        Ran(slot(1), 1, 5, 7, started=3, ended=None, lost=False),
    ]
