"""A pause in a lock's node: whose it is, when it is over, and what was typed wrongly."""

from __future__ import annotations

import pytest
from tests.unit.lock.records import NOW, at, node, released_node, request, slot, taken, verdict

from firecron.base.instants import to_text
from firecron.lock.fields import PAUSE_FIELDS, is_paused, pause_in, resumed_at
from firecron.lock.record import IDLE, Idle, LockRecord, decide, parse, released

PAUSED: dict[str, object] = {
    "paused": True,
    "pausedBy": "ann@laptop",
    "pausedAt": NOW - 60_000,
    "pausedWhy": "the feed is down",
    "pausedUntil": NOW,
    "pausedWith": "0123456789ab",
    "pausedOver": "[]",
}
OVER = {**PAUSED, "resumedAt": NOW - 90_000}


@pytest.mark.parametrize(("off", "holds"), [(-1, True), (0, False), (1, False)])
@pytest.mark.parametrize("base", [{}, released_node(slot=slot(-60))], ids=["idle", "released"])
def test_a_pause_ends_at_its_instant(base: dict[str, object], off: int, holds: bool) -> None:
    """Until then everybody is refused, and from then on nobody is, by RTDB's time."""
    fields = {**base, **PAUSED}
    assert is_paused(fields, NOW + off) is holds
    assert verdict(decide(fields, request(slot=slot(-30)), at(NOW + off), {})) == ("paused" if holds else "take")


@pytest.mark.parametrize(
    "until", ["soon", "2026-11-18T09:00:00Z", True, {"at": 1}, float("inf"), NOW // 1000, 0, -1], ids=str
)
def test_an_end_that_was_typed_wrongly_is_no_end(until: object) -> None:
    """What is no instant in milliseconds keeps the lock paused, and an operator is told."""
    fields = {"paused": True, "pausedUntil": until}
    pause = pause_in(fields)
    assert pause is not None
    assert (pause.until, pause.problem is None) == (None, False)
    assert verdict(decide(fields, request(), at(NOW + 10**10), {})) == "paused"


@pytest.mark.parametrize(
    ("value", "there", "problem"),
    [(True, True, False), ("yes", True, True), (0, True, True), (False, False, False), (None, False, False)],
)
def test_paused_by_hand(value: object, there: bool, problem: bool) -> None:
    """Anything but false pauses, without an end; what is not `true` is odd."""
    pause = pause_in({"paused": value, "pausedBy": 7, "pausedWhy": ["x"], "pausedAt": "now"})
    assert (pause is not None) is there
    if pause is not None:
        assert (pause.value, pause.by, pause.at, pause.why, pause.until) == (value, None, None, None, None)
        assert (pause.problem is not None) is problem
        assert pause.holds(10**15)


def test_a_pause_in_words() -> None:
    """It is said whose it is, until when and why, in one line without control characters."""
    assert str(pause_in({"paused": True})) == "paused by an operator"
    assert str(pause_in(PAUSED)) == f"paused by ann@laptop until {to_text(NOW)} (the feed is down)"
    hostile = str(pause_in({"paused": True, "pausedBy": "a\x1b[31m", "pausedWhy": "x\ny\u202e"}))
    assert hostile.isprintable()


def test_the_fields_of_a_pause_are_no_lock() -> None:
    """A node with only them is idle, and keeps them."""
    assert set(PAUSED) == set(PAUSE_FIELDS)
    current = parse(OVER, NOW)
    assert isinstance(current, Idle)
    assert current.kept == OVER
    assert IDLE.kept == {}


def test_a_take_and_a_release_keep_a_pause_that_is_over() -> None:
    """All fields stay as they were typed, and no node that has one is deleted."""
    assert OVER.items() <= taken({**released_node(), **OVER}).items()
    for kept in (OVER, {"pausedBy": "ann"}, {"resumedAt": 5}, {"pausedUntil": "soon", "paused": False}):
        after = released({**node(holder="mine"), **kept}, "mine", NOW)
        assert isinstance(after, LockRecord)
        assert kept.items() <= after.to_json().items()


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"resumedAt": 5}, 5),
        ({"resumedAt": "x"}, None),
        ({"paused": True, "resumedAt": 5}, 5),
        (PAUSED, NOW),
        (OVER, NOW),
        ({**PAUSED, "pausedUntil": NOW - 5, "resumedAt": NOW}, NOW),
        ({**PAUSED, "resumedAt": NOW + 1}, NOW),
        ({"resumedAt": NOW + 1}, None),
        ({**PAUSED, "pausedUntil": NOW + 1, "resumedAt": 5}, 5),
    ],
)
def test_when_the_last_pause_ended(fields: dict[str, object], expected: int | None) -> None:
    """By hand, or by the instant that the pause had, whichever is later; not by one that still holds."""
    assert resumed_at(fields, NOW) == expected
