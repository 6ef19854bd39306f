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
# The default zone. Its wall times are the instants.
_NO_CHANGES = "UTC"

# Names that are zones, but not those that most people mean by them: the city that has summers, and the plain offset.
_WINTER_ALL_YEAR = {
    "EST": ("America/New_York", "Etc/GMT+5"),
    "MST": ("America/Denver", "Etc/GMT+7"),
}
# Abbreviations on clocks that are no zones. Some mean several.
_ABBREVIATED = {
    "AEDT": ["Australia/Sydney"],
    "AEST": ["Australia/Sydney", "Australia/Brisbane"],
    "AKST": ["America/Anchorage"],
    "AWST": ["Australia/Perth"],
    "BST": ["Europe/London"],
    "CDT": ["America/Chicago"],
    "CEST": ["Europe/Berlin"],
    "CST": ["America/Chicago", "Asia/Shanghai"],
    "EDT": ["America/New_York"],
    "EEST": ["Europe/Athens"],
    "IST": ["Asia/Kolkata", "Asia/Jerusalem", "Europe/Dublin"],
    "JST": ["Asia/Tokyo"],
    "KST": ["Asia/Seoul"],
    "MDT": ["America/Denver"],
    "MSK": ["Europe/Moscow"],
    "NZST": ["Pacific/Auckland"],
    "PDT": ["America/Los_Angeles"],
    "PST": ["America/Los_Angeles"],
    "SGT": ["Asia/Singapore"],
    "WEST": ["Europe/Lisbon"],
}


class ZonedLine:
    """The ticks of a cron line in a time zone."""

    __slots__ = ("_line", "_zone")

    def __init__(self, line: CronLine, zone: ZoneInfo) -> None:
        self._line = line
        self._zone = zone

    def after(self, start: datetime) -> datetime:
        """Return the first tick after this instant. Both are in UTC, and whole seconds."""
        if self._zone.key == _NO_CHANGES:
            return self._line.after(start.replace(tzinfo=None)).replace(tzinfo=UTC)
        wall = self._wall(start)
        tick = self._first_after(start, wall)
        second = self._passes(wall)[1]
        if self._line.is_wildcard and second > start:
            # The clocks show this wall time twice, and this is the first pass. The beginning of the second pass may
            # come sooner than the tick found so far.
            change = change_between(self._zone, start, second)
            tick = min(tick, self._first_after(start, self._wall(change) - _SECOND))
        return tick

    def _first_after(self, start: datetime, wall: datetime) -> datetime:
        """Return the first tick after `start` among the matching wall times after `wall`."""
        while True:
            wall = self._line.after(wall)
            first, second = self._passes(wall)
            if first > second:
                # No clock shows this wall time, because it lies in a gap.
                change = change_between(self._zone, second, first)
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

    def _wall(self, instant: datetime) -> datetime:
        return instant.astimezone(self._zone).replace(tzinfo=None)


def change_between(zone: ZoneInfo, low: datetime, high: datetime) -> datetime:
    """Return the first instant with the new offset. `low` has the old offset, `high` the new one."""
    old = offset_at(zone, low)
    while high - low > _SECOND:
        middle = low + (high - low) // _SECOND // 2 * _SECOND
        if offset_at(zone, middle) == old:
            low = middle
        else:
            high = middle
    return high


def offset_at(zone: ZoneInfo, instant: datetime) -> timedelta:
    """Return how far the clocks of a zone are ahead of UTC at an instant."""
    offset = instant.astimezone(zone).utcoffset()
    assert offset is not None, "an instant in a zone has an offset"
    return offset


def find_zone(timezone: str | ZoneInfo) -> ZoneInfo:
    """Return the zone. Raise a ValueError with the nearest name if there is none."""
    # A given ZoneInfo is looked up by its name too, because others read only the name of the schedule's zone.
    name = timezone.key if isinstance(timezone, ZoneInfo) else timezone
    try:
        return ZoneInfo(name)
    except (KeyError, ValueError, OSError, TypeError):
        raise ValueError(f"there is no time zone {name!r}: {_remedy(str(name))}") from None


def zone_warning(zone: ZoneInfo) -> str | None:
    """Return what is odd about a zone: its name is that of a clock in winter, and it has no summer. None if nothing."""
    found = _WINTER_ALL_YEAR.get(zone.key)
    if found is None:
        return None
    city, fixed = found
    return (
        f"timezone={zone.key!r} has no daylight saving, so in summer its ticks come an hour after those of {city}: "
        f"write timezone={city!r}, or timezone={fixed!r} if the fixed offset is meant"
    )


def _remedy(name: str) -> str:
    close = _ABBREVIATED.get(name.strip().upper()) or _close_zones(name)
    if close:
        return f"did you mean {' or '.join(close)}?"
    if available_timezones():
        return "use a name like Europe/Berlin or America/New_York, with a city"
    return "this system has no time zones but UTC: pip install tzdata"


def _close_zones(name: str) -> list[str]:
    """Return the zones of that city in upper or lower case, or else the zone with the most similar name."""
    import difflib

    wanted = name.strip().replace(" ", "_").casefold()
    # Etc/GMT+2 is two hours behind Greenwich. A user who writes GMT+2 means two hours ahead.
    zones = sorted(zone for zone in available_timezones() if not zone.startswith("Etc/"))
    exact = [zone for zone in zones if wanted in (zone.casefold(), zone.rpartition("/")[2].casefold())]
    spelled = {part.casefold(): zone for zone in zones if "/" in zone for part in (zone, zone.rpartition("/")[2])}
    return exact or [spelled[near] for near in difflib.get_close_matches(wanted, spelled, n=1, cutoff=0.8)]
