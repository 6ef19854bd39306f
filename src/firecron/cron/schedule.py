"""When a cron line fires in a time zone: ticks in UTC that are right on the nights when the clocks change.

The rule is that of Debian's cron. A line whose minute or hour field starts with `*` follows the real clock: it never
fires at a wall time that does not exist, and it fires in both passes of a repeated hour. Any other line is fixed. Wall
times that a forward jump (of up to three hours) skips run once, in the first minute after the jump. After a backward
jump, repeated wall times run in the first pass only.

    line              Berlin, spring (02:00 -> 03:00)     Berlin, autumn (03:00 -> 02:00)
    30 2 * * *        03:00+02:00                         02:30+02:00
    */30 2 * * *      not at all                          02:00 and 02:30, +02:00 and again +01:00

`CronLine` knows wall times. This module decides about instants, gaps and passes. It compares in UTC only, because
Python compares two instants of one zone by their wall time.
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from firecron.cron.line import CronLine

_SECOND = timedelta(seconds=1)
_LONGEST_GAP = timedelta(hours=3)
# A run asks for the tick after its own slot, and for those before it, several times. croniter takes its time for each.
_KEPT = 4


class Schedule:
    """When a cron line fires in a time zone.

    A line or zone that can't be used raises a ValueError with the reason; so does a line that never fires. Two
    schedules of the same line and zone are equal.

    Args:
        line: Five fields, or six with seconds first; names of months and days; aliases such as `@hourly`.
        timezone: A name or a `ZoneInfo`; the attribute is the name.
    """

    __slots__ = ("_latest", "_line", "_zone", "has_seconds", "line", "timezone", "warnings")

    def __init__(self, line: str, timezone: str | ZoneInfo = "UTC") -> None:
        self.line = line
        self._line = CronLine(line)
        self._zone = _find_zone(timezone)
        self.timezone = self._zone.key
        self.has_seconds = self._line.has_seconds
        self.warnings = self._line.warnings
        # Instants, each with the tick after it.
        self._latest: tuple[tuple[datetime, datetime], ...] = ()

    def after(self, instant: datetime) -> datetime:
        """Return the first tick after the instant, in UTC. The instant itself does not count.

        Args:
            instant: An aware `datetime`.
        """
        # Ticks are whole seconds, so the tick after 09:00:00.5 is the tick after 09:00:00.
        start = _in_utc(instant).replace(microsecond=0)
        for since, tick in self._latest:
            if since <= start < tick:
                return tick  # there is none in between
        tick = self._after(start)
        # Replaced as a whole, because threads share a schedule.
        self._latest = ((start, tick), *self._latest[: _KEPT - 1])
        return tick

    def _after(self, start: datetime) -> datetime:
        wall = self._wall(start)
        tick = self._first_after(start, wall)
        second = self._passes(wall)[1]
        if self._line.is_wildcard and second > start:
            # The clocks show this wall time twice, and this is the first pass. The beginning of the second pass may
            # come sooner than the tick found so far.
            change = self._change(start, second)
            tick = min(tick, self._first_after(start, self._wall(change) - _SECOND))
        return tick

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Return the ticks after `start`, up to and including `end`, in UTC.

        Args:
            start: An aware `datetime`.
            end: An aware `datetime`.
        """
        # This call checks the arguments now. A generator would check them only when the first tick is asked for.
        return self._ticks(self.after(start), _in_utc(end))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return (self.line, self.timezone) == (other.line, other.timezone)

    def __hash__(self) -> int:
        return hash((self.line, self.timezone))

    def __repr__(self) -> str:
        return f"Schedule({str(self.line)!r}, {self.timezone!r})"

    def _ticks(self, tick: datetime, last: datetime) -> Iterator[datetime]:
        while tick <= last:
            yield tick
            tick = self.after(tick)

    def _first_after(self, start: datetime, wall: datetime) -> datetime:
        """Return the first tick after `start` among the matching wall times after `wall`."""
        while True:
            wall = self._line.after(wall)
            first, second = self._passes(wall)
            if first > second:
                # No clock shows this wall time, because it lies in a gap.
                change = self._change(second, first)
                if not self._line.is_wildcard and first - second <= _LONGEST_GAP:
                    return change
                wall = self._wall(change) - _SECOND
            elif first > start:
                return first
            elif self._line.is_wildcard:
                return second

    def _passes(self, wall: datetime) -> tuple[datetime, datetime]:
        """Return when clocks show this wall time, with the offset before a change and with the offset after it.

        Both are the same if no change is near.
        """
        aware = wall.replace(tzinfo=self._zone)
        return aware.astimezone(UTC), aware.replace(fold=1).astimezone(UTC)

    def _change(self, low: datetime, high: datetime) -> datetime:
        """Return the first instant with the new offset. `low` has the old offset, `high` the new one."""
        old = self._wall(low) - low.replace(tzinfo=None)
        while high - low > _SECOND:
            middle = low + (high - low) // _SECOND // 2 * _SECOND
            if self._wall(middle) - middle.replace(tzinfo=None) == old:
                low = middle
            else:
                high = middle
        return high

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self._zone).replace(tzinfo=None)


def _in_utc(instant: datetime) -> datetime:
    if instant.utcoffset() is None:
        raise ValueError(f"{instant!r} has no time zone: give an aware datetime, such as datetime.now(UTC)")
    return instant.astimezone(UTC)


def _find_zone(timezone: str | ZoneInfo) -> ZoneInfo:
    # A given ZoneInfo is looked up by its name too, because others read only the name of the schedule's zone.
    name = timezone.key if isinstance(timezone, ZoneInfo) else timezone
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):
        close = _close_zones(str(name))
        remedy = (
            f"did you mean {' or '.join(close)}?"
            if close
            else "use a name like Europe/Berlin; an image without time zones needs: pip install tzdata"
        )
        raise ValueError(f"there is no time zone {name!r}: {remedy}") from None


def _close_zones(name: str) -> list[str]:
    """Return the zones of that city in upper or lower case, or else the zone with the most similar name."""
    import difflib

    wanted = name.strip().replace(" ", "_").casefold()
    # Etc/GMT+2 is two hours behind Greenwich. A user who writes GMT+2 means two hours ahead.
    zones = sorted(zone for zone in available_timezones() if not zone.startswith("Etc/"))
    exact = [zone for zone in zones if wanted in (zone.casefold(), zone.rpartition("/")[2].casefold())]
    spelled = {part.casefold(): zone for zone in zones if "/" in zone for part in (zone, zone.rpartition("/")[2])}
    return exact or [spelled[near] for near in difflib.get_close_matches(wanted, spelled, n=1, cutoff=0.8)]
