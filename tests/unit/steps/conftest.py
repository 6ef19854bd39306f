"""A fleet whose job has steps, one instance of it, and what the functions of its steps were called with."""

from __future__ import annotations

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.unit.steps.sync_jobs import Calls


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


@pytest.fixture
def one(fleet: Fleet) -> Instance:
    return fleet.instance()


@pytest.fixture
def calls() -> Calls:
    return Calls()
