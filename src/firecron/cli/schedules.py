"""A schedule from the arguments of a command: a cron line with its time zone, or `--every` with `--starting`."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

from firecron.cli.output import Exit, Failure
from firecron.cron.schedule import DEFAULT_ZONE, Schedule


def given_schedule(line: str | None, timezone: str | None, every: float | None, starting: str | None) -> Schedule:
    """Return the schedule, or raise the Failure that says what is wrong with the arguments."""
    first = None if starting is None else given_instant("--starting", starting)
    try:
        return Schedule(line, timezone or DEFAULT_ZONE, every=every, starting=first)
    except ValueError as error:
        raise Failure(str(error), Exit.USAGE) from None


def given_instant(option: str, text: str, timezone: str = "UTC") -> datetime:
    """Return the instant that an option names. Without an offset it is a time in the zone."""
    try:
        instant = datetime.fromisoformat(text)
    except ValueError:
        raise Failure(f"{option} {text!r} is not an instant: write 2026-11-18T09:00:00Z", Exit.USAGE) from None
    return instant if instant.tzinfo is not None else instant.replace(tzinfo=ZoneInfo(timezone))
