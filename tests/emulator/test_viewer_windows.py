"""What the page shows of a node."""

from __future__ import annotations

import json

import pytest

from rtdb_emulator.jsondata import parse
from rtdb_emulator.viewer import LARGEST_VALUE, LONGEST_TEXT, ROWS, Json, whole, window


def of(data: object, start: str | None = None) -> Json:
    return window(parse(data, now=0), start)


def rows(shown: Json) -> list[Json]:
    found = shown["rows"]
    assert isinstance(found, list)
    return found


def keys(shown: Json) -> list[object]:
    return [row["key"] for row in rows(shown)]


MANY = {f"key-{number:04}": number for number in range(250)}


def test_a_window_has_so_many_rows_and_leads_to_those_beside_it() -> None:
    """The first one leads to the second and the last, the last one back."""
    first = of(MANY)
    assert (first["count"], first["first"], len(keys(first))) == (250, 0, ROWS)
    assert (first["previous"], first["next"], first["last"]) == (None, "key-0100", "key-0200")
    last = of(MANY, "key-0200")
    assert (last["first"], len(keys(last))) == (200, 50)
    assert (last["previous"], last["next"], last["last"]) == ("key-0100", None, None)


def test_a_window_begins_at_the_first_key_that_is_not_before_its_start() -> None:
    """The start need not be there, and may come after all keys."""
    assert keys(of(MANY, "key-0009x"))[0] == "key-0010"
    assert (keys(of(MANY, "zzz")), of(MANY, "zzz")["previous"]) == ([], "key-0150")


def test_keys_are_in_the_databases_order() -> None:
    """Integers come first, by their number."""
    assert keys(of({"10": 1, "9": 1, "b": 1, "a": 1})) == ["9", "10", "a", "b"]
    assert keys(of({"10": 1, "9": 1, "b": 1, "a": 1}, "10")) == ["10", "a", "b"]


def test_an_object_shows_its_leaves_and_no_more_of_what_lies_below() -> None:
    """A row of an object has the number of its children and a few values."""
    (row,) = rows(of({"job": {"slot": "x" * 60, "paused": True, "below": {"a": 1}}}))
    assert row == {"key": "job", "count": 3, "peek": [("paused", True), ("slot", "x" * 48 + "…")]}


def test_a_row_is_bounded() -> None:
    """A long text is cut, and says how long it is; an object with many children shows none of them."""
    shown = of({"long": "x" * (LONGEST_TEXT + 1), "many": MANY})
    long, many = rows(shown)
    assert (long["value"], long["length"]) == ("x" * LONGEST_TEXT + "…", LONGEST_TEXT + 1)
    assert many == {"key": "many", "count": 250, "peek": []}


def test_a_leaf_and_nothing_have_no_rows() -> None:
    """They are a value, and null."""
    assert of({".value": 1, ".priority": "p"}) == {"value": 1, "priority": "p"}
    assert of(None) == {"value": None}


def test_an_integer_that_a_browser_would_round_is_a_text_as_well() -> None:
    """2^53 + 1 is no double."""
    assert of(2**53 + 1) == {"value": 2**53 + 1, "exactly": "9007199254740993"}
    assert of(2**53) == {"value": 2**53}


@pytest.mark.parametrize("data", [None, 2**53 + 1, "a", {".value": 1, ".priority": 2}, {"1": True, "0": "é"}])
def test_a_whole_value_reads_back_as_itself(data: object) -> None:
    """Its text is its export, with its hash."""
    node = parse(data, now=0)
    shown = whole(node)
    assert isinstance(shown["text"], str)
    assert parse(json.loads(shown["text"]), now=0) == node
    assert shown["hash"] == node.hash


def test_a_large_value_is_not_sent_whole() -> None:
    """More leaves than an editor can show are counted only."""
    most = {"a": {f"k{number}": 1 for number in range(LARGEST_VALUE)}}
    assert "text" in whole(parse(most, now=0))
    assert whole(parse({**most, "b": 1}, now=0)) == {"count": 2}
