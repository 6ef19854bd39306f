"""`firecron status`: all jobs at a glance. `firecron check`: whether somebody has to be told of one of them.

Both read the catalogue, so they need no program of the jobs.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import Annotated, TypeAlias

import typer
from rich.text import Text

from firecron.base.instants import to_text
from firecron.cli.changes import Changes
from firecron.cli.naming import database_of, did_you_mean
from firecron.cli.options import Interval, Json, Watch
from firecron.cli.output import Exit, Failure, Output, answering
from firecron.cli.status_lines import finding, rank, row_line, table, total
from firecron.cli.watching import watch
from firecron.lock.service import LockService
from firecron.ops.status import SeenJobs, Status
from firecron.settings import Settings

Jobs: TypeAlias = Annotated[
    list[str] | None, typer.Argument(metavar="JOB", help="Names of jobs; all jobs unless given.")
]


def add_to(app: typer.Typer) -> None:
    app.command("status", epilog="Example: firecron status --watch")(status)
    app.command("check", epilog="Example: firecron check nightly-import || page-somebody")(check)


def status(jobs: Jobs = None, watching: Watch = False, interval: Interval = 2.0, as_json: Json = False) -> None:
    """Show all jobs: whether each is as it should be, and why not.

    A row has the job's verdict, its next tick, and how its last run ended, how long that took and where it was. Below
    are the schedule and its meaning. Jobs come from the catalogue, which their programs write when they start.
    """
    output = Output(as_json=as_json)
    with answering(output):
        service = LockService()
        view = StatusView(service, output, jobs or ())
        if watching:
            with Changes(service, service.paths.locks, service.paths.jobs).followed() as changes:
                watch(output, view, interval, changes, changes.are_told)
        else:
            seen = view.look()
            output.give(view.value(seen), view.show(seen))


def check(jobs: Jobs = None, as_json: Json = False) -> None:
    """Say which jobs are unattended, stuck, late or failing.

    A line for each. Exits with 1 if there is one, with 69 if the database can't be reached. Also prints warnings, such
    as a pause of more than a day, which don't count. For scripts and monitoring: it reads three nodes, and no history.
    """
    output = Output(as_json=as_json)
    with answering(output):
        service = LockService()
        rows = _look(Status(service), service.settings, jobs or ()).rows
        found = [row.verdict for row in sorted(rows, key=rank) if row.verdict.is_alarm or row.verdict.is_warning]
        is_alarm = any(verdict.is_alarm for verdict in found)
        value = {
            "status": "failing" if is_alarm else "ok",
            "jobs": [{**verdict.to_json(), "warning": verdict.is_warning} for verdict in found],
        }
        lines = [finding(verdict) for verdict in found]
        summary = total(rows) if rows else _nothing(service.settings)
        output.give(value, Text("\n").join(lines or [summary]))
        if is_alarm:
            raise SystemExit(Exit.FAILED)


class StatusView:
    """A view of all jobs, or of those of these names."""

    is_newest_last = False

    def __init__(self, service: LockService, output: Output, names: Sequence[str] = ()) -> None:
        self._status = Status(service)
        self._settings = service.settings
        self._output = output
        self._names = names
        self._seen: SeenJobs | None = None

    def look(self) -> SeenJobs:
        seen = _look(self._status, self._settings, self._names)
        self._seen = self._status.with_last(seen, self._seen)
        return self._seen

    def show(self, seen: SeenJobs) -> Text:
        if not seen.rows:
            return _nothing(self._settings)
        if not self._output.out.is_terminal:
            return Text("\n").join(row_line(row, seen.now) for row in sorted(seen.rows, key=rank))
        return Text("\n").join([*table(seen.rows, seen.now, self._output.out), total(seen.rows)])

    def lines(self, last: SeenJobs | None, seen: SeenJobs) -> list[Text]:
        if last is None and not seen.rows:
            return [_nothing(self._settings)]
        before, after = {} if last is None else _told(last), _told(seen)
        changed = [row_line(row, seen.now) for row in seen.rows if before.get(row.job) != after[row.job]]
        gone = [Text(f"{name}: is no longer in the catalogue") for name in sorted(before.keys() - after.keys())]
        at = f"{datetime.now().astimezone():%H:%M:%S} "
        return [Text(at).append(line) for line in (*changed, *gone)]

    def value(self, seen: SeenJobs) -> object:
        return {"now": to_text(seen.now), "jobs": [row.to_json() for row in seen.rows]}

    def essence(self, seen: SeenJobs) -> object:
        return _told(seen)


def _nothing(settings: Settings) -> Text:
    return Text(
        f"There is no job in {database_of(settings)}: a program declares its jobs when it starts where they tick "
        "(RUNTIME_INSTANCE=production), or when a trigger has run one of them."
    )


def _told(seen: SeenJobs) -> dict[str, object]:
    """Return what is news of each job if it changes: not the next tick, and not the renewals of a run."""
    return {row.job: (row.verdict, row.declared, row.last) for row in seen.rows}


def _look(status: Status, settings: Settings, names: Sequence[str]) -> SeenJobs:
    """Look at the jobs. Raise Failure for a name that the catalogue doesn't have: a check must not pass over it."""
    nodes = status.read()
    for name in names:
        if name not in nodes.catalogue:
            close = did_you_mean(name, nodes.catalogue)
            raise Failure(f"there is no job {name} in the catalogue of {database_of(settings)}{close}", Exit.USAGE)
    return status.judge(nodes, names or None)
