"""Refusals in words: whose lock it is, until when, and what to do where only an operator can free it."""

from __future__ import annotations

import logging

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import START, World
from tests.unit.lock.records import MARGIN

from firecron.base.instants import to_milliseconds


def test_a_lock_that_expires_too_late_is_a_warning_once(world: World) -> None:
    """An expiry more than a day and a minute ahead is said with the remedy, once per name as a WARNING."""
    one, far = Instance(world), int(START) + 86_460_000
    for name in ("job", "other"):
        world.put({"expiresAt": far, "holder": "x"}, name)
        refusal = one.refused(name)
        assert not refusal.is_strange
        assert "unlock" not in refusal.message
        world.put({"expiresAt": far + 1, "holder": "x"}, name)
        for _ in range(3):
            refusal = one.refused(name)
            assert refusal.reason == "held"
            assert refusal.is_strange
            assert f"Free it with `firecron unlock {name}`" in refusal.message
    assert [event.level for event in one.events] == 2 * [logging.INFO, logging.WARNING, logging.INFO, logging.INFO]


def test_a_lock_of_this_instance_is_not_anothers(world: World) -> None:
    """Who is refused by a lock that this very instance holds is told so."""
    one, other = Instance(world), Instance(world)
    one.acquire()
    assert one.refused().message.startswith('Lock "job" held by this instance, skipping (local/')
    assert other.refused().message.startswith('Lock "job" held by another instance, skipping (local/')


@pytest.mark.parametrize(("released", "margin"), [({}, MARGIN), ({"releasedAt": START}, 0)], ids=["held", "kept"])
@pytest.mark.parametrize("fraction", [0, 0.5])
def test_from_when_on_another_may_take_it(
    world: World, released: dict[str, object], margin: int, fraction: float
) -> None:
    """Before that instant nobody acquires the lock, and from it on everybody: the margin is for a lease alone."""
    world.put({"expiresAt": START + 9_000 - fraction, "holder": "x", **released})
    one = Instance(world)
    refusal = one.refused()
    assert refusal.free_at is not None
    assert to_milliseconds(refusal.free_at) == START + 9_000 + margin
    world.until((9_000 + margin - 1) / 1000)
    assert one.refused().free_at == refusal.free_at
    world.until((9_000 + margin) / 1000)
    assert one.acquire()


@pytest.mark.parametrize("expires", [START * 1_000, 1e300, -1.0, -1e300])
def test_an_expiry_that_slipped_is_told_as_well_as_it_can_be(world: World, expires: float) -> None:
    """A number that no date can be breaks nobody who meets it: far ahead the lock is held, far back it is free."""
    world.put({"expiresAt": expires, "holder": "x"})
    one = Instance(world)
    if expires < 0:
        assert one.acquire().release()
    else:
        refusal = one.refused()
        assert refusal.reason == "held"
        assert refusal.until is not None
        assert refusal.until.year == 9999


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({}, "by an operator,"),
        ({"pausedUntil": START + 60_000}, "by an operator until 2026-11-18T09:01:00Z,"),
        ({"pausedUntil": 1e300}, "by an operator until 9999-12-31T23:59:59Z,"),
        (
            {"pausedBy": "ann@laptop", "pausedWhy": "the feed\nis down", "pausedAt": 5},
            "by ann@laptop (the feed ⏎ is down),",
        ),
    ],
)
def test_a_pause_is_told_with_who_and_why(world: World, fields: dict[str, object], said: str) -> None:
    """Who is refused by a pause is told whose it is, until when and why, in one line, and how to end it."""
    world.put({"paused": True, **fields})
    refusal = Instance(world).refused()
    assert refusal.message == f'Lock "job" is paused {said} skipping; resume it with `firecron resume job`'
    assert not refusal.is_strange


@pytest.mark.parametrize(
    "fields",
    [{"paused": "yes"}, {"paused": True, "pausedUntil": "14:00"}, {"paused": 1, "expiresAt": START + 9, "holder": "x"}],
    ids=["a word", "an end", "a live lock"],
)
def test_a_pause_that_was_typed_wrongly_is_a_warning_once(world: World, fields: dict[str, object]) -> None:
    """What an operator should look at is a WARNING, once per name."""
    world.put(fields)
    one = Instance(world)
    assert [one.refused().is_strange for _ in range(2)] == [True, True]
    assert [event.level for event in one.events] == [logging.WARNING, logging.INFO]
