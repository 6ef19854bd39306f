"""When a job ticks: at the times of a cron line in a time zone (`ZonedLine`), or at even distances (`every`).

`starting` and `until` bound both: no tick is before the first or after the second, and both may be ticks. On
`except_days` there are none. `whole` is the schedule with these.

No cron line has even distances where its steps don't divide the hour or the day. Ticks at even distances are
`starting + k * every` for k = 0, 1, 2 and so on. Nothing else counts: not when an instance started, not when a run
began or ended, no time zone and no change of clocks. So all instances have the same ticks.

Of a schedule's ticks it tells the newest ones in a span of time, the time between them, and the tick that a start from
outside is meant for. All of it is pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, time, timedelta
from enum import StrEnum
from functools import lru_cache, partial
from itertools import islice, pairwise
from math import inf
from typing import TYPE_CHECKING, Any

from firecron.base.instants import DAY, Duration, in_utc, milliseconds, to_datetime, to_milliseconds, to_text
from firecron.errors import NoTick

if TYPE_CHECKING:
    from zoneinfo import ZoneInfo

    from firecron.cron.except_days import Days, ExceptDays


_SECOND, _MINUTE = timedelta(seconds=1), timedelta(minutes=1)
# A run asks for the tick after its own slot, and for those before it, several times.
_KEPT = 4


class _Default(str):
    """A default that differs from the same text given by a user."""

    __slots__ = ()


DEFAULT_ZONE: str = _Default("UTC")


class Schedule:
    """When a job ticks: at the times of a cron line in a time zone, or `every` so much time, `starting` at an instant.

    What can't be used raises a ValueError with the reason; so does what never fires. Two schedules of the same line and
    zone, or of the same `every`, are equal if they start and end alike.

    Args:
        line: Five fields, or six with seconds first; names of months and days; aliases such as `@hourly`; `H` for a
            number from the hash of the `name`. The attribute has that number; with `every` it says this in words.
        timezone: A name or a `ZoneInfo`, for a line; the attribute is the name.
        name: For a line with an `H`: the job's name, below the prefix of the settings, if there is one.
        every: Instead of a line, the time between two ticks, in whole seconds: a number or a `timedelta`.
        starting: With `every`, the first tick, by default 1970-01-01 00:00 UTC; with a line, no tick is before it. An
            aware `datetime`.
        until: No tick is after it: an aware `datetime`. A tick at that instant is the last one.
        except_days: Days without ticks, on the clocks of the time zone: dates, or a pure function of a date; or by
            names, such as `{"holiday": is_holiday}`.
    """

    __slots__ = (
        "_after",
        "_latest",
        "_warnings",
        "every",
        "except_days",
        "has_seconds",
        "line",
        "starting",
        "timezone",
        "until",
        "whole",
        "written",
    )

    def __init__(
        self,
        line: str | None = None,
        timezone: str | ZoneInfo = DEFAULT_ZONE,
        *,
        name: str | None = None,
        every: Duration | None = None,
        starting: datetime | None = None,
        until: datetime | None = None,
        except_days: Days | None = None,
    ) -> None:
        self.line: str
        self.written: str | None
        self.timezone: str
        self.whole: Schedule
        self.except_days: ExceptDays | None
        # The tick after an instant, without what bounds or excludes it. Raises OverflowError after the year 9999.
        self._after: Callable[[datetime], datetime]
        # Imported here, so that a program that only imports firecron's names doesn't load what reads schedules.
        if every is None:
            from firecron.cron.line import is_hashed, parsed
            from firecron.cron.zoned_line import ZonedLine, find_zone, zone_warning

            # The line as it was written, if it has an H.
            self.written = line if is_hashed(line) else None
            plain, odd = line, tuple[str, ...]()
            if self.written is not None:
                from firecron.cron.hashed_line import resolved

                plain, odd = resolved(self.written, name)
            cron_line, zone = parsed(plain), find_zone(timezone)
            self._after = ZonedLine(cron_line, zone).after
            self.line, self.timezone = cron_line.line, zone.key
            winter = zone_warning(zone)
            self.has_seconds = cron_line.has_seconds
            self._warnings = (*odd, *cron_line.warnings, *([] if winter is None else [winter]))
            self.every = None
            self.starting = None if starting is None else check_whole_instant(starting, "starting")
        else:
            _refuse_both(line, timezone, every)
            self.every = distance = _check_distance(every)
            self.starting = first = EPOCH if starting is None else check_whole_instant(starting, "starting")
            self._after = partial(_after_even, distance, first)
            self.line, self.timezone, self.written = _said_evenly(distance, first), "UTC", None
            self.has_seconds, self._warnings = distance < _MINUTE, tuple[str, ...]()
        self.until = None if until is None else check_whole_instant(until, "until")
        # Instants, each with the tick after it; None if there is none.
        self._latest: tuple[tuple[datetime, datetime | None], ...] = ()
        # Without what is excluded it would be this schedule.
        self.whole = self
        self.except_days = None if except_days is None else _check_days(except_days)
        if self.except_days is not None:
            self.whole = Schedule(
                **{**self._given(), "line": self.line if self.has_line else None, "except_days": None}
            )
        if self.starting is not None and self.until is not None and self.next_after(self.starting - _SECOND) is None:
            raise ValueError(f"the schedule {self} never fires: until={until!r} is before its first tick")
        if self.except_days is not None and self.until is None and self.next_after(self.starting or _RECENT) is None:
            raise ValueError(f"the schedule {self} never fires: except_days has all of its days")

    @property
    def has_line(self) -> bool:
        """Whether it has a cron line; else it has `every`."""
        return self.every is None

    @property
    def warnings(self) -> tuple[str, ...]:
        """What is odd about it, each with a remedy."""
        return self._warnings if self.except_days is None else (*self._warnings, *self.except_days.warnings)

    def named(self, name: str) -> Schedule:
        """Return the schedule with the numbers of this name for each `H` in its line; itself if there is none.

        Args:
            name: The job's name, below the prefix of the settings, if there is one.
        """
        return self if self.written is None else Schedule(name=name, **self._given())

    def after(self, instant: datetime) -> datetime:
        """Return the first tick after the instant, in UTC. The instant itself does not count.

        Raise NoTick if there is none, because the schedule has ended (`until`).

        Args:
            instant: An aware `datetime`.
        """
        tick = self.next_after(instant)
        if tick is None:
            raise NoTick(f"there is no tick of {self} after {in_utc(instant)}: it has ended")
        return tick

    def next_after(self, instant: datetime) -> datetime | None:
        """Return the first tick after the instant, in UTC; None if there is none.

        Args:
            instant: An aware `datetime`.
        """
        # Ticks are whole seconds, so the tick after 09:00:00.5 is the tick after 09:00:00.
        start = _in_utc(instant).replace(microsecond=0)
        for since, tick in self._latest:
            if since <= start and (tick is None or start < tick):
                return tick  # there is none in between
        tick = self._find_after(start)
        # Replaced as a whole, because threads share a schedule.
        self._latest = ((start, tick), *self._latest[: _KEPT - 1])
        return tick

    def has_ended(self, instant: datetime) -> bool:
        """Return whether no tick comes after the instant. Of a schedule without `until` this takes no search.

        Args:
            instant: An aware `datetime`.
        """
        return self.until is not None and self.next_after(instant) is None

    def _find_after(self, start: datetime) -> datetime | None:
        if self.starting is not None and start < self.starting:
            start = self.starting - _SECOND
        try:
            tick = self._after(start)
        except OverflowError:
            return None  # it would be after the year 9999
        if self.except_days is not None:
            return self._first_included(tick)
        return None if self.until is not None and tick > self.until else tick

    # --- days without ticks

    def _given(self) -> dict[str, Any]:
        """Return its arguments, but for the name."""
        zone = self.timezone if self.has_line else DEFAULT_ZONE
        line = (self.written or self.line) if self.has_line else None
        bounds = {"starting": self.starting, "until": self.until, "except_days": self.except_days}
        return {"line": line, "timezone": zone, "every": self.every, **bounds}

    def excluded(self, instant: datetime) -> str | None:
        """Return why an instant is no tick of this schedule although it would be one: the name of its day.

        Args:
            instant: An aware `datetime`.
        """
        day = instant.astimezone(_zone(self.timezone)).date()
        return None if self.except_days is None else self.except_days.name_of(day)

    def _first_included(self, tick: datetime) -> datetime | None:
        """Return the first tick from this one on that is on no excluded day."""
        for _ in range(_MOST_EXCLUDED):
            if self.until is not None and tick > self.until:
                return None
            if self.excluded(tick) is None:
                return tick
            following = self.whole.next_after(max(self.day_ends(tick) - _SECOND, tick))
            if following is None:
                return None
            tick = following
        return None

    def day_ends(self, instant: datetime) -> datetime:
        """Return when the day of an instant ends on the clocks of the zone, or when they change before that."""
        from firecron.cron.zoned_line import change_between, offset_at

        zone = _zone(self.timezone)
        day = instant.astimezone(zone).date()
        midnight = datetime.combine(day + timedelta(days=1), time(), zone).astimezone(UTC)
        if midnight <= instant:  # the clocks went back at midnight, and it is over for the first time
            midnight = datetime.combine(day + timedelta(days=1), time(fold=1), zone).astimezone(UTC)
        if offset_at(zone, instant) == offset_at(zone, midnight):
            return midnight
        return min(midnight, change_between(zone, instant.replace(microsecond=0), midnight))

    def days_excluded(self, start: datetime, end: datetime) -> Iterator[tuple[datetime, str]]:
        """Yield the ticks after `start`, up to and including `end`, that begin an excluded day or go on with one after
        a change of the clocks, each with the day's name.

        Args:
            start: An aware `datetime`.
            end: An aware `datetime`.
        """
        tick = None if self.except_days is None else self.whole.next_after(start)
        while tick is not None and tick <= end:
            name = self.excluded(tick)
            if name is not None:
                yield tick, name
            tick = self.whole.next_after(max(self.day_ends(tick) - _SECOND, tick))

    # --- what it is

    def between(self, start: datetime, end: datetime) -> Iterator[datetime]:
        """Return the ticks after `start`, up to and including `end`, in UTC.

        Args:
            start: An aware `datetime`.
            end: An aware `datetime`.
        """
        # This call checks the arguments now. A generator would check them only when the first tick is asked for.
        return self._up_to(self.next_after(start), _in_utc(end))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return self.identity == other.identity

    def __hash__(self) -> int:
        return hash(self.identity)

    @property
    def identity(self) -> tuple[str, ...]:
        """Texts that no other schedule has: its line, its zone, and what bounds it."""
        found = (self.line, self.timezone, *self._bounds())
        return found if self.except_days is None else (*found, self.except_days.fingerprint)

    def __repr__(self) -> str:
        return f"Schedule({', '.join(self.arguments())})"

    def arguments(self) -> list[str]:
        """Return its arguments, as they would be written."""
        found = [repr(str(self.line)), repr(self.timezone)]
        if self.every is not None:
            found = [f"every={int(self.every.total_seconds())}"]
        if self.starting is not None:
            found.append(f"starting={self.starting!r}")
        if self.until is not None:
            found.append(f"until={self.until!r}")
        if self.except_days is not None:
            days = {name: sorted(days) if isinstance(days, frozenset) else days for name, days in self.except_days.days}
            found.append(f"except_days={days!r}")
        return found

    def __str__(self) -> str:
        """The schedule in a message."""
        said = f"[{self.line}] ({self.timezone})" if self.has_line else f"[{self.line}]"
        days = [] if self.except_days is None else [f"except {', '.join(self.except_days.names)}"]
        return ", ".join([said, *self._bounds(), *days])

    def _bounds(self) -> Iterator[str]:
        if self.starting is not None and self.has_line:
            yield f"from {in_utc(self.starting)} on"
        if self.until is not None:
            yield f"until {in_utc(self.until)}"

    def _up_to(self, tick: datetime | None, last: datetime) -> Iterator[datetime]:
        while tick is not None and tick <= last:
            yield tick
            tick = self.next_after(tick)


def _refuse_both(line: object, timezone: object, every: object) -> None:
    if line is not None:
        raise ValueError(f"a schedule has the cron line {line!r} and every={every!r}: leave one of them out")
    if timezone is not DEFAULT_ZONE:
        raise ValueError(
            f"timezone={timezone!r} is only for a cron line, because every={every!r} follows no clock on a wall: leave "
            "timezone out, and give starting its own zone"
        )


def _zone(name: str) -> ZoneInfo:
    from zoneinfo import ZoneInfo

    return ZoneInfo(name)


def _check_days(given: Days) -> ExceptDays | None:
    from firecron.cron.except_days import checked

    return checked(given)


def _in_utc(instant: datetime) -> datetime:
    if instant.utcoffset() is None:
        raise ValueError(f"{instant!r} has no time zone: give an aware datetime, such as datetime.now(UTC)")
    return instant.astimezone(UTC)


def without_end(schedule: Schedule) -> Schedule:
    """Return the schedule as it would be without `until` and `except_days`."""
    if schedule.until is None:
        return schedule.whole
    if schedule.has_line:
        return Schedule(schedule.line, schedule.timezone, starting=schedule.starting)
    return Schedule(every=schedule.every, starting=schedule.starting)


def schedule_fields(schedule: Schedule | None) -> dict[str, object]:
    """Return a schedule as JSON for programs, with the same fields wherever it is shown; without one, each is None."""
    if schedule is None:
        return {**dict.fromkeys(("line", "timezone", "every", "starting", "until")), "exceptDays": []}
    return {
        "line": schedule.line,
        "timezone": schedule.timezone,
        "every": None if schedule.every is None else int(schedule.every.total_seconds()),
        "starting": None if schedule.starting is None else in_utc(schedule.starting),
        "until": None if schedule.until is None else in_utc(schedule.until),
        "exceptDays": [] if schedule.except_days is None else schedule.except_days.names,
    }


# --- even distances

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS = (("week", 604_800), ("day", 86_400), ("hour", 3_600), ("minute", 60), ("second", 1))
_LONGEST = 366 * DAY


def _after_even(distance: timedelta, first: datetime, instant: datetime) -> datetime:
    """Return the first of the ticks `first + k * distance` that is after the instant."""
    return first + ((instant - first) // distance + 1) * distance


def _said_evenly(distance: timedelta, first: datetime) -> str:
    """Return the words for the ticks at this distance, which no others have."""
    seconds = int(distance.total_seconds())
    unit, size = next((unit, size) for unit, size in _UNITS if seconds % size == 0)
    said = unit if seconds == size else f"{seconds // size} {unit}s"
    since = in_utc(first).replace("T", " ").removesuffix("Z").removesuffix(":00")
    return f"every {said}, from {since} UTC"


def _check_distance(every: object) -> timedelta:
    """Return the time between two ticks, given as seconds or a `timedelta`.

    Raise a ValueError that names the argument, its value and the remedy.
    """
    found = milliseconds(every, "every", least=1, most=_LONGEST)
    if found % 1000:
        raise ValueError(f"every={every!r} must be whole seconds")
    return timedelta(milliseconds=found)


def check_whole_instant(value: object, name: str) -> datetime:
    """Return the instant in UTC, or raise a ValueError that names the argument, its value and the remedy."""
    example = "give an aware datetime, such as datetime(2026, 11, 18, 9, tzinfo=UTC)"
    if not isinstance(value, datetime):
        raise ValueError(f"{name}={value!r} is not an instant: {example}")
    if value.utcoffset() is None:
        raise ValueError(f"{name}={value!r} has no time zone: {example}")
    if value.microsecond:
        raise ValueError(f"{name}={value!r} must be a whole second")
    return value.astimezone(UTC)


# --- the ticks of a schedule
#
# A person, a crontab or a Kubernetes CronJob may start a job for a tick, and its clock is not RTDB's. If that clock is
# a second fast, the start would ask for yesterday's tick, which is done, and today's tick would never run. So a start
# shortly before a tick is meant for that tick, and waits for it.

# The longest lead. If ticks come often, the lead is a tenth of the time between them.
_LEAD = timedelta(seconds=5)
_SOME_TICKS = 3
# Where the search for a tick that is not excluded ends: more than ten years of days.
_MOST_EXCLUDED = 4_000
_RECENT = datetime(2025, 1, 1, tzinfo=UTC)
_LATEST = datetime.max.replace(microsecond=0, tzinfo=UTC)


def newest_tick(schedule: Schedule, now: datetime, grace: float | None = None) -> datetime:
    """Return the newest tick up to `now`.

    Raise NoTick if there is none, or if it is more than `grace` seconds ago.
    """
    found = newest(schedule, 0, to_milliseconds(now), 1)
    if not found:
        raise NoTick(f"there has been no tick of {schedule} yet")
    tick = to_datetime(found[0])
    if grace is not None and now - tick > timedelta(seconds=grace):
        coming = schedule.next_after(now)
        raise NoTick(
            f"there has been no tick of {schedule} in the last {grace:g} s: the newest was {found[0]}, "
            f"{'and it was the last' if coming is None else f'the next is {to_text(coming)}'}"
        )
    return tick


def meant_tick(schedule: Schedule, now: datetime, grace: float | None = None) -> tuple[datetime, float]:
    """Return the tick that a start at `now` is for, and the seconds until that tick (0 if it has passed).

    Raise NoTick as `newest_tick` does.
    """
    coming = schedule.next_after(now)
    following = None if coming is None else schedule.next_after(coming)
    if coming is not None:
        lead = _LEAD if following is None else min(_LEAD, (following - coming) / 10)
        if coming - now <= lead:
            return coming, (coming - now).total_seconds()
    return newest_tick(schedule, now, grace), 0.0


def newest(schedule: Schedule, start: int, end: int, most: int) -> list[str]:
    """Return the newest ticks after `start`, up to and including `end`: `most` ticks at most, oldest first.

    The search goes back from `end`, in spans that grow where ticks are few. So it never visits every tick of a day that
    has one each second.
    """
    found: list[datetime] = []
    first, last = to_datetime(start), to_datetime(end)
    if schedule.until is not None:
        last = min(last, schedule.until)
    if not has_tick(schedule, start, end):
        return []  # as after most claims, because nothing was missed
    span = _SECOND
    while first < last and len(found) < most:
        low = max(first, last - span)
        ticks = list(islice(schedule.between(low, last), 2 * most + 1))
        if len(ticks) > 2 * most and span > _SECOND:
            span = max(span / 32, _SECOND)
            continue
        found = ticks + found
        last = low
        if len(ticks) <= most // 2:
            span *= 4
    return [to_text(tick) for tick in found[-most:]]


# A program may have many jobs of one schedule.
@lru_cache(1_000)
def shortest_interval(schedule: Schedule) -> float:
    """Return the shortest time between some ticks of a schedule, in seconds. It is the same on every instance.

    It is infinite if the schedule has one tick only.
    """
    ticks = list(islice(schedule.whole.between(to_datetime(0), _LATEST), _SOME_TICKS + 1))
    return min(((later - tick).total_seconds() for tick, later in pairwise(ticks)), default=inf)


def next_ticks(schedule: Schedule, start: datetime, number: int) -> list[datetime]:
    """Return the first `number` ticks after `start`, in UTC; fewer if the schedule ends before."""
    return list(islice(schedule.between(start, _LATEST), number))


def known_exceptions(schedule: Schedule, today: date) -> str | None:
    """Return what other programs are told of the schedule's excluded days (see `except_days`); None if it has none."""
    if schedule.except_days is None:
        return None
    from firecron.cron.except_days import known_dates

    zone = _zone(schedule.timezone)

    def has_ticks(day: date) -> bool:
        midnight = datetime.combine(day, time(), zone).astimezone(UTC)
        tick = schedule.whole.next_after(midnight - _SECOND)
        return tick is not None and tick.astimezone(zone).date() == day

    return known_dates(schedule.except_days, has_ticks, today)


