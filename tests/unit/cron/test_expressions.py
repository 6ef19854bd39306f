"""The cron lines by name: the list that users of @nestjs/schedule know, to the letter."""

from __future__ import annotations

import hashlib
from datetime import UTC, datetime

import pytest

from firecron import CronExpression, Schedule, distributed_cron
from firecron.jobs.decorator import declared

# Of "NAME=line" lines, sorted, taken from @nestjs/schedule's own list.
DIGEST = "b82e2fb191274d484837f0a3153b790247e564ff7ad04fd748b510fbc2336eff"


def test_the_list_is_the_one_that_users_know() -> None:
    """All 83 names are there with their values, and no other."""
    text = "\n".join(sorted(f"{name}={line.value}" for name, line in CronExpression.__members__.items()))
    assert len(CronExpression.__members__) == 83
    assert hashlib.sha256(text.encode()).hexdigest() == DIGEST


@pytest.mark.parametrize("line", CronExpression, ids=lambda line: str(line.name))
def test_each_makes_a_schedule(line: CronExpression) -> None:
    """Each is a string that makes a schedule without a warning, and fires within a year."""
    start = datetime(2026, 1, 1, tzinfo=UTC)
    schedule = Schedule(line)
    assert isinstance(line, str)
    assert schedule.warnings == ()
    assert start < schedule.after(start) <= datetime(2027, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        (CronExpression.EVERY_5_SECONDS, "2026-11-18T12:00:05+00:00"),
        (CronExpression.EVERY_MINUTE, "2026-11-18T12:01:00+00:00"),
        (CronExpression.EVERY_30_MINUTES, "2026-11-18T12:30:00+00:00"),
        (CronExpression.EVERY_7_HOURS, "2026-11-18T14:00:00+00:00"),
        (CronExpression.EVERY_DAY_AT_9AM, "2026-11-19T09:00:00+00:00"),
        (CronExpression.EVERY_WEEKEND, "2026-11-21T00:00:00+00:00"),
        (CronExpression.EVERY_QUARTER, "2027-01-01T00:00:00+00:00"),
        (CronExpression.MONDAY_TO_FRIDAY_AT_11_30AM, "2026-11-19T11:30:00+00:00"),
        (CronExpression.EVERY_30_MINUTES_BETWEEN_9AM_AND_5PM, "2026-11-18T12:30:00+00:00"),
    ],
)
def test_a_name_says_when(line: CronExpression, expected: str) -> None:
    """On a Wednesday at noon, the next tick is what the name promises."""
    assert Schedule(line).after(datetime(2026, 11, 18, 12, tzinfo=UTC)).isoformat() == expected


def test_the_decorator_takes_a_name() -> None:
    """A constant serves wherever a line does, and is shown as the line it is."""

    @distributed_cron("digest", CronExpression.EVERY_DAY_AT_9AM)
    def digest() -> None: ...

    (options,) = declared(digest)
    assert f"{options.schedule.line}" == "0 09 * * *"
