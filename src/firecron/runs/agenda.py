"""The agenda: the work that a run schedules for later, on threads that this room doesn't know."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from firecron.jobs.job import Job
from firecron.runs.turn import Turn


class Agenda(Protocol):
    """Takes work to be done now or at an instant. No method blocks."""

    def submit(self, turn: Turn) -> None:
        """Give the turn to a worker, which goes on with it."""

    def at(self, instant: int, call: Callable[[], None]) -> None:
        """Make this call when RTDB's clock shows the instant. The call must not block."""

    def look_again(self, job: Job, instant: int) -> None:
        """Look for a dead run of the job at this instant of RTDB's clock, when a lock that was seen expires."""

    def wake(self, job: Job) -> None:
        """Look again when the job's waiting turn is to try: its lock has changed, or isn't told of any more."""
