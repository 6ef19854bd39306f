"""`firecron runs` without a name: the last run of each job, and the runs that are under way."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from rich.text import Text

from firecron.cli.naming import database_of
from firecron.cli.output import Output
from firecron.cli.run_lines import Paper, run_lines, unfinished_line
from firecron.ops.operator import LastRun, Operator, SeenLast


class LastRunsView:
    """A view of the last run of every job."""

    is_newest_last = False

    def __init__(self, operator: Operator, output: Output) -> None:
        self._operator = operator
        self._output = output
        self._nothing = Text(f"There is no run in {database_of(operator.settings)}.")

    def look(self) -> SeenLast:
        return self._operator.last_runs()

    def show(self, seen: SeenLast) -> Text:
        lines = _blocks(self._output, seen.jobs) or [self._nothing]
        if seen.denied is not None:
            lines.append(Text(f"It is not known which runs are under way: {seen.denied}", "dim"))
        return Text("\n").join(lines)

    def lines(self, last: SeenLast | None, seen: SeenLast) -> list[Text]:
        if last is None:
            return [self.show(seen)]
        return _blocks(self._output, [job for job in seen.jobs if job not in last.jobs])

    def value(self, seen: SeenLast) -> object:
        return _value(seen)

    def essence(self, seen: SeenLast) -> object:
        return seen.jobs


def _blocks(output: Output, jobs: Sequence[LastRun]) -> list[Text]:
    """Return a block of text per job: on a terminal, its name above its lines; elsewhere, its name before each line."""
    is_terminal = output.out.is_terminal
    paper = Paper(output.out.width - 2 if is_terminal else None, has_bars=False)
    today = datetime.now().astimezone()
    runs = [job.run for job in jobs if job.run is not None]
    shown = iter(run_lines(runs, (), today, paper))
    blocks: list[Text] = []
    for job in jobs:
        lines = [next(shown)] if job.run is not None else []
        lines += [unfinished_line(job.unfinished, today, paper)] if job.unfinished is not None else []
        lines = lines or [Text("no run is recorded", "dim")]
        if is_terminal:
            parts = [part for line in lines for part in line.split("\n")]
            blocks.append(Text("\n  ").join([Text(job.name, "bold"), *parts]))
        else:
            blocks += [Text(f"{job.name}: ").append(line) for line in lines]
    return blocks


def _value(seen: SeenLast) -> object:
    return {
        "jobs": [
            {
                "name": job.name,
                "last": None if job.run is None else job.run.to_json(),
                "unfinished": None if job.unfinished is None else job.unfinished.to_json(),
            }
            for job in seen.jobs
        ]
    }
