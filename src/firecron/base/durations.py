"""Durations: seconds or `timedelta` everywhere a user gives one, milliseconds everywhere inside."""

from __future__ import annotations

from datetime import timedelta
from math import isnan, nan
from typing import TypeAlias

from firecron.errors import ConfigurationError

Duration: TypeAlias = float | timedelta

DAY = 86_400
_HOUR = 3_600


def milliseconds(duration: object, name: str, *, least: float = 0, most: float = DAY) -> int:
    """The duration in milliseconds; `name` is what an error calls it, `least` and `most` are its bounds in seconds."""
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = duration
    else:
        seconds = nan
    if seconds > most:
        raise ConfigurationError(f"{name}={duration!r} is too long: at most {most:g} s; seconds, not milliseconds?")
    if isnan(seconds):
        raise ConfigurationError(f"{name}={duration!r} is no duration: give seconds or a timedelta")
    if seconds < least:
        raise ConfigurationError(f"{name}={duration!r} is too short: at least {least:g} s")
    return round(seconds * 1000)


def doubt(duration: object, name: str) -> str | None:
    """What to ask about a number that is hardly meant in seconds, and what to write instead; None for any other, and
    for a `timedelta`, which says its unit.

    From an hour on, people who count in seconds write whole hours, and from a day on whole days. Milliseconds are whole
    thousands.
    """
    if not isinstance(duration, int | float) or duration < _HOUR:
        return None
    unit, name_of_it = (_HOUR, "hours") if duration < DAY else (DAY, "days")
    if duration % 1000 or duration % unit == 0:
        return None
    return (
        f"{name}={duration:.10g} is {duration / unit:.3g} {name_of_it}: seconds, not milliseconds? Write "
        f"{name}={duration / 1000:.10g}, or timedelta(seconds={duration:.10g}) if it is meant"
    )