def due_after(schedule: Schedule, instant: int) -> float:
    """Return the first tick after an instant, in milliseconds; infinity if there is none."""
    tick = schedule.next_after(to_datetime(instant))
    return inf if tick is None else to_milliseconds(tick)


def has_tick(schedule: Schedule, start: int, end: int) -> bool:
    """Return whether there is a tick after `start`, up to and including `end`."""
    # Ticks are at whole seconds. Most claims come within their tick's own second, and are decided without the schedule.
    if start // 1000 >= end // 1000:
        return False
    return due_after(schedule, start) <= end


def is_tick(schedule: Schedule, slot: str) -> bool:
    """Return whether a slot is a tick of this schedule."""
    instant = to_datetime(slot)
    return schedule.next_after(instant - _SECOND) == instant


# --- names for cron lines, with the same names and values as in @nestjs/schedule


class CronExpression(StrEnum):
    """Cron lines for `distributed_cron` and `Schedule`. Each member is a string."""

    EVERY_SECOND = "* * * * * *"
    EVERY_5_SECONDS = "*/5 * * * * *"
    EVERY_10_SECONDS = "*/10 * * * * *"
    EVERY_30_SECONDS = "*/30 * * * * *"
    EVERY_MINUTE = "*/1 * * * *"
    EVERY_5_MINUTES = "0 */5 * * * *"
    EVERY_10_MINUTES = "0 */10 * * * *"
    EVERY_30_MINUTES = "0 */30 * * * *"
    EVERY_HOUR = "0 0-23/1 * * *"
    EVERY_2_HOURS = "0 0-23/2 * * *"
    EVERY_3_HOURS = "0 0-23/3 * * *"
    EVERY_4_HOURS = "0 0-23/4 * * *"
    EVERY_5_HOURS = "0 0-23/5 * * *"
    EVERY_6_HOURS = "0 0-23/6 * * *"
    EVERY_7_HOURS = "0 0-23/7 * * *"
    EVERY_8_HOURS = "0 0-23/8 * * *"
    EVERY_9_HOURS = "0 0-23/9 * * *"
    EVERY_10_HOURS = "0 0-23/10 * * *"
    EVERY_11_HOURS = "0 0-23/11 * * *"
    EVERY_12_HOURS = "0 0-23/12 * * *"
    EVERY_DAY_AT_1AM = "0 01 * * *"
    EVERY_DAY_AT_2AM = "0 02 * * *"
    EVERY_DAY_AT_3AM = "0 03 * * *"
    EVERY_DAY_AT_4AM = "0 04 * * *"
    EVERY_DAY_AT_5AM = "0 05 * * *"
    EVERY_DAY_AT_6AM = "0 06 * * *"
    EVERY_DAY_AT_7AM = "0 07 * * *"
    EVERY_DAY_AT_8AM = "0 08 * * *"
    EVERY_DAY_AT_9AM = "0 09 * * *"
    EVERY_DAY_AT_10AM = "0 10 * * *"
    EVERY_DAY_AT_11AM = "0 11 * * *"
    EVERY_DAY_AT_NOON = "0 12 * * *"
    EVERY_DAY_AT_1PM = "0 13 * * *"
    EVERY_DAY_AT_2PM = "0 14 * * *"
    EVERY_DAY_AT_3PM = "0 15 * * *"
    EVERY_DAY_AT_4PM = "0 16 * * *"
    EVERY_DAY_AT_5PM = "0 17 * * *"
    EVERY_DAY_AT_6PM = "0 18 * * *"
    EVERY_DAY_AT_7PM = "0 19 * * *"
    EVERY_DAY_AT_8PM = "0 20 * * *"
    EVERY_DAY_AT_9PM = "0 21 * * *"
    EVERY_DAY_AT_10PM = "0 22 * * *"
    EVERY_DAY_AT_11PM = "0 23 * * *"
    EVERY_DAY_AT_MIDNIGHT = "0 0 * * *"
    EVERY_WEEK = "0 0 * * 0"
    EVERY_WEEKDAY = "0 0 * * 1-5"
    EVERY_WEEKEND = "0 0 * * 6,0"
    EVERY_1ST_DAY_OF_MONTH_AT_MIDNIGHT = "0 0 1 * *"
    EVERY_1ST_DAY_OF_MONTH_AT_NOON = "0 12 1 * *"
    EVERY_2ND_HOUR = "0 */2 * * *"
    EVERY_2ND_HOUR_FROM_1AM_THROUGH_11PM = "0 1-23/2 * * *"
    EVERY_2ND_MONTH = "0 0 1 */2 *"
    EVERY_QUARTER = "0 0 1 */3 *"
    EVERY_6_MONTHS = "0 0 1 */6 *"
    EVERY_YEAR = "0 0 1 1 *"
    EVERY_30_MINUTES_BETWEEN_9AM_AND_5PM = "0 */30 9-17 * * *"
    EVERY_30_MINUTES_BETWEEN_9AM_AND_6PM = "0 */30 9-18 * * *"
    EVERY_30_MINUTES_BETWEEN_10AM_AND_7PM = "0 */30 10-19 * * *"
    MONDAY_TO_FRIDAY_AT_1AM = "0 0 01 * * 1-5"
    MONDAY_TO_FRIDAY_AT_2AM = "0 0 02 * * 1-5"
    MONDAY_TO_FRIDAY_AT_3AM = "0 0 03 * * 1-5"
    MONDAY_TO_FRIDAY_AT_4AM = "0 0 04 * * 1-5"
    MONDAY_TO_FRIDAY_AT_5AM = "0 0 05 * * 1-5"
    MONDAY_TO_FRIDAY_AT_6AM = "0 0 06 * * 1-5"
    MONDAY_TO_FRIDAY_AT_7AM = "0 0 07 * * 1-5"
    MONDAY_TO_FRIDAY_AT_8AM = "0 0 08 * * 1-5"
    MONDAY_TO_FRIDAY_AT_9AM = "0 0 09 * * 1-5"
    MONDAY_TO_FRIDAY_AT_09_30AM = "0 30 09 * * 1-5"
    MONDAY_TO_FRIDAY_AT_10AM = "0 0 10 * * 1-5"
    MONDAY_TO_FRIDAY_AT_11AM = "0 0 11 * * 1-5"
    MONDAY_TO_FRIDAY_AT_11_30AM = "0 30 11 * * 1-5"
    MONDAY_TO_FRIDAY_AT_12PM = "0 0 12 * * 1-5"
    MONDAY_TO_FRIDAY_AT_1PM = "0 0 13 * * 1-5"
    MONDAY_TO_FRIDAY_AT_2PM = "0 0 14 * * 1-5"
    MONDAY_TO_FRIDAY_AT_3PM = "0 0 15 * * 1-5"
    MONDAY_TO_FRIDAY_AT_4PM = "0 0 16 * * 1-5"
    MONDAY_TO_FRIDAY_AT_5PM = "0 0 17 * * 1-5"
    MONDAY_TO_FRIDAY_AT_6PM = "0 0 18 * * 1-5"
    MONDAY_TO_FRIDAY_AT_7PM = "0 0 19 * * 1-5"
    MONDAY_TO_FRIDAY_AT_8PM = "0 0 20 * * 1-5"
    MONDAY_TO_FRIDAY_AT_9PM = "0 0 21 * * 1-5"
    MONDAY_TO_FRIDAY_AT_10PM = "0 0 22 * * 1-5"
    MONDAY_TO_FRIDAY_AT_11PM = "0 0 23 * * 1-5"
