"""The checker of the lanes can fail: with a rule of the lanes broken, it finds what the rule prevents."""

from __future__ import annotations

import pytest
from tests.interleaving.checks import Violation
from tests.interleaving.lane_breaks import LANE_BREAKS, LaneBreak, broken
from tests.interleaving.lane_plays import CASES, explore_lanes

# Each is found within a quarter of a second of CPU.
MOST = 1_500


@pytest.mark.parametrize("one", LANE_BREAKS, ids=lambda one: one.what)
def test_a_break_of_the_lanes_is_found(one: LaneBreak) -> None:
    """The case finds it within a bounded number of plays."""
    with broken(one), pytest.raises((Violation, AssertionError)):
        explore_lanes(CASES[one.case], MOST)
