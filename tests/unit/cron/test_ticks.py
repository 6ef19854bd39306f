"""The newest ticks of a schedule."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from firecron.base.instants import to_milliseconds, to_text
from firecron.cron.schedule import Schedule
from firecron.cron.ticks import newest, newest_tick
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
