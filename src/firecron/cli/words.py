"""Instants and durations in words: `14:02:45 (13:02:45Z)`, `in 42 s`, `12 min ago`. Pure."""

from __future__ import annotations

from datetime import UTC, datetime, tzinfo

from firecron.base.instants import nearest, to_datetime

_UNITS = ((365 * 86_400, "y"), (86_400, "d"), (3600, "h"), (60, "min"), (1, "s"))


def span(milliseconds: float) -> str:
    """Return a duration in its largest unit, rounded down: `42 s`, `12 min`, `3 h`."""
    seconds = int(abs(milliseconds) // 1000)
    size, unit = next(((size, unit) for size, unit in _UNITS if seconds >= size), (1, "s"))
    return f"{seconds // size} {unit}"


def took(milliseconds: int) -> str:
    """Return how long a run took: `50 ms`, `1.2 s`, `3 min 20 s`, `2 h 5 min`."""
    if milliseconds < 1000:
        return f"{milliseconds} ms"
    tenths = milliseconds // 100
    if tenths < 600:
        return f"{tenths / 10:.1f} s"
    minutes, seconds = divmod(milliseconds // 1000, 60)
    hours, minutes = divmod(minutes, 60)
    if hours >= 1000:
        return span(milliseconds)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {seconds} s"


def distance(instant: int, now: int) -> str:
    """Return how far the instant is from `now`: `in 42 s`, `12 min ago`, `just now`."""
    instant = nearest(instant)  # no later than the year 9999, as `clock_time` shows it
    if abs(instant - now) < 1000:
        return "just now"
    # An end that was set a moment ago is `in 2 h`, not `in 1 h`.
    return f"in {span(instant - now + 999)}" if instant > now else f"{span(now - instant)} ago"


def clock_time(instant: int, now: int, zone: tzinfo | None = None) -> str:
    """Return local time and UTC, with the date if that isn't today. `zone` is this machine's unless given."""
    moment = to_datetime(instant).replace(microsecond=0)
    utc = moment.astimezone(UTC)
    try:
        local = moment.astimezone(zone)
    except OverflowError:
        local = utc  # edited by hand: in some zones the last hours of the year 9999 are beyond datetime's range
    today = to_datetime(now).astimezone(zone)
    shown = f"{_date(local, today)}{local:%H:%M:%S}"
    if local.utcoffset() == utc.utcoffset():
        return f"{shown}Z"
    return f"{shown} ({_date(utc, local)}{utc:%H:%M:%S}Z)"


def _date(moment: datetime, other: datetime) -> str:
    if moment.date() == other.date():
        return ""
    return f"{moment:%d %b} " if moment.year == other.year else f"{moment:%Y-%m-%d} "
