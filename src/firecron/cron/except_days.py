"""Days on which a schedule has no ticks, by name: `except_days`. Pure.

    except_days=[date(2026, 12, 25)]                       dates
    except_days=is_holiday                                 a function of the date
    except_days={"holiday": is_holiday, "stocktaking": [date(2027, 1, 2)]}

A day is that on the clocks of the schedule's zone. Without a name it is "some days". A function has to be pure: all
instances must get the same answer, which is why it is asked for its answer about each of the years 2025 to 2044 (its
fingerprint): programs whose functions differ in one of these days have different schedules. A date about which a
function raises is not excluded, and `warnings` say so.

Other programs can't call the function. What they get is a text of the dates near now, and the fingerprint (see
`known_dates` and `read_known`).
"""

from __future__ import annotations

import inspect
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import lru_cache
from hashlib import blake2b
from itertools import islice
from typing import TypeAlias

IsDay: TypeAlias = Callable[[date], object]
# The values of a mapping are days as well. A type checker can't infer that of one with a function and a list.
Days: TypeAlias = Mapping[str, object] | Iterable[date] | IsDay

_UNNAMED = "some days"
_NAME = re.compile(r"[^\W_][\w &'.-]{0,29}")
_DAY = timedelta(days=1)
_FIRST, _YEARS = date(2025, 1, 1), 20
_MOST_TOLD = 3
_EXAMPLE = 'give dates, a function of a date, or names for them: {"holiday": [date(2026, 12, 25)]}'
_KNOWN = re.compile(r"([0-9]{4}-[0-9]{2}-[0-9]{2}) ([^,]+)")


@dataclass(frozen=True)
class ExceptDays:
    """Days by name, the first name that fits. `fingerprint` is equal if the days are.

    Those that were `read` from a database are dates, with the fingerprint of what they come from.
    """

    days: tuple[tuple[str, frozenset[date] | IsDay], ...] = field(compare=False)
    read: str | None = field(default=None, compare=False)

    @property
    def names(self) -> list[str]:
        """The names."""
        return list(dict.fromkeys(name for name, _ in self.days))

    @property
    def fingerprint(self) -> str:
        """Eight characters. Those of other days, or of the same ones by another name, differ."""
        if self.read is not None:
            return self.read
        text = repr([(name, _printed(days)) for name, days in self.days])
        return urlsafe_b64encode(blake2b(text.encode(), digest_size=6).digest()).decode()

    @property
    def warnings(self) -> Iterator[str]:
        """What is odd: the dates about which a function raises."""
        for name, days in self.days:
            if not isinstance(days, frozenset) and (failed := _evaluated(days)[1]):
                day, error = failed
                yield (
                    f"except_days[{name!r}] raised {error} for {day}: it excludes no day about which it raises; let it "
                    "return False there"
                )

    def name_of(self, day: date) -> str | None:
        """Return why the day has no ticks: its name; None if it has."""
        return next((name for name, days in self.days if _has(days, day)), None)


def checked(given: object) -> ExceptDays | None:
    """Return the days; None for none. Raise a ValueError that says what is wrong with them."""
    if isinstance(given, ExceptDays):
        return given
    if given is None:
        return None
    named = given if isinstance(given, Mapping) and not _are_dates(given) else {_UNNAMED: given}
    found = [(_checked_name(name), _checked_days(name, days)) for name, days in named.items()]
    return ExceptDays(tuple(found)) if found else None


def _are_dates(given: Iterable[object]) -> bool:
    """Return whether these are dates: a mapping of dates to their names, as packages of holidays have it."""
    return next((isinstance(one, date) for one in given), False)


def _checked_name(name: object) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise ValueError(
            f"except_days has the name {name!r}: use letters, digits and blanks, 30 characters at most, such as holiday"
        )
    return name


