"""`except_days`: the ticks that a schedule doesn't have, against a daemon that looks at a calendar on the wall."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cron.cron_daemon import Daemon
from tests.unit.cron.test_schedule_daemon import ZONES

from firecron import Schedule
from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.except_days import MOST_TO_COME, checked, is_known_enough, read_known
from firecron.cron.schedule import due_after, is_tick, known_exceptions, newest, shortest_interval
from firecron.cron.words import in_words

DAY = timedelta(days=1)
CHRISTMAS = date(2026, 12, 25)
LINES = [
    "0 * * * *",
    "0 2 * * *",
    "0 0-3 * * *",
    "0 */2 * * *",
    "0 0 * * *",
    "0 23 * * *",
    "0 6 28-31 * *",
    "0 12 * * 1-5",
]
# Around the leap day and the change of the clocks in each of the ten zones; and around the second change.
SPANS = [(date(2024, 2, 24), date(2024, 4, 12)), (date(2024, 9, 20), date(2024, 11, 8))]


def is_weekend(day: date) -> bool:
    return day.weekday() >= 5


def midnight(day: date) -> datetime:
    return datetime.combine(day, time(), UTC)


@cache
def daemon(zone: str, span: tuple[date, date]) -> Daemon:
    return Daemon(zone, midnight(span[0]) - 2 * DAY, midnight(span[1]) + 2 * DAY, ZONES[zone])


@cache
def runs(zone: str, span: tuple[date, date], line: str) -> list[datetime]:
    return daemon(zone, span).runs(line)


@st.composite
def places(draw: st.DrawFn) -> tuple[str, tuple[date, date], str, frozenset[date]]:
    zone, span, line = draw(st.sampled_from(list(ZONES))), draw(st.sampled_from(SPANS)), draw(st.sampled_from(LINES))
    awake = daemon(zone, span)
    # The leap day, and the days around each change of the clocks.
    jumps = [awake.walls[index].date() for index in awake.jumps]
    near = st.sampled_from([date(2024, 2, 29), *jumps, *(day - DAY for day in jumps)]) | st.dates(*span)
    days = draw(st.frozensets(near, max_size=8))
    return zone, span, line, days | {one + DAY for one in draw(st.frozensets(near, max_size=3))}


@settings(max_examples=60)
@given(place=places(), hours=st.integers(0, 50 * 24), is_function=st.booleans())
def test_ticks_that_are_not_excluded_are_the_daemons(
    place: tuple[str, tuple[date, date], str, frozenset[date]], hours: int, is_function: bool
) -> None:
    """In ten zones, with leap days and both changes: what is left are the daemon's runs on the other days."""
    zone, span, line, days = place
    start, end, wall = midnight(span[0]), midnight(span[1]), ZoneInfo(zone)
    schedule = Schedule(line, zone, except_days={"holiday": days.__contains__ if is_function else days})
    meant = [run for run in runs(*place[:3]) if start < run <= end]
    kept = [run for run in meant if run.astimezone(wall).date() not in days]
    assert [tick.isoformat() for tick in schedule.between(start, end)] == [run.isoformat() for run in kept]
    now = min(start + timedelta(hours=hours), end)
    following = next((run for run in kept if run > now), None) or schedule.after(end)
    assert schedule.next_after(now) == following
    assert due_after(schedule, to_milliseconds(now)) == to_milliseconds(following)
    newest_kept = [to_text(run) for run in kept if run <= now][-5:]
    assert newest(schedule, to_milliseconds(start), to_milliseconds(now), 5) == newest_kept
    left_out = [run for run in meant if run not in kept]
    assert [run for run in meant if schedule.excluded(run) == "holiday"] == left_out
    assert not any(is_tick(schedule, to_text(run)) for run in left_out)
    found = list(schedule.days_excluded(start, end))
    assert {tick.astimezone(wall).date() for tick, _ in found} == {run.astimezone(wall).date() for run in left_out}
    assert all(tick in left_out for tick, _ in found)


