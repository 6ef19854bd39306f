"""Parses a cron line: which wall times it matches, and which is the next one. It knows no time zone and no clock.

A line has five fields, or six with seconds first. A field has `*`, numbers, ranges, steps and lists of them. Months and
days of the week have names. Sunday is 0 and 7. A range may wrap around (`22-2`, `FRI-SUN`); `5/15` begins at 5.

A day has two fields. If both restrict the day, it matches if one of them does; otherwise it matches if both do. `*`,
`*/1` and `?` don't restrict. A restriction to months always counts. A list of days may have

    L              in the day of the month: the last day
    5L, L5, FRIL   in the day of the week: the last Friday of the month
    1#2, MON#2     in the day of the week: the second Monday of the month

Refused with a reason is what other readers take, and mean different things by: `W`, `L-3`, and an `L` alone as the day
of the week. Refused as well is `R`, a random number, which would differ from instance to instance. An `H` is replaced
before a line comes here (see `hashed_line`).

`Days` finds the day, and `Times` the time of day. croniter expands the fields of the time, once for each line. It gets
every field as a list of plain numbers, so this module alone decides what a range, a step or a name means.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import date, datetime, time, timedelta
from functools import lru_cache

# --- days
#
# Calendar arithmetic. The next day of a line may be far away: a fifth Monday in February may be 40 years away.

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


@dataclass(frozen=True, slots=True)
class Times:
    """Times of day: each of the hours, with each of the minutes, with each of the seconds. All are sorted."""

    hours: tuple[int, ...]
    minutes: tuple[int, ...]
    seconds: tuple[int, ...]

    @property
    def first(self) -> time:
        """The first time of a day."""
        return time(self.hours[0], self.minutes[0], self.seconds[0])

    def after(self, wall: datetime) -> datetime | None:
        """Return the first of these times after a wall time on its day; None if the day has no later one."""
        wall = wall.replace(fold=0)  # in which pass of a repeated hour it is shown is for others to say
        has_hour = wall.hour in self.hours
        if has_hour and wall.minute in self.minutes and wall.second < self.seconds[-1]:
            return wall.replace(second=_above(self.seconds, wall.second))
        if has_hour and wall.minute < self.minutes[-1]:
            return wall.replace(minute=_above(self.minutes, wall.minute), second=self.seconds[0])
        if wall.hour < self.hours[-1]:
            return wall.replace(hour=_above(self.hours, wall.hour), minute=self.minutes[0], second=self.seconds[0])
        return None


def _above(found: tuple[int, ...], number: int) -> int:
    """Return the first of these that is larger than the number. There has to be one."""
    return found[bisect_right(found, number)]


def _length(day: date) -> int:
    """Return how many days the month of this day has."""
    is_leap = day.year % 4 == 0 and (day.year % 100 != 0 or day.year % 400 == 0)
    return 28 if day.month == 2 and not is_leap else _LONGEST_MONTHS[day.month - 1]


# --- fields

_TERM = re.compile(r"(?:\*|([0-9]+|[A-Z]+)(?:-([0-9]+|[A-Z]+))?)(?:/([0-9]+))?", re.ASCII)
_EVERY = re.compile(r"\*(/0*1)?|\?")
_LAST = re.compile(r"([0-9]+|[A-Z]{2,})L|L([0-9]+|[A-Z]+)", re.ASCII)
HASHED = re.compile(r"H(?![A-Z])", re.ASCII)
_NTH = re.compile(r"([0-9]+|[A-Z]+)#([0-9]+)", re.ASCII)
_REFUSED_MONTH_DAYS = (
    (re.compile(r"[0-9L]*W[0-9L]*"), "W, the nearest weekday, is not supported: name the days, and let the job decide"),
    (re.compile(r"L-.*"), "only L, the last day itself, is supported: name the days, and let the job decide"),
)
_REFUSED_WEEK_DAYS = (
    (
        re.compile(r"L"),
        "an L alone may mean Saturday or the last day: write 6, or an L for the day of the month",
    ),
    (re.compile(r".*#L"), "the last one of a month is written without #, as in 5L"),
    (re.compile(r".*-.*[#L].*"), "a range has neither L nor #: write a list, such as 1L,2L"),
)
_MOST_WEEKS = 5
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")


@dataclass(frozen=True, slots=True)
class Field:
    """A field of the line: `size` numbers from `first` on. They begin anew with each `period`.

    `unit` is what `timedelta` calls a step of the field; None if there is no such word.
    """

    name: str
    period: str
    first: int
    size: int
    unit: str | None = None
    names: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The largest number that may be written. For days of the week it is 7, which is Sunday too."""
        return 7 if self.names is _DAYS else self.first + self.size - 1

    def number(self, text: str) -> int:
        """Return the number that is written, or that a name stands for."""
        if text in self.names:
            return self.first + self.names.index(text)
        if not text.isdecimal() or not self.first <= int(text) <= self.last:
            names = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
            raise ValueError(f"{text} is not a valid {self.name}: use {self.first} to {self.last}{names}")
        return int(text)


