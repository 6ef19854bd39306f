"""Instants as the console shows them: UTC, whole seconds, 20 characters (`2026-11-18T09:00:00Z`).

Such texts sort as the instants do. Inside, an instant is milliseconds since the epoch, always of RTDB's clock; a
schedule and a job know it as a datetime. Only this module makes one form of another.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

# The last second that a datetime can be: what a slipped digit in the console says may be later.
_LAST = 253_402_300_799_000
_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)


def to_text(instant: int | datetime) -> str:
    """The instant as a text, cut to the second."""
    milliseconds = to_milliseconds(instant) if isinstance(instant, datetime) else instant
    return in_utc(to_datetime(milliseconds // 1000 * 1000))


def in_utc(moment: datetime) -> str:
    """An aware datetime of any year as a text, cut to the second: also of before 1970, where RTDB's clock never is."""
    return moment.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_milliseconds(instant: str | datetime) -> int:
    """The instant in milliseconds; ValueError for a text of any other form."""
    if isinstance(instant, datetime):
        return round(exact_milliseconds(instant))
    if not _FORM.fullmatch(instant):
        raise ValueError(f"{instant!r} is no instant: it must look like 2026-11-18T09:00:00Z")
    return round(exact_milliseconds(datetime.fromisoformat(instant)))


def exact_milliseconds(instant: datetime) -> float:
    """The instant in milliseconds, with a fraction."""
    return instant.timestamp() * 1000


def check_instant(text: str) -> str:
    """The text itself; ValueError for any other form."""
    to_milliseconds(text)
    return text


def check_spans(text: str) -> str:
    """The text itself; ValueError if it is no list of spans (`<instant>/<instant> <instant>/<instant>`)."""
    for span in text.split(" "):
        start, _, end = span.partition("/")
        check_instant(start), check_instant(end)
    return text


def to_datetime(instant: int | str) -> datetime:
    """The instant as an aware datetime in UTC; the nearest of 1970 to 9999 where it is none of them."""
    milliseconds = to_milliseconds(instant) if isinstance(instant, str) else instant
    return datetime.fromtimestamp(nearest(milliseconds) / 1000, UTC)


def nearest(milliseconds: int) -> int:
    """The nearest instant that a datetime can be."""
    return min(max(milliseconds, 0), _LAST)
