"""A run, as its job asks it."""

from __future__ import annotations

import pytest
from tests.unit.runs.bodies import make_run

from firecron import LeaseLost, Stopping


def test_a_check_raises_what_should_end_the_run() -> None:
    """Looking at the run raises nothing while it may go on, Stopping at a stop, and LeaseLost before that."""
    run = make_run()
    run.check()
    run.stopping.set()
    with pytest.raises(Stopping):
        run.check()
    run.lost.set()
    with pytest.raises(LeaseLost):
        run.check()


def test_a_run_shows_what_it_is_for() -> None:
    """Printed, a run says its key, attempt and trigger."""
    assert repr(make_run()) == "<Run key attempt 1, manual>"
