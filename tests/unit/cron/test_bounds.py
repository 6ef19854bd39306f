"""`starting` and `until`: no tick is before the first or after the second, whoever asks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from math import inf
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.unit.cron.test_except_days import LINES, SPANS, midnight, runs
from tests.unit.cron.test_schedule_daemon import ZONES

from firecron import Schedule
from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.schedule import due_after, has_tick, is_tick, meant_tick, newest, newest_tick, shortest_interval
from firecron.cron.words import in_words, without_place
from firecron.errors import NoTick

NOON = datetime(2026, 11, 18, 12, tzinfo=UTC)
HOUR, DAY = timedelta(hours=1), timedelta(days=1)


def test_the_tick_at_either_bound_is_one() -> None:
    """Both instants are inside, one second beyond is not, and after the end there is no tick."""
    schedule = Schedule("0 * * * *", starting=NOON, until=NOON + 2 * HOUR)
    assert list(schedule.between(NOON - DAY, NOON + DAY)) == [NOON, NOON + HOUR, NOON + 2 * HOUR]
    inside = Schedule("0 * * * *", starting=NOON + timedelta(seconds=1), until=NOON + timedelta(seconds=7199))
    assert list(inside.between(NOON - DAY, NOON + DAY)) == [NOON + HOUR]
    assert schedule.next_after(NOON + 2 * HOUR) is None
    with pytest.raises(NoTick, match=r"no tick of .* \(UTC\), from 2026-11-18T12:00:00Z on, until .*T14.* has ended"):
        schedule.after(NOON + 2 * HOUR)
    even = Schedule(every=5400, starting=NOON, until=NOON + 3 * HOUR)
    assert [tick - NOON for tick in even.between(NOON - DAY, NOON + DAY)] == [timedelta(), 1.5 * HOUR, 3 * HOUR]


def test_a_schedule_has_ended_after_its_last_tick() -> None:
    """Not at the instant before that, although it has an end; one without an end never has."""
    schedule = Schedule("0 * * * *", until=NOON)
    ended = [schedule.has_ended(instant) for instant in (NOON - DAY, NOON - timedelta(seconds=1), NOON, NOON + DAY)]
    assert ended == [False, False, True, True]
    assert not Schedule("0 * * * *").has_ended(NOON + 1000 * DAY)


# Hours of the first span: the leap day, and a change of the clocks in most of the zones.
instants = st.integers(0, 48 * 24).map(lambda hours: midnight(SPANS[0][0]) + hours * HOUR)


@settings(max_examples=60)
@given(zone=st.sampled_from(list(ZONES)), line=st.sampled_from(LINES), ends=st.tuples(instants, instants), now=instants)
def test_ticks_inside_of_the_bounds_are_the_daemons(
    zone: str, line: str, ends: tuple[datetime, datetime], now: datetime
) -> None:
    """In ten zones: a daemon that is only asked from `starting` to `until` runs exactly these ticks."""
    starting, until = sorted(ends)
    expected = [run for run in runs(zone, SPANS[0], line) if starting <= run <= until]
    try:
        schedule = Schedule(line, zone, starting=starting, until=until)
    except ValueError as error:
        assert "never fires" in str(error)
        assert expected == []
        return
    found = list(schedule.between(midnight(SPANS[0][0]) - DAY, midnight(SPANS[0][1]) + 400 * DAY))
    assert [tick.isoformat() for tick in found] == [run.isoformat() for run in expected]
    following = next((run for run in expected if run > now), None)
    assert schedule.next_after(now) == following
    at = to_milliseconds(now)
    assert due_after(schedule, at) == (inf if following is None else to_milliseconds(following))
    assert newest(schedule, 0, at, 3) == [to_text(run) for run in expected if run <= now][-3:]
    assert has_tick(schedule, at - 7_200_000, at) == any(now - 2 * HOUR < run <= now for run in expected)
    assert is_tick(schedule, to_text(now)) == (now in expected)


def test_a_start_by_hand_after_the_last_tick_is_for_that_tick() -> None:
    """Within its grace the last tick is what a late start means; later there is none, and none is to come."""
    schedule = Schedule("0 * * * *", until=NOON)
    assert meant_tick(schedule, NOON + timedelta(minutes=5)) == (NOON, 0.0)
    assert meant_tick(schedule, NOON - timedelta(seconds=4)) == (NOON, 4.0)
    with pytest.raises(NoTick, match="the newest was 2026-11-18T12:00:00Z, and it was the last"):
        newest_tick(schedule, NOON + HOUR, grace=60)


def test_one_tick_has_no_interval() -> None:
    """The time between the ticks of a schedule that has one tick only is infinite."""
    assert shortest_interval(Schedule("0 * * * *", starting=NOON, until=NOON)) == inf
    assert shortest_interval(Schedule("0 * * * *", until=NOON)) == 3600


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"until": NOON.replace(tzinfo=None)}, "has no time zone: give an aware datetime, such as"),
        ({"until": "2026-11-18"}, "until='2026-11-18' is not an instant: give an aware datetime"),
        ({"until": NOON.replace(microsecond=1)}, "until=datetime.datetime(2026, 11, 18, 12, 0, 0, 1, tzinfo="),
        ({"starting": "soon"}, "starting='soon' is not an instant"),
        ({"starting": NOON, "until": NOON - HOUR}, "never fires: until=datetime.datetime(2026, 11, 18, 11, 0"),
        ({"starting": NOON + timedelta(seconds=1), "until": NOON + timedelta(minutes=59)}, "before its first tick"),
    ],
)
def test_bounds_that_can_not_be_used_are_refused(given: dict[str, Any], problem: str) -> None:
    """An instant without a zone, one that is none, and bounds without a tick between them say what is wrong."""
    with pytest.raises(ValueError, match=r".") as caught:
        Schedule("0 * * * *", **given)
    assert problem in str(caught.value)
    with pytest.raises(ValueError, match=r"until=.* is before its first tick"):
        Schedule(every=60, starting=NOON, until=NOON - HOUR)


def test_an_end_that_is_past_is_no_error() -> None:
    """A program goes on being deployed after the last tick of its job."""
    assert Schedule("0 * * * *", until=datetime(1999, 1, 1, tzinfo=UTC)).next_after(NOON) is None


def test_bounds_are_a_part_of_the_schedule() -> None:
    """Two schedules that begin or end otherwise differ; the same instant in another zone is the same."""
    bounded = Schedule("0 9 * * *", "Asia/Tokyo", starting=NOON, until=NOON + DAY)
    twin = Schedule("0 9 * * *", "Asia/Tokyo", starting=NOON.astimezone(ZoneInfo("Asia/Tokyo")), until=NOON + DAY)
    others = {Schedule("0 9 * * *", "Asia/Tokyo"), Schedule("0 9 * * *", "Asia/Tokyo", starting=NOON)}
    others |= {Schedule("0 9 * * *", "Asia/Tokyo", until=NOON + DAY), Schedule("0 9 * * *", starting=NOON)}
    assert bounded == twin
    assert hash(bounded) == hash(twin)
    assert bounded not in others
    assert len(others) == 4
    assert eval(repr(bounded), {"Schedule": Schedule, "datetime": __import__("datetime")}) == bounded
    named = Schedule("H 9 * * *", name="digest", starting=NOON, until=NOON + DAY).named("ops/digest")
    assert (named.starting, named.until, named.written) == (NOON, NOON + DAY, "H 9 * * *")


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        (Schedule("0 9 * * *", "America/New_York", until=NOON), "at 09:00 every day, New York, until 2026-11-18 07:00"),
        (
            Schedule("0 9 * * *", starting=NOON, until=NOON + DAY + timedelta(seconds=5)),
            "at 09:00 every day, UTC, from 2026-11-18 12:00, until 2026-11-19 12:00:05",
        ),
        (
            Schedule(every=2700, starting=NOON, until=NOON + DAY),
            "every 45 minutes, from 2026-11-18 12:00, until 2026-11-19 12:00 UTC",
        ),
        (Schedule(every=2700, until=NOON), "every 45 minutes, until 2026-11-18 12:00 UTC"),
        (
            Schedule("0 * * * *", "Europe/Berlin", until=datetime(2026, 10, 25, 1, 30, tzinfo=UTC)),
            "every hour, Berlin, until 2026-10-25 02:30 +0100",
        ),
    ],
)
def test_bounds_in_words(schedule: Schedule, words: str) -> None:
    """From when and until when is said by the clocks of the schedule's zone, and which pass of a repeated hour."""
    assert in_words(schedule) == words
    assert without_place(schedule) == words.replace(", New York", "").replace(", UTC", "").replace(", Berlin", "")
