"""`firecron jobs APP` and `firecron next`: what an application declares, and when it ticks.

`jobs` lists the jobs and leaders that the explorer finds, what their schedules mean, and whether they would run in a
server with this environment. `next "LINE"`, `next --every SECONDS` and `next APP NAME` list the next ticks of a
schedule or a job, `next JOB:KEY` those of a stored schedule. The first line says what the schedule means. For a night
when the clocks change, `next` explains the ticks. A database is read for a stored schedule alone.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Annotated
from zoneinfo import ZoneInfo

import typer
from rich.text import Text

from firecron.base.instants import in_utc
from firecron.cli.contexts import named
from firecron.cli.options import (
    AppPath,
    Context,
    DatabaseUrl,
    Ending,
    Every,
    Json,
    Loaded,
    Prefix,
    Starting,
    given_instant,
    given_schedule,
    is_module,
    load,
)
from firecron.cli.output import Exit, Failure, Output, answering
from firecron.cron.line import is_hashed
from firecron.cron.schedule import Schedule, schedule_fields
from firecron.cron.schedule import next_ticks as next_ticks_of
from firecron.cron.words import Change, in_words, special_nights
from firecron.store import is_entry_name, split_name

if TYPE_CHECKING:
    from firecron.jobs.options import JobOptions
    from firecron.leaders.leader import LeaderOptions

# --- jobs

NumberForEach = Annotated[int, typer.Option("-n", min=0, max=100, help="Number of ticks for each job.")]


def jobs(app: AppPath, number: NumberForEach = 1, as_json: Json = False) -> None:
    """List the jobs and leaders of an application, and next ticks.

    Also shows where each job is defined, and whether it would run in a server with this environment. The production
    guard and the job's role decide that. Reads no database.
    """
    with answering(as_json=as_json) as output:
        loaded = load(app)
        now = datetime.now(UTC)
        found = {job.name: next_ticks_of(job.options.schedule, now, number) for job in loaded.crons.registry.jobs()}
        output.give(_jobs_value(loaded, found), _jobs_shown(loaded, found, now))


def _jobs_value(loaded: Loaded, found: dict[str, list[datetime]]) -> object:
    crons = loaded.crons
    return {
        "ticksHere": crons.verdict.may_tick,
        "why": crons.verdict.why,
        "roles": list(crons.settings.roles),
        "jobs": [
            {
                "name": job.name,
                **schedule_value(job.options.schedule),
                "role": job.options.role,
                "disabled": job.options.disabled,
                "stored": job.options.stored is not None,
                **job.options.about.fields(),
                "runsHere": crons.registry.ticks_here(job),
                "where": job.where,
                "next": [tick_value(tick, job.options.schedule.timezone) for tick in found[job.name]],
            }
            for job in crons.registry.jobs()
        ],
        "leaders": [
            {
                "name": leader.name,
                "ttl": leader.options.election.ttl // 1000,
                "role": leader.options.role,
                "disabled": leader.options.disabled,
                **leader.options.about.fields(),
                "standsHere": crons.engine.leaders.stands_here(leader),
                "where": leader.where,
            }
            for leader in crons.engine.leaders.all()
        ],
        "unclaimed": [{"name": job.name, "where": job.where} for job in loaded.unclaimed],
    }


def _jobs_shown(loaded: Loaded, found: dict[str, list[datetime]], now: datetime) -> Text:
    crons, verdict = loaded.crons, loaded.crons.verdict
    head, color = ("Jobs tick", "green") if verdict.may_tick else ("Jobs don't tick", "yellow")
    lines = [Text(f"{head} in a server with this environment: {verdict.why}", color)]
    for job in crons.registry.jobs():
        schedule = job.options.schedule
        line = f"  {schedule.line}  {schedule.timezone}" if schedule.has_line else ""
        lines.append(Text("\n").append(job.name, "bold").append(line))
        is_stored = job.options.stored is not None
        where = f", in the database: firecron schedules {job.name}" if is_stored else ""
        lines.append(Text(f"  {in_words(schedule)}{where}"))
        lines += [Text(f"  {line}") for line in job.options.about.lines()]
        lines.append(Text(f"  {job.where}", "dim"))
        if not crons.registry.ticks_here(job):
            lines.append(Text(f"  doesn't run there: {_reason(job.options)}", "yellow"))
        lines += [Text(f"  {tick_in_words(tick, schedule.timezone)}") for tick in found[job.name]]
        if schedule.has_ended(now):
            lines.append(Text("  no tick is to come: it has ended", "yellow"))
    for leader in crons.engine.leaders.all():
        ttl = f"  leader, ttl {leader.options.election.ttl / 1000:g} s"
        lines.append(Text("\n").append(leader.name, "bold").append(ttl))
        lines += [Text(f"  {line}") for line in leader.options.about.lines()]
        lines.append(Text(f"  {leader.where}", "dim"))
        if not crons.engine.leaders.stands_here(leader):
            lines.append(Text(f"  doesn't stand there: {_reason(leader.options)}", "yellow"))
    for forgotten in loaded.unclaimed:
        lines.append(Text("\n").append(forgotten.name, "bold"))
        lines.append(Text(f"  {forgotten.where}", "dim"))
        lines.append(Text("  never runs: it is declared, but was not given to a FireCron", "yellow"))
    return Text("\n").join(lines)


def _reason(options: JobOptions | LeaderOptions) -> str:
    return "it is disabled" if options.disabled else f"it needs the role {options.role!r}"


# --- next

# Wide enough to explain a repeated hour of which only one pass is shown.
_AROUND = timedelta(hours=3)
# Where no tick is to come, the excluded days of a year are listed.
_LONGEST = timedelta(days=366)
_MOST_DAYS = 50
_APP = re.compile(r"[\w.]+:[\w.]+")
Line = Annotated[
    str | None,
    typer.Argument(
        metavar='"LINE"|APP|JOB:KEY',
        help="A cron line: five fields, six with seconds first, or a word such as @hourly. Or module:object and NAME. "
        "Or the name of a stored schedule.",
    ),
]
JobName = Annotated[
    str | None,
    typer.Argument(metavar="NAME", help="The job of APP whose ticks to list. For a LINE with an H: the job's name."),
]
Zone = Annotated[
    str | None, typer.Option("--timezone", "-z", help="Time zone of LINE, such as Europe/Berlin; UTC unless given.")
]
Number = Annotated[int, typer.Option("-n", min=1, max=1000, help="Number of ticks.")]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="ISO", help="List the ticks after this instant, not after now."),
]


def next_ticks(
    line: Line = None,
    name: JobName = None,
    timezone: Zone = None,
    every: Every = None,
    starting: Starting = None,
    until: Ending = None,
    number: Number = 5,
    after: After = None,
    database: DatabaseUrl = None,
    prefix: Prefix = None,
    context: Context = None,
    as_json: Json = False,
) -> None:
    """List the next ticks of a cron line, of a job, or of a stored schedule.

    The first line says what the schedule means. Each tick is shown in the schedule's time zone and in UTC. For a night
    when the clocks change, the ticks are explained. Reads a database for JOB:KEY only; an H depends on the prefix.
    """
    with answering(as_json=as_json) as output, named(database, prefix, context):
        counts_from = None
        if name is None and line is not None and _is_stored(line):
            _refuse_bounds(line, every, starting, until)
            schedule, counts_from = _stored(output, line, timezone)
        elif name is None or line is None or is_hashed(line):
            schedule = _schedule(line, name, timezone, every, starting, until)
        else:
            _refuse_bounds(name, every, starting, until)
            schedule = _schedule_of(line, name, timezone)
        start = datetime.now(UTC) if after is None else given_instant("--after", after, schedule.timezone)
        start = start if counts_from is None else max(start, counts_from)
        ticks = next_ticks_of(schedule, start, number)
        nights = list(special_nights(schedule, start - _AROUND, ticks[-1] + _AROUND)) if ticks else []
        for warning in schedule.warnings:
            output.say(f"firecron: {warning}")
        excluded = _days_excluded(schedule, start, ticks[-1] if ticks else start + _LONGEST)
        output.give(_ticks_value(schedule, ticks, nights, excluded), _ticks_shown(schedule, ticks, nights, excluded))


def _schedule(
    line: str | None,
    name: str | None,
    timezone: str | None,
    every: float | None,
    starting: str | None,
    until: str | None,
) -> Schedule:
    if line is not None and _APP.fullmatch(line):
        names = ", ".join(job.name for job in load(line).crons.registry.jobs(stored=False))
        raise Failure(f"{line} is an application: name one of its jobs as well: {names}", Exit.USAGE)
    if line is None and every is None:
        raise Failure("there is nothing to list: give a cron line, --every SECONDS, or APP NAME", Exit.USAGE)
    if is_hashed(line) and name is None:
        raise Failure(f"the H in {line!r} is a number from a job's name: give the name after the line", Exit.USAGE)
    return given_schedule(line, timezone, every, starting, until, name)


def _refuse_bounds(name: str, every: float | None, starting: str | None, until: str | None) -> None:
    if (every, starting, until) != (None, None, None):
        raise Failure(f"--every, --starting and --until are not for a job: {name} has its own schedule", Exit.USAGE)


def _is_stored(name: str) -> bool:
    """Return whether this names a stored schedule, and no object of a module that is here."""
    job, key = split_name(name)
    if not is_entry_name(name):
        return False
    return not key.isidentifier() or not job.isidentifier() or not is_module(job)


def _stored(output: Output, name: str, timezone: str | None) -> tuple[Schedule, datetime | None]:
    """Return a stored schedule, and the instant up to which its ticks don't count."""
    # Imported here, because a cron line needs no database.
    from firecron.cli.commands.schedules import read_named

    if timezone is not None:
        raise Failure(f"--timezone {timezone} is only for a cron line: {name} has its own time zone", Exit.USAGE)
    entry = read_named(output, name)
    if entry.schedule is None:
        raise Failure(f"the schedule {name} can't be read: {entry.why}", Exit.FAILED)
    if entry.state == "paused":
        output.say(f"firecron: {name} is paused: it runs at none of these ticks before it is resumed")
    seen = [instant for instant in (entry.since, entry.slot) if instant is not None]
    return entry.schedule, max(seen, default=None)


