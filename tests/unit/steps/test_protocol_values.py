"""Results of steps as JSON: what comes back is what was returned, or it is refused."""

from __future__ import annotations

import math
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntEnum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from firecron import ConfigurationError
from firecron.steps.protocol import from_result, to_result


class Customer(BaseModel):
    id: int
    since: datetime


@dataclass
class Point:
    x: float
    tags: tuple[str, ...] = ()


class Colour(IntEnum):
    RED = 1


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


def types(value: object) -> object:
    if isinstance(value, dict):
        return dict, [(key, types(child)) for key, child in value.items()]
    return (list, [types(child) for child in value]) if isinstance(value, list) else type(value)


@given(JSON)
def test_json_comes_back_equal_and_of_the_same_types(value: object) -> None:
    """Also null, empty lists, 1.0, and half characters: RTDB would lose or change them."""
    found = from_result("s", to_result("s", value, None), None)
    assert found == value
    assert types(found) == types(value)


@pytest.mark.parametrize(
    "value",
    [
        (1, 2),
        {1: "a"},
        {None: 1},
        math.nan,
        math.inf,
        b"x",
        {1},
        datetime(2026, 11, 18, tzinfo=UTC),
        Colour.RED,
        OrderedDict(a=1),
        [[(1,)]],
        {"a": {"b": (1,)}},
        Point(1.0),
        object,
    ],
    ids=repr,
)
def test_what_json_would_change_is_refused(value: object) -> None:
    """A result that would be another one after a rerun is an error at the first call already."""
    with pytest.raises(ConfigurationError, match=r'step "s" returned.*returns='):
        to_result("s", value, None)


def test_what_holds_itself_is_refused() -> None:
    """A list in itself is an error, not an endless loop."""
    value: list[Any] = []
    value.append(value)
    with pytest.raises(ConfigurationError):
        to_result("s", value, None)


@pytest.mark.parametrize(
    ("returns", "value"),
    [
        (list[Customer], [Customer(id=1, since=datetime(2026, 11, 18, tzinfo=UTC))]),
        (Point, Point(1.0, ("a",))),
        (tuple[int, str], (1, "a")),
        (dict[int, str], {1: "a"}),
        (int | None, None),
        (datetime, datetime(2026, 11, 18, tzinfo=UTC)),
        (Annotated[int, Field(examples=[1])], 5),
        (Annotated[int, Field(json_schema_extra={"a": []})], 5),
    ],
    ids=repr,
)
def test_a_type_is_written_and_read_by_pydantic(returns: object, value: object) -> None:
    """With `returns`, what JSON lacks comes back as it was."""
    assert from_result("s", to_result("s", value, returns), returns) == value


@pytest.mark.parametrize(
    ("returns", "value"), [(int, "x"), (list[Customer], [1]), (float, math.nan), (Point, {"x": 1.0})], ids=repr
)
def test_a_value_of_another_type_is_refused(returns: object, value: object) -> None:
    """What isn't of the type is an error before it is recorded."""
    with pytest.raises(ConfigurationError, match='step "s" returned'):
        to_result("s", value, returns)


def test_a_type_that_is_none_is_refused() -> None:
    """What pydantic can't use as a type is named."""
    with pytest.raises(ConfigurationError, match="no type that pydantic understands"):
        to_result("s", 1, object())


@pytest.mark.parametrize(
    ("text", "returns"), [('{"id": 1}', Customer), ("[1", None), ("", None), ('"x"', int)], ids=repr
)
def test_what_a_deployment_no_longer_understands_is_an_error(text: str, returns: object) -> None:
    """A record that can't be read is never taken for no record: the step is not called again."""
    with pytest.raises(ConfigurationError, match='step "s" is recorded as'):
        from_result("s", text, returns)


def test_a_result_has_64_kb_at_the_most() -> None:
    """65,536 bytes of UTF-8 pass, one more is refused with both numbers."""
    assert len(to_result("s", "x" * 65_534, None)) == 65_536
    for value in ("x" * 65_535, "é" * 32_768):
        with pytest.raises(ConfigurationError, match=r"65,53\d bytes of JSON, and 65,536 are allowed"):
            to_result("s", value, None)
