"""Instants: milliseconds inside, twenty characters of UTC for people and keys. Durations: seconds or timedelta in."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firecron.base.instants import (
    doubt,
    exact_milliseconds,
    milliseconds,
    to_datetime,
    to_milliseconds,
    to_text,
)
from firecron.errors import ConfigurationError

NINE = 1_794_992_400_000
MILLISECONDS = st.integers(0, 253_402_300_799_000)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "1970-01-01T00:00:00Z"),
        (NINE, "2026-11-18T09:00:00Z"),
        (NINE + 999, "2026-11-18T09:00:00Z"),
        (NINE - 1, "2026-11-18T08:59:59Z"),
        (253_402_300_799_999, "9999-12-31T23:59:59Z"),
    ],
)
def test_an_instant_is_cut_to_the_second(milliseconds: int, text: str) -> None:
    """A text has no fraction, and no more characters than the console shows."""
    assert to_text(milliseconds) == text
    assert len(text) < 24


@given(MILLISECONDS)
def test_a_text_is_its_instant_again(milliseconds: int) -> None:
    """Reading a text gives the second that was written."""
    assert to_milliseconds(to_text(milliseconds)) == milliseconds // 1000 * 1000


@pytest.mark.parametrize(
    "text",
    [
        "", "2026-11-18", "2026-11-18T09:00Z", "2026-11-18T09:00:00", "2026-11-18t09:00:00z",
        "2026-11-18T09:00:00+00:00", "2026-11-18T09:00:00.000Z", "2026-11-18T09:00:00Z\n", "20261118T090000Z",
        "2026-02-29T09:00:00Z", "0000-01-01T00:00:00Z", "+026-11-18T09:00:00Z", "٢٠٢٦-11-18T09:00:00Z",
    ],
)  # fmt: skip
def test_no_other_form_is_an_instant(text: str) -> None:
    """Anything but this one form is refused."""
    with pytest.raises(ValueError, match=r".+"):
        to_milliseconds(text)


@given(MILLISECONDS)
def test_a_datetime_is_aware_and_in_utc(milliseconds: int) -> None:
    """A datetime says its zone, and is right to the millisecond."""
    found = to_datetime(milliseconds)
    assert found.utcoffset() == timedelta(0)
    exact = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=milliseconds)
    assert abs(found - exact) < timedelta(milliseconds=0.1)


@given(MILLISECONDS)
def test_each_form_is_made_of_either_of_the_others(milliseconds: int) -> None:
    """A datetime is its milliseconds again, and its text is theirs; a text is the datetime of its second."""
    found = to_datetime(milliseconds)
    assert to_milliseconds(found) == milliseconds
    assert to_text(found) == to_text(milliseconds)
    assert to_datetime(to_text(milliseconds)) == found.replace(microsecond=0)


def test_a_datetime_is_rounded_to_the_millisecond() -> None:
    """Only `exact_milliseconds` keeps the fraction. A text is cut after the rounding."""
    before = datetime(2026, 11, 18, 8, 59, 59, 999_600, tzinfo=UTC)
    assert (to_milliseconds(before), to_text(before)) == (NINE, "2026-11-18T09:00:00Z")
    assert exact_milliseconds(before) == pytest.approx(NINE - 0.4, abs=0.001)


def test_a_text_before_1970_is_the_nearest_datetime() -> None:
    """A datetime is one of 1970 to 9999, whatever it is made of."""
    assert to_datetime("0001-01-01T00:00:00Z") == to_datetime(0)


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (253_402_300_800_000, "9999-12-31T23:59:59Z"),
        (NINE * 1_000, "9999-12-31T23:59:59Z"),
        (10**30, "9999-12-31T23:59:59Z"),
        (-1, "1970-01-01T00:00:00Z"),
        (-(10**30), "1970-01-01T00:00:00Z"),
    ],
)
def test_what_no_datetime_can_be_is_shown_as_the_nearest(milliseconds: int, text: str) -> None:
    """A number that slipped in the console is shown, instead of breaking whoever reads the record."""
    assert to_text(milliseconds) == text
    assert to_datetime(milliseconds).tzinfo is UTC


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
    "given", [60_000, 30_000, 5_000, 4_000.0, 85_000, 90_000, 180_000, 300_000, 600_000, 3_600_000, 1_800_000]
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
