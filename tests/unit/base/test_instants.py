"""Instants: milliseconds inside, twenty characters of UTC for people and keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firecron.base.instants import exact_milliseconds, in_utc, to_datetime, to_milliseconds, to_text

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


@given(MILLISECONDS, MILLISECONDS)
def test_texts_sort_as_instants_do(one: int, other: int) -> None:
    """Of two instants the later has the later text, or they share a second."""
    assert (to_text(one) < to_text(other)) == (one // 1000 < other // 1000)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "2026-11-18",
        "2026-11-18T09:00Z",
        "2026-11-18T09:00:00",
        "2026-11-18t09:00:00z",
        "2026-11-18T09:00:00+00:00",
        "2026-11-18T09:00:00.000Z",
        "2026-11-18T09:00:00Z\n",
        "20261118T090000Z",
        "2026-02-29T09:00:00Z",
        "0000-01-01T00:00:00Z",
        "+026-11-18T09:00:00Z",
        "٢٠٢٦-11-18T09:00:00Z",
    ],
)
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


def test_a_datetime_of_any_year_is_written_in_utc() -> None:
    """Also one of before 1970, and in another zone."""
    moment = datetime(1960, 1, 1, 9, 0, 0, 999_999, tzinfo=timezone(timedelta(hours=2)))
    assert in_utc(moment) == "1960-01-01T07:00:00Z"
