"""Work that is done once, by real processes of which some are killed."""

from __future__ import annotations

import sys

import pytest
from tests.process.once_rounds import NUMBER, play


@pytest.mark.skipif(sys.platform != "linux", reason="it asks /proc for the processes of a process")
def test_i51_twenty_processes_do_it_once_although_some_are_killed() -> None:
    """Never do two call at a time, nobody calls after the first record, and all who are left are told the same."""
    played = play(1)
    assert list(played.problems()) == []
    assert len(played.killed) >= 2
    assert len(played.of("told")) + len(played.killed) >= NUMBER
    assert len(played.of("begins")) >= 2, "one was killed at it"
