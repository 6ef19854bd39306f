"""The schedule: the published table of daylight saving, and what `after` and `between` promise."""

from __future__ import annotations

import datetime as datetime_module
import io
import struct
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest.mock import ANY
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firecron import CronExpression, Schedule
from firecron.cron.line import CronLine
from firecron.cron.words import special_nights

BERLIN_SPRING, BERLIN_AUTUMN = ("2026-03-29", "2027-03-28"), ("2026-10-25", "2027-10-31")
NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
NEW_YORK_AUTUMN = ("2026-11-01", "2027-11-07")
LORD_HOWE_SPRING, LORD_HOWE_AUTUMN = ("2026-10-04", "2027-10-03"), ("2026-04-05", "2027-04-04")

# A zone without any change, as files of the tz database are written.
ZONE_FILE = b"TZif" + bytes(16) + struct.pack(">6l", 0, 0, 0, 0, 1, 4) + struct.pack(">lbb", 0, 0, 0) + b"UTC\0"

TABLE = [
    ("Europe/Berlin", BERLIN_AUTUMN, "30 2 * * *", ["02:30+02:00"]),
    ("America/New_York", NEW_YORK_AUTUMN, "30 1 * * *", ["01:30-04:00"]),
    ("Australia/Lord_Howe", LORD_HOWE_AUTUMN, "30 1 * * *", ["01:30+11:00"]),
    ("Australia/Lord_Howe", LORD_HOWE_SPRING, "0 1-3 * * *", ["01:00+10:30", "02:30+11:00", "03:00+11:00"]),
    ("Australia/Lord_Howe", LORD_HOWE_SPRING, "0 * * * *", ["01:00+10:30", "03:00+11:00"]),
    ("Europe/Berlin", BERLIN_SPRING, "30 2 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", BERLIN_SPRING, "0,30 2 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", BERLIN_SPRING, "0 2,3 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", BERLIN_SPRING, "*/15 2 * * *", []),
    ("Europe/Berlin", BERLIN_SPRING, "0 1-3/1 * * *", ["01:00+01:00", "03:00+02:00"]),
    ("Europe/Berlin", BERLIN_SPRING, "0 0 2 * * *", ["03:00+02:00"]),
    ("Europe/Berlin", BERLIN_AUTUMN, "*/30 2 * * *", ["02:00+02:00", "02:30+02:00", "02:00+01:00", "02:30+01:00"]),
    ("Europe/Berlin", BERLIN_AUTUMN, "0 0-23 * * *", ["01:00+02:00", "02:00+02:00", "03:00+01:00"]),
    ("Europe/Berlin", BERLIN_AUTUMN, "0 * * * *", ["01:00+02:00", "02:00+02:00", "02:00+01:00", "03:00+01:00"]),
    ("Europe/Berlin", BERLIN_AUTUMN, "0 0 */2 * * *", ["02:00+02:00", "02:00+01:00"]),
]

# Shortly before the clocks change.
NIGHTS = ("2026-03-29T00:30:00+00:00", "2026-10-25T00:30:00+00:00")

instants = st.integers(946_684_800_000, 2_840_140_800_000).map(lambda ms: datetime.fromtimestamp(ms / 1000, UTC))


def at(text: str) -> datetime:
    return datetime.fromisoformat(text)


@pytest.mark.parametrize(("zone", "days", "line", "expected"), TABLE)
def test_i21_the_published_table(zone: str, days: tuple[str, str], line: str, expected: list[str]) -> None:
    """On the nights of both years, from one to three o'clock, the line fires as the table says and not otherwise."""
    for day in days:
        start, end = (
            datetime.fromisoformat(f"{day}T{time}").replace(tzinfo=ZoneInfo(zone)) for time in ("00:59", "03:00")
        )
        ticks = [tick.astimezone(ZoneInfo(zone)).isoformat() for tick in Schedule(line, zone).between(start, end)]
        assert ticks == [f"{day}T{text[:5]}:00{text[5:]}" for text in expected]


