"""The tick of a request: Cloud Scheduler names it in the header `X-CloudScheduler-ScheduleTime`.

The header is the same in all retries of one tick. Cloud Scheduler may send fractions of a second, with up to nine
digits. A slot has no fractions, so they are cut off. A request that is sent by hand has no header, or its header names
the next tick.
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
    """Return the header's instant in UTC, cut to the second; None without a header.

    Raise ValueError for a header that is not an instant by RFC 3339.
    """
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
        raise ValueError(
            f"{HEADER} {said[:60]!r} is not a valid time: send one such as 2026-11-18T09:00:00Z, or no header"
        ) from None


def is_future(slot: datetime, now: int, margin: int) -> bool:
    """Return whether the slot is in the future by RTDB's time, in milliseconds.

    A slot that is ahead by no more than the margin is not: it may have begun by Cloud Scheduler's clock.
    """
    return to_milliseconds(slot) > now + margin
