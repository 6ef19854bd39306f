"""The ticks of a cron line in a time zone, by docs/explanation/time-zones.md: each minute is looked at by itself.

A line has six fields, the seconds first, of which the last three are `*`. A line whose minute or hour begins with `*`
follows the real clock. Any other line is fixed: what a forward jump skips runs once as the jump is over, and what a
backward jump repeats runs in the first pass only.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

_MINUTE = 60
# So many seconds are looked at together.
_CHUNK = 600


def ticks(line: str, zone: str, start: int, end: int) -> list[int]:
    """Return the ticks from `start` to `end`, both included, in seconds since 1970."""
    chunks = range(start // _CHUNK, end // _CHUNK + 1)
    return [tick for chunk in chunks for tick in _chunk(line, zone, chunk) if start <= tick <= end]


@cache
def _chunk(line: str, zone: str, number: int) -> tuple[int, ...]:
    seconds, minutes, hours = map(_values, line.split()[:3], (60, 60, 24))
    follows_the_clock = any(field.startswith("*") for field in line.split()[1:3])
    found = set()
    for minute in range(number * _CHUNK, (number + 1) * _CHUNK, _MINUTE):
        wall = _wall(minute, zone)
        if wall.minute in minutes and wall.hour in hours and (follows_the_clock or not wall.fold):
            found |= {minute + second for second in seconds}
        skipped = _wall(minute - _MINUTE, zone).replace(tzinfo=None) + timedelta(minutes=1)
        while not follows_the_clock and skipped < wall.replace(tzinfo=None):
            if skipped.minute in minutes and skipped.hour in hours:
                found.add(minute)
            skipped += timedelta(minutes=1)
    return tuple(sorted(found))


def _wall(time: int, zone: str) -> datetime:
    return datetime.fromtimestamp(time, UTC).astimezone(ZoneInfo(zone))


def _values(field: str, end: int) -> frozenset[int]:
    found: set[int] = set()
    for part in field.split(","):
        span, _, step = part.partition("/")
        low, _, high = span.partition("-")
        first, last = (0, end - 1) if span == "*" else (int(low), int(high or low))
        found |= set(range(first, last + 1, int(step or 1)))
    return frozenset(found)
