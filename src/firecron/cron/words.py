"""What a schedule means, in words: "at 09:00 every day, New York". Pure.

Lines that fire differently don't have the same words. Common forms read as people say them. For all others the fields
are listed, which is right for any line: "at minutes 0 and 45 of every hour, UTC".

The words also tell lines apart that only differ when the clocks change (see `zoned_line`). "every 2 hours" follows the
real clock, "every 2 hours from 00:00 to 22:00" has each wall time once; where the words alone would not tell, "as often
as the clock shows it" is added.
"""

from __future__ import annotations

import re
from functools import lru_cache

from firecron.cron.day_words import days_in_words, within
from firecron.cron.line import CronLine
from firecron.cron.listing import joined, listed, ordinal, steps
from firecron.cron.schedule import Schedule

_MOST_TIMES = 4
_STEP = re.compile(r"\*(?:/([0-9]+))?")
_RANGE = re.compile(r"([0-9]+)-([0-9]+)(?:/([0-9]+))?")
_HOURS, _SIXTY = 24, 60
_CITY = re.compile(r"(?:Africa|America|Antarctica|Arctic|Asia|Atlantic|Australia|Europe|Indian|Pacific)/([A-Za-z_-]+)")


def in_words(schedule: Schedule) -> str:
    """Return what a schedule means."""
    words = without_place(schedule)
    if schedule.every is not None:
        return words
    city = _CITY.fullmatch(schedule.timezone)
    return f"{words}, {city[1].replace('_', ' ') if city else schedule.timezone}"


# A page that is kept live asks for the words of all its jobs every few seconds.
@lru_cache(2_000)
def without_place(schedule: Schedule) -> str:
    """Return what a schedule means, without its time zone."""
    return schedule.line if schedule.every is not None else _line_in_words(CronLine(schedule.line))


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
    return _listed(line) if hour_step == 1 else None


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
