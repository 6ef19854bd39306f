"""The end of a pause as it is typed."""

from __future__ import annotations

from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest

from firecron.base.instants import to_milliseconds
from firecron.cli.options import parse_until

BERLIN = ZoneInfo("Europe/Berlin")
# Nine in UTC, ten in Berlin.
NOW = to_milliseconds("2026-11-18T09:00:00Z")


@pytest.mark.parametrize(
    ("typed", "expected"),
    [
        ("90s", "2026-11-18T09:01:30Z"),
        ("30m", "2026-11-18T09:30:00Z"),
        ("30 min", "2026-11-18T09:30:00Z"),
        (" 2h ", "2026-11-18T11:00:00Z"),
        ("3d", "2026-11-21T09:00:00Z"),
        ("14:00", "2026-11-18T13:00:00Z"),
        ("10:01", "2026-11-18T09:01:00Z"),
        ("10:00", "2026-11-19T09:00:00Z"),
        ("9:59:30", "2026-11-19T08:59:30Z"),
        ("00:00", "2026-11-18T23:00:00Z"),
        ("2026-11-18T09:00:01Z", "2026-11-18T09:00:01Z"),
        ("2026-11-18T10:00:01+01:00", "2026-11-18T09:00:01Z"),
        ("2026-11-18 14:00+01:00", "2026-11-18T13:00:00Z"),
    ],
)
def test_what_is_natural_is_understood(typed: str, expected: str) -> None:
    """A duration, the next time of day here, or an instant with its zone."""
    assert parse_until(typed, NOW, BERLIN) == datetime.fromisoformat(expected)


@pytest.mark.parametrize(
    ("typed", "said"),
    [
        ("", "is not understood: give a duration"),
        ("soon", "is not understood"),
        ("24:00", "is not understood"),
        ("14:60", "is not understood"),
        ("1.5h", "is not understood"),
        ("-2h", "is not understood"),
        ("2w", "is not understood"),
        ("٣h", "is not understood"),
        ("0h", "is no time at all"),
        ("999999999d", "is too far away: a pause without an end needs no --until"),
        ("9999-12-31T23:59:59-01:00", "is too far away"),
        ("0001-01-01T00:00:00+01:00", "is over already"),
        ("2026-11-18T14:00:00", "has no time zone"),
        ("2026-11-18", "has no time zone"),
        ("2026-11-18T09:00:00Z", "is over already: it is 2026-11-18T09:00:00Z now"),
        ("2020-01-01T00:00:00Z", "is over already"),
    ],
)
def test_what_names_no_instant_to_come_is_refused(typed: str, said: str) -> None:
    """The reason and the text are said."""
    with pytest.raises(ValueError, match=said) as raised:
        parse_until(typed, NOW, BERLIN)
    assert repr(typed) in str(raised.value)


def test_a_time_of_day_at_a_clock_change() -> None:
    """The night of a clock change has the next instant at which the clock shows the time, or would have shown it."""
    late = to_milliseconds("2026-03-28T20:00:00Z")
    assert parse_until("03:30", late, BERLIN) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)
    assert parse_until("02:30", late, BERLIN) == datetime(2026, 3, 29, 1, 30, tzinfo=UTC)


def test_without_a_zone_it_is_this_machines() -> None:
    """The time of day is the one that a clock on the wall shows."""
    found = parse_until("14:00", NOW).astimezone()
    assert (found.hour, found.minute) == (14, 0)
