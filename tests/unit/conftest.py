"""Fleets in virtual time for the tests of the lock, and a gate for real threads."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.simulation.fleet import Fleet, Instance

from firecron.lock.keeper import Keeper


@pytest.fixture
def by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    """Keepers whose threads end at once: they work when the test lets them."""
    monkeypatch.setattr(Keeper, "_run", lambda keeper: None)


@pytest.fixture
def fleet(by_hand: None) -> Fleet:
    """A fleet whose keepers work only when they are told to."""
    return Fleet()


@pytest.fixture
def one(fleet: Fleet) -> Instance:
    """One instance of the fleet."""
    return fleet.instance()


@pytest.fixture
def go_on() -> Iterator[threading.Event]:
    """What a body waits for; set at the end at the latest, so that no thread outlives its test."""
    event = threading.Event()
    yield event
    event.set()
