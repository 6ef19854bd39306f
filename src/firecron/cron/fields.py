"""What a field of a cron line may say: numbers, names, ranges, steps, lists, and the days that cron has no word for.

    L              in the day of the month: the last day
    5L, L5, FRIL   in the day of the week: the last Friday of the month
    1#2, MON#2     in the day of the week: the second Monday of the month

They stand in lists with other days: `15,L`. Other readers take more, and mean different things by it, so this is
refused with a reason: `W`, `L-3`, and an `L` alone as the day of the week.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from firecron.cron.days import MonthDays, WeekDays

_TERM = re.compile(r"(?:\*|([0-9]+|[A-Z]+)(?:-([0-9]+|[A-Z]+))?)(?:/([0-9]+))?", re.ASCII)
_EVERY = re.compile(r"\*(/0*1)?|\?")
_LAST = re.compile(r"([0-9]+|[A-Z]{2,})L|L([0-9]+|[A-Z]+)", re.ASCII)
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
    """A step that hardly means what it says, with the numbers that it stands for."""

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
