"""A job with `except_days`: on these days nothing runs, and nothing is missed, caught up or skipped."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from typing import Any

import pytest

from firecron import FireCron, Run, distributed_cron
from firecron.base.texts import plain
from firecron.testing import Rehearsal

# A Wednesday.
CLOSED = date(2026, 11, 18)
START = datetime(2026, 11, 17, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)


def jobs(**options: Any) -> FireCron:
    @distributed_cron("digest", "0 */6 * * *", except_days={"holiday": [CLOSED]}, lock_ttl=30, **options)
    def digest(run: Run) -> None: ...

    return FireCron(digest)


def days(test: Rehearsal) -> dict[str, list[str]]:
    """The outcomes of the entries of each day."""
    found: dict[str, list[str]] = {}
    for entry in test.history("digest"):
        found.setdefault(plain(str(entry["slot"]))[8:10], []).append(str(entry["outcome"]))
    return found


def test_nothing_runs_on_an_excluded_day() -> None:
    """The ticks of the days around it run, and the history has nothing of the day."""
    with jobs().testing(START) as test:
        test.advance(3 * 24 * HOUR)
        assert days(test) == {"17": ["succeeded"] * 2, "19": ["succeeded"] * 4, "20": ["succeeded"] * 2}


@pytest.mark.parametrize(
    ("options", "caught"),
    [
        ({}, []),
        ({"catch_up": "once", "catch_up_window": 604_800}, ["19T12"]),
        ({"catch_up": "all", "catch_up_window": 604_800}, ["17T18", "19T00", "19T06", "19T12"]),
    ],
    ids=["skip", "once", "all"],
)
def test_an_excluded_tick_is_neither_missed_nor_caught_up(options: dict[str, Any], caught: list[str]) -> None:
    """After an outage over the whole day only ticks of other days are missed, and only these are caught up."""
    with jobs(**options).testing(START) as test:
        test.move_to("2026-11-17T12:00:00Z")
        test.clock.advance(49 * HOUR)  # the only instance is frozen until the 19th, 13:00
        test.advance(6 * HOUR)
        history = test.history("digest")
        slots = [str(entry["slot"])[8:13] for entry in history]
        assert slots == ["17T12", "17T18", "19T00", "19T06", "19T12", "19T18"]
        assert [slot for slot, one in zip(slots, history, strict=True) if one.get("trigger") == "catch_up"] == caught


def test_an_excluded_day_keeps_nobody_from_running_the_job_by_hand() -> None:
    """Who runs the job on such a day means it."""
    with jobs().testing(START) as test:
        test.move_to("2026-11-18T12:00:30Z")
        result = test.run("digest")
        assert result.outcome == "succeeded"
