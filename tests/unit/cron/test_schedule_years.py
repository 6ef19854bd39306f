"""The schedule against the daemon over ten years in ten zones: leap days, fifth Fridays, and every change of clocks."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cron.cron_daemon import Daemon

from firecron import Schedule
from firecron.cron.line import Days, MonthDays, WeekDays

START, END = datetime(2015, 1, 1, tzinfo=UTC), datetime(2025, 1, 1, tzinfo=UTC)
HOUR = timedelta(hours=1)

# Where the wall moves by half an hour, the daemon wakes twice an hour.
ZONES = {
    "UTC": HOUR,
    "Europe/Berlin": HOUR,
    "America/New_York": HOUR,
    "Australia/Lord_Howe": HOUR / 2,
    "Antarctica/Troll": HOUR,
    "America/Asuncion": HOUR,
    "Asia/Beirut": HOUR,
    "America/Havana": HOUR,
    "Africa/Casablanca": HOUR,
    "Pacific/Auckland": HOUR,
}

LINES = [
    "0 2 L * *",
    "0 1 15,L * *",
    "0 0 L 2 *",
    "0 2 29,L 2,3 *",
    "0 2 * * 7L",
    "0 * * 3,10 LSUN",
    "0 3 * * sun#1",
    "0 2 * 3,11 sun#2,0L",
    "0 0 * * fri#5",
    "0 23 * 2 thu#5",
    "0 1 31,L * 5L,1#2",
    "0 */6 29 2 mon#1,4",
]


@pytest.mark.parametrize("zone", ZONES)
def test_i21_ten_years_are_the_daemons(zone: str) -> None:
    """Over ten years, with leap days and both changes of the clocks, each tick is a run of the daemon's."""
    awake = Daemon(zone, START, END, ZONES[zone])
    first = list(ZONES).index(zone)
    for line in [*LINES, *LINES][first : first + 4]:
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
