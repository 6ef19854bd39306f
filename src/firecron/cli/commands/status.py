"""`firecron status`: all jobs at a glance. `firecron check`: whether somebody has to be told of one of them.

Both read the catalogue, so they need no program of the jobs. On a terminal the status is a row for each job, and below
it what its schedule means and what is to be done; elsewhere it is a line for each job.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Annotated, TypeAlias

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from firecron.base.instants import to_milliseconds, to_text
from firecron.base.texts import plain
from firecron.cli.contexts import here
from firecron.cli.lines import RUN_STYLES, distance, hold_lines, took
from firecron.cli.names import complete_job
from firecron.cli.options import Interval, Json, Watch, database_of, no_such
from firecron.cli.output import Exit, Failure, Output, answering, with_remedy
from firecron.cli.watching import Changes, View, give, news
from firecron.cron.words import in_words
from firecron.lock.database import Database
from firecron.ops.health import JobVerdict, VerdictWord, split_names
from firecron.ops.holds import HoldView
from firecron.ops.remedy import Remedy
from firecron.ops.status import NewestEntries, Nodes, Report, Row, SeenJobs, Status
from firecron.runs.entry import Entry
from firecron.settings import Settings

Jobs: TypeAlias = Annotated[
    list[str] | None,
    typer.Argument(metavar="JOB", help="Names of jobs; all jobs unless given.", autocompletion=complete_job),
]
Expect: TypeAlias = Annotated[
    list[str] | None,
    typer.Option("--expect", metavar="NAME", help="Jobs that have to be there: one, or several with commas."),
]


def status(jobs: Jobs = None, watching: Watch = False, interval: Interval = 2.0, as_json: Json = False) -> None:
    """Show all jobs: whether each is as it should be, and why not.

    A row has the job's verdict, its next tick, and how its last run ended, how long that took and where it was. Below
    are the schedule and its meaning. Jobs come from the catalogue, which their programs write when they start. Of jobs
    that are named or need a hand the history is read, too.
    """
    with answering(as_json=as_json) as output:
        database = Database()
        changes = Changes(database, database.paths.locks, database.paths.jobs)
        give(output, StatusView(database, output, jobs or ()), changes, interval, watching=watching)


def check(jobs: Jobs = None, expect: Expect = None, as_json: Json = False) -> None:
    """Say which jobs are unattended, stuck, late or failing.

    A line for each. Exits with 1 if there is one, or no job at all, with 69 if the database can't be reached. Also
    prints warnings, such as a pause of more than a day, which don't count. Of a job that is muted it says nothing. For
    scripts and monitoring: it reads five nodes, and no history.
    """
    with answering(as_json=as_json) as output:
        expected = split_names(expect or ())
        if expect and not expected:
            raise Failure("--expect names no job: give names, as --expect digest,import", Exit.USAGE)
        database = Database()
        status = Status(database)
        nodes = status.read()
        _check_names(nodes, database.settings, jobs or ())
        # Of a job that is named, that it was taken out is no good news.
        named = [*(jobs or ()), *expected]
        report = Report(tuple(status.verdicts(nodes))).expecting(named)
        if jobs:
            shown = set(map(plain, named))
            report = Report(tuple(verdict for verdict in report.verdicts if verdict.job in shown))
        verdicts = sorted(report.verdicts, key=rank)
        found = [one for one in verdicts if one.mute is None and (one.is_alarm or one.is_warning)]
        value = {
            "status": report.status,
            "jobs": [verdict.to_json() for verdict in found],
        }
        lines = [_finding(verdict) for verdict in found]
        lines += [_nothing(database.settings, verdicts)] if report.status == "unknown" else []
        output.give(value, Text("\n").join(lines or [total(verdicts)]))
        if not report.is_well:
            raise SystemExit(Exit.FAILED)


def _finding(verdict: JobVerdict) -> Text:
    said = with_remedy("; ".join([verdict.why, *verdict.about.lines()]), verdict.remedy)
    return Text(f"{verdict.job}: ").append(verdict.word, _VERDICTS[verdict.word]).append(f": {said}")


class StatusView(View[SeenJobs]):
    """A view of all jobs, or of those of these names."""

    def __init__(self, database: Database, output: Output, names: Sequence[str] = ()) -> None:
        self._status, self._newest = Status(database), NewestEntries(database)
        self._settings = database.settings
        self._output = output
        self._names = names

    def read(self) -> SeenJobs:
        nodes = replace(self._status.read(), asks=self._status.asks())
        _check_names(nodes, self._settings, self._names)
        return self._newest.put_into(self._status.evaluate(nodes, self._names or None), self._names)

    def show(self, seen: SeenJobs) -> Text:
        if not seen.rows:
            return _nothing(self._settings)
        if not self._output.out.is_terminal:
            rows = sorted(seen.rows, key=lambda row: rank(row.verdict))
            lines = [_hold_line(view, seen.now) for view in seen.holds]
            return Text("\n").join([*lines, *(self._line(row, seen.now) for row in rows)])
        held = [line for view in seen.holds for line in hold_lines(view, seen.now, here=here)]
        summary = total(row.verdict for row in seen.rows)
        blank = [Text("")] if held else []
        lines = table(seen.rows, seen.now, self._output.out, with_about=bool(self._names))
        return Text("\n").join([*held, *blank, *lines, summary])

    def lines(self, last: SeenJobs | None, seen: SeenJobs) -> list[Text]:
        if last is None and not seen.rows:
            return [_nothing(self._settings)]
        rows = {row.job: self._line(row, seen.now) for row in seen.rows}
        holds = {f"hold {view.hold.name}": view for view in seen.holds}
        before = {} if last is None else {f"hold {view.hold.name}": view for view in last.holds}
        return [
            *news(before, holds, lambda name: _hold_line(holds[name], seen.now), "is over, or was taken back"),
            *news({} if last is None else _told(last), _told(seen), rows.__getitem__, "is no longer in the catalogue"),
        ]

    def _line(self, row: Row, now: int) -> Text:
        return row_line(row, now, with_about=bool(self._names))

    def value(self, seen: SeenJobs) -> object:
        holds = [view.to_json() for view in seen.holds]
        return {"now": to_text(seen.now), "holds": holds, "jobs": [row.to_json() for row in seen.rows]}

    def essence(self, seen: SeenJobs) -> object:
        return seen.holds, _told(seen)


def _nothing(settings: Settings, others: Sequence[JobVerdict] = ()) -> Text:
    """Return what to say where there is no job, but those that were taken out or can't be read."""
    but = " that can be judged" if others else ""
    return Text(
        f"There is no job{but} in {database_of(settings)}: a program declares its jobs when it starts where they tick "
        "(RUNTIME_INSTANCE=production), or when a trigger has run one of them."
    )


