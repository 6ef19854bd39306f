"""`firecron runs NAME`: what ran, where, how it ended and how long it took; and the ticks that did not run. Without a
name: the last run of each job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Annotated, TypeVar

import typer
from rich.text import Text

from firecron.cli.last_runs import LastRunsView
from firecron.cli.naming import database_of, remark_on
from firecron.cli.options import Interval, Json, OnlyName, Watch
from firecron.cli.output import Output, answering
from firecron.cli.run_lines import Paper, run_lines, unfinished_line
from firecron.cli.watching import View, watch
from firecron.errors import Denied
from firecron.lock.service import LockService
from firecron.ops.operator import Operator
from firecron.ops.views import Unfinished, inspect_unfinished
from firecron.runs.entry import Entry

T = TypeVar("T")

Most = Annotated[int, typer.Option("-n", min=1, max=1000, help="How many to show, the newest.")]

_MISSPELT = "a misspelt name looks the same: firecron runs lists the jobs"


@dataclass(frozen=True, slots=True)
class SeenRuns:
    """The history of a job, and what its lock adds: the tick whose run isn't in it yet. `denied` says why the lock
    couldn't be looked at.
    """

    runs: tuple[Entry, ...]
    unfinished: Unfinished | None
    has_lock: bool
    denied: str | None = None


def add_to(app: typer.Typer) -> None:
    app.command("runs", epilog="Example: firecron runs send-daily-digest -n 5")(runs)


def runs(
    name: OnlyName = None, most: Most = 20, watching: Watch = False, interval: Interval = 2.0, as_json: Json = False
) -> None:
    """What ran, where, how it ended, how long it took.

    The newest is last; a bar compares a duration with the longest that is shown. A run that is under way, or has died
    and isn't recorded yet, comes after them. Without NAME it is the last run of each job.
    """
    output = Output(as_json=as_json)
    with answering(output):
        operator = Operator(LockService())
        if name is None:
            _give(output, LastRunsView(operator, output), watching, interval)
            return
        seen = _give(output, RunsView(operator, output, name, most), watching, interval)
        if seen is not None and not seen.runs and not seen.has_lock:
            remark_on(output, operator, name)


def _give(output: Output, view: View[T], watching: bool, interval: float) -> T | None:
    """Show it, once or until Ctrl-C; what was seen, if that was once."""
    if watching:
        watch(output, view, interval)
        return None
    seen = view.look()
    output.give(view.value(seen), view.show(seen))
    return seen


class RunsView:
    """The history of a job."""

    is_newest_last = True

    def __init__(self, operator: Operator, output: Output, name: str, most: int) -> None:
        self._operator = operator
        self._output = output
        self._name = name
        self._most = most
        self._where = database_of(operator.settings)

    def look(self) -> SeenRuns:
        return _look(self._operator, self._name)

    def show(self, seen: SeenRuns) -> Text:
        return _shown(self._output, self._name, seen, self._most, self._where)

    def lines(self, last: SeenRuns | None, seen: SeenRuns) -> list[Text]:
        if last is None or not (last.runs or last.unfinished):
            return [self.show(seen)]
        lines = _lines(self._output, [run for run in seen.runs if run not in last.runs], seen.runs)
        return lines if seen.unfinished == last.unfinished else [*lines, *_unfinished(self._output, seen)]

    def value(self, seen: SeenRuns) -> object:
        return {
            "name": self._name,
            "counts": counts(seen.runs),
            "runs": [run.to_json() for run in seen.runs[-self._most :]],
            "unfinished": None if seen.unfinished is None else seen.unfinished.to_json(),
        }

    def essence(self, seen: SeenRuns) -> object:
        return seen.runs, seen.unfinished


def _look(operator: Operator, name: str) -> SeenRuns:
    """The lock before the history: so a run that ends meanwhile is in one of them at least."""
    try:
        lock = operator.look(name).view
    except Denied as error:
        # Who may only read gets no time from RTDB, and the history all the same.
        return SeenRuns(operator.runs(name), None, has_lock=True, denied=str(error))
    found = operator.runs(name)
    return SeenRuns(found, inspect_unfinished(lock, found), has_lock=lock.state != "absent")


def counts(found: Sequence[Entry]) -> dict[str, int]:
    """How often each outcome occurs; an entry for several ticks counts as so many."""
    counter: Counter[str] = Counter()
    for run in found:
        counter[run.outcome] += run.count
    return dict(sorted(counter.items()))


def _shown(output: Output, name: str, seen: SeenRuns, most: int, where: str) -> Text:
    found = seen.runs
    lines = [*_lines(output, found[-most:], found[-most:]), *_unfinished(output, seen)]
    if not lines:
        why = f"its lock has a node: firecron locks {name}" if seen.has_lock else _MISSPELT
        lines = [Text(f"There is no run of {name} in {where} ({why}).")]
    if found:
        lines.append(_total(found, min(most, len(found))))
    if seen.denied is not None:
        lines.append(Text(f"Whether a run is under way is not known: {seen.denied}", "dim"))
    return Text("\n").join(lines)


def _total(found: Sequence[Entry], number: int) -> Text:
    uncounted = {run.outcome for run in found if run.at_least}
    sums = counts(found).items()
    of_all = ", ".join(f"{'at least ' if outcome in uncounted else ''}{number} {outcome}" for outcome, number in sums)
    entries = f"{len(found)} {'entry' if len(found) == 1 else 'entries'}"
    return Text(f"{f'{number} of ' if number < len(found) else ''}{entries}: {of_all}", "dim")


def _unfinished(output: Output, seen: SeenRuns) -> list[Text]:
    if seen.unfinished is None:
        return []
    return [unfinished_line(seen.unfinished, datetime.now().astimezone(), _paper(output))]


def _lines(output: Output, wanted: Sequence[Entry], among: Sequence[Entry]) -> list[Text]:
    return run_lines(wanted, among, datetime.now().astimezone(), _paper(output))


def _paper(output: Output) -> Paper:
    width = output.out.width if output.out.is_terminal else None
    return Paper(width, has_blocks=output.out.encoding.lower().startswith("utf"))
