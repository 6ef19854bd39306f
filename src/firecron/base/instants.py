"""Instants as the console shows them: UTC, whole seconds, 20 characters (`2026-11-18T09:00:00Z`).

These texts sort in the order of the instants. Inside firecron an instant is milliseconds since the epoch, always on
RTDB's clock. Schedules and jobs use datetimes. Only this module converts one form to another.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from functools import lru_cache

from firecron.errors import ConfigurationError

# The last second that a datetime can hold. A number typed in the console may be later.
_LAST = 253_402_300_799_000
_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)


def to_text(instant: int | datetime) -> str:
    """Return the instant as a text, cut to the second."""
    milliseconds = to_milliseconds(instant) if isinstance(instant, datetime) else instant
    return in_utc(to_datetime(milliseconds // 1000 * 1000))


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
