"""The schedule against a daemon that wakes at every minute: in the nights when clocks change, and over ten years."""

from __future__ import annotations

import random
from bisect import bisect_right
from datetime import UTC, date, datetime, timedelta
from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cron.cron_daemon import DAYS, MONTHS, SECOND, Daemon

from firecron import Schedule
from firecron.cron.line import Days, MonthDays, WeekDays

# A change of the clocks (or none), by how much in minutes. All are past, so that no later rule of a country matters.
NIGHTS = {
    ("Europe/Berlin", "2025-03-30"): [60],
    ("Europe/Berlin", "2025-10-26"): [-60],
    ("America/New_York", "2025-03-09"): [60],
    ("America/New_York", "2025-11-02"): [-60],
    ("Australia/Sydney", "2025-04-06"): [-60],
    ("Australia/Sydney", "2025-10-05"): [60],
    ("Australia/Lord_Howe", "2025-04-06"): [-30],
    ("Australia/Lord_Howe", "2025-10-05"): [30],
    ("Antarctica/Troll", "2025-03-30"): [120],
    ("Antarctica/Troll", "2025-10-26"): [-120],
    # At midnight: the day has no 00:00, or the day before ends twice.
    ("America/Asuncion", "2023-10-01"): [60],
    ("America/Asuncion", "2024-03-24"): [-60],
    ("Asia/Beirut", "2025-03-30"): [60],
    ("Asia/Beirut", "2024-10-27"): [-60],
    ("America/Havana", "2025-03-09"): [60],
    ("America/Havana", "2024-11-03"): [-60],
    ("America/Santiago", "2025-04-06"): [-60],
    # Back for Ramadan and forth again: four changes a year, or winter time as the exception.
    ("Africa/Casablanca", "2025-02-23"): [-60],
    ("Africa/Casablanca", "2025-04-06"): [60],
    ("Europe/Dublin", "2024-10-27"): [-60],
    # Changes of the base offset.
    ("Asia/Almaty", "2024-03-01"): [-60],
    ("Asia/Pyongyang", "2015-08-15"): [-30],
    ("Asia/Pyongyang", "2018-05-05"): [30],
    ("America/Caracas", "2016-05-01"): [30],
    ("Europe/Volgograd", "2020-12-27"): [-60],
    # Three hours are still made up for; a day that was left out is not.
    ("Antarctica/Casey", "2009-10-18"): [180],
    ("Antarctica/Casey", "2010-03-05"): [-180],
    ("Pacific/Apia", "2011-12-30"): [1440],
    ("UTC", "2025-03-30"): [],
    ("Asia/Kathmandu", "2025-10-26"): [],
}

LINES = [
    "* * * * *", "*/7 * * * *", "0 * * * *", "30 * * * *", "*/15 2 * * *", "*/30 0-3 * * *", "0 */2 * * *",
    "15 */3 * * *", "5,35 * * * sun", "0 0 * * *", "0 1 * * *", "30 1 * * *", "0 2 * * *", "30 2 * * *", "0 3 * * *",
    "0,30 2 * * *", "0 0-23 * * *", "0-59 0-3 * * *", "59 23 * * *", "15,45 23,0,1 * * *", "0 12 * * 0", "30 2 * * 7",
    "10 1-5/2 * 3,10,NOV mon-fri", "0 2 29-31 * 5-7", "20 0 */2 * *", "1-59/20 1 1,5,24 feb-oct *", "30 2 * * Lsun",
    "*/20 2 L * *", "30 1 15,L * 7#1", "0 0 L * sun#5,7L",
]  # fmt: skip

SECOND_LINES = [
    "* * * * * *",
    "*/20 30 * * * *",
    "15 */10 * * * *",
    "*/10 0 2 * * *",
    "30 59 1 * * *",
    "0,30 0,30 0-3 * * *",
    "45 15 2,23 * * sun",
]
SECOND_NIGHTS = [
    ("Europe/Berlin", "2025-03-30"),
    ("Europe/Berlin", "2025-10-26"),
    ("Australia/Lord_Howe", "2025-04-06"),
    ("Australia/Lord_Howe", "2025-10-05"),
    ("America/Havana", "2024-11-03"),
]


@cache
def daemon(zone: str, night: str) -> Daemon:
    """Awake for three days around it, of which the first is to look back on."""
    middle = datetime.fromisoformat(night).replace(tzinfo=UTC)
    return Daemon(zone, middle - timedelta(days=2), middle + timedelta(days=2))


def next_by(runs: list[datetime], start: datetime) -> datetime | None:
    index = bisect_right(runs, start)
    return runs[index] if index < len(runs) else None


