"""Cron lines and when they fire, in UTC, right on the nights when the clocks change.

The rule is Debian's cron. A line whose minute or hour field starts with `*` follows the real clock: never at a wall
time that does not exist, and in both passes of a repeated hour. Any other line is fixed: wall times that a forward
jump (of up to three hours) swallows run once, in the first minute after it; in a backward jump they run in the first
pass only.

    line              Berlin, spring (02:00 -> 03:00)     Berlin, autumn (03:00 -> 02:00)
    30 2 * * *        03:00+02:00                         02:30+02:00
    */30 2 * * *      not at all                          02:00 and 02:30, +02:00 and again +01:00

croniter iterates over naive wall times; what is instant, gap and pass is decided here, in UTC. Two instants of one
zone are never compared as Python compares them, by their wall time.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from croniter import croniter
from croniter.croniter import CroniterError

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = "JAN|FEB|MAR|APR|MAY|JUN|JUL|AUG|SEP|OCT|NOV|DEC"
_DAYS = "SUN|MON|TUE|WED|THU|FRI|SAT"
# croniter knows more than cron: H and R, which differ from instance to instance, have no place here.
_FIELD = re.compile(rf"(?:[0-9]+|[*/,#?-]|L|{_MONTHS}|{_DAYS})+", re.IGNORECASE)
_BIG_STEP = re.compile(r"/([0-9]+)")
_LARGEST = {"second": 59, "minute": 59, "hour": 23, "day of month": 31, "month": 12, "day of week": 7}

_SECOND = timedelta(seconds=1)
_DAY = timedelta(days=1)
_LONGEST_GAP = timedelta(hours=3)


class Schedule:
    """When a cron line fires in a time zone.

    Five fields, or six with seconds first; names of months and days; `@hourly` and its like. ValueError says what is
    wrong with a line or a zone, also if the line never fires.
    """

    def __init__(self, line: str, timezone: str = "UTC") -> None:
        self.line = line
        self.timezone = timezone
        self._zone = _find_zone(timezone)
        fields = _split(line)
        self._fields = " ".join(fields)
        self.has_seconds = len(fields) == len(_LARGEST)
        minute, hour = fields[-5], fields[-4]
        self._is_wildcard = minute.startswith("*") or hour.startswith("*")
        self.warnings = tuple(_suspicious(line, fields))
        try:
            self.after(datetime(2024, 1, 1, tzinfo=UTC))
        except CroniterError as error:
            raise ValueError(f"the cron line {line!r} can't be used: {_reason(error)}") from None

    def after(self, instant: datetime) -> datetime:
        """The first tick strictly after the instant (which has a time zone), in UTC."""
        start = _in_utc(instant)
        # Ticks are whole seconds: the one after 09:00:00.5 is the one after 09:00:00.
        whole = start.replace(microsecond=0)
        return self._wildcard_after(whole) if self._is_wildcard else self._fixed_after(whole)

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """The ticks after `start`, up to and including `end`."""
        last = _in_utc(end)
        tick = self.after(start)
        while tick <= last:
            yield tick
            tick = self.after(tick)

    def __repr__(self) -> str:
        return f"Schedule({self.line!r}, {self.timezone!r})"

    def _fixed_after(self, start: datetime) -> datetime:
        walls = self._walls_after(self._wall(start))
        while True:
            tick = self._first_pass(next(walls))
            # In UTC, so that this drops second passes, the second of two walls in one gap, and all that lies in the
            # past.
            if tick is not None and tick > start:
                return tick

    def _wildcard_after(self, start: datetime) -> datetime:
        cursor = start
        walls = self._walls_after(self._wall(start))
        while True:
            wall = next(walls)
            tick = (wall - self._offset(cursor)).replace(tzinfo=UTC)
            change = self._next_change(cursor, tick)
            if change is None:
                return tick
            # The clocks change before the tick, so it is another wall's time by then: look again from the change on,
            # itself included.
            cursor = change
            walls = self._walls_after(self._wall(change) - _SECOND)

    def _first_pass(self, wall: datetime) -> datetime | None:
        """When the clocks show this wall time first; the change itself if they skip it, or None if they skip too
        much.
        """
        before, after = (wall.replace(tzinfo=self._zone, fold=fold).utcoffset() for fold in (0, 1))
        assert before is not None
        assert after is not None
        tick = (wall - before).replace(tzinfo=UTC)
        if after <= before or self._wall(tick) == wall:
            return tick
        if after - before > _LONGEST_GAP:
            return None
        return self._change_in((wall - after).replace(tzinfo=UTC), tick)

    def _next_change(self, start: datetime, end: datetime) -> datetime | None:
        """The first instant after `start`, up to and including `end`, at which the zone has another offset."""
        low = start
        while low < end:
            high = min(low + _DAY, end)
            if self._offset(high) != self._offset(low):
                return self._change_in(low, high)
            low = high
        return None

    def _change_in(self, low: datetime, high: datetime) -> datetime:
        """The first instant of the new offset, between one of the old and one of the new."""
        before = self._offset(low)
        seconds = round((high - low) / _SECOND)
        first, last = 0, seconds
        while last - first > 1:
            middle = (first + last) // 2
            if self._offset(low + middle * _SECOND) == before:
                first = middle
            else:
                last = middle
        return low + last * _SECOND

    def _walls_after(self, wall: datetime) -> Iterator[datetime]:
        ticks = croniter(self._fields, wall, ret_type=datetime, second_at_beginning=self.has_seconds)
        while True:
            found: datetime = ticks.get_next()
            yield found

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self._zone).replace(tzinfo=None, fold=0)

    def _offset(self, instant: datetime) -> timedelta:
        offset = instant.astimezone(self._zone).utcoffset()
        assert offset is not None
        return offset


def _in_utc(instant: datetime) -> datetime:
    if instant.tzinfo is None or instant.utcoffset() is None:
        raise ValueError(f"{instant!r} has no time zone: give an aware datetime, such as datetime.now(UTC)")
    return instant.astimezone(UTC)


def _find_zone(timezone: str) -> ZoneInfo:
    try:
        return ZoneInfo(timezone)
    except (KeyError, ValueError, OSError, TypeError):
        raise ValueError(
            f"there is no time zone {timezone!r}: use a name like Europe/Berlin; "
            "an image without time zones needs: pip install tzdata"
        ) from None


def _split(line: str) -> list[str]:
    if not isinstance(line, str):
        raise ValueError(f"a cron line is a string, not {line!r}")
    text = line.strip()
    if text.startswith("@"):
        if text.lower() not in _ALIASES:
            raise ValueError(f"the cron line {line!r} is unknown: there are {', '.join(_ALIASES)}")
        text = _ALIASES[text.lower()]
    fields = text.split()
    if len(fields) not in (5, 6):
        raise ValueError(f"the cron line {line!r} has {len(fields)} fields: 5, or 6 with seconds first")
    for field in fields:
        if not _FIELD.fullmatch(field):
            raise ValueError(f"the cron line {line!r} can't be used: {field!r} is no cron field")
    return fields


def _suspicious(line: str, fields: list[str]) -> Iterator[str]:
    names = list(_LARGEST)[-len(fields) :]
    for name, field in zip(names, fields, strict=True):
        for step in _BIG_STEP.findall(field):
            if int(step) > _LARGEST[name]:
                yield f"in the cron line {line!r} the step /{step} is more than a {name} has: it fires once a round"


def _reason(error: CroniterError) -> str:
    text = str(error)
    return "it never fires" if "failed to find" in text else text
