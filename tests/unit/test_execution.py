"""A run under way, as the threads around it see it."""

from __future__ import annotations

from tests.unit.test_bodies import job_of, make_run

from firecron.events import Events
from firecron.execution import Execution
from firecron.testing import FakeTiming


def test_a_run_that_is_cancelled_before_its_first_call_begins_nothing() -> None:
    """A stop's last seconds may come before the function is called: then it is not, and whoever cancels goes on."""
    ran: list[int] = []
    execution = Execution(job_of(lambda: ran.append(1)), make_run(), None, FakeTiming(), Events())
    execution.cancel()
    ending = execution.perform()
    assert (ending.how, type(ending.error).__name__) == ("stopped", "Stopping")
    assert ran == []


def test_a_lease_that_is_lost_before_the_first_call_breaks_nothing() -> None:
    """The keeper's thread tells of a loss that comes before the function is called: then it is not."""
    run = make_run()
    execution = Execution(job_of(lambda: None), run, None, FakeTiming(), Events())
    run.lost.set()
    execution.on_lost()
    assert execution.perform().how == "lost"
