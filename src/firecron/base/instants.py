"""Instants as the console shows them: UTC, whole seconds, 20 characters (`2026-11-18T09:00:00Z`).

Such texts sort as the instants do. Inside, an instant is milliseconds since the epoch, always of RTDB's clock.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime

# The last second that a datetime can be: what a slipped digit in the console says may be later.
_LAST = 253_402_300_799_000
_FORM = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z", re.ASCII)


def to_text(milliseconds: int) -> str:
    """The instant, cut to the second."""
    return to_datetime(milliseconds // 1000 * 1000).strftime("%Y-%m-%dT%H:%M:%SZ")


def to_milliseconds(text: str) -> int:
    """The instant of such a text; ValueError for any other form."""
    if not _FORM.fullmatch(text):
        raise ValueError(f"{text!r} is no instant: it must look like 2026-11-18T09:00:00Z")
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def to_datetime(milliseconds: int) -> datetime:
    """The instant as an aware datetime in UTC; the nearest of 1970 to 9999 where it is none of them."""
    return datetime.fromtimestamp(min(max(milliseconds, 0), _LAST) / 1000, UTC)