def starts(awake: Daemon, runs: list[datetime], chance: random.Random) -> list[datetime]:
    """Instants just before, at and after runs and the edges of gaps and passes, and some anywhere."""
    edges = [awake.instants[index] for index in awake.jumps]
    near = [edge + timedelta(minutes=minutes) for edge in edges for minutes in range(-125, 126, 5)]
    near += [edge + timedelta(seconds=seconds) for edge in edges for seconds in (-1, 0, 1)]
    for run in chance.sample(runs, min(len(runs), 8)):
        near += [run - SECOND, run, run + timedelta(microseconds=1)]
    near += [awake.start + chance.random() * (awake.end - awake.start) for _ in range(8)]
    return [instant for instant in near if awake.start + timedelta(days=1) <= instant < awake.end]


@pytest.mark.parametrize("place", NIGHTS, ids="-".join)
def test_the_nights_are_what_they_are_listed_for(place: tuple[str, str]) -> None:
    """Each of these nights has the change of the clocks that it is here for."""
    awake = daemon(*place)
    changes = [round((awake.walls[index] - awake.walls[index - 1]) / timedelta(minutes=1)) - 1 for index in awake.jumps]
    assert changes == NIGHTS[place]


@pytest.mark.parametrize("place", NIGHTS, ids="-".join)
def test_i21_the_next_tick_is_what_the_daemon_runs_next(place: tuple[str, str]) -> None:
    """From wherever it is asked, around a change of the clocks, the next tick is the daemon's next run."""
    awake, chance = daemon(*place), random.Random(0)
    for line in LINES:
        schedule, runs = Schedule(line, place[0]), awake.runs(line)
        for start in starts(awake, runs, chance):
            expected, tick = next_by(runs, start), schedule.after(start)
            if expected is None:
                assert tick > awake.end, (line, start.isoformat())
            else:
                assert tick.isoformat() == expected.isoformat(), (line, start.isoformat())


@pytest.mark.parametrize("place", SECOND_NIGHTS, ids="-".join)
def test_i21_seconds_obey_the_same_rule(place: tuple[str, str]) -> None:
    """With six fields, each tick of the hours around a change is one at which a daemon of seconds runs."""
    (edge,) = (daemon(*place).instants[index] for index in daemon(*place).jumps)
    awake = Daemon(place[0], edge - timedelta(minutes=70), edge + timedelta(minutes=130), SECOND)
    for line in SECOND_LINES:
        runs = awake.runs(line)
        ticks = list(Schedule(line, place[0]).between(awake.start, awake.end))
        assert [tick.isoformat() for tick in ticks] == [run.isoformat() for run in runs], line


def fields(low: int, high: int, names: list[str] | None = None) -> st.SearchStrategy[str]:
    """The texts that may stand in a field."""
    number = st.integers(low, high).map(lambda value: names[(value - low) % len(names)] if names else str(value))
    pair = st.tuples(st.integers(low, high), st.integers(low, high)).map(sorted)
    spans = st.one_of(st.just("*"), pair.map(lambda ends: f"{ends[0]}-{ends[1]}"))
    steps = st.tuples(spans, st.integers(1, high)).map(lambda both: f"{both[0]}/{both[1]}")
    terms = st.one_of(st.just("*"), number, st.integers(low, high).map(str), spans, steps)
    return st.one_of(st.just("*"), st.lists(terms, min_size=1, max_size=3).map(",".join))


last_day = st.tuples(fields(1, 31), st.booleans()).map(lambda both: f"{both[0]},l" if both[1] else "l")
weekday = st.one_of(st.integers(0, 7).map(str), st.sampled_from(DAYS))
special = st.one_of(
    weekday.map(lambda day: f"{day}l"),
    weekday.map(lambda day: f"l{day}"),
    st.tuples(weekday, st.integers(1, 5)).map(lambda both: f"{both[0]}#{both[1]}"),
)
special_days = st.lists(st.one_of(special, special, weekday), min_size=1, max_size=3).map(",".join)
lines = st.tuples(
    fields(0, 59),
    st.one_of(fields(0, 23), fields(0, 3)),
    st.one_of(fields(1, 31), last_day),
    fields(1, 12, MONTHS),
    st.one_of(fields(0, 7, DAYS), special_days),
).map(" ".join)


