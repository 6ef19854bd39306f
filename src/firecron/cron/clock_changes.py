"""Explains to people why a cron line's ticks fall as they do on a night when the clocks change.

    skipped    wall times that no clock shows; nothing runs for them
    moved      wall times that no clock shows; they run once, at the change
    repeated   wall times that come twice, and run both times
    once       wall times that come twice, and run the first time only

The schedule decides what runs. This module asks the schedule and explains its answer.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from firecron.cron.line import CronLine
from firecron.cron.schedule import Schedule
from firecron.cron.zoned_line import change_between, offset_at

Kind: TypeAlias = Literal["skipped", "moved", "repeated", "once"]

_SECOND = timedelta(seconds=1)
# The span of one search step. Two changes are never so near each other that both lie in one span.
_STRIDE = timedelta(hours=12)
_MOST_SHOWN = 3


@dataclass(frozen=True, slots=True)
class Change:
    """An instant at which the clocks are set from one offset to another.

    `times` are those wall times of the line that the change affects, four at most.
    """

    at: datetime
    before: timedelta
    after: timedelta
    kind: Kind
    times: tuple[datetime, ...]

    @property
    def said(self) -> str:
        """The change in one sentence."""
        shown = [f"{time:%H:%M:%S}".removesuffix(":00") for time in self.times[:_MOST_SHOWN]]
        times = ", ".join(shown) + (" …" if len(self.times) > _MOST_SHOWN else "")
        exist, come, run = ("do", "come", "run") if len(self.times) > 1 else ("does", "comes", "runs")
        old, new = self._wall(self.before), self._wall(self.after)
        what = {
            "skipped": f"{times} {exist} not exist: skipped",
            "moved": f"{times} {exist} not exist: moved to {new:%H:%M}",
            "repeated": f"{times} {come} twice, and {run} both times",
            "once": f"{times} {come} twice, and {run} the first time only",
        }[self.kind]
        return f"{old:%Y-%m-%d}: the clocks go from {old:%H:%M} to {new:%H:%M}. {what}"

    def _wall(self, offset: timedelta) -> datetime:
        return (self.at + offset).replace(tzinfo=None)


def special_nights(schedule: Schedule, start: datetime, end: datetime) -> Iterator[Change]:
    """Yield, oldest first, the clock changes from `start` to `end` that affect a tick of this schedule.

    The ticks at even distances (`every`) don't follow the clocks, so no change affects them.
    """
    if schedule.every is not None:
        return
    zone, line = ZoneInfo(schedule.timezone), CronLine(schedule.line)
    for at, before, after in _changes(zone, start, end):
        # At the change, clocks show two times, one before and one after it. The wall times between them are affected.
        first, last = sorted((at + offset).replace(tzinfo=None) for offset in (before, after))
        found = tuple(islice(_times(line, first, last), _MOST_SHOWN + 1))
        if found:
            yield Change(at, before, after, _kind(schedule, line, at, is_forward=after > before), found)


def _kind(schedule: Schedule, line: CronLine, at: datetime, *, is_forward: bool) -> Kind:
    if not is_forward:
        return "repeated" if line.is_wildcard else "once"
    runs_then = schedule.after(at - _SECOND) == at
    return "moved" if runs_then and not line.is_wildcard else "skipped"


def _times(line: CronLine, first: datetime, last: datetime) -> Iterator[datetime]:
    """Yield the line's wall times from `first` on, before `last`."""
    time = line.after(first - _SECOND)
    while time < last:
        yield time
        time = line.after(time)


def _changes(zone: ZoneInfo, start: datetime, end: datetime) -> Iterator[tuple[datetime, timedelta, timedelta]]:
    low = start.astimezone(UTC).replace(microsecond=0)
    while low < end:
        high = low + _STRIDE
        before, after = offset_at(zone, low), offset_at(zone, high)
        if before != after:
            at = change_between(zone, low, high)
            if at <= end:
                yield at, before, after
        low = high
