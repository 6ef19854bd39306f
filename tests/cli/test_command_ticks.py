"""Which tick a start from outside is for."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from firecron.cron.schedule import Schedule, meant_tick, newest_tick
from firecron.errors import NoTick


def at(text: str) -> datetime:
    return datetime.fromisoformat(f"2026-11-18T{text}").replace(tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "now", "tick", "early"),
    [
        ("*/5 * * * *", "09:05:00", "09:05:00", 0),
        ("*/5 * * * *", "09:05:00.001", "09:05:00", 0),
        ("*/5 * * * *", "09:09:54.999", "09:05:00", 0),
        ("*/5 * * * *", "09:09:55", "09:10:00", 5),
        ("*/5 * * * *", "09:09:59.500", "09:10:00", 0.5),
        ("*/20 * * * * *", "09:00:17.999", "09:00:00", 0),
        ("*/20 * * * * *", "09:00:18", "09:00:20", 2),
        ("0 9 * * *", "23:30:00", "09:00:00", 0),
    ],
)
def test_a_start_shortly_before_a_tick_is_for_that_tick(line: str, now: str, tick: str, early: float) -> None:
    """A start is for the newest tick, or for the next one within 5 seconds and a tenth of the interval before it."""
    assert meant_tick(Schedule(line), at(now)) == (at(tick), early)


@pytest.mark.parametrize(("now", "is_late"), [("09:01:00", False), ("09:01:00.001", True), ("09:59:54", True)])
def test_grace_ends_the_time_of_a_tick(now: str, is_late: bool) -> None:
    """A tick that is longer ago than the grace is not run any more, and the error says which one comes next."""
    schedule = Schedule("0 * * * *")
    if is_late:
        with pytest.raises(NoTick, match=r"the last 60 s: the newest was 2026-11-18T09:00:00Z, the next is .*T10:00"):
            meant_tick(schedule, at(now), 60)
    else:
        assert meant_tick(schedule, at(now), 60) == (at("09:00:00"), 0)


def test_a_rare_tick_is_found_however_long_ago_it_was() -> None:
    """Without a grace the newest tick may be years ago."""
    assert newest_tick(Schedule("0 0 29 2 *"), at("09:00:00")) == datetime(2024, 2, 29, tzinfo=UTC)


def test_ticks_are_those_of_the_zone() -> None:
    """A tick is where the schedule's own zone has it."""
    schedule = Schedule("0 9 * * *", "America/New_York")
    assert newest_tick(schedule, at("13:59:59")) == at("14:00:00") - timedelta(days=1)
    assert newest_tick(schedule, at("14:00:00")) == at("14:00:00")
