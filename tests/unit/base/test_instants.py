"""Instants: milliseconds inside, twenty characters of UTC for people and keys."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firecron.base.instants import to_datetime, to_milliseconds, to_text

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