@pytest.mark.parametrize("closed", [date(2010, 11, 6), date(2010, 11, 7)], ids=str)
def test_a_day_that_the_clocks_go_back_to_is_judged_by_its_own_date(closed: date) -> None:
    """One minute after midnight it is the day before once more: its ticks are that day's, and not of the day begun."""
    zone, day = "America/St_Johns", datetime(2010, 11, 7, 2, 31, tzinfo=UTC)  # 00:01, and then 23:01
    awake = Daemon(zone, datetime(2010, 11, 5, tzinfo=UTC), datetime(2010, 11, 9, tzinfo=UTC), timedelta(minutes=30))
    schedule = Schedule("*/30 * * * *", zone, except_days=[closed])
    start, end = day - DAY, day + DAY
    kept = [run for run in awake.runs("*/30 * * * *") if run.astimezone(ZoneInfo(zone)).date() != closed]
    expected = [run.isoformat() for run in kept if start < run <= end]
    assert [tick.isoformat() for tick in schedule.between(start, end)] == expected


@settings(max_examples=20)
@given(place=places(), today=st.dates(date(2024, 2, 1), date(2024, 11, 1)), hours=st.integers(0, 23))
def test_readers_of_the_catalogue_have_the_same_ticks(
    place: tuple[str, tuple[date, date], str, frozenset[date]], today: date, hours: int
) -> None:
    """Who can't call the function has the same ticks as who can, from the last one before now to the last date told."""
    zone, _, line, days = place

    def is_excluded(day: date) -> bool:
        return day in days or is_weekend(day)

    mine = Schedule(line, zone, except_days=is_excluded)
    text = known_exceptions(mine, today)
    assert text is not None
    theirs = as_read(mine, text)
    assert theirs == mine
    told = [date.fromisoformat(one[:10]) for one in text.split(",") if one]
    assert all(is_excluded(day) for day in told)
    to_come = [day for day in told if day >= today]
    assert len(to_come) <= MOST_TO_COME
    now = midnight(today) + timedelta(hours=hours)
    last = newest(mine, 0, to_milliseconds(now), 1)
    start = min(now - 30 * DAY, datetime.fromisoformat(last[0]) if last else now)
    end = midnight(told[-1]) if len(to_come) == MOST_TO_COME else now + 700 * DAY
    assert list(theirs.between(start, end)) == list(mine.between(start, end))


def as_read(schedule: Schedule, text: str) -> Schedule:
    """The schedule as the catalogue's readers have it."""
    assert schedule.except_days is not None
    days: Any = read_known(text, schedule.except_days.fingerprint)
    return Schedule(schedule.line, schedule.timezone, except_days=days)


def test_a_long_break_is_known_from_its_beginning() -> None:
    """Two months without ticks: on their last day a reader still knows that nothing was due since the tick before."""
    summer = Schedule("0 9 * * *", except_days={"summer": lambda day: day.month in (7, 8)})
    text = known_exceptions(summer, date(2026, 8, 31))
    assert text is not None
    assert as_read(summer, text).after(datetime(2026, 6, 30, 10, tzinfo=UTC)) == datetime(2026, 9, 1, 9, tzinfo=UTC)


def test_one_job_has_its_dates_whoever_else_has_none() -> None:
    """Only days with ticks are told, so that a job of each month has the excluded ones of years."""
    given: dict[str, Any] = {"weekend": is_weekend, "holiday": [CHRISTMAS, date(2027, 1, 1)]}
    monthly = Schedule("0 9 1 * *", except_days=given)
    text = known_exceptions(monthly, date(2026, 11, 18))
    assert text is not None
    assert text.split(",")[:4] == [
        "2026-11-01 weekend",
        "2027-01-01 holiday",
        "2027-05-01 weekend",
        "2027-08-01 weekend",
    ]
    assert known_exceptions(Schedule("0 9 1 * *"), CHRISTMAS) is None


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (5, "except_days=5 are no days: give dates, a function of a date, or names for them"),
        ("2026-12-25", "except_days='2026-12-25' are no days"),
        (["2026-12-25"], "except_days has '2026-12-25', which is no date: write date(2026, 12, 25)"),
        ([datetime(2026, 12, 25, tzinfo=UTC)], "which is no date"),
        ({"holiday": ["soon"]}, "except_days['holiday'] has 'soon', which is no date"),
        ({"": [CHRISTMAS]}, "except_days has the name ''"),
        ({"a,b": [CHRISTMAS]}, "except_days has the name 'a,b'"),
        ({"x" * 31: [CHRISTMAS]}, "30 characters at most"),
        ({5: [CHRISTMAS]}, "except_days has the name 5"),
        (lambda day: True, "never fires: except_days has all of its days"),
    ],
)
def test_days_that_are_none_are_refused(given: Any, problem: str) -> None:
    """What is no date and no function, and a name that can't be shown, is refused with what to write."""
    with pytest.raises(ValueError, match=r".") as caught:
        Schedule("0 9 * * *", except_days=given)
    assert problem in str(caught.value)


