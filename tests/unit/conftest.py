"""A world in virtual time for the tests of the lock, and a gate for real threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.simulation.instance import Instance
from tests.simulation.world import World

from firecron.base import flag
from firecron.lock.keeper import Keeper


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepers whose threads end at once: they work when the test lets them."""
    monkeypatch.setattr(Keeper, "_run", lambda keeper: None)  # all that its thread does


@pytest.fixture
def world() -> World:
    """A world in which nothing happens by itself."""
    return World()


@pytest.fixture
def one(world: World) -> Instance:
    """An instance whose threads' work the test does by hand."""
    return Instance(world)


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    """What a body waits for; set at the end at the latest, so that no thread outlives its test."""
    event = threading.Event()
    yield event
    event.set()


@pytest.fixture(autouse=True)
def no_part_of_another_test_begins_in_a_child(monkeypatch: pytest.MonkeyPatch) -> None:
    """What another test has left to the collector is none of the parts that begin anew in a child: one may raise."""
    monkeypatch.setattr(flag, "begins", {})