@dataclass(frozen=True, slots=True)
class Odd:
    """A step that probably isn't what was meant, with the numbers that it stands for."""

    field: Field
    term: str
    step: int
    numbers: tuple[int, ...]

    @property
    def said(self) -> str:
        """What is odd about the step, and how to write what it means."""
        if len(self.numbers) == 1:
            return f"the step of {self.term} is too big for a {self.field.name}: it matches {self.numbers[0]} only"
        written = ",".join(map(str, self.numbers))
        return f"{self.term} is uneven: it starts again with each {self.field.period}; write {written} if you want that"


MONTH_DAY = Field("day of the month", "month", 1, 31, "days")
MONTH = Field("month", "year", 1, 12, None, _MONTHS)
WEEK_DAY = Field("day of the week", "week", 0, 7, "days", _DAYS)
FIELDS = (
    Field("second", "minute", 0, 60, "seconds"),
    Field("minute", "hour", 0, 60, "minutes"),
    Field("hour", "day", 0, 24, "hours"),
    MONTH_DAY,
    MONTH,
    WEEK_DAY,
)


def is_every(text: str) -> bool:
    """Return whether a field that says this restricts nothing."""
    return _EVERY.fullmatch(text) is not None


def numbers(field: Field, text: str, odd: list[Odd]) -> frozenset[int]:
    """Return the numbers of a field. Steps that hardly mean what they say are added to `odd`."""
    return frozenset(number for term in text.split(",") for number in _numbers(field, term, odd))


def month_days(text: str, odd: list[Odd]) -> MonthDays | None:
    """Return the days of the month; None for any day."""
    terms = ["*"] if text == "?" else text.split(",")
    for term in terms:
        _check(term, MONTH_DAY, _REFUSED_MONTH_DAYS)
    plain = [term for term in terms if term != "L"]
    found = numbers(MONTH_DAY, ",".join(plain), odd) if plain else frozenset()
    return None if is_every(text) else MonthDays(found, last=len(plain) < len(terms))


def week_days(text: str, odd: list[Odd]) -> WeekDays | None:
    """Return the days of the week; None for any day."""
    each: set[int] = set()
    nth: set[tuple[int, int]] = set()
    last: set[int] = set()
    for term in ["*"] if text == "?" else text.split(","):
        _check(term, WEEK_DAY, _REFUSED_WEEK_DAYS)
        if match := _LAST.fullmatch(term):
            last.add(WEEK_DAY.number(match[1] or match[2]) % 7)
        elif match := _NTH.fullmatch(term):
            if not 1 <= int(match[2]) <= _MOST_WEEKS:
                raise ValueError(f"{term} is not a valid {WEEK_DAY.name}: use #1 to #{_MOST_WEEKS}, or 5L for the last")
            nth.add((WEEK_DAY.number(match[1]) % 7, int(match[2])))
        else:
            each.update(_numbers(WEEK_DAY, term, odd))
    return None if is_every(text) else WeekDays(frozenset(each), frozenset(nth), frozenset(last))


