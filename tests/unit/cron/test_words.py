"""What schedules are in words: they read well, and lines that fire differently never have the same."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from zoneinfo import ZoneInfo, available_timezones

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cron.test_schedule_daemon import lines

from firecron import CronExpression, Schedule
from firecron.cron.line import CronLine, Days
from firecron.cron.words import in_words


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("0 9 * * *", "at 09:00 every day"),
        ("0 6 L * *", "on the last day of the month at 06:00"),
        ("30 9,17 * * *", "at 09:30 and 17:30 every day"),
        ("0,30 2 * * *", "at 02:00 and 02:30 every day"),
        ("0 0,6,12,18 * * *", "at 00:00, 06:00, 12:00 and 18:00 every day"),
        ("30 30 2 * * *", "at 02:30:30 every day"),
        ("0 9 * * 1-5", "at 09:00 on Mondays to Fridays"),
        ("0 9 * * sat,sun", "at 09:00 on Saturdays and Sundays"),
        ("0 9 * * 5-7", "at 09:00 on Fridays to Sundays"),
        ("0 9 * * 1,2,3,5", "at 09:00 on Mondays to Wednesdays and Fridays"),
        ("0 9 * 6-8 *", "at 09:00 every day in June to August"),
        ("0 9 * 6-8 1", "at 09:00 on Mondays in June to August"),
        ("@weekly", "at 00:00 on Sundays"),
        ("@yearly", "on the 1st of January at 00:00"),
        ("0 0 1,15 * *", "on the 1st and the 15th of the month at 00:00"),
        ("0 0 1-7 * *", "on the 1st to the 7th of the month at 00:00"),
        ("0 0 2,3,11-13,21 * ?", "on the 2nd, the 3rd, the 11th to the 13th and the 21st of the month at 00:00"),
        ("0 0 */2 * *", "at 00:00 on every 2nd day from the 1st to the 31st of the month"),
        ("0 0 1 */3 *", "on the 1st of January, April, July and October at 00:00"),
        ("0 6 15,L * *", "on the 15th and the last day of the month at 06:00"),
        ("0 6 L 2 *", "on the last day of February at 06:00"),
        ("0 6 * * 5L", "on the last Friday of the month at 06:00"),
        ("0 6 * * 1#2", "on the second Monday of the month at 06:00"),
        ("0 6 * 3-5 1#1,1#3", "on the first Monday and the third Monday of each month from March to May at 06:00"),
        ("0 0 13 * 5", "on the 13th of the month and on Fridays at 00:00"),
        ("0 0 13 3 5,1L", "on the 13th and the last Monday of March and on Fridays in March at 00:00"),
        ("0 0 1-31 * 5", "at 00:00 every day"),
        ("0 0 13 * 0-6", "at 00:00 every day"),
        ("* * * * *", "every minute"),
        ("*/15 * * * *", "every 15 minutes"),
        ("*/15 * 13 * *", "every 15 minutes on the 13th of the month"),
        ("*/15 * * 3 *", "every 15 minutes in March"),
        ("@hourly", "every hour"),
        ("5 * * * *", "every hour, at minute 5"),
        ("0 */2 * * *", "every 2 hours"),
        ("15 */3 * * *", "every 3 hours, at minute 15"),
        ("30 15 */3 * * *", "every 3 hours, at minute 15 and second 30"),
        ("30 0 * * * *", "every hour, at minute 0 and second 30"),
        ("30 * * * * *", "every minute, at second 30"),
        ("* * * * * *", "every second"),
        ("*/10 * * * * *", "every 10 seconds"),
        ("0 0-23/2 * * *", "every 2 hours from 00:00 to 22:00 every day"),
        ("0 9-17 * * 1", "every hour from 09:00 to 17:00 on Mondays"),
        ("0 22-4 * * *", "every hour from 22:00 to 04:00 every day"),
        ("0 0,4,8,12,16,20 * * *", "every 4 hours from 00:00 to 20:00 every day"),
        ("*/30 9-17 * * *", "every 30 minutes from 09:00 to 17:30 every day"),
        ("*/15 2 * * *", "every 15 minutes from 02:00 to 02:45 every day"),
        ("*/10 0 2 * * *", "every 10 seconds from 02:00:00 to 02:00:50 every day"),
        ("*/10 * 2-3 * * *", "every 10 seconds from 02:00:00 to 03:59:50 every day"),
        ("*/45 * * * *", "twice an hour, at :00 and :45"),
        ("5,20,35,50 * * * 1", "four times an hour, at :05, :20, :35 and :50 on Mondays"),
        ("0-4 * * * *", "at minutes 0 to 4 of every hour"),
        ("*/40 * * * * *", "twice a minute, at :00 and :40"),
        ("0,5,10 * * * * *", "three times a minute, at :00, :05 and :10"),
        ("7,9 5,35 * * * *", "at seconds 7 and 9 of minutes 5 and 35 of every hour"),
        ("1-59/2 * * * *", "at every 2nd minute from 1 to 59 of every hour"),
        ("0,1,2,30 9-17 * * *", "at minutes 0 to 2 and 30 of the hours 9 to 17 every day"),
        ("0-59 3 * * *", "at every minute of hour 3 every day"),
        ("5,15 30 9 * * *", "at 09:30:05 and 09:30:15 every day"),
        ("5,15 30 * * * *", "at seconds 5 and 15 of minute 30 of every hour"),
        ("*/45 9 * * *", "at minutes 0 and 45 of hour 9, as often as the clock shows it, every day"),
    ],
)
def test_a_line_in_words(line: str, words: str) -> None:
    """Common forms are said as people say them, others field by field, and the city ends the sentence."""
    assert in_words(Schedule(line, "America/New_York")) == f"{words}, New York"


@pytest.mark.parametrize(
    ("every", "starting", "words"),
    [
        (2700, None, "every 45 minutes"),
        (timedelta(hours=1), None, "every hour"),
        (timedelta(days=14), "2026-01-05T10:00:00+01:00", "every 2 weeks, from 2026-01-05 09:00 UTC"),
        (86_400, "2026-01-05T00:00:07+00:00", "every day, from 2026-01-05 00:00:07 UTC"),
        (90, None, "every 90 seconds"),
    ],
)
def test_even_distances_in_words(every: float | timedelta, starting: str | None, words: str) -> None:
    """The distance is said in its largest unit, and the first tick in UTC, if somebody has said where it begins."""
    first = None if starting is None else datetime.fromisoformat(starting)
    assert in_words(Schedule(every=every, starting=first)) == words


@pytest.mark.parametrize(
    ("zone", "place"), [("UTC", "UTC"), ("Europe/Berlin", "Berlin"), ("America/Indiana/Knox", "America/Indiana/Knox")]
)
def test_the_place_is_a_city_where_it_can_be(zone: str, place: str) -> None:
    """A zone of an area and a city is named by the city, and any other by its name."""
    assert in_words(Schedule("0 9 * * *", zone)) == f"at 09:00 every day, {place}"


def test_no_two_zones_with_other_clocks_have_the_same_place() -> None:
    """Zones that are said by the same words have shown the same times in this century."""
    instants = [datetime(year, month, 1, tzinfo=UTC) for year, month in product(range(2000, 2030), (1, 4, 7, 10))]
    clocks: dict[str, list[timedelta | None]] = {}
    for zone in sorted(available_timezones()):
        place = in_words(Schedule("0 9 * * *", zone))
        offsets = [instant.astimezone(ZoneInfo(zone)).utcoffset() for instant in instants]
        assert clocks.setdefault(place, offsets) == offsets, zone


def meaning(line: str) -> object:
    """What decides when a line fires. Lines that differ here differ in their ticks, in some zone and year."""
    read = CronLine(line)
    days: Days | None = read.days
    of_month, of_week = read.days.of_month, read.days.of_week
    if (of_month is None or of_month.numbers >= {*range(1, 32)}) and of_week is None:
        days = None
    if (of_month is not None and of_month.numbers >= {*range(1, 32)}) or (of_week and of_week.each >= {*range(7)}):
        days = None
    return read.seconds, read.minutes, read.hours, read.is_wildcard, days or read.days.months


HOURS = ["*", "*/1", "*/2", "*/6", "*/24", "*/7", "2", "9", "2-3", "0-23", "0-23/2", "0-22/2", "22-4", "1/5", "0,12"]
MINUTES = ["*", "*/1", "*/15", "*/30", "*/45", "*/60", "0", "5", "0,30", "0-59", "0-59/15", "5/15", "0,15,30,45"]
SECONDS = ["0", "30", "*", "*/10", "*/45", "*/60", "0,30", "5/10"]
DAYS = [
    "* * *", "1 * *", "L * *", "1,L * *", "* * 1", "1 * 1", "* 2 *", "L 2 *", "L 2 5L", "* 2 5L", "* * 5#1", "*/2 * *",
]  # fmt: skip


def all_lines() -> list[str]:
    times = [" ".join(time) for time in product(SECONDS, MINUTES, HOURS)]
    return [f"{time} * * *" for time in times] + [f"{time} {days}" for time in times[::17] for days in DAYS]


def test_lines_that_fire_differently_have_other_words() -> None:
    """Of some thousand lines of common and odd shapes no two with the same words fire differently."""
    meant: dict[str, object] = {}
    for line in all_lines():
        words = in_words(Schedule(line))
        means = meaning(line)
        assert meant.setdefault(words, means) == means, (line, words)


@settings(max_examples=150)
@given(st.lists(lines, min_size=2, max_size=8))
def test_any_lines_that_fire_differently_have_other_words(found: list[str]) -> None:
    """Whatever lines there are, equal words mean equal ticks; and every line has words."""
    meant: dict[str, object] = {}
    for line in found:
        try:
            words = in_words(Schedule(line))
        except ValueError as error:
            assert "never fires" in str(error)
            continue
        assert words
        means = meaning(line)
        assert meant.setdefault(words, means) == means, (line, words)


@pytest.mark.parametrize("line", CronExpression, ids=lambda line: str(line.name))
def test_each_line_by_name_reads_well(line: CronExpression) -> None:
    """The constants are all common forms: none is said field by field."""
    assert not in_words(Schedule(line)).startswith(("at minute", "at second", "at every"))
