"""Stored schedules from a terminal: `firecron schedules` lists them, `firecron schedule` puts, removes and mends them.

The commands need none of the jobs' code. What the catalogue says of a job is checked before anything is written.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime
from typing import Annotated

import typer
from rich.text import Text

from firecron.base.instants import to_milliseconds, to_text
from firecron.base.texts import plain
from firecron.cli.contexts import here
from firecron.cli.lines import distance
from firecron.cli.options import Json, OnDatabase
from firecron.cli.output import Exit, Failure, Output, answering, print_events
from firecron.cron.schedule import DEFAULT_ZONE
from firecron.cron.words import in_words
from firecron.errors import ConfigurationError
from firecron.lock.database import Database
from firecron.ops.schedules import Schedules, StoredSchedule
from firecron.store import check_entry_name, split_name

Job = Annotated[str, typer.Argument(metavar="JOB", help="Name of the stored job.")]
OnlyJob = Annotated[str | None, typer.Argument(metavar="JOB", help="Only the schedules of this job.")]
Key = Annotated[str, typer.Argument(metavar="KEY", help="Which of its schedules.")]
OnlyKey = Annotated[str | None, typer.Argument(metavar="KEY", help="Only this one.")]
Line = Annotated[str | None, typer.Argument(metavar="LINE", help="A cron line; or give --every or --at.")]
Begin = Annotated[str, typer.Option("--begin", metavar="TEXT", help="Only the keys that begin so.")]
After = Annotated[str | None, typer.Option("--after", metavar="KEY", help="Begin after this key.")]
Most = Annotated[int, typer.Option("-n", "--limit", min=1, max=1000, help="How many at most.")]
Lines = Annotated[bool, typer.Option("--lines", help="Print, or read, one JSON object a line.")]
Zone = Annotated[str | None, typer.Option("--timezone", metavar="ZONE", help="Time zone of the line.")]
EveryOf = Annotated[float | None, typer.Option("--every", metavar="SECONDS", help="The time between two ticks.")]
FirstOf = Annotated[
    str | None, typer.Option("--starting", metavar="WHEN", help="The first tick: 2026-11-18T09:00:00Z.")
]
AtOf = Annotated[str | None, typer.Option("--at", metavar="WHEN", help="The only tick: 2026-12-24T18:00:00Z.")]
UntilOf = Annotated[str | None, typer.Option("--until", metavar="WHEN", help="No tick is after it.")]
Args = Annotated[str | None, typer.Option("--args", metavar="JSON", help="The arguments, as a JSON object.")]
By = Annotated[str | None, typer.Option("--by", help="Who wants it, for people.")]
IfAbsent = Annotated[bool, typer.Option("--if-absent", help="Change nothing if the key has a schedule.")]
Cancel = Annotated[bool, typer.Option("--cancel", help="Ask the run under way to end.")]
# What a line of JSON may have, beside the key.
_FIELDS = ("line", "written", "timezone", "every", "starting", "at", "until", "args", "by")


def schedules(
    job: OnlyJob = None,
    key: OnlyKey = None,
    begin: Begin = "",
    after: After = None,
    limit: Most = 100,
    lines: Lines = False,
    as_json: Json = False,
) -> None:
    """List the stored schedules of a job, or the jobs that have any.

    Without a JOB, the stored jobs. With a JOB, its schedules by their keys, a hundred at a time; with a KEY, that one.
    """
    with answering(as_json=as_json) as output:
        database = _open(output)
        found = Schedules(database)
        if job is None:
            jobs = database.store.keys(database.paths.schedules, database.deadline())
            output.give({"jobs": jobs}, "\n".join(map(plain, jobs)) or "there is no stored schedule")
            return
        if key is not None:
            shown = _one(found, job, key)
            output.give(shown.to_json(), Text("\n").join(_details(shown)))
            return
        entries = found.list(job, prefix=begin, after=after, limit=limit)
        if lines:
            for entry in entries:
                typer.echo(json.dumps(entry.to_json(), ensure_ascii=False))
            return
        now = database.now(database.deadline())
        rows = Text("\n").join(_row(entry, now) for entry in entries)
        output.give({"schedules": [entry.to_json() for entry in entries]}, rows if entries else "there is none")


schedule = typer.Typer(add_completion=False, rich_markup_mode=None, no_args_is_help=True)


@schedule.command("put", cls=OnDatabase)
def put(
    job: Job,
    key: OnlyKey = None,
    line: Line = None,
    timezone: Zone = None,
    every: EveryOf = None,
    starting: FirstOf = None,
    at: AtOf = None,
    until: UntilOf = None,
    args: Args = None,
    by: By = None,
    if_absent: IfAbsent = False,
    lines: Lines = False,
    as_json: Json = False,
) -> None:
    """Let a job run by a schedule, in place of what the key had.

    With --lines and without a KEY, the schedules are read from standard input: one JSON object a line, with `key` and
    what `firecron schedules JOB --lines` prints.
    """
    with answering(as_json=as_json) as output:
        found = Schedules(_open(output))
        if lines:
            given = list(_read_lines(sys.stdin))
        elif key is None:
            raise Failure("name the KEY of the schedule, or read several with --lines", Exit.USAGE)
        else:
            if (every is not None or at is not None) and (line is not None or timezone is not None):
                raise Failure("give a LINE and its --timezone, or --every, or --at", Exit.USAGE)
            options = {"line": line, "timezone": timezone, "every": every, "starting": starting, "at": at}
            arguments = None if args is None else _object(args, "--args")
            given = [{"key": key, **options, "until": until, "args": arguments, "by": by}]
        changed = {str(one["key"]): _put(found, job, one, if_absent=if_absent) for one in given}
        said = [f"{job}:{name}: {'put' if done else 'nothing had to be changed'}" for name, done in changed.items()]
        output.give({"job": job, "changed": changed}, "\n".join(said) or "there is nothing to put")


@schedule.command("remove", cls=OnDatabase)
def remove(job: Job, key: Key, by: By = None, cancel: Cancel = False, as_json: Json = False) -> None:
    """Let a job run by a schedule no more.

    No tick of it is claimed from now on. A run that is under way ends as any other, unless you give --cancel.
    """
    with answering(as_json=as_json) as output:
        running = Schedules(_open(output)).remove(job, key, by=by, cancel=cancel)
        going = "asked to end" if cancel else "still under way"
        output.give(
            {"job": job, "key": key, "running": running},
            f"{job}:{key}: removed{f'; a run of it is {going}' if running else ''}",
        )


@schedule.command("show", cls=OnDatabase)
def show(job: Job, key: Key, as_json: Json = False) -> None:
    """Show one stored schedule, and its last run."""
    with answering(as_json=as_json) as output:
        shown = _one(Schedules(_open(output)), job, key)
        output.give(shown.to_json(), Text("\n").join(_details(shown)))


@schedule.command("mend", cls=OnDatabase)
def mend(job: Job, as_json: Json = False) -> None:
    """Compute anew when each schedule is looked at.

    For schedules that somebody has edited by hand.
    """
    with answering(as_json=as_json) as output:
        mended = Schedules(_open(output)).mend(job)
        output.give({"job": job, "mended": mended}, f"{job}: {mended:,} mended")


def _open(output: Output) -> Database:
    database = Database()
    print_events(database.events, output, frozenset())
    return database


def read_named(output: Output, name: str) -> StoredSchedule:
    """Return the schedule of this name, `<job>:<key>`. Raise Failure if there is none."""
    return _one(Schedules(_open(output)), *split_name(check_entry_name(name)))


def _one(found: Schedules, job: str, key: str) -> StoredSchedule:
    shown = found.get(job, key)
    if shown is None:
        raise Failure(f"there is no schedule {key!r} of {job!r}: {here(f'firecron schedules {job}')}", Exit.USAGE)
    return shown


def _put(found: Schedules, job: str, given: Mapping[str, object], *, if_absent: bool) -> bool:
    instants = {name: _instant(given.get(name), name) for name in ("starting", "at", "until")}
    every, args, zone = given.get("every"), given.get("args"), given.get("timezone")
    is_line = every is None and instants["at"] is None
    return found.put(
        job,
        str(given["key"]),
        (given.get("written") or given.get("line")) if is_line else None,  # type: ignore[arg-type]  # it is checked there
        timezone=DEFAULT_ZONE if zone is None or not is_line else str(zone),
        every=every,  # type: ignore[arg-type]  # it is checked there
        args=args,  # type: ignore[arg-type]  # it is checked there
        by=given.get("by"),  # type: ignore[arg-type]  # it is checked there
        if_absent=if_absent,
        **instants,
    )


def _read_lines(texts: Iterable[str]) -> Iterator[dict[str, object]]:
    for number, text in enumerate(texts, 1):
        if text.strip():
            found = _object(text, f"line {number}")
            if "key" not in found:
                raise Failure(f"line {number} has no key", Exit.USAGE)
            yield {name: found.get(name) for name in ("key", *_FIELDS)}


def _object(text: str, where: str) -> dict[str, object]:
    try:
        found = json.loads(text)
    except ValueError as error:
        raise Failure(f"{where} is no JSON: {error}", Exit.USAGE) from None
    if not isinstance(found, dict):
        raise Failure(f"{where} must be a JSON object", Exit.USAGE)
    return found


def _instant(text: object, name: str) -> datetime | None:
    if text is None:
        return None
    try:
        found = datetime.fromisoformat(str(text))
    except ValueError:
        raise ConfigurationError(f"{name}={text!r} is no instant: write it like 2026-12-24T18:00:00Z") from None
    if found.tzinfo is None:
        raise ConfigurationError(f"{name}={text!r} has no time zone: write it like 2026-12-24T18:00:00Z")
    return found


# --- the lines. Pure

_STYLES = {"malformed": "bold red", "missed": "bold red", "paused": "yellow", "running": "green"}


def _row(entry: StoredSchedule, now: int) -> Text:
    coming = "" if entry.next_at is None or entry.is_closed else distance(to_milliseconds(entry.next_at), now)
    words = "no schedule that can be read" if entry.schedule is None else in_words(entry.schedule)
    return (
        Text(f"{plain(entry.key)}  ").append(entry.state, _STYLES.get(entry.state, "")).append(f"  {words}  {coming}")
    )


def _details(entry: StoredSchedule) -> Iterator[Text]:
    yield Text(f"{plain(entry.name)}: ").append(entry.state, _STYLES.get(entry.state, ""))
    facts = {
        "schedule": None if entry.schedule is None else in_words(entry.schedule),
        "line": entry.written,
        "arguments": json.dumps(dict(entry.args), ensure_ascii=False) if entry.args else None,
        "next": None if entry.next_at is None else to_text(entry.next_at),
        "last tick": None if entry.slot is None else to_text(entry.slot),
        "outcome": entry.outcome,
        "failures": str(entry.failures) if entry.failures else None,
        "by": entry.by,
        "why": entry.why,
    }
    for name, value in facts.items():
        if value is not None:
            yield Text(f"  {name}: {plain(value)}")
