"""The fixture `ticks`, for test files that name this module in their `pytest_plugins`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.process.tick_processes import Ticking, ticking

from rtdb_emulator.pytest_plugin import Rtdb


@pytest.fixture
def ticks(rtdb: Rtdb, tmp_path: Path) -> Iterator[Ticking]:
    """Programs that tick, on a fresh database; none outlives the test."""
    with ticking(rtdb, tmp_path) as programs:
        yield programs
