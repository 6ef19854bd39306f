"""The agenda: what a run leaves for later, without knowing the threads that do it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from firecron.jobs.job import Job
from firecron.runs.turn import Turn


class Agenda(Protocol):
    """What is to be done, and when. No method blocks."""

    def submit(self, turn: Turn) -> None:
        """Have a worker go on with the turn."""

    def at(self, instant: int, call: Callable[[], None]) -> None:
        """Call this when RTDB's clock shows the instant; the call must not block."""

    def look_again(self, job: Job, instant: int) -> None:
        """Look for a run that died when RTDB's clock shows the instant: a lock that was seen expires then."""