def _told(seen: SeenJobs) -> dict[str, object]:
    """Return what is news of each job if it changes: not the next tick, and not the renewals of a run."""
    return {row.job: (row.verdict, row.declared, row.last) for row in seen.rows}


def _check_names(nodes: Nodes, settings: Settings, names: Sequence[str]) -> None:
    """Raise Failure for a name that the catalogue doesn't have: a check must not pass over it."""
    for name in names:
        if name not in nodes.declared.entries:
            raise no_such(f"job {{}} in the catalogue of {database_of(settings)}", name, nodes.declared.entries)


# --- the lines. Pure

# Names up to this long are in the row itself, others above it.
_LONGEST_NAME = 30
# Of the key of a stored schedule.
_LONGEST_KEY = 12
_GAP = "  "
_VERDICTS: dict[VerdictWord, str] = {
    "unattended": "bold red",
    "stuck": "bold red",
    "late": "bold red",
    "failing": "bold red",
    "paused": "yellow",
    "unknown": "yellow",
    "running": "cyan",
    "undeclared": "bold red",
    "retired": "dim",
    "ok": "green",
}
_HEAD = ("job", "verdict", "next", "last", "took")


def rank(verdict: JobVerdict) -> tuple[bool, bool, bool, str]:
    """Return the sort key: alarms first, then warnings, then the others, then retired jobs, each by name."""
    return verdict.word == "retired", not verdict.is_alarm, not verdict.is_warning, verdict.job


def table(rows: Sequence[Row], now: int, console: Console, *, with_about: bool = False) -> list[Text]:
    """Return the lines for this terminal: those of the retired jobs at the end, apart.

    `with_about`: with what the jobs' programs say of them.
    """
    live = [row for row in sorted(rows, key=lambda row: rank(row.verdict)) if row.verdict.word != "retired"]
    cells = [_cells(row, now) for row in live]
    widths = [max(map(cell_len, column)) for column in zip(_HEAD, *cells, strict=True)]
    room = console.width - sum(widths) - len(_GAP) * len(widths)
    has_owners = any(row.last is not None and 0 < cell_len(row.last.owner) <= room for row in live)
    lines = [Text(f"{_line(_HEAD, widths)}{_GAP}{'on' if has_owners else ''}".rstrip(), "dim")] if live else []
    for row, found in zip(live, cells, strict=True):
        lines += _block(row, found, widths, console, with_about=with_about)
    retired = [row for row in rows if row.verdict.word == "retired"]
    if retired:
        lines += [Text(""), Text("Retired, not in the count:", "dim")]
        for row in retired:
            lines += _wrapped(f"{row.job}: {row.verdict.why}", "dim", console)
            lines += _remedy_lines(row.verdict.remedy, console)
    return lines


def row_line(row: Row, now: int, *, with_about: bool = False) -> Text:
    """Return all of a row in one line, for a file or another program."""
    schedule = _schedule(row)
    parts = row.verdict.about.lines() if with_about else []
    parts += [schedule] if schedule else []
    parts += [f"next {_next(row, now)}"] if row.next is not None else []
    if row.last is not None:
        _, _, _, last, duration = _cells(row, now)
        by = row.last.owner
        parts.append(f"last {last}{duration and f', took {duration}'}{by and f', by {by}'}")
    said = [*_errors(row), *_said(row.verdict)]
    parts += [*said[:-1], with_remedy(said[-1], row.verdict.remedy)] if said else []
    line = Text(f"{row.job}: ").append(row.verdict.word, _VERDICTS[row.verdict.word])
    return line.append("".join(f"; {part}" for part in parts))


