"""Server values: what the database puts in their place."""

import pytest

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import parse, parse_priority, render

NOW = 1_700_000_000_000
TIMESTAMP = {".sv": "timestamp"}


def increment(by: object) -> dict[str, object]:
    return {".sv": {"increment": by}}


def written(data: object, before: object = None) -> object:
    existing = parse(before, now=0)
    return render(parse(data, now=NOW, existing=existing), priorities=True, arrays=False)


TIMESTAMPS: list[tuple[object, object]] = [
    (TIMESTAMP, NOW),
    ({"a": [TIMESTAMP, {"b": TIMESTAMP}]}, {"a": {"0": NOW, "1": {"b": NOW}}}),
    ({".value": TIMESTAMP, ".priority": 1}, {".value": NOW, ".priority": 1}),
    ({".value": "a", ".priority": TIMESTAMP}, {".value": "a", ".priority": NOW}),
    ({"a": TIMESTAMP, ".priority": TIMESTAMP}, {"a": NOW, ".priority": NOW}),
]


@pytest.mark.parametrize(("data", "stored"), TIMESTAMPS)
def test_timestamp(data: object, stored: object) -> None:
    """A timestamp is the server's time, the same wherever it is written."""
    assert written(data) == stored


INCREMENTS: list[tuple[object, object, object]] = [
    (5, 3, 8),
    (5, -7, -2),
    (5, 0.5, 5.5),
    (0.5, 1, 1.5),
    (1.5, 1.5, 3),
    (0, 0, 0),
    (2**53, 1, 2**53 + 1),
    (2**53 + 1, 2, 2**53 + 3),
    (2**63 - 2, 1, 2**63 - 1),
    (2**63 - 1, 1, 2.0**63),
    (-(2**63), -1, -(2.0**63)),
    (2**63 - 1, 2**63, 2.0**64),
    (None, 3, 3),
    (None, 1.5, 1.5),
    (None, 2.0, 2),
    ("5", 3, 3),
    (True, 3, 3),
    ({"a": 5}, 3, 3),
    ([5], 3, 3),
]


@pytest.mark.parametrize(("before", "by", "after"), INCREMENTS)
def test_increment(before: object, by: object, after: object) -> None:
    """An increment adds to a number, and stands for itself where none is; an integer that overflows is a double."""
    stored = written(increment(by), before)
    assert stored == after
    assert type(stored) is type(after)


def test_several_increments() -> None:
    """Each increment of one write adds to what was in its own place, in arrays and `.value` too."""
    before = {"a": 1, "b": [10, 20], "c": {".value": 100, ".priority": 1}, "d": 1}
    data = {"a": increment(1), "b": [increment(2), increment(3)], "c": {".value": increment(4)}, "e": increment(5)}
    assert written(data, before) == {"a": 2, "b": {"0": 12, "1": 23}, "c": 104, "e": 5}


@pytest.mark.parametrize(("before", "after"), [(None, 2), ({".value": 9, ".priority": 5}, 7), ({"a": 9}, 2)])
def test_increment_of_a_priority(before: object, after: int) -> None:
    """An increment within a priority adds to the priority that was there, not to the value."""
    assert written({".value": 1, ".priority": increment(2)}, before) == {".value": 1, ".priority": after}


@pytest.mark.parametrize(("before", "after"), [(None, 2), (5, 7), ("5", 2)])
def test_increment_of_a_priority_by_itself(before: str | int | None, after: int) -> None:
    """An increment may also be written as the priority alone."""
    assert parse_priority(increment(2), now=NOW, existing=before) == after
    assert parse_priority(TIMESTAMP, now=NOW, existing=before) == NOW


UNKNOWN: list[object] = [
    "Timestamp",
    "unknown",
    "",
    None,
    5,
    True,
    [],
    ["timestamp"],
    {},
    {"increment": "1"},
    {"increment": None},
    {"increment": True},
    {"increment": {".sv": "timestamp"}},
    {"increment": 1, "decrement": 1},
    {"timestamp": {}},
    "\ud800",
]


@pytest.mark.parametrize("operation", UNKNOWN)
def test_unrecognized(operation: object) -> None:
    """Any other server value is refused, as value and as priority."""
    for data in ({".sv": operation}, {"a": {".value": 1, ".priority": {".sv": operation}}}):
        with pytest.raises(BadRequest, match="unrecognized server value"):
            written(data)


@pytest.mark.parametrize(
    ("before", "by"), [(1e308, 1e308), (1, float("inf")), (None, 10**400), (0.5, 10**400), (1, float("nan"))]
)
def test_increment_beyond_doubles(before: object, by: float) -> None:
    """An increment that would leave the range of doubles is refused."""
    with pytest.raises(BadRequest, match="couldn't parse JSON"):
        written(increment(by), before)