def _check(term: str, field: Field, refused: tuple[tuple[re.Pattern[str], str], ...]) -> None:
    for form, why in refused:
        if form.fullmatch(term):
            raise ValueError(f"{term!r} is not a valid {field.name}: {why}")


def _numbers(field: Field, term: str, odd: list[Odd]) -> Iterator[int]:
    match = _TERM.fullmatch(term)
    if match is None:
        raise ValueError(
            f"{term!r} is not a valid {field.name}: use *, a number, a range such as 1-5, or a step such as */2"
        )
    first, last, step = match.groups()
    low = field.number(first) if first else field.first
    # "5" is 5 alone, "5/15" goes on from 5 to the end of the field, and "*" is every number.
    open_end = low if first and not step else field.first + field.size - 1
    high = field.number(last) if last else open_end
    if high < low:
        high += field.size
    if step and int(step) == 0:
        raise ValueError(f"the step of {term!r} must be 1 or more")
    values = range(low, high + 1, int(step or 1))
    # A range with an explicit end is uneven on purpose, so it gets no warning.
    if step and (len(values) == 1 or (not last and field.size % int(step))):
        odd.append(Odd(field, term, int(step), tuple(values)))
    return (field.first + (value - field.first) % field.size for value in values)


# --- the line

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_TIME_FIELDS = 3


class CronLine:
    """The wall times of a cron line. A line that is refused raises a ValueError with the line and the reason.

    `texts` are its six fields in capital letters, with "0" for the seconds of a line of five.
    """

    def __init__(self, line: str | None) -> None:
        if not isinstance(line, str):
            remedy = "write a line such as '0 9 * * *', or every=timedelta(minutes=45) instead of a line"
            raise ValueError(f"a cron line must be a string, not {line!r}: {remedy}")
        self.line = str(line)
        texts = _split(line)
        self.has_seconds = len(texts) == len(FIELDS)
        self.texts = tuple(texts if self.has_seconds else ["0", *texts])
        self.is_wildcard = any(text.startswith("*") for text in self.texts[1:_TIME_FIELDS])
        odd: list[Odd] = []
        try:
            self.seconds, self.minutes, self.hours = (
                numbers(field, text, odd) for field, text in zip(FIELDS[:_TIME_FIELDS], self.texts, strict=False)
            )
            month_day, month, week_day = self.texts[_TIME_FIELDS:]
            of_month = month_days(month_day, odd)
            self.days = Days(of_month, week_days(week_day, odd), numbers(MONTH, month, odd))
        except ValueError as error:
            swapped = self._with_seconds_last()
            hint = f". Seconds come first: is {swapped!r} meant?" if swapped is not None else ""
            raise ValueError(f"the cron line {line!r} can't be used: {error}{hint}") from None
        if not self.days.exist:
            raise ValueError(
                f"the cron line {line!r} can't be used: it never fires, because none of its months has such a day"
            )
        said = [f"{one.said}{self._remedy(one)}" for one in odd]
        swapped = self._with_seconds_last() if self.texts[2] == "*" else None
        if swapped is not None:
            said.append(
                f"the seconds come first, and the 0 at the end is Sunday: if it is meant for the seconds, write "
                f"{swapped!r}; if not, write SUN"
            )
        self.warnings = tuple(f"in the cron line {line!r} {one}" for one in said)
        plain = [",".join(map(str, sorted(found))) for found in (self.seconds, self.minutes, self.hours)]
        # Imported here, so that a program that only imports firecron's names doesn't load croniter.
        from croniter import croniter

        # It returns the seconds last, and a star for all numbers of a field.
        (minutes, hours, *_, seconds), _ = croniter.expand(f"{' '.join(plain)} * * *", second_at_beginning=True)
        self._times = Times(
            *(
                tuple(range(field.size)) if found == ["*"] else tuple(sorted(map(int, found)))
                for field, found in zip(FIELDS[2::-1], (hours, minutes, seconds), strict=False)
            )
        )

    def after(self, wall: datetime) -> datetime:
        """Return the first matching wall time after this one. Both have no time zone, and whole seconds."""
        day = wall.date()
        if self.days.match(day) and (found := self._times.after(wall)) is not None:
            return found
        return datetime.combine(self.days.after(day), self._times.first)

    def _with_seconds_last(self) -> str | None:
        """Return the line as it has to be written if its last field was meant for the seconds, which are 0 then.

        None if the line can't be read so. It looks like a line for Sundays. But few of those fire in every
        hour, which a line for 09:00 does if its fields are taken for one further right.
        """
        *others, last = self.texts
        if not self.has_seconds or last not in ("0", "00"):
            return None
        try:
            return f"0 {CronLine(' '.join(others)).line}"
        except ValueError:
            return None

    def _remedy(self, odd: Odd) -> str:
        """Return what to write for even steps, if the step and a time below it are all that the line has."""
        place, unit = FIELDS.index(odd.field), odd.field.unit
        start = min(place, _TIME_FIELDS)
        finer, others = self.texts[:start], self.texts[start:place] + self.texts[place + 1 :]
        is_alone = odd.term == self.texts[place] and all(map(str.isdecimal, finer)) and all(map(is_every, others))
        if unit is None or not is_alone:
            return ""
        return f"; for a tick every {odd.step} {unit}, write every=timedelta({unit}={odd.step}) instead of the line"