def _schedule_of(app: str, name: str, timezone: str | None) -> Schedule:
    if timezone is not None:
        raise Failure(f"--timezone {timezone} is only for a cron line: {name} has its own time zone", Exit.USAGE)
    return load(app).crons.registry.get(name).options.schedule


def _days_excluded(schedule: Schedule, start: datetime, end: datetime) -> list[tuple[str, str]]:
    """Return the days without ticks in this span, with why, the first 50 of them."""
    zone = ZoneInfo(schedule.timezone)
    found: dict[str, str] = {}
    for tick, why in schedule.days_excluded(start, end):
        found[f"{tick.astimezone(zone):%a %Y-%m-%d}"] = why
        if len(found) == _MOST_DAYS:
            break
    return list(found.items())


def _ticks_value(
    schedule: Schedule, ticks: list[datetime], nights: list[Change], excluded: list[tuple[str, str]]
) -> object:
    return {
        **schedule_value(schedule),
        "ticks": [tick_value(tick, schedule.timezone) for tick in ticks],
        "changes": [
            {
                "at": in_utc(night.at),
                "kind": night.kind,
                "times": [time.isoformat() for time in night.times],
                "said": night.said,
            }
            for night in nights
        ],
        "excluded": [{"date": day.partition(" ")[2], "why": why} for day, why in excluded],
        "warnings": list(schedule.warnings),
    }