def _checked_days(name: object, days: object) -> frozenset[date] | IsDay:
    where = "except_days" if name == _UNNAMED else f"except_days[{name!r}]"
    if inspect.iscoroutinefunction(days):
        raise ValueError(f"{where}={days!r} is async, and a function of days must be pure: {_EXAMPLE}")
    if callable(days):
        return days
    if isinstance(days, str) or not isinstance(days, Iterable):
        raise ValueError(f"{where}={days!r} are no days: {_EXAMPLE}")
    found = list(days)
    for day in found:
        if not isinstance(day, date) or isinstance(day, datetime):
            raise ValueError(f"{where} has {day!r}, which is no date: write date(2026, 12, 25)")
    return frozenset(found)


def _has(days: frozenset[date] | IsDay, day: date) -> bool:
    if isinstance(days, frozenset):
        return day in days
    try:
        return bool(days(day))
    except Exception:
        return False  # `warnings` say so


def _printed(days: frozenset[date] | IsDay) -> str:
    found = days if isinstance(days, frozenset) else _evaluated(days)[0]
    return " ".join(sorted(day.isoformat() for day in found))


def _evaluated(days: IsDay) -> tuple[frozenset[date], tuple[date, str] | None]:
    """Return the days of the known years that a function names, and the first one about which it raised, with why."""
    try:
        return _cached(days)
    except TypeError:
        return _asked(days)  # it can't be hashed


def _asked(days: IsDay) -> tuple[frozenset[date], tuple[date, str] | None]:
    found, failed = [], None
    day, last = _FIRST, _FIRST.replace(year=_FIRST.year + _YEARS)
    while day < last:
        try:
            if days(day):
                found.append(day)
        except Exception as error:
            failed = failed or (day, f"{type(error).__name__}: {error}")
        day += _DAY
    return frozenset(found), failed


# A program may have many jobs, and one function of holidays.
_cached = lru_cache(100)(_asked)


# --- what other programs are told

# How many dates to come they get, and how far ahead and back these are searched.
MOST_TO_COME = 50
_MOST_PAST = 100
_AHEAD, _BACK, _AT_LEAST_BACK = 2 * 366, 366, 31


def known_dates(days: ExceptDays, has_ticks: Callable[[date], bool], today: date) -> str:
    """Return the next dates on which ticks are excluded, with their names, and those since the last day with ticks.

    The past ones tell a reader that what did not run since is not late: a month of them, or as many as there are.
    """
    come = _excluded(days, has_ticks, (today + number * _DAY for number in range(_AHEAD)))
    past = []
    for number in range(1, _BACK):
        day = today - number * _DAY
        if not has_ticks(day):
            continue
        if (name := days.name_of(day)) is not None:
            past.append((day, name))
        elif number > _AT_LEAST_BACK:
            break
    found = [*reversed(past[:_MOST_PAST]), *islice(come, MOST_TO_COME)]
    return ",".join(f"{day.isoformat()} {name}" for day, name in found)


def _excluded(
    days: ExceptDays, has_ticks: Callable[[date], bool], candidates: Iterable[date]
) -> Iterator[tuple[date, str]]:
    for day in candidates:
        if (name := days.name_of(day)) is not None and has_ticks(day):
            yield day, name


def read_known(text: str, fingerprint: str) -> ExceptDays:
    """Return the days of such a text. What can't be read is left out."""
    found: dict[str, set[date]] = {}
    for match in map(_KNOWN.fullmatch, text.split(",")):
        if match is not None:
            try:
                found.setdefault(match[2], set()).add(date.fromisoformat(match[1]))
            except ValueError:
                continue
    return ExceptDays(tuple((name, frozenset(days)) for name, days in found.items()), fingerprint)


def is_known_enough(mine: str, stored: object) -> bool:
    """Return whether a text that was stored before has at least half of the dates that are to be known now."""
    if not isinstance(stored, str):
        return False
    wanted, there = {*mine.split(",")}, {*stored.split(",")}
    return 2 * len(wanted & there) >= len(wanted)
