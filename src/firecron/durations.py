"""Durations: seconds or `timedelta` everywhere a user gives one, milliseconds everywhere inside."""

from __future__ import annotations

from datetime import timedelta
from math import isnan, nan
from typing import TypeAlias

from firecron.errors import ConfigurationError

Duration: TypeAlias = float | timedelta

DAY = 86_400


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