@pytest.mark.parametrize(
    ("line", "zone", "start", "expected"),
    [
        ("0 9 * * *", "UTC", "2026-11-18T08:59:59.999999+00:00", "2026-11-18T09:00:00+00:00"),
        ("0 9 * * *", "UTC", "2026-11-18T09:00:00+00:00", "2026-11-19T09:00:00+00:00"),
        ("0 9 * * *", "UTC", "2026-11-18T09:00:00.000001+00:00", "2026-11-19T09:00:00+00:00"),
        ("* * * * * *", "UTC", "2026-11-18T09:00:00.5+00:00", "2026-11-18T09:00:01+00:00"),
        ("* * * * *", "UTC", "2026-12-31T23:59:30+00:00", "2027-01-01T00:00:00+00:00"),
        ("0 9 * * *", "America/New_York", "2026-11-18T00:00:00+00:00", "2026-11-18T14:00:00+00:00"),
        ("0 9 * * *", "UTC", "2026-11-18T10:00:00+02:00", "2026-11-18T09:00:00+00:00"),
        ("0 0 1 3 *", "UTC", "2026-01-01T00:00:00+00:00", "2026-03-01T00:00:00+00:00"),
        ("0 0 1 3 *", "UTC", "2026-01-02T00:00:00+00:00", "2026-03-01T00:00:00+00:00"),
        ("0 0 29 2 *", "Europe/Berlin", "2096-03-01T00:00:00+00:00", "2104-02-28T23:00:00+00:00"),
    ],
)
def test_after_is_the_next_whole_second(line: str, zone: str, start: str, expected: str) -> None:
    """The next tick is strictly later, in UTC, without a fraction, whatever zone the question is put in."""
    tick = Schedule(line, zone).after(at(start))
    assert tick.isoformat() == expected
    assert tick.tzinfo is UTC


def test_both_passes_of_an_hour_are_told_apart_in_the_question() -> None:
    """An instant given in the zone itself, in the second pass of a repeated hour, is that one and not the first."""
    second_pass = datetime(2026, 10, 25, 2, 10, fold=1, tzinfo=ZoneInfo("Europe/Berlin"))
    schedule = Schedule("*/30 * * * *", "Europe/Berlin")
    assert schedule.after(second_pass).isoformat() == "2026-10-25T01:30:00+00:00"
    assert schedule.after(second_pass.replace(fold=0)).isoformat() == "2026-10-25T00:30:00+00:00"


@settings(max_examples=200)
@given(
    start=instants,
    line=st.sampled_from(["* * * * *", "0,30 2 * * *", "*/7 1-3 * * *", "0 0 * * 0", "*/25 0 2 * * *"]),
    zone=st.sampled_from(["Europe/Berlin", "Australia/Lord_Howe", "America/Havana", "Africa/Casablanca", "UTC"]),
)
def test_ticks_rise_strictly(start: datetime, line: str, zone: str) -> None:
    """A planner that goes from tick to tick always gets on, in whole seconds, and misses none that a doubter finds."""
    schedule = Schedule(line, zone)
    tick = start
    for _ in range(5):
        later = schedule.after(tick)
        assert later > tick
        assert later.microsecond == 0
        assert Schedule(line, zone).after(tick + (later - tick) / 2) == later
        tick = later


@settings(max_examples=200)
@given(
    start=instants,
    steps=st.lists(st.integers(-9_000, 9_000), min_size=2, max_size=12),
    line=st.sampled_from(["* * * * *", "0,30 2 * * *", "*/7 1-3 * * *", "*/25 0 2 * * *", "0 */2 * * *"]),
    night=st.sampled_from([*NIGHTS, ""]),
)
def test_what_was_asked_before_changes_no_answer(start: datetime, steps: list[int], line: str, night: str) -> None:
    """A schedule that is asked again, for instants near each other, says what a new one says, also in a night when the
    clocks change.
    """
    schedule, asked = Schedule(line, "Europe/Berlin"), at(night) if night else start
    for step in steps:
        asked += timedelta(seconds=step)
        assert schedule.after(asked) == Schedule(line, "Europe/Berlin").after(asked)


