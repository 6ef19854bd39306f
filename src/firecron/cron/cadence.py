"""A cadence: ticks at even distances, which no cron line has where its steps don't divide the hour or the day.

The ticks are `starting + k * every` for k = 0, 1, 2 and so on. Nothing else counts: not when an instance started, not
when a run began or ended, no time zone and no change of clocks. So all instances have the same ticks.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from firecron.base.durations import DAY, milliseconds
from firecron.base.instants import in_utc

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_LONGEST = 366 * DAY


@dataclass(frozen=True, slots=True)
class Cadence:
    """The ticks `starting + k * every`. `starting` is in UTC."""

    every: timedelta
    starting: datetime

    def after(self, instant: datetime) -> datetime:
        """Return the first tick after the instant. The instant itself does not count."""
        if instant < self.starting:
            return self.starting
        return self.starting + ((instant - self.starting) // self.every + 1) * self.every

    @property
    def said(self) -> str:
        """The cadence in words, which no other has."""
        seconds = int(self.every.total_seconds())
        unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
        distance = unit if seconds == size else f"{seconds // size} {unit}s"
        since = in_utc(self.starting).replace("T", " ").removesuffix("Z").removesuffix(":00")
        return f"every {distance}, from {since} UTC"


def cadence(every: object, starting: object) -> Cadence:
    """Return the cadence, or raise a ValueError that names the argument, its value and the remedy.

    `every` is seconds or a `timedelta`; without `starting`, the first tick is at the epoch.
    """
    found = milliseconds(every, "every", least=1, most=_LONGEST)
    if found % 1000:
        raise ValueError(f"every={every!r} must be whole seconds")
    if starting is None:
        return Cadence(timedelta(milliseconds=found), EPOCH)
    example = "give an aware datetime, such as datetime(2026, 11, 18, 9, tzinfo=UTC)"
    if not isinstance(starting, datetime):
        raise ValueError(f"starting={starting!r} is not an instant: {example}")
    if starting.utcoffset() is None:
        raise ValueError(f"starting={starting!r} has no time zone: {example}")
    if starting.microsecond:
        raise ValueError(f"starting={starting!r} must be a whole second")
    return Cadence(timedelta(milliseconds=found), starting.astimezone(UTC))
