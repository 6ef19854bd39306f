"""Which days a cron line matches: calendar arithmetic, without times and zones. Pure.

A line restricts its days by the month, by the week, or not at all. If it restricts both, a day matches that matches
either; a restriction to months always counts. A fifth Monday in February may be 40 years away.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, timedelta

_DAY = timedelta(days=1)
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)


@dataclass(frozen=True, slots=True)
class MonthDays:
    """Days of the month: by their numbers, and the last one if `last`."""

    numbers: frozenset[int]
    last: bool = False

    def match(self, day: date) -> bool:
        """Return whether the day is one of them."""
        return day.day in self.numbers or (self.last and day.day == _length(day))

    def exist(self, months: frozenset[int]) -> bool:
        """Return whether one of the months has such a day, in some year."""
        return self.last or any(min(self.numbers) <= _LONGEST_MONTHS[month - 1] for month in months)


@dataclass(frozen=True, slots=True)
class WeekDays:
    """Days of the week, Sunday is 0: each one, the nth ones of a month, and the last ones of a month."""

    each: frozenset[int]
    nth: frozenset[tuple[int, int]] = frozenset()
    last: frozenset[int] = frozenset()

    def match(self, day: date) -> bool:
        """Return whether the day is one of them."""
        weekday = day.isoweekday() % 7
        if weekday in self.each or (weekday, (day.day + 6) // 7) in self.nth:
            return True
        return weekday in self.last and day.day > _length(day) - 7


@dataclass(frozen=True, slots=True)
class Days:
    """The days of a line. None stands for a field that doesn't restrict them."""

    of_month: MonthDays | None
    of_week: WeekDays | None
    months: frozenset[int]

    @property
    def exist(self) -> bool:
        """Whether any year has such a day."""
        return self.of_month is None or self.of_week is not None or self.of_month.exist(self.months)

    def match(self, day: date) -> bool:
        """Return whether the line matches this day."""
        if day.month not in self.months:
            return False
        if self.of_month is None:
            return self.of_week is None or self.of_week.match(day)
        return self.of_month.match(day) or (self.of_week is not None and self.of_week.match(day))

    def after(self, day: date) -> date:
        """Return the first day after this one that the line matches. There has to be one (`exist`)."""
        day += _DAY
        while not self.match(day):
            day = day + _DAY if day.month in self.months else (day.replace(day=28) + 4 * _DAY).replace(day=1)
        return day


def _length(day: date) -> int:
    """Return how many days the month of this day has."""
    is_leap = day.year % 4 == 0 and (day.year % 100 != 0 or day.year % 400 == 0)
    return 28 if day.month == 2 and not is_leap else _LONGEST_MONTHS[day.month - 1]