async def of_a_service(day: date) -> bool:
    return False


def test_a_function_that_asks_somebody_is_refused() -> None:
    """The answer of an async function is always true, and not pure."""
    with pytest.raises(ValueError, match="is async, and a function of days must be pure"):
        Schedule("0 9 * * *", except_days=of_a_service)


@pytest.mark.parametrize(
    ("given", "names"),
    [
        ([CHRISTMAS], ["some days"]),
        (is_weekend, ["some days"]),
        ({CHRISTMAS: "Christmas"}, ["some days"]),
        ({"holiday": {CHRISTMAS: "Christmas"}, "weekend": is_weekend}, ["holiday", "weekend"]),
    ],
)
def test_days_are_given_by_dates_by_functions_and_by_name(given: Any, names: list[str]) -> None:
    """Dates in anything, as the keys of a package of holidays, a function, or either by name: the first name counts."""
    schedule = Schedule("0 9 * * *", "Asia/Tokyo", except_days=given)
    assert schedule.except_days is not None
    assert schedule.except_days.names == names
    shown = f"except {' and '.join(names)}"
    assert in_words(schedule) == f"at 09:00 every day, Tokyo, {shown}"
    assert str(schedule) == f"[0 9 * * *] (Asia/Tokyo), {shown.replace(' and ', ', ')}"
    # CHRISTMAS begins in Tokyo while it is the day before elsewhere. It is a Friday.
    is_excluded = schedule.excluded(datetime(2026, 12, 24, 16, tzinfo=UTC)) is not None
    assert is_excluded == (given is not is_weekend)
    assert Schedule("0 9 * * *", except_days=None) == Schedule("0 9 * * *", except_days={}) != schedule


def test_the_days_are_a_part_of_the_schedule() -> None:
    """Other days, or the same ones by another name, are another schedule. How they are given makes no difference."""
    given: list[Any] = [
        {"holiday": [CHRISTMAS]},
        {"holiday": [CHRISTMAS, date(2026, 12, 26)]},
        {"feast": [CHRISTMAS]},
        {"holiday": is_weekend},
        {"holiday": lambda day: is_weekend(day) and day != date(2030, 6, 1)},
    ]
    found = [Schedule("0 9 * * *", except_days=days) for days in given]
    assert len({*found, Schedule("0 9 * * *")}) == len(given) + 1
    assert found[3] == Schedule("0 9 * * *", except_days={"holiday": lambda day: day.isoweekday() in (6, 7)})
    assert found[0] == Schedule("0 9 * * *", except_days={"holiday": lambda day: day == CHRISTMAS})
    # Of a function the years to 2044 count, so that it never becomes another one.
    last = [
        Schedule("0 9 * * *", except_days=lambda day, end=end: day == end)
        for end in (date(2044, 12, 31), date(2045, 1, 1))
    ]
    assert [schedule == Schedule("0 9 * * *", except_days=lambda day: False) for schedule in last] == [False, True]
    assert shortest_interval(found[0]) == 86_400
    named = Schedule("H 9 * * *", name="digest", except_days={"holiday": [CHRISTMAS]}).named("ops/digest")
    assert (named.excluded(datetime(2026, 12, 25, 9, tzinfo=UTC)), named.line) == ("holiday", "22 9 * * *")
    assert "except_days={'holiday': [datetime.date(2026, 12, 25)]}" in repr(found[0])


