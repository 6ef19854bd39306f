"""Durations: seconds or timedelta in, milliseconds out, nonsense refused by name."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal

import pytest

from firecron.base.instants import doubt, milliseconds
from firecron.errors import ConfigurationError

GOOD = [
    (0, 0),
    (60, 60_000),
    (1.5, 1_500),
    (0.0004, 0),
    (0.0006, 1),
    (86_400, 86_400_000),
    (timedelta(minutes=5), 300_000),
    (timedelta(milliseconds=1), 1),
    (timedelta(days=1), 86_400_000),
]

BAD = [
    (86_400.001, r"ttl=86400.001 is too long: it must be at most 86400 s\. Is it in milliseconds\?"),
    (300_000, r"ttl=300000 is too long.*Is it in milliseconds\?"),
    (timedelta(days=1, seconds=1), "too long"),
    (float("inf"), "ttl=inf is too long"),
    (10**400, "too long"),
    (-1, "ttl=-1 is too short: it must be at least 0 s"),
    (-0.001, "too short"),
    (float("-inf"), "too short"),
    (timedelta(seconds=-1), "too short"),
    *[
        (wrong, "is not a duration: give seconds or a timedelta")
        for wrong in (float("nan"), True, False, None, "60", "5m", [60], Decimal(60))
    ],
]


@pytest.mark.parametrize(("given", "expected"), GOOD)
def test_a_duration_is_seconds_or_a_timedelta(given: object, expected: int) -> None:
    """Numbers are seconds; both become whole milliseconds, rounded."""
    found = milliseconds(given, "ttl")
    assert found == expected
    assert type(found) is int


@pytest.mark.parametrize(("given", "said"), BAD, ids=[repr(case[0])[:20] for case in BAD])
def test_what_is_no_duration_is_refused(given: object, said: str) -> None:
    """A refusal names the parameter, its value and the remedy."""
    with pytest.raises(ConfigurationError, match=said):
        milliseconds(given, "ttl")


@pytest.mark.parametrize(
    ("given", "said"), [(0.99, "wait=0.99 is too short: it must be at least 1 s"), (11, "at most 10 s")]
)
def test_bounds_can_be_set(given: float, said: str) -> None:
    """A caller may have bounds of its own; they are inclusive."""
    with pytest.raises(ConfigurationError, match=said):
        milliseconds(given, "wait", least=1, most=10)
    assert milliseconds(1, "wait", least=1, most=10) == 1_000
    assert milliseconds(10, "wait", least=1, most=10) == 10_000


@pytest.mark.parametrize(
    "given",
    [60_000, 30_000, 5_000, 4_000.0, 85_000, 90_000, 180_000, 300_000, 600_000, 3_600_000, 1_800_000],
)
def test_a_number_that_is_hardly_meant_in_seconds_is_asked_about(given: float) -> None:
    """Whole thousands from an hour on are asked about, unless they are whole hours, or, from a day on, whole days."""
    assert doubt(given, "grace") is not None
    assert doubt(timedelta(seconds=given), "grace") is None


@pytest.mark.parametrize(
    "given",
    [None, 0, 60, 3_000, 3_599, 3_600, 5_400, 18_000, 36_000, 43_200, 86_400, 172_800, 432_000, 604_800, 2_592_000],
)
def test_what_people_write_in_seconds_is_not_asked_about(given: float | None) -> None:
    """Less than an hour, whole hours, whole days, and what is no whole number of thousands may well be seconds."""
    assert doubt(given, "grace") is None


def test_a_doubt_says_what_to_write() -> None:
    """It names the option, its value, how long that is, and what to write in either case."""
    assert doubt(60_000, "grace") == (
        "grace=60000 is 16.7 hours. Is it in milliseconds? Then write grace=60. If not, write timedelta(seconds=60000)"
    )
    assert str(doubt(3_600_000, "catch_up_window")).startswith("catch_up_window=3600000 is 41.7 days. ")
