"""Names: what may be the key of a lock."""

from __future__ import annotations

import pytest

from firecron.errors import ConfigurationError
from firecron.store import check_name

GOOD = ["a", "Z", "send-daily-digest", "job_2", "a" * 100, "A-_9", "null_etag"]
BAD = [
    "",
    "a" * 101,
    "1st",
    "-a",
    "_a",
    "a b",
    "a/b",
    "a.b",
    "a$",
    "a#",
    "a[0]",
    "täglich",
    "a\n",
    "a\x00",
    "ａ",  # noqa: RUF001  # a letter, but not one of ASCII
    "a٢",
    None,
    7,
    b"job",
    ["job"],
]


@pytest.mark.parametrize("name", GOOD)
def test_a_good_name_is_itself(name: str) -> None:
    """A letter, then up to 99 letters, digits, hyphens or underscores."""
    assert check_name(name) == name


@pytest.mark.parametrize("name", BAD, ids=[ascii(name)[:20] for name in BAD])
def test_what_can_be_no_name_is_refused(name: object) -> None:
    """A refusal shows the name and says what would do."""
    with pytest.raises(ConfigurationError, match="can't name a lock: use a letter, then up to 99 letters, digits"):
        check_name(name)
