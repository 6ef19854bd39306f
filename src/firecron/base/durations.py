"""Durations: a user gives seconds or a `timedelta`; firecron counts in milliseconds."""

from __future__ import annotations

from datetime import timedelta
from math import isnan, nan
from typing import TypeAlias

from firecron.errors import ConfigurationError

Duration: TypeAlias = float | timedelta

DAY = 86_400
_HOUR = 3_600


def milliseconds(duration: object, name: str, *, least: float = 0, most: float = DAY) -> int:
    """Return the duration in milliseconds. Raise ConfigurationError if it is not a duration between the bounds.

    `name` is the option's name in the error. `least` and `most` are the bounds in seconds.
    """
    if isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    elif isinstance(duration, int | float) and not isinstance(duration, bool):
        seconds = duration
    else:
        seconds = nan
    if seconds > most:
        raise ConfigurationError(
            f"{name}={duration!r} is too long: it must be at most {most:g} s. Is it in milliseconds?"
        )
    if isnan(seconds):
        raise ConfigurationError(f"{name}={duration!r} is not a duration: give seconds or a timedelta")
    if seconds < least:
        raise ConfigurationError(f"{name}={duration!r} is too short: it must be at least {least:g} s")
    return round(seconds * 1000)


def doubt(duration: object, name: str) -> str | None:
    """Return a question about a number that looks like milliseconds; None for any other duration.

    The question says what to write instead. Only numbers from an hour on are in doubt. People who count in seconds
    write whole hours, or from a day on whole days. Milliseconds are whole thousands. A `timedelta` is never in doubt,
    because it has a unit.
    """
    if not isinstance(duration, int | float) or duration < _HOUR:
        return None
    unit, name_of_it = (_HOUR, "hours") if duration < DAY else (DAY, "days")
    if duration % 1000 or duration % unit == 0:
        return None
    return (
        f"{name}={duration:.10g} is {duration / unit:.3g} {name_of_it}. Is it in milliseconds? Then write "
        f"{name}={duration / 1000:.10g}. If not, write timedelta(seconds={duration:.10g})"
    )
