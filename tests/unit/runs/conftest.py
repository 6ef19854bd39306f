"""A fleet in virtual time for the tests of runs."""

from __future__ import annotations

import pytest
from tests.simulation.fleet import Fleet


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()
