"""Why ticks fall as they do when the clocks change: what is said agrees with what the schedule does."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest

from firecron.cron.schedule import Schedule
from firecron.cron.words import Kind, special_nights

DAY = timedelta(days=1)


def nights(line: str, zone: str, around: str, days: int = 3) -> list[tuple[Kind, str]]:
    start = datetime.fromisoformat(around).replace(tzinfo=UTC) - DAY
    return [(night.kind, night.said) for night in special_nights(Schedule(line, zone), start, start + days * DAY)]


@pytest.mark.parametrize(
    ("line", "zone", "night", "kind", "said"),
    [
        ("30 2 * * *", "Europe/Berlin", "2027-03-28", "moved", "02:30 does not exist: moved to 03:00"),
        ("0,30 2 * * *", "Europe/Berlin", "2027-03-28", "moved", "02:00, 02:30 do not exist: moved to 03:00"),
        ("0 2,3 * * *", "Europe/Berlin", "2027-03-28", "moved", "02:00 does not exist: moved to 03:00"),
        ("*/30 2 * * *", "Europe/Berlin", "2027-03-28", "skipped", "02:00, 02:30 do not exist: skipped"),
        ("0 * * * *", "Europe/Berlin", "2027-03-28", "skipped", "02:00 does not exist: skipped"),
        ("30 2 * * *", "Europe/Berlin", "2026-10-25", "once", "02:30 comes twice, and runs the first time only"),
        ("*/30 2 * * *", "Europe/Berlin", "2026-10-25", "repeated", "02:00, 02:30 come twice, and run both times"),
        ("30 1 * * *", "America/New_York", "2026-11-01", "once", "01:30 comes twice, and runs the first time only"),
        ("30 1 * * *", "Australia/Lord_Howe", "2026-04-05", "once", "01:30 comes twice, and runs the first time only"),
        ("10 2 * * *", "Australia/Lord_Howe", "2026-10-04", "moved", "02:10 does not exist: moved to 02:30"),
        ("0 12 * * *", "Pacific/Apia", "2011-12-30", "skipped", "12:00 does not exist: skipped"),
        ("* * * * *", "Europe/Berlin", "2027-03-28", "skipped", "02:00, 02:01, 02:02 … do not exist: skipped"),
        ("0,20,40 2 * * *", "Europe/Berlin", "2027-03-28", "moved", "02:00, 02:20, 02:40 do not exist: moved to 03:00"),
        ("5 30 2 * * *", "Europe/Berlin", "2027-03-28", "moved", "02:30:05 does not exist: moved to 03:00"),
    ],
)
def test_a_night_is_explained(line: str, zone: str, night: str, kind: Kind, said: str) -> None:
    """What a change of the clocks does to a line's wall times is said, with the times and what becomes of them."""
    ((found, sentence),) = nights(line, zone, night)
    assert found == kind
    assert sentence.endswith(f". {said}")


@pytest.mark.parametrize(
    ("line", "zone", "night"),
    [
        ("0 9 * * *", "Europe/Berlin", "2027-03-28"),
        ("0 3 * * *", "Europe/Berlin", "2027-03-28"),
        ("0 3 * * *", "Europe/Berlin", "2026-10-25"),
        ("30 2 * * *", "Europe/Berlin", "2027-03-10"),
        ("* * * * *", "UTC", "2027-03-28"),
    ],
)
def test_what_is_not_touched_is_not_told(line: str, zone: str, night: str) -> None:
    """Nothing is said of a change that no wall time of the line falls into, nor where there is none."""
    assert nights(line, zone, night) == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/New_York", "Australia/Lord_Howe"])
@pytest.mark.parametrize("line", ["15 2 * * *", "10 1,2 * * *", "*/10 1,2 * * *", "45 * * * *"])
def test_what_is_said_is_what_the_schedule_does(line: str, zone: str) -> None:
    """In a year the schedule runs each named time never, at the change, twice or once, as it is said."""
    schedule, start = Schedule(line, zone), datetime(2026, 1, 1, tzinfo=UTC)
    found = list(special_nights(schedule, start, start + 365 * DAY))
    assert found
    for night in found:
        ticks = list(schedule.between(night.at - DAY / 2, night.at + DAY / 2))
        walls = [tick.astimezone(ZoneInfo(zone)).replace(tzinfo=None, fold=0) for tick in ticks]
        runs = {walls.count(time) for time in night.times}
        assert runs == {{"skipped": 0, "moved": 0, "repeated": 2, "once": 1}[night.kind]}
        assert night.kind != "moved" or night.at in ticks


def test_of_many_times_four_are_named() -> None:
    """One more time than is shown says that there are more."""
    start = datetime(2027, 3, 27, tzinfo=UTC)
    (night,) = special_nights(Schedule("* * * * *", "Europe/Berlin"), start, start + 3 * DAY)
    assert [f"{time:%H:%M}" for time in night.times] == ["02:00", "02:01", "02:02", "02:03"]


def test_a_long_time_is_searched_once() -> None:
    """Every change between the two instants is told once, oldest first, and none outside of them."""
    schedule, start = Schedule("30 2 * * *", "Europe/Berlin"), datetime(2026, 10, 25, 1, tzinfo=UTC)
    found = [night.at.isoformat() for night in special_nights(schedule, start, datetime(2027, 10, 31, 1, tzinfo=UTC))]
    assert found == ["2027-03-28T01:00:00+00:00", "2027-10-31T01:00:00+00:00"]
    odd = special_nights(schedule, start.replace(second=1, microsecond=7), datetime(2027, 10, 31, 1, tzinfo=UTC))
    assert [night.at.isoformat() for night in odd] == found
    sooner = special_nights(schedule, start, datetime(2027, 10, 31, 0, 59, 59, tzinfo=UTC))
    assert [night.at.isoformat() for night in sooner] == found[:1]