def total(verdicts: Iterable[JobVerdict]) -> Text:
    """Return the number of jobs with each verdict, as a sentence."""
    live = [verdict.word for verdict in verdicts if verdict.word != "retired"]
    counted: Counter[str] = Counter(live)
    of_all = ", ".join(f"{counted[word]} {word}" for word in _VERDICTS if counted[word])
    return Text(f"{len(live)} {'job' if len(live) == 1 else 'jobs'}{of_all and ': '}{of_all}", "dim")


def _cells(row: Row, now: int) -> tuple[str, ...]:
    last = row.last
    ended = None if last is None else _ended(last)
    ago = "" if ended is None else f" {distance(ended, now)}"
    return (
        row.job if cell_len(row.job) <= _LONGEST_NAME else "",
        row.verdict.word,
        _next(row, now),
        "" if last is None else f"{last.outcome}{ago}",
        "" if last is None or last.took is None else took(last.took),
    )


def _next(row: Row, now: int) -> str:
    """Return when the next tick comes; of a stored job with the key of its schedule."""
    if row.next is None:
        return ""
    key = row.next_key or ""
    return f"{key[:_LONGEST_KEY]}{'…' if len(key) > _LONGEST_KEY else ''} {distance(row.next, now)}".lstrip()


def _ended(entry: Entry) -> int | None:
    """Return when the run ended; of a tick that did not run, when it was due."""
    if entry.ended_at is not None or entry.slot is None:
        return entry.ended_at
    try:
        return to_milliseconds(entry.slot)
    except ValueError:
        return None  # edited by hand


def _block(
    row: Row, cells: Sequence[str], widths: Sequence[int], console: Console, *, with_about: bool
) -> Iterator[Text]:
    if not cells[0]:
        yield Text(row.job, "bold")
    line = Text(_padded(cells[0], widths[0]), "bold")
    line.append(_GAP).append(_padded(cells[1], widths[1]), f"not bold {_VERDICTS[row.verdict.word]}")
    line.append(f"{_GAP}{_padded(cells[2], widths[2])}{_GAP}", "not bold")
    line.append(_padded(cells[3], widths[3]), f"not bold {RUN_STYLES[row.last.outcome] if row.last else ''}")
    line.append(f"{_GAP}{_padded(cells[4], widths[4])}", "not bold")
    owner = "" if row.last is None else row.last.owner
    fits = line.cell_len + len(_GAP) + cell_len(owner) <= console.width
    if fits and owner:
        line.append(f"{_GAP}{owner}", "not bold")
    line.rstrip()
    yield line
    for about in row.verdict.about.lines() if with_about else ():
        yield from _wrapped(about, "", console)
    yield from _wrapped(_schedule(row), "dim", console)
    if owner and not fits:
        yield from _wrapped(f"on {owner}", "dim", console)
    if said := _said(row.verdict):
        is_only_warning = row.verdict.is_warning and not row.verdict.is_alarm
        style = "yellow" if is_only_warning else _VERDICTS[row.verdict.word].removeprefix("bold ")
        for text in (*_errors(row), "; ".join(said)):
            yield from _wrapped(text, style, console)
    yield from _remedy_lines(row.verdict.remedy, console)


def _remedy_lines(remedy: Remedy | None, console: Console) -> Iterator[Text]:
    """Yield what to do, and the command on a line of its own, to be copied."""
    if remedy is None:
        return
    yield from _wrapped(f"→ {remedy.words}", "", console)
    if remedy.command is not None:
        yield Text(f"{_GAP}{_GAP}{here(remedy.command)}", "bold")


def _errors(row: Row) -> list[str]:
    """Return the error of the last run, where that is what somebody has to look at."""
    error = None if row.last is None else row.last.error
    return [error] if error is not None and row.verdict.word == "failing" else []


def _wrapped(text: str, style: str, console: Console) -> list[Text]:
    """Return the text in lines that fit into the terminal, below the row that it belongs to."""
    lines = Text(text, style).wrap(console, console.width - len(_GAP))
    for line in lines:
        line.rstrip()
    return [Text(_GAP).append(line) for line in lines if line]


def _schedule(row: Row) -> str:
    if row.declared is None:
        return ""
    schedule = row.declared.schedule
    words = in_words(schedule)
    return f"{schedule.line}{_GAP}{words}" if schedule.has_line else words


def _said(verdict: JobVerdict) -> list[str]:
    """Return what people are told beside the verdict: of a job that is as it should be, they needn't know why."""
    why = [] if verdict.word == "ok" and not verdict.is_warning else [verdict.why]
    return why if verdict.mute is None else [*why, str(verdict.mute)]


def _hold_line(view: HoldView, now: int) -> Text:
    return Text("; ").join(Text(line.plain.strip()) for line in hold_lines(view, now, here=here))


def _line(cells: Sequence[str], widths: Sequence[int]) -> str:
    return _GAP.join(_padded(cell, size) for cell, size in zip(cells, widths, strict=True))


def _padded(text: str, size: int) -> str:
    return text + " " * (size - cell_len(text))
