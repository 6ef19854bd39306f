"""The Node.js of the tests that run it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtdb_emulator_tests.helpers.nodejs import needed


@pytest.fixture(scope="session")
def node_executable() -> str:
    """The Node.js that has what checks the workflows; without one, the test is skipped."""
    return needed(Path(__file__).parent)