@settings(max_examples=80)
@given(line=lines, place=st.sampled_from(sorted(NIGHTS)), seed=st.integers(0, 9))
def test_any_line_fires_when_the_daemon_runs_it(line: str, place: tuple[str, str], seed: int) -> None:
    """Whatever the line, its ticks in days with a change are the daemon's runs, and one that never fires is refused."""
    awake = daemon(*place)
    runs = awake.runs(line)
    try:
        schedule = Schedule(line, place[0])
    except ValueError as error:
        assert "never fires" in str(error)  # which is the only way to refuse a well-formed line
        assert not runs
        return
    later = [run for run in runs if run > awake.start + timedelta(days=1)]
    assert list(schedule.between(awake.start + timedelta(days=1), awake.end)) == later
    for start in starts(awake, later, random.Random(seed)):
        tick = schedule.after(start)
        assert tick > start
        assert tick == (next_by(later, start) or tick)


START, END = datetime(2015, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

# Where the wall moves by half an hour, the daemon wakes twice an hour.
ZONES = {
    "UTC": HOUR, "Europe/Berlin": HOUR, "America/New_York": HOUR, "Australia/Lord_Howe": HOUR / 2,
    "Antarctica/Troll": HOUR, "America/Asuncion": HOUR, "Asia/Beirut": HOUR, "America/Havana": HOUR,
    "Africa/Casablanca": HOUR, "Pacific/Auckland": HOUR,
}  # fmt: skip

YEAR_LINES = [
    "0 2 L * *", "0 1 15,L * *", "0 0 L 2 *", "0 2 29,L 2,3 *", "0 2 * * 7L", "0 * * 3,10 LSUN", "0 3 * * sun#1",
    "0 2 * 3,11 sun#2,0L", "0 0 * * fri#5", "0 23 * 2 thu#5", "0 1 31,L * 5L,1#2", "0 */6 29 2 mon#1,4",
]  # fmt: skip


@pytest.mark.parametrize("zone", ZONES)
def test_i21_ten_years_are_the_daemons(zone: str) -> None:
    """Over ten years, with leap days and both changes of the clocks, each tick is a run of the daemon's."""
    awake = Daemon(zone, START, END, ZONES[zone])
    first = list(ZONES).index(zone)
    for line in [*YEAR_LINES, *YEAR_LINES][first : first + 4]:
        runs = [run.isoformat() for run in awake.runs(line) if run > START + timedelta(days=1)]
        ticks = [tick.isoformat() for tick in Schedule(line, zone).between(START + timedelta(days=1), END)]
        assert runs
        assert ticks == runs, line


@pytest.mark.parametrize(
    ("line", "start", "expected"),
    [
        # Forty years without a fifth Monday in February, because 2100 is no leap year.
        ("0 6 * 2 1#5", "2072-03-01", "2112-02-29"),
        ("0 6 * 2 5#5", "2008-03-01", "2036-02-29"),
        ("0 6 29 2 *", "2096-03-01", "2104-02-29"),
        ("0 6 L 2 *", "2096-03-01", "2097-02-28"),
        ("0 6 L 2 *", "2099-03-01", "2100-02-28"),
        ("0 6 29,L 2 *", "2027-01-01", "2027-02-28"),
        ("0 6 29,L 2 *", "2028-02-29", "2029-02-28"),
        ("0 6 * 12 5L", "2027-12-01", "2027-12-31"),
        ("0 6 L 12 *", "2026-12-31", "2027-12-31"),
    ],
)
def test_a_day_is_found_however_far_it_is(line: str, start: str, expected: str) -> None:
    """A rare day is found, across years without it, and a last day where the year ends."""
    tick = Schedule(line).after(datetime.fromisoformat(start).replace(hour=7, tzinfo=UTC))
    assert tick.isoformat() == f"{expected}T06:00:00+00:00"


dates = st.dates(date(1999, 1, 1), date(2110, 1, 1))
some_days = st.builds(
    Days,
    st.none() | st.builds(MonthDays, st.frozensets(st.integers(1, 31), min_size=1, max_size=3), st.booleans()),
    st.none()
    | st.builds(
        WeekDays,
        st.frozensets(st.integers(0, 6), min_size=1, max_size=1),
        st.frozensets(st.tuples(st.integers(0, 6), st.integers(1, 5)), max_size=2),
        st.frozensets(st.integers(0, 6), max_size=2),
    ),
    st.frozensets(st.integers(1, 12), min_size=1, max_size=4),
)


@settings(max_examples=150)
@given(days=some_days, start=dates)
def test_the_day_after_is_the_first_that_matches(days: Days, start: date) -> None:
    """No day between is one of them, and the day that is found is."""
    if days.exist:
        found = days.after(start)
        assert days.match(found)
        between = (start + timedelta(days=number) for number in range(1, (found - start).days))
        assert not any(days.match(day) for day in between)
