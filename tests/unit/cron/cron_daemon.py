"""A cron daemon that knows nothing of schedules: it wakes at every minute (or second), looks at the clock on the wall,
and runs what is due by Debian's rule. Slow, and simple enough to be seen to be right.

    the wall went on by one step    all jobs that match it; fixed ones only at a time that it has never shown before
    the wall jumped ahead           wildcard jobs that match it; fixed ones also if they match what was jumped over,
                                    unless that is more than three hours
    the wall went back              wildcard jobs that match it; fixed ones wait until it shows a new time
"""

from __future__ import annotations

import calendar
from datetime import UTC, date, datetime, timedelta
from functools import cache
from zoneinfo import ZoneInfo

MINUTE = timedelta(minutes=1)
SECOND = timedelta(seconds=1)
LONGEST_JUMP = timedelta(hours=3)

MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"]


class Daemon:
    """Awake in a zone from `start` to `end` (both in UTC). Its first day is for looking back only: it runs nothing.

    `jumps` is where the wall does not go on by one step.
    """

    def __init__(self, zone: str, start: datetime, end: datetime, step: timedelta = MINUTE) -> None:
        self.start, self.end = start, end
        self._step = step
        place = ZoneInfo(zone)
        count = (end - start) // step
        self.instants = [start + index * step for index in range(count + 1)]
        self.walls = [instant.astimezone(place).replace(tzinfo=None) for instant in self.instants]
        pairs = enumerate(zip(self.walls, self.walls[1:], strict=False), 1)
        self.jumps = [index for index, (before, after) in pairs if after - before != step]

    def runs(self, line: str) -> list[datetime]:
        """When it runs a job with this line."""
        job = _Job(line)
        found = []
        newest = self.walls[0]
        for index in range(1, len(self.walls)):
            instant, wall = self.instants[index], self.walls[index]
            on = wall - newest
            if job.is_wildcard or on == self._step or on - self._step > LONGEST_JUMP:
                is_due = job.matches(wall)
            else:
                # What it has not shown before, up to now: nothing in a second pass, and much after a jump ahead.
                fresh = range(1, on // self._step + 1)
                is_due = any(job.matches(newest + number * self._step) for number in fresh)
            newest = max(newest, wall)
            if is_due:
                found.append(instant.astimezone(UTC))
        return found


class _Job:
    def __init__(self, line: str) -> None:
        fields = line.lower().split()
        minute, hour, day, month, weekday = fields[-5:]
        self.is_wildcard = minute[0] == "*" or hour[0] == "*"
        self._second = {value for value in range(60) if _matches(fields[-6] if len(fields) == 6 else "0", value, 59)}
        self._minute = {value for value in range(60) if _matches(minute, value, 59)}
        self._hour = {value for value in range(24) if _matches(hour, value, 23)}
        self._days, self._weekdays = day.split(","), weekday.split(",")
        plain_day, plain_weekday = ",".join(filter(_is_plain, self._days)), ",".join(filter(_is_plain, self._weekdays))
        self._day = {value for value in range(1, 32) if _matches(plain_day, value, 31, 1)}
        self._month = {value for value in range(1, 13) if _matches(month, value, 12, 1, MONTHS)}
        # Sunday is both.
        self._weekday = {value % 7 for value in range(8) if _matches(plain_weekday, value, 7, 0, DAYS)}
        self._either = not {day, weekday} & {"*", "*/1", "?"}

    def matches(self, wall: datetime) -> bool:
        if wall.hour not in self._hour or wall.minute not in self._minute or wall.second not in self._second:
            return False
        day = wall.day in self._day or ("l" in self._days and _is_last(wall.date()))
        weekday = wall.isoweekday() % 7 in self._weekday or any(_names(term, wall.date()) for term in self._weekdays)
        return wall.month in self._month and ((day or weekday) if self._either else (day and weekday))


def _is_plain(term: str) -> bool:
    return not any(mark in term for mark in "l#")


@cache
def _is_last(day: date) -> bool:
    """Whether tomorrow is in another month."""
    return (day + timedelta(days=1)).month != day.month


@cache
def _names(term: str, day: date) -> bool:
    """Whether a term such as `5l`, `lfri` or `mon#2` is this day: by the sheet that hangs on a wall."""
    name, mark, nth = term.partition("#")
    if _is_plain(term):
        return False
    weekday = _number(name.replace("l", "", 1) if not mark else name, 0, DAYS) % 7
    column = [week[weekday] for week in calendar.Calendar(calendar.SUNDAY).monthdayscalendar(day.year, day.month)]
    such = [number for number in column if number]
    return day.day == such[-1] if not mark else int(nth) <= len(such) and day.day == such[int(nth) - 1]


def _matches(field: str, value: int, last: int, first: int = 0, names: list[str] | None = None) -> bool:
    """Whether a field has this value: it is in one of its terms, and a multiple of the step from the term's start."""
    for term in filter(None, field.split(",")):
        span, _, step = term.partition("/")
        low, _, high = span.partition("-")
        if span in ("*", "?"):
            begin, end = first, last
        else:
            begin = _number(low, first, names)
            end = _number(high, first, names) if high else (last if step else begin)
        if begin <= value <= end and (value - begin) % int(step or 1) == 0:
            return True
    return False


def _number(text: str, first: int, names: list[str] | None) -> int:
    return names.index(text) + first if names and text in names else int(text)