def test_what_was_found_is_not_looked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """From an instant that was asked for, up to the tick after it, that tick is known; four such spans are."""
    looked: list[datetime] = []
    after = CronLine.after

    def look(line: CronLine, wall: datetime) -> datetime:
        looked.append(wall)
        return after(line, wall)

    monkeypatch.setattr(CronLine, "after", look)
    schedule, nine = Schedule("0 * * * *"), at("2026-11-18T09:00:00+00:00")
    for hours in range(4):
        schedule.after(nine + timedelta(hours=hours))
    del looked[:]
    for minutes in range(240):
        assert schedule.after(nine + timedelta(minutes=minutes)) == nine + timedelta(hours=minutes // 60 + 1)
    assert looked == []
    schedule.after(nine - timedelta(seconds=1))
    schedule.after(nine)
    assert len(looked) == 2


def test_between_leaves_out_the_start_and_has_the_end() -> None:
    """`between` gives the ticks after the start, up to and including the end, in order."""
    schedule = Schedule("*/20 * * * *")
    start, end = at("2026-11-18T09:00:00+00:00"), at("2026-11-18T11:00:00+01:00")
    assert [tick.isoformat()[11:16] for tick in schedule.between(start, end)] == ["09:20", "09:40", "10:00"]
    assert list(schedule.between(start, start)) == []
    assert list(schedule.between(end, start)) == []
    assert list(schedule.between(start - timedelta(seconds=1), start)) == [start]


def test_an_instant_needs_a_zone() -> None:
    """A naive instant is refused with what to give instead, by both questions and on both sides."""
    schedule, aware = Schedule("* * * * *"), datetime(2026, 11, 18, tzinfo=UTC)
    naive = aware.replace(tzinfo=None)
    with pytest.raises(ValueError, match=r"datetime\(2026, 11, 18, 0, 0\) has no time zone: give an aware datetime"):
        schedule.after(naive)
    for start, end in ((naive, aware), (aware, naive)):
        with pytest.raises(ValueError, match="has no time zone"):
            schedule.between(start, end)


@pytest.mark.parametrize("zone", ["Mars/Olympus", "GMT+2", "", "../UTC", "Europe", "/etc/localtime", 5, None])
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    """A zone that isn't there is refused with its name, and with what a name looks like."""
    with pytest.raises(ValueError, match=r"no time zone .*: use a name like Europe/Berlin or America/New_York"):
        Schedule("* * * * *", zone)


def test_a_system_without_zones_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no zone is installed, the remedy is the package that has them."""
    monkeypatch.setattr("firecron.cron.zoned_line.available_timezones", set)
    with pytest.raises(ValueError, match=r"there is no time zone 'Mars/Olympus': .*pip install tzdata"):
        Schedule("* * * * *", "Mars/Olympus")


@pytest.mark.parametrize(
    ("zone", "meant"), [("PST", "America/Los_Angeles"), ("cest", "Europe/Berlin"), ("CST", "Chicago or Asia/Shanghai")]
)
def test_an_abbreviation_is_refused_with_its_cities(zone: str, meant: str) -> None:
    """What clocks show beside the time is no zone, and may mean several."""
    with pytest.raises(ValueError, match=rf"no time zone '{zone}': did you mean .*{meant}\?$"):
        Schedule("* * * * *", zone)


@pytest.mark.parametrize(("zone", "city"), [("EST", "America/New_York"), ("MST", "America/Denver")])
def test_a_zone_without_summer_gets_a_warning(zone: str, city: str) -> None:
    """It is a zone, and an hour from what most people mean by it for half of the year."""
    (warning,) = Schedule("0 9 * * *", zone).warnings
    assert f"in summer its ticks come an hour after those of {city}" in warning
    summer = datetime(2026, 7, 1, tzinfo=UTC)
    assert Schedule("0 9 * * *", zone).after(summer) - Schedule("0 9 * * *", city).after(summer) == timedelta(hours=1)
    assert Schedule("0 9 * * *", "EST5EDT").warnings == Schedule("0 9 * * *", city).warnings == ()


@pytest.mark.parametrize(
    ("zone", "meant"),
    [
        ("Berlin", "Europe/Berlin"),
        ("Europe/Berln", "Europe/Berlin"),
        ("New York", "America/New_York"),
        ("Istanbul", "Asia/Istanbul or Europe/Istanbul"),
        (UTC, "UTC"),
    ],
)
def test_a_zone_that_is_nearly_one_is_refused_with_its_name(zone: str, meant: str) -> None:
    """A city without its continent, a slip, and Python's own UTC are refused with the name that was meant."""
    with pytest.raises(ValueError, match="there is no time zone") as caught:
        Schedule("* * * * *", zone)
    assert str(caught.value).endswith(f"{zone!r}: did you mean {meant}?")


def test_a_zone_may_be_a_zone_info() -> None:
    """A ZoneInfo is as good as its name; one that has none, or none that is known, is refused."""
    schedule = Schedule("0 9 * * *", ZoneInfo("Europe/Berlin"))
    assert schedule == Schedule("0 9 * * *", "Europe/Berlin")
    assert (schedule.timezone, repr(schedule)) == ("Europe/Berlin", "Schedule('0 9 * * *', 'Europe/Berlin')")
    for key in (None, "Mars/Olympus"):
        nowhere = ZoneInfo.from_file(io.BytesIO(ZONE_FILE), key)
        with pytest.raises(ValueError, match=f"there is no time zone {key!r}: use a name like Europe/Berlin"):
            Schedule("0 9 * * *", nowhere)


def test_schedules_are_values() -> None:
    """A schedule is what its line and its zone are, shows both, and stays equal to its like."""
    schedule = Schedule(CronExpression.EVERY_WEEK, "Europe/Berlin")
    assert repr(schedule) == "Schedule('0 0 * * 0', 'Europe/Berlin')"
    assert (schedule.line, schedule.timezone) == ("0 0 * * 0", "Europe/Berlin")
    assert schedule == Schedule("0 0 * * 0", "Europe/Berlin")
    assert hash(schedule) == hash(Schedule("0 0 * * 0", "Europe/Berlin"))
    assert schedule != Schedule("0 0 * * 0")
    assert schedule != Schedule("0 1 * * 0", "Europe/Berlin")
    assert schedule != "0 0 * * 0"
    assert schedule == ANY, "others may say that they are like it"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        (
            {},
            "a cron line must be a string, not None: write a line such as '0 9 * * *', or every=timedelta(minutes=45)",
        ),
        ({"line": "* * * * *", "every": 60}, "the cron line '* * * * *' and every=60: leave one of them out"),
        ({"every": 60, "timezone": "Europe/Berlin"}, "timezone='Europe/Berlin' is only for a cron line"),
        ({"every": 60, "timezone": "UTC"}, "leave timezone out, and give starting its own zone"),
        ({"every": 0}, "every=0 is too short: it must be at least 1 s"),
        ({"every": -60}, "every=-60 is too short"),
        ({"every": 1.5}, "every=1.5 must be whole seconds"),
        ({"every": timedelta(milliseconds=1500)}, "must be whole seconds"),
        ({"every": timedelta(days=367)}, "every=datetime.timedelta(days=367) is too long"),
        ({"every": "45m"}, "every='45m' is not a duration: give seconds or a timedelta"),
        ({"every": True}, "every=True is not a duration"),
        ({"every": 60, "starting": NOON.replace(tzinfo=None)}, "has no time zone: give an aware datetime, such as"),
        ({"every": 60, "starting": "2026-11-18"}, "starting='2026-11-18' is not an instant: give an aware datetime"),
        ({"every": 60, "starting": NOON.replace(microsecond=1)}, "must be a whole second"),
    ],
)
def test_a_line_or_every_but_not_both(given: dict[str, Any], problem: str) -> None:
    """A schedule without a line and without `every`, with both, or with what doesn't fit says what to write."""
    with pytest.raises(ValueError, match=r".") as caught:
        Schedule(**given)
    assert problem in str(caught.value)


