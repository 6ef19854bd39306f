"""Parses a cron line: which wall times it matches, and which is the next one. It knows no time zone and no clock.

A line has five fields, or six with seconds first. A field has `*`, numbers, ranges, steps and lists of them. Months and
days of the week have names. Sunday is 0 and 7. A range may wrap around (`22-2`, `FRI-SUN`); `5/15` begins at 5. A day
has two fields. If both restrict the day, it matches if one of them does; otherwise it matches if both do. `*`, `*/1`
and `?` don't restrict.

Refused are `H` and `R`, which would differ from instance to instance, and `L`, `W` and `#`, which cron doesn't have.

croniter finds the next wall time. It gets every field as a list of plain numbers, so this module alone decides what a
range, a step or a name means.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime

_ALIASES = {
    "@hourly": "0 * * * *",
    "@daily": "0 0 * * *",
    "@midnight": "0 0 * * *",
    "@weekly": "0 0 * * 0",
    "@monthly": "0 0 1 * *",
    "@yearly": "0 0 1 1 *",
    "@annually": "0 0 1 1 *",
}
_MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
_DAYS = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
_LONGEST_MONTHS = (31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31)

_TERM = re.compile(r"(?:\*|([0-9]+|[A-Z]+)(?:-([0-9]+|[A-Z]+))?)(?:/([0-9]+))?", re.ASCII)
_EVERY = re.compile(r"\*(/0*1)?|\?")

_SOME_DAY = datetime(2024, 1, 1)  # noqa: DTZ001  # a wall time, like all datetimes in this module


@dataclass(frozen=True, slots=True)
class _Field:
    """A field of the line: `size` numbers from `first` on. They begin anew with each `period`."""

    name: str
    period: str
    first: int
    size: int
    names: tuple[str, ...] = ()

    @property
    def last(self) -> int:
        """The largest number that may be written. For days of the week it is 7, which is Sunday too."""
        return 7 if self.names is _DAYS else self.first + self.size - 1

    def number(self, text: str) -> int:
        if text in self.names:
            return self.first + self.names.index(text)
        if not text.isdecimal() or not self.first <= int(text) <= self.last:
            names = f", or {self.names[0]} to {self.names[-1]}" if self.names else ""
            raise ValueError(f"{text} is not a valid {self.name}: use {self.first} to {self.last}{names}")
        return int(text)


_FIELDS = (
    _Field("second", "minute", 0, 60),
    _Field("minute", "hour", 0, 60),
    _Field("hour", "day", 0, 24),
    _Field("day of the month", "month", 1, 31),
    _Field("month", "year", 1, 12, _MONTHS),
    _Field("day of the week", "week", 0, 7, _DAYS),
)


class CronLine:
    """The wall times of a cron line. A line that is refused raises a ValueError with the line and the reason."""

    def __init__(self, line: str) -> None:
        fields = _split(line)
        self.is_wildcard = fields[-5].startswith("*") or fields[-4].startswith("*")
        warnings: list[str] = []
        try:
            values = [
                _values(field, text, warnings) for field, text in zip(_FIELDS[-len(fields) :], fields, strict=True)
            ]
        except ValueError as error:
            raise ValueError(f"the cron line {line!r} can't be used: {error}") from None
        self.warnings = tuple(f"in the cron line {line!r} {warning}" for warning in warnings)
        self.has_seconds = len(fields) == len(_FIELDS)
        days, months = values[-3], values[-2]
        any_day, any_weekday = (_EVERY.fullmatch(fields[index]) is not None for index in (-3, -1))
        no_such_day = all(_LONGEST_MONTHS[month - 1] < min(days) for month in months)
        if any_weekday and no_such_day:
            raise ValueError(
                f"the cron line {line!r} can't be used: it never fires, because none of its months has such a day"
            )
        plain = [",".join(map(str, sorted(found))) for found in values]
        # No month of the line has such a day, so only the weekdays count. croniter would search for such a day in vain.
        plain[-3] = "*" if any_day or no_such_day else plain[-3]
        plain[-1] = "*" if any_weekday else plain[-1]
        # Imported here, so that a program that only imports firecron's names doesn't load croniter.
        from croniter import croniter

        self._ticks = croniter(" ".join(plain), _SOME_DAY, ret_type=datetime, second_at_beginning=True)

    def after(self, wall: datetime) -> datetime:
        """Return the first matching wall time after this one. Both have no time zone, and whole seconds."""
        # croniter keeps its position, and threads share a schedule, so each call uses a copy. All copies share the
        # parsed line.
        ticks = copy.copy(self._ticks)
        ticks.set_current(wall)
        found: datetime = ticks.get_next()
        return found


def _split(line: object) -> list[str]:
    if not isinstance(line, str):
        raise ValueError(f"a cron line must be a string, not {line!r}")
    fields = line.upper().split()
    if len(fields) == 1 and fields[0].startswith("@"):
        alias = fields[0].lower()
        if alias not in _ALIASES:
            raise ValueError(f"the cron line {line!r} is unknown: use one of {', '.join(_ALIASES)}")
        return _ALIASES[alias].split()
    if len(fields) not in (len(_FIELDS) - 1, len(_FIELDS)):
        raise ValueError(f"the cron line {line!r} has {len(fields)} fields: use 5, or 6 with seconds first")
    return fields


def _values(field: _Field, text: str, warnings: list[str]) -> frozenset[int]:
    if text == "?" and field.name.startswith("day"):
        text = "*"
    return frozenset(value for term in text.split(",") for value in _term(field, term, warnings))


def _term(field: _Field, term: str, warnings: list[str]) -> Iterator[int]:
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
    if step and len(values) == 1:
        warnings.append(f"the step of {term} is too big for a {field.name}: it matches {low} only")
    elif step and not last and field.size % int(step):
        # A range with an explicit end is uneven on purpose, so it gets no warning.
        numbers = ",".join(map(str, values))
        warnings.append(f"{term} is uneven: it starts again with each {field.period}; write {numbers} if you want that")
    return (field.first + (value - field.first) % field.size for value in values)
