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

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo, available_timezones

from firecron.cron.line import CronLine

_SECOND = timedelta(seconds=1)
_LONGEST_GAP = timedelta(hours=3)


class ZonedLine:
    """The ticks of a cron line in a time zone."""

    __slots__ = ("_line", "_zone")

    def __init__(self, line: CronLine, zone: ZoneInfo) -> None:
        self._line = line
        self._zone = zone

    def after(self, start: datetime) -> datetime:
        """Return the first tick after this instant. Both are in UTC, and whole seconds."""
        wall = self._wall(start)
        tick = self._first_after(start, wall)
        second = self._passes(wall)[1]
        if self._line.is_wildcard and second > start:
            # The clocks show this wall time twice, and this is the first pass. The beginning of the second pass may
            # come sooner than the tick found so far.
            change = self._change(start, second)
            tick = min(tick, self._first_after(start, self._wall(change) - _SECOND))
        return tick

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


def find_zone(timezone: str | ZoneInfo) -> ZoneInfo:
    """Return the zone. Raise a ValueError with the nearest name if there is none."""
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