def test_a_function_that_raises_excludes_nothing_and_is_told() -> None:
    """A table that ends some day costs no tick, and the warning at the start names the first day that it lacks."""
    table = {2026: {CHRISTMAS}, **{year: set() for year in range(2025, 2040) if year != 2026}}
    schedule = Schedule("0 9 * * *", except_days={"holiday": lambda day: day in table[day.year]})
    assert schedule.after(datetime(2026, 12, 24, 12, tzinfo=UTC)).day == 26
    assert schedule.after(datetime(2039, 12, 31, 12, tzinfo=UTC)) == datetime(2040, 1, 1, 9, tzinfo=UTC)
    (warning,) = schedule.warnings
    assert "except_days['holiday'] raised KeyError: 2040 for 2040-01-01: it excludes no day" in warning


def test_an_end_counts_beside_excluded_days() -> None:
    """A tick at the end is the last one, also after an excluded day; after it there is none."""
    nine = datetime(2026, 12, 26, 9, tzinfo=UTC)
    for until, ticks in ((nine, [nine]), (nine - timedelta(seconds=1), [])):
        schedule = Schedule("0 9 * * *", until=until, except_days=[CHRISTMAS])
        assert list(schedule.between(nine - 2 * DAY, nine + 2 * DAY)) == ticks


def test_the_excluded_tick_at_the_end_is_told() -> None:
    """Of the days from one instant to another both ends are asked for, but not the first one's own tick."""
    tick = datetime(2026, 12, 25, 9, tzinfo=UTC)
    schedule = Schedule("0 9 * * *", except_days={"holiday": [CHRISTMAS]})
    second = timedelta(seconds=1)
    assert list(schedule.days_excluded(tick - DAY, tick)) == [(tick, "holiday")]
    assert (
        list(schedule.days_excluded(tick - DAY, tick - second)) == list(schedule.days_excluded(tick, tick + DAY)) == []
    )


def test_a_day_ends_at_the_midnight_that_is_to_come() -> None:
    """In Newfoundland clocks went from one minute after midnight to 23:01: the day before went on, to a second end."""
    schedule = Schedule("0 9 * * *", "America/St_Johns")
    first, second = (datetime(2010, 11, 7, *time, tzinfo=UTC) for time in ((2, 30), (3, 30)))
    assert schedule.day_ends(first - timedelta(minutes=5)) == first
    assert schedule.day_ends(second - timedelta(minutes=5)) == second


def test_even_distances_have_the_days_of_utc() -> None:
    """Without a zone a day is that of UTC, and the count goes on across it."""
    schedule = Schedule(every=18_000, starting=datetime(2026, 12, 24, 20, tzinfo=UTC), except_days=[CHRISTMAS])
    ticks = list(schedule.between(datetime(2026, 12, 24, tzinfo=UTC), datetime(2026, 12, 26, 9, tzinfo=UTC)))
    assert [tick.isoformat()[8:16] for tick in ticks] == ["24T20:00", "26T02:00", "26T07:00"]


@pytest.mark.parametrize(
    ("mine", "stored", "is_enough"),
    [
        ("2026-12-25 a,2026-12-26 a", "2026-12-25 a", True),
        ("2026-12-25 a,2026-12-26 a,2026-12-27 a", "2026-12-25 a", False),
        ("2026-12-25 a", "2026-12-25 b", False),
        ("2026-12-25 a", None, False),
    ],
)
def test_dates_are_told_again_once_half_are_lacking(mine: str, stored: object, is_enough: bool) -> None:
    """So an entry is not written on each day, and a reader never runs out of dates."""
    assert is_known_enough(mine, stored) == is_enough


def test_dates_that_somebody_has_typed_wrong_are_left_out() -> None:
    """What can't be read in the text of the catalogue hides no other date."""
    read = read_known("2026-12-25 holiday,2026-13-01 holiday,soon,2026-12-26,2026-12-27 a b", "x" * 8)
    assert [(day, read.name_of(day)) for day in (CHRISTMAS, date(2026, 12, 26), date(2026, 12, 27))] == [
        (CHRISTMAS, "holiday"),
        (date(2026, 12, 26), None),
        (date(2026, 12, 27), "a b"),
    ]
    assert checked(read) is read


def test_a_function_is_asked_once_about_the_known_years() -> None:
    """A program with many jobs and one function evaluates it for one of them."""
    asked: list[date] = []

    def weekend(day: date) -> bool:
        asked.append(day)
        return is_weekend(day)

    for line in LINES:
        hash(Schedule(line, except_days={"weekend": weekend}))
    assert 7_305 <= len(asked) < 7_400
