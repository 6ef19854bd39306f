"""Parses a cron line: which wall times it matches, and which is the next one. It knows no time zone and no clock.

A line has five fields, or six with seconds first. A field has `*`, numbers, ranges, steps and lists of them. Months and
days of the week have names. Sunday is 0 and 7. A range may wrap around (`22-2`, `FRI-SUN`); `5/15` begins at 5. A day
has two fields. If both restrict the day, it matches if one of them does; otherwise it matches if both do. `*`, `*/1`
and `?` don't restrict. `L`, `5L` and `1#2` are the last day, the last Friday and the second Monday of the month.

Refused are `H` and `R`, which would differ from instance to instance, and what `fields` refuses.

`days` finds the day, and croniter the time of day. croniter gets every field as a list of plain numbers, so `fields`
alone decides what a range, a step or a name means.
"""

from __future__ import annotations

import copy
from datetime import datetime, time, timedelta

from firecron.cron.days import Days
from firecron.cron.fields import FIELDS, MONTH, Odd, is_every, month_days, numbers, week_days

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

_SOME_DAY = datetime(2024, 1, 1)  # noqa: DTZ001  # a wall time, like all datetimes in this module
_SECOND = timedelta(seconds=1)


class CronLine:
    """The wall times of a cron line. A line that is refused raises a ValueError with the line and the reason.

    `texts` are its six fields in capital letters, with "0" for the seconds of a line of five.
    """

    def __init__(self, line: str | None) -> None:
        if not isinstance(line, str):
            remedy = "write a line such as '0 9 * * *', or every=timedelta(minutes=45) instead of a line"
            raise ValueError(f"a cron line must be a string, not {line!r}: {remedy}")
        self.line = line
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
            raise ValueError(f"the cron line {line!r} can't be used: {error}") from None
        if not self.days.exist:
            raise ValueError(
                f"the cron line {line!r} can't be used: it never fires, because none of its months has such a day"
            )
        self.warnings = tuple(f"in the cron line {line!r} {one.said}{self._remedy(one)}" for one in odd)
        plain = [",".join(map(str, sorted(found))) for found in (self.seconds, self.minutes, self.hours)]
        # Imported here, so that a program that only imports firecron's names doesn't load croniter.
        from croniter import croniter

        self._times = croniter(f"{' '.join(plain)} * * *", _SOME_DAY, ret_type=datetime, second_at_beginning=True)

    def after(self, wall: datetime) -> datetime:
        """Return the first matching wall time after this one. Both have no time zone, and whole seconds."""
        found = self._time_after(wall)
        if self.days.match(found.date()):
            return found
        return self._time_after(datetime.combine(self.days.after(found.date()), time()) - _SECOND)

    def _time_after(self, wall: datetime) -> datetime:
        """Return the first matching time after this wall time, on any day."""
        # croniter keeps its position, and threads share a schedule, so each call uses a copy. All copies share the
        # parsed line.
        times = copy.copy(self._times)
        times.set_current(wall)
        found: datetime = times.get_next()
        return found

    def _remedy(self, odd: Odd) -> str:
        """Return what to write for even steps, if the step and a time below it are all that the line has."""
        place, unit = FIELDS.index(odd.field), odd.field.unit
        start = min(place, _TIME_FIELDS)
        finer, others = self.texts[:start], self.texts[start:place] + self.texts[place + 1 :]
        is_alone = odd.term == self.texts[place] and all(map(str.isdecimal, finer)) and all(map(is_every, others))
        if unit is None or not is_alone:
            return ""
        return f"; for a tick every {odd.step} {unit}, write every=timedelta({unit}={odd.step}) instead of the line"


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
