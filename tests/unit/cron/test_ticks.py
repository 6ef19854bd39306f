"""The newest ticks of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.schedule import Schedule, is_tick, meant_tick, newest, newest_tick
from firecron.errors import NoTick


def test_before_its_first_tick_a_schedule_has_none() -> None:
    """Where there has been no tick at all, that is said, with the line and its zone."""
    with pytest.raises(NoTick, match=r"^there has been no tick of \[0 0 29 2 \*\] \(UTC\) yet$"):
        newest_tick(Schedule("0 0 29 2 *"), datetime(1970, 6, 1, tzinfo=UTC))


@pytest.mark.parametrize("line", ["* * * * * *", "*/7 * * * *", "0 9 * * 1", "* * 9 * * *", "0 0 29 2 *"])
@pytest.mark.parametrize("most", [1, 2, 5])
def test_the_newest_are_the_last_of_all(line: str, most: int) -> None:
    """However dense or sparse ticks are, the newest ones are the end of the whole list."""
    schedule, start, end = Schedule(line), datetime(2024, 2, 20, tzinfo=UTC), datetime(2024, 3, 5, 9, 0, 7, tzinfo=UTC)
    if line.startswith("*"):
        start = end.replace(hour=8, minute=58)
    every = [to_text(tick) for tick in schedule.between(start, end)]
    assert newest(schedule, to_milliseconds(start), to_milliseconds(end), most) == every[-most:]


@pytest.mark.parametrize("every", [1, 45 * 60, 14 * 86_400])
@pytest.mark.parametrize("most", [1, 3])
def test_the_newest_at_even_distances(every: int, most: int) -> None:
    """Backwards they are found as those of a line are, and none before the start."""
    start = datetime(2026, 11, 1, tzinfo=UTC)
    schedule, end = Schedule(every=every, starting=start), datetime(2026, 11, 18, 9, 0, 7, tzinfo=UTC)
    first = max(start, end - timedelta(days=15)) if every > 1 else end - timedelta(minutes=2)
    expected = [to_text(tick) for tick in schedule.between(first, end)][-most:]
    assert newest(schedule, to_milliseconds(first), to_milliseconds(end), most) == expected
    assert is_tick(schedule, expected[-1])
    assert meant_tick(schedule, end)[0] in (datetime.fromisoformat(expected[-1]), schedule.after(end))
    with pytest.raises(NoTick, match=r"no tick of \[every .*, from 2026-11-01 00:00 UTC\] yet"):
        newest_tick(schedule, start - timedelta(seconds=1))
