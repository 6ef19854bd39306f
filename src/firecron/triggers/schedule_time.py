"""Which tick a request is about: what Cloud Scheduler says in `X-CloudScheduler-ScheduleTime`.

The header is the same over all retries of one tick. Scheduler may send fractions of a second, up to nine digits; a slot
has none, so they are cut off. A request that was sent by hand carries no header, or the time of the next tick.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

from firecron.base.instants import to_milliseconds

HEADER = "X-CloudScheduler-ScheduleTime"

_FORM = re.compile(
    r"(\d{4}-\d{2}-\d{2})[Tt](\d{2}:\d{2}:\d{2})(?:\.\d+)?([Zz]|[+-]\d{2}:\d{2})",
    re.ASCII,
)


def parse_schedule_time(text: str | None) -> datetime | None:
    """The instant in UTC, cut to the second; None without a header. ValueError for what is no instant of RFC 3339."""
    said = (text or "").strip()
    if not said:
        return None
    found = _FORM.fullmatch(said)
    try:
        if found is None:
            raise ValueError
        day, time, zone = found.groups()
        return datetime.fromisoformat(f"{day}T{time}{zone.upper()}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError(f"{HEADER} is {said[:60]!r}: it must look like 2026-11-18T09:00:00Z, or be left out") from None


def is_future(slot: datetime, now: int, margin: int) -> bool:
    """Whether it is still to come by RTDB's time (in milliseconds); what is only ahead by the margin may have begun for
    Cloud Scheduler.
    """
    return to_milliseconds(slot) > now + margin
