"""`firecron next "LINE"` or `next APP NAME`: list the next ticks of a cron line or a job.

For a night when the clocks change, the command explains the ticks. It reads no database.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Annotated
from zoneinfo import ZoneInfo

import typer
from rich.text import Text

from firecron.base.instants import in_utc
from firecron.cli.loading import load_crons
from firecron.cli.options import Json
from firecron.cli.output import Exit, Failure, Output, answering
from firecron.cron.clock_changes import Change, special_nights
from firecron.cron.schedule import Schedule

# Wide enough to explain a repeated hour of which only one pass is shown.
_AROUND = timedelta(hours=3)
_APP = re.compile(r"[\w.]+:[\w.]+")

Line = Annotated[
    str,
    typer.Argument(
        metavar='"LINE"|APP',
        help="A cron line: five fields, six with seconds first, or a word such as @hourly. Or module:object and NAME.",
    ),
]
JobName = Annotated[str | None, typer.Argument(metavar="NAME", help="The job of APP whose ticks to list.")]
Zone = Annotated[
    str | None, typer.Option("--timezone", "-z", help="Time zone of LINE, such as Europe/Berlin; UTC unless given.")
]
Number = Annotated[int, typer.Option("-n", min=1, max=1000, help="Number of ticks.")]
After = Annotated[
    str | None,
    typer.Option("--after", metavar="ISO", help="List the ticks after this instant, not after now."),
]


def add_to(app: typer.Typer) -> None:
    app.command(
        "next", epilog='Example: firecron next "30 2 * * *" --timezone Europe/Berlin --after 2027-03-27T00:00Z'
    )(next_ticks)


def next_ticks(
    line: Line,
    name: JobName = None,
    timezone: Zone = None,
    number: Number = 5,
    after: After = None,
    as_json: Json = False,
) -> None:
    """List the next ticks of a cron line or of a job.

    Each tick is shown in the line's time zone and in UTC. For a night when the clocks change, the ticks are explained.
    Reads no database.
    """
    output = Output(as_json=as_json)
    with answering(output):
        schedule = _schedule(line, timezone) if name is None else _schedule_of(line, name, timezone)
        start = _instant(after, schedule.timezone)
        ticks = ticks_after(schedule, start, number)
        nights = list(special_nights(schedule, start - _AROUND, ticks[-1] + _AROUND))
        for warning in schedule.warnings:
            output.say(f"firecron: {warning}")
        output.give(_value(schedule, ticks, nights), _shown(schedule, ticks, nights))


def _schedule(line: str, timezone: str | None) -> Schedule:
    if _APP.fullmatch(line):
        names = ", ".join(job.name for job in load_crons(line).registry.jobs())
        raise Failure(f"{line} is an application: name one of its jobs as well: {names}", Exit.USAGE)
    try:
        return Schedule(line, timezone or "UTC")
    except ValueError as error:
        raise Failure(str(error), Exit.USAGE) from None


def _schedule_of(app: str, name: str, timezone: str | None) -> Schedule:
    if timezone is not None:
        raise Failure(f"--timezone {timezone} is only for a cron line: {name} has its own time zone", Exit.USAGE)
    return load_crons(app).registry.get(name).options.schedule


def ticks_after(schedule: Schedule, start: datetime, number: int) -> list[datetime]:
    """Return the first `number` ticks after `start`, in UTC."""
    ticks: list[datetime] = []
    for _ in range(number):
        start = schedule.after(start)
        ticks.append(start)
    return ticks


def tick_in_words(tick: datetime, timezone: str) -> str:
    """Return a tick in its time zone and in UTC: `Wed 2026-11-18 10:00:00 +01:00   2026-11-18T09:00:00Z`."""
    local = tick.astimezone(ZoneInfo(timezone))
    offset = local.isoformat()[19:]
    return f"{local:%a %Y-%m-%d %H:%M:%S} {offset}   {in_utc(tick)}"


def tick_value(tick: datetime, timezone: str) -> dict[str, object]:
    """Return a tick in its time zone and in UTC, as JSON for programs."""
    return {"local": tick.astimezone(ZoneInfo(timezone)).isoformat(), "utc": in_utc(tick)}


def _instant(text: str | None, timezone: str) -> datetime:
    if text is None:
        return datetime.now(UTC)
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(f"--after {text!r} is not an instant: write 2026-11-18T09:00:00Z", Exit.USAGE) from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=ZoneInfo(timezone))


def _shown(schedule: Schedule, ticks: list[datetime], nights: list[Change]) -> Text:
    lines = [Text(tick_in_words(tick, schedule.timezone)) for tick in ticks]
    return Text("\n").join([*lines, *(Text(night.said, "yellow") for night in nights)])


def _value(schedule: Schedule, ticks: list[datetime], nights: list[Change]) -> object:
    return {
        "line": schedule.line,
        "timezone": schedule.timezone,
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
        "warnings": list(schedule.warnings),
    }
