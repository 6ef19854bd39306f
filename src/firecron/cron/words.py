"""What a schedule means, in words: "at 09:00 every day, New York"; and what becomes of it when the clocks change. Pure.

Lines that fire differently don't have the same words. Common forms read as people say them. For all others the fields
are listed, which is right for any line: "at every 2nd minute from 1 to 59 of every hour, UTC".

The words also tell lines apart that only differ when the clocks change (see `zoned_line`). "every 2 hours" follows the
real clock, "every 2 hours from 00:00 to 22:00" has each wall time once; where the words alone would not tell, "as often
as the clock shows it" is added.

Of a night when the clocks change, it explains why the line's ticks fall as they do. The schedule decides what runs;
this module asks the schedule.

    skipped    wall times that no clock shows; nothing runs for them
    moved      wall times that no clock shows; they run once, at the change
    repeated   wall times that come twice, and run both times
    once       wall times that come twice, and run the first time only
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import lru_cache
from itertools import islice, pairwise
from typing import Literal, TypeAlias
from zoneinfo import ZoneInfo

from firecron.cron.line import CronLine, Days, MonthDays, WeekDays
from firecron.cron.schedule import EPOCH, Schedule
from firecron.cron.zoned_line import change_between, offset_at

_MOST_TIMES = 4
_OFTEN = {2: "twice", 3: "three times", 4: "four times"}
_STEP = re.compile(r"\*(?:/([0-9]+))?")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)(?:/([0-9]+))?")
_HOURS, _SIXTY = 24, 60
_CITY = re.compile(r"(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)/([A-Za-z_-]+)")


def in_words(schedule: Schedule) -> str:
    """Return what a schedule means."""
    words = _unbounded(schedule)
    if schedule.has_line:
        city = _CITY.fullmatch(schedule.timezone)
        words = f"{words}, {city[1].replace('_', ' ') if city else schedule.timezone}"
    return f"{words}{_bounds(schedule)}"


# A page that is kept live asks for the words of all its jobs every few seconds.
@lru_cache(2_000)
def without_place(schedule: Schedule) -> str:
    """Return what a schedule means, without its time zone."""
    return f"{_unbounded(schedule)}{_bounds(schedule)}"


@lru_cache(2_000)
def _unbounded(schedule: Schedule) -> str:
    if schedule.has_line:
        return _line_in_words(CronLine(schedule.line))
    return schedule.line.partition(", from ")[0]


def _bounds(schedule: Schedule) -> str:
    """Return from when and until when, by the clocks of its zone, after a comma; "" if it has no bounds."""
    found = ""
    # Where even distances begin to count, unless somebody has said that, tells nobody anything.
    if schedule.starting is not None and (schedule.has_line or schedule.starting != EPOCH):
        found = f", from {_instant(schedule, schedule.starting)}"
    if schedule.until is not None:
        found += f", until {_instant(schedule, schedule.until)}"
    found = found if schedule.has_line or not found else f"{found} UTC"
    days = schedule.except_days
    return found if days is None else f"{found}, except {joined(days.names)}"


def _instant(schedule: Schedule, instant: datetime) -> str:
    """Return an instant on the clocks of the zone, with seconds if it has any, and its offset in a repeated hour."""
    local = instant.astimezone(ZoneInfo(schedule.timezone))
    shown = f"{local:%Y-%m-%d %H:%M:%S}".removesuffix(":00")
    is_repeated = local.utcoffset() != local.replace(fold=1 - local.fold).utcoffset()
    return f"{shown} {local:%z}" if is_repeated else shown


def _line_in_words(line: CronLine) -> str:
    days, months = days_in_words(line.days), within(line.days.months)
    clock = _clock(line)
    if clock is not None and days.startswith("on the "):
        return f"{days} {clock}"
    all_day = _all_day(line)
    if all_day is not None:
        return f"{all_day} {days}" if days else f"{all_day}{months}"
    return f"{clock or _span(line) or _listed(line)} {days or f'every day{months}'}"


def _clock(line: CronLine) -> str | None:
    """Return "at 09:00 and 17:00" for a few times of a line that is fixed."""
    times = [(hour, minute, second) for hour in line.hours for minute in line.minutes for second in line.seconds]
    if line.is_wildcard or len(times) > _MOST_TIMES:
        return None
    return f"at {joined([_shown(line, *time) for time in sorted(times)])}"


def _all_day(line: CronLine) -> str | None:
    """Return "every 15 minutes" for what goes on all day, by the real clock."""
    second_step, minute_step = _step(line.texts[0], _SIXTY), _step(line.texts[1], _SIXTY)
    hour_step = _step(line.texts[2], _HOURS)
    second, minute = _only(line.seconds), _only(line.minutes)
    if hour_step is None:
        return None
    if hour_step == minute_step == 1 and second_step is not None:
        return f"every {_counted(second_step, 'second')}"
    at_second = "" if second == 0 else f"second {second}"
    if hour_step == 1 and minute_step is not None and second is not None:
        return f"every {_counted(minute_step, 'minute')}{at_second and ', at '}{at_second}"
    if minute is not None and second is not None:
        at = joined([part for part in (f"minute {minute}" if minute or second else "", at_second) if part] or [""])
        return f"every {_counted(hour_step, 'hour')}{at and ', at '}{at}"
    if hour_step == minute_step == 1 and len(line.seconds) in _OFTEN:
        return f"{_OFTEN[len(line.seconds)]} a minute, at {_after_colons(line.seconds)}"
    if hour_step == 1 and second == 0 and len(line.minutes) in _OFTEN:
        return f"{_OFTEN[len(line.minutes)]} an hour, at {_after_colons(line.minutes)}"
    return _listed(line) if hour_step == 1 else None


def _after_colons(numbers: frozenset[int]) -> str:
    return joined([f":{number:02}" for number in sorted(numbers)])


def _span(line: CronLine) -> str | None:
    """Return "every 30 minutes from 09:00 to 17:30" for even steps in a part of the day."""
    second_step, minute_step = _step(line.texts[0], _SIXTY), _step(line.texts[1], _SIXTY)
    second, minute = _only(line.seconds), None if line.is_wildcard else _only(line.minutes)
    hours = _range(line)
    if hours is None:
        return None
    first, last, hour_step = hours
    is_whole = first == last or hour_step == 1
    if second is not None and minute is not None and first != last:
        distance, minutes, seconds = _counted(hour_step, "hour"), (minute, minute), (second, second)
    elif second is not None and minute_step is not None and is_whole:
        distance = _counted(minute_step, "minute")
        minutes, seconds = (0, max(line.minutes)), (second, second)
    elif second_step is not None and is_whole and (minute_step == 1 or (minute is not None and first == last)):
        distance = _counted(second_step, "second")
        minutes, seconds = (min(line.minutes), max(line.minutes)), (0, max(line.seconds))
    else:
        return None
    begin, end = _shown(line, first, minutes[0], seconds[0]), _shown(line, last, minutes[1], seconds[1])
    return f"every {distance} from {begin} to {end}"


def _listed(line: CronLine) -> str:
    """Return each field by itself, which is right for any line."""
    at = _numbered("minute", line.minutes)
    if line.seconds != {0}:
        at = f"{_numbered('second', line.seconds)} of {at}"
    if _step(line.texts[2], _HOURS) == 1:
        return f"at {at} of every hour"
    hours = _numbered("hour", line.hours)
    passes = ", as often as the clock shows it," if line.is_wildcard else ""
    return f"at {at} of {'the ' if hours.startswith('hours') else ''}{hours}{passes}"


def _step(text: str, size: int) -> int | None:
    """Return the step of a field that has even steps over all of its numbers."""
    match = _STEP.fullmatch(text)
    step = int(match[1] or 1) if match else size
    return step if step < size and size % step == 0 else None


def _range(line: CronLine) -> tuple[int, int, int] | None:
    """Return the first and the last hour, and the step, if that is all that the hours say."""
    text, step = line.texts[2], steps(line.hours)
    match = _RANGE.fullmatch(text)
    if match is not None and len(line.hours) > 1:
        first, step = int(match[1]), int(match[3] or 1)
        return first, (first + (len(line.hours) - 1) * step) % _HOURS, step
    if step is not None and not text.startswith("*"):
        return min(line.hours), max(line.hours), step
    return (int(text), int(text), 1) if text.isdecimal() else None


def _only(numbers: frozenset[int]) -> int | None:
    return next(iter(numbers)) if len(numbers) == 1 else None


def _counted(step: int, unit: str) -> str:
    return unit if step == 1 else f"{step} {unit}s"


def _numbered(unit: str, numbers: frozenset[int]) -> str:
    if len(numbers) == _SIXTY:
        return f"every {unit}"
    step = steps(numbers)
    if step is not None:
        return f"every {ordinal(step)} {unit} from {min(numbers)} to {max(numbers)}"
    return f"{unit}{'s' if len(numbers) > 1 else ''} {joined(listed(numbers))}"


def _shown(line: CronLine, hour: int, minute: int, second: int) -> str:
    shown = f"{hour:02}:{minute:02}"
    return shown if line.seconds == {0} else f"{shown}:{second:02}"


# --- days: "on the 15th and the last day of the month", "on Mondays to Fridays"

_NAMES = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
_NTH = ("first", "second", "third", "fourth", "fifth")
_MONTHS = (
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
)


def days_in_words(days: Days) -> str:
    """Return which days they are, without the months if that is every day; "" for every day."""
    month_days, week_days = days.of_month, days.of_week
    if _is_any(month_days, week_days):
        return ""
    of_month = [] if month_days is None else _of_month(month_days)
    of_month += [] if week_days is None else _nth(week_days)
    parts = [f"on {joined(of_month)} {_of(days.months)}"] if of_month else []
    if week_days is not None and week_days.each:
        parts.append(f"{_of_week(week_days.each)}{within(days.months)}")
    return " and ".join(parts)


def within(months: frozenset[int]) -> str:
    """Return in which months, after a space; "" for all of them."""
    return "" if len(months) == len(_MONTHS) else f" in {_named(months)}"


def _is_any(month_days: MonthDays | None, week_days: WeekDays | None) -> bool:
    """Return whether these are all days, as where one of the two fields has every number."""
    if month_days is None and week_days is None:
        return True
    is_any_date = month_days is not None and month_days.numbers >= frozenset(range(1, 32))
    return is_any_date or (week_days is not None and week_days.each >= frozenset(range(7)))


def _of(months: frozenset[int]) -> str:
    if len(months) == len(_MONTHS):
        return "of the month"
    named = _named(months)
    return f"of each month from {named}" if " to " in named else f"of {named}"


def _named(months: frozenset[int]) -> str:
    return joined(listed(months, lambda month: _MONTHS[month - 1]))


def _of_month(days: MonthDays) -> list[str]:
    step = steps(days.numbers)
    if step is not None:
        first, last = ordinal(min(days.numbers)), ordinal(max(days.numbers))
        found = [f"every {ordinal(step)} day from the {first} to the {last}"]
    else:
        found = listed(days.numbers, lambda number: f"the {ordinal(number)}")
    return [*found, "the last day"] if days.last else found


def _nth(days: WeekDays) -> list[str]:
    nth = sorted((_place(weekday), number) for weekday, number in days.nth)
    found = [f"the {_NTH[number - 1]} {_NAMES[place]}" for place, number in nth]
    return found + [f"the last {_NAMES[place]}" for place in sorted(map(_place, days.last))]


def _of_week(weekdays: frozenset[int]) -> str:
    return f"on {joined(listed(map(_place, weekdays), lambda place: f'{_NAMES[place]}s'))}"


def _place(weekday: int) -> int:
    """Return the place of a weekday in a week that begins on Monday."""
    return (weekday - 1) % 7


# --- lists of numbers: "0, 15 and 40 to 45"

_SHORTEST_RUN = 3
_SHORTEST_STEPS = 5
_SUFFIXES = {1: "st", 2: "nd", 3: "rd"}


def joined(parts: Sequence[str]) -> str:
    """Return the parts as one enumeration."""
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def listed(numbers: Iterable[int], said: Callable[[int], str] = str) -> list[str]:
    """Return the numbers, each as it is `said`, with three or more in a row as "40 to 45"."""
    runs: list[list[int]] = []
    for number in sorted(numbers):
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    found: list[str] = []
    for run in runs:
        if len(run) >= _SHORTEST_RUN:
            found.append(f"{said(run[0])} to {said(run[-1])}")
        else:
            found.extend(map(said, run))
    return found


def steps(numbers: Iterable[int]) -> int | None:
    """Return the step from each of the numbers to the next; None if it differs, is 1, or if the numbers are few."""
    found = sorted(numbers)
    sizes = {later - number for number, later in pairwise(found)}
    return sizes.pop() if len(found) >= _SHORTEST_STEPS and len(sizes) == 1 and 1 not in sizes else None


def ordinal(number: int) -> str:
    """Return "1st", "2nd", "3rd", "4th" and so on."""
    is_teen = number // 10 % 10 == 1
    return f"{number}{'th' if is_teen else _SUFFIXES.get(number % 10, 'th')}"


# --- nights when the clocks change

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
    if not schedule.has_line:
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
    runs_then = schedule.next_after(at - _SECOND) == at
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
