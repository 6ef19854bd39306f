"""The days of a cron line in words: "on the 15th and the last day of the month", "on Mondays to Fridays". Pure."""

from __future__ import annotations

from firecron.cron.days import Days, MonthDays, WeekDays
from firecron.cron.listing import joined, listed, ordinal, steps

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
