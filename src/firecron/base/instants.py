"""Instants as the console shows them: UTC, whole seconds, 20 characters (`2026-11-18T09:00:00Z`).

These texts sort in the order of the instants. Inside firecron an instant is milliseconds since the epoch, always on
RTDB's clock. Schedules and jobs use datetimes. Only this module converts one form to another.

A duration is given by users in seconds or as a `timedelta`, and counted in milliseconds. A number from the database,
where a node may hold any value, becomes an integer that a double holds exactly.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from math import isfinite, isnan, nan
from typing import TypeAlias

from firecron.errors import ConfigurationError

# The last second that a datetime can hold. A number typed in the console may be later.
_LAST = 253_402_300_799_000
_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)


def to_text(instant: int | datetime) -> str:
    """Return the instant as a text, cut to the second."""
    milliseconds = to_milliseconds(instant) if isinstance(instant, datetime) else instant
    return _second(milliseconds // 1000)


# A claim and its release write some four instants, and jobs that tick at one instant the same ones.
@lru_cache(256)
def _second(seconds: int) -> str:
    return in_utc(to_datetime(seconds * 1000))


def in_utc(moment: datetime) -> str:
    """Return an aware datetime as a text, cut to the second. It may be before 1970, where RTDB's clock never is."""
    return f"{moment.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='seconds')}Z"


def to_milliseconds(instant: str | datetime) -> int:
    """Return the instant in milliseconds. Raise ValueError for a text of any other form."""
    return round(exact_milliseconds(instant)) if isinstance(instant, datetime) else _parsed(instant)


# A run reads the text of its slot some twenty times: in each record, and in what is decided by it.
@lru_cache(1024)
def _parsed(text: str) -> int:
    if not _FORM.fullmatch(text):
        raise ValueError(f"{text!r} is not an instant: write it like 2026-11-18T09:00:00Z")
    return round(exact_milliseconds(datetime.fromisoformat(text)))


def exact_milliseconds(instant: datetime) -> float:
    """Return the instant in milliseconds, with the fraction."""
    return instant.timestamp() * 1000


def aware_milliseconds(instant: object, name: str) -> int:
    """Return the instant in milliseconds. Raise ConfigurationError, which names the option, if it is not aware."""
    if not isinstance(instant, datetime) or instant.tzinfo is None:
        raise ConfigurationError(f"{name}={instant!r} must be an aware datetime: give it a tzinfo, such as UTC")
    return to_milliseconds(instant)


def check_instant(text: str) -> str:
    """Return the text itself. Raise ValueError if it is not an instant."""
    to_milliseconds(text)
    return text


def check_spans(text: str) -> str:
    """Return the text itself. Raise ValueError if it is not a list of spans.

    The form of such a list is `<instant>/<instant> <instant>/<instant>`.
    """
    for span in text.split(" "):
        start, _, end = span.partition("/")
        check_instant(start), check_instant(end)
    return text


def to_datetime(instant: int | str) -> datetime:
    """Return the instant as an aware datetime in UTC. One outside 1970 to 9999 becomes the nearest one inside."""
    milliseconds = to_milliseconds(instant) if isinstance(instant, str) else instant
    return datetime.fromtimestamp(nearest(milliseconds) / 1000, UTC)


def nearest(milliseconds: int) -> int:
    """Return the nearest instant that a datetime in UTC can hold, from 1970 on."""
    return min(max(milliseconds, 0), _LAST)


# --- numbers

# RTDB stores doubles. Beyond this limit a double is not an exact integer, and no count or instant is that large.
_MOST = 2**53 - 1


def number(value: object) -> int | None:
    """Return the number that a node holds, as an integer; None for any other value."""
    if not isinstance(value, int | float) or isinstance(value, bool) or not isfinite(value):
        return None
    return whole(value)


def whole(value: int | float) -> int:
    """Return the number as an integer, limited to what a double holds exactly.

    A number with a digit too many, typed by hand, may be far out of range. The limit keeps it from becoming 300 digits.
    """
    return min(max(int(value), -_MOST), _MOST)


# --- durations

Duration: TypeAlias = float | timedelta

DAY = 86_400
_HOUR = 3_600


def milliseconds(
    duration: object, name: str, *, least: float = 0, most: float = DAY, at_least: str | None = None
) -> int:
    """Return the duration in milliseconds. Raise ConfigurationError if it is not a duration between the bounds.

    `name` is the option's name in the error. `least` and `most` are the bounds in seconds; `at_least` says the lower
    one in words, if a setting decides about more.
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
        raise ConfigurationError(f"{name}={duration!r} is too short: it must be at least {at_least or f'{least:g} s'}")
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