def is_hashed(line: object) -> bool:
    """Return whether a line has an `H` that stands for a number (see `hashed_line`)."""
    # Most lines have no such letter at all.
    return (
        isinstance(line, str)
        and ("H" in line or "h" in line)
        and any(HASHED.match(term) for term in re.split(r"[\s,]+", line.upper()))
    )


def parsed(line: str | None) -> CronLine:
    """Return the line. Raise a ValueError with the reason if it is refused."""
    return _parsed(line) if isinstance(line, str) else CronLine(line)


# A program may have thousands of jobs, and a few lines.
_parsed = lru_cache(1_000)(CronLine)


@lru_cache(1_000)
def in_minutes(text: str) -> tuple[str, int] | None:
    """Return the line in five fields of plain numbers, and its second; None if it has several seconds, an L or a #.

    Names, ranges that wrap around and steps mean different things to different readers of cron lines. Numbers don't.
    """
    line = parsed(text)
    days = line.days
    if len(line.seconds) > 1 or (days.of_month and days.of_month.last):
        return None
    if days.of_week and (days.of_week.nth or days.of_week.last):
        return None
    fields = (
        _listed(line.minutes, 60),
        _listed(line.hours, 24),
        _listed(days.of_month.numbers, 0) if days.of_month else "*",
        _listed(days.months, 12),
        _listed(days.of_week.each, 0) if days.of_week else "*",
    )
    return " ".join(fields), min(line.seconds)


def _listed(numbers: Collection[int], every: int) -> str:
    return "*" if len(numbers) == every else ",".join(map(str, sorted(numbers)))


def _split(line: str) -> list[str]:
    fields = line.upper().split()
    if len(fields) == 1 and fields[0].startswith("@"):
        alias = fields[0].lower()
        if alias not in _ALIASES:
            raise ValueError(f"the cron line {line!r} is unknown: use one of {', '.join(_ALIASES)}")
        return _ALIASES[alias].split()
    if len(fields) not in (len(FIELDS) - 1, len(FIELDS)):
        raise ValueError(f"the cron line {line!r} has {len(fields)} fields: use 5, or 6 with seconds first")
    return fields