def _ticks_shown(
    schedule: Schedule, ticks: list[datetime], nights: list[Change], excluded: list[tuple[str, str]]
) -> Text:
    lines = [Text(in_words(schedule), "bold")]
    lines += [Text(tick_in_words(tick, schedule.timezone)) for tick in ticks]
    lines += [Text(f"{day}: no ticks ({why})", "yellow") for day, why in excluded]
    lines += [] if ticks else [Text("no tick is to come: it has ended", "yellow")]
    return Text("\n").join([*lines, *(Text(night.said, "yellow") for night in nights)])


# --- the ticks of both


def schedule_value(schedule: Schedule) -> dict[str, object]:
    """Return what a schedule is and means, as JSON for programs."""
    return {**schedule_fields(schedule), "words": in_words(schedule)}


def tick_in_words(tick: datetime, timezone: str) -> str:
    """Return a tick in its time zone and in UTC: `Wed 2026-11-18 10:00:00 +01:00   2026-11-18T09:00:00Z`."""
    local = tick.astimezone(ZoneInfo(timezone))
    offset = local.isoformat()[19:]
    return f"{local:%a %Y-%m-%d %H:%M:%S} {offset}   {in_utc(tick)}"


def tick_value(tick: datetime, timezone: str) -> dict[str, object]:
    """Return a tick in its time zone and in UTC, as JSON for programs."""
    return {"local": tick.astimezone(ZoneInfo(timezone)).isoformat(), "utc": in_utc(tick)}