def test_even_distances_are_a_value_too() -> None:
    """Two schedules of the same distance and start are equal, whatever they were given in, and show both."""
    schedule = Schedule(every=timedelta(minutes=45), starting=NOON)
    assert (schedule.every, schedule.starting, schedule.timezone) == (timedelta(minutes=45), NOON, "UTC")
    assert schedule.line == "every 45 minutes, from 2026-11-18 12:00 UTC"
    assert str(schedule) == "[every 45 minutes, from 2026-11-18 12:00 UTC]"
    assert schedule == Schedule(every=2700, starting=NOON.astimezone(ZoneInfo("Asia/Tokyo")))
    assert hash(schedule) == hash(Schedule(every=2700.0, starting=NOON))
    assert schedule not in (Schedule(every=2700), Schedule(every=2701, starting=NOON), Schedule("*/45 * * * *"))
    assert eval(repr(schedule), {"Schedule": Schedule, "datetime": datetime_module}) == schedule
    assert (schedule.warnings, schedule.has_seconds, Schedule(every=59).has_seconds) == ((), False, True)
    assert str(Schedule("0 9 * * *", "Europe/Berlin")) == "[0 9 * * *] (Europe/Berlin)"


def test_even_distances_begin_at_their_start() -> None:
    """The start is the first tick; before it there is none, and behind it they follow each other evenly."""
    schedule = Schedule(every=timedelta(days=14), starting=NOON)
    ticks = list(schedule.between(NOON - timedelta(days=100), NOON + timedelta(days=30)))
    assert ticks == [NOON, NOON + timedelta(days=14), NOON + timedelta(days=28)]
    assert schedule.after(NOON - timedelta(microseconds=1)) == NOON
    assert schedule.after(NOON + timedelta(microseconds=1)) == NOON + timedelta(days=14)


def test_no_change_of_the_clocks_moves_even_distances() -> None:
    """On a night with a repeated hour the ticks are as far from each other as on any other."""
    start = datetime(2026, 10, 25, 0, 0, tzinfo=ZoneInfo("Europe/Berlin"))
    ticks = list(Schedule(every=3600, starting=start).between(start, at("2026-10-25T05:00:00+01:00")))
    walls = [tick.astimezone(ZoneInfo("Europe/Berlin")).isoformat()[11:19] for tick in ticks]
    assert walls == ["01:00:00", "02:00:00", "02:00:00", "03:00:00", "04:00:00", "05:00:00"]
    assert list(special_nights(Schedule(every=3600), start, start + timedelta(days=365))) == []
