"""The end of a pause as it is typed: `2h`, `14:00`, or an instant with its zone. Pure."""

from __future__ import annotations

import re
from datetime import UTC, datetime, time, timedelta, tzinfo

from firecron.base.instants import to_datetime, to_text

FORMS = "a duration (90s, 30m, 2h, 3d), a time of day here (14:00), or an instant (2026-11-18T14:00:00Z)"
_TOO_LATE = "is too far away: a pause without an end needs no --until"
_DURATION = re.compile(r"([0-9]{1,9})\s*(s|m|min|h|d)", re.ASCII)
_TIME = re.compile(r"([01]?[0-9]|2[0-3]):([0-5][0-9])(?::([0-5][0-9]))?", re.ASCII)
_UNITS = {"s": "seconds", "m": "minutes", "min": "minutes", "h": "hours", "d": "days"}


def parse_until(text: str, now: int, zone: tzinfo | None = None) -> datetime:
    """Return the instant that the text names, after `now` (milliseconds). `zone` is this machine's unless given.

    A time of day is the next one. Raise ValueError, which says why, if it names none, or one that is over.
    """
    typed, present = text.strip(), to_datetime(now)
    if found := _DURATION.fullmatch(typed):
        return _sooner(text, present, timedelta(**{_UNITS[found[2]]: int(found[1])}))
    if found := _TIME.fullmatch(typed):
        return _next(time(int(found[1]), int(found[2]), int(found[3] or 0)), present, zone)
    try:
        instant = datetime.fromisoformat(typed)
    except ValueError:
        raise ValueError(f"{text!r} is not understood: give {FORMS}") from None
    if instant.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone: end it with Z, or with an offset such as +01:00")
    if instant <= present:
        raise ValueError(f"{text!r} is over already: it is {to_text(present)} now")
    try:
        return instant.astimezone(UTC)
    except OverflowError:
        raise ValueError(f"{text!r} {_TOO_LATE}") from None


def _sooner(text: str, present: datetime, duration: timedelta) -> datetime:
    if not duration:
        raise ValueError(f"{text!r} is no time at all: give {FORMS}")
    try:
        return present + duration
    except OverflowError:
        raise ValueError(f"{text!r} {_TOO_LATE}") from None


def _next(clock: time, present: datetime, zone: tzinfo | None) -> datetime:
    """Return the next instant at which a clock here shows this time; one that a clock change skips comes after it."""
    today = present.astimezone(zone).date()
    days = (datetime.combine(today + timedelta(days=ahead), clock) for ahead in (0, 1))
    return next(
        instant
        for instant in ((day if zone is None else day.replace(tzinfo=zone)).astimezone(UTC) for day in days)
        if instant > present
    )
