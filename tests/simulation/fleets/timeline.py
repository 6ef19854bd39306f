"""What happened in a run, in order, for people: one line for each event, request, act of the world and step of a body.

09:00:00.031  a1  claims tick 09:00:00, fence …400031
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import MILLISECOND
from tests.simulation.stand_ins import EPOCH


class Timeline:
    """The lines of one run. `say` costs little: a line is written only if it is read."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._lines: list[tuple[int, str, str, tuple[object, ...]]] = []

    def say(self, who: str, form: str, *values: object) -> None:
        """Add a line; `form` is filled with the values as by `str.format`."""
        self._lines.append((self._scheduler.now, who, form, values))

    def text(self, is_wanted: Callable[[str], bool] = lambda who: True) -> str:
        """Return the lines of everybody who is wanted."""
        return "".join(
            f"{at(time)}  {who:<9} {form.format(*values)}\n"
            for time, who, form, values in self._lines
            if is_wanted(who)
        )


def at(time: int) -> str:
    """Return a time of the run as people read it."""
    whole, rest = divmod(EPOCH + time, 1_000 * MILLISECOND)
    return f"{datetime.fromtimestamp(whole, UTC):%H:%M:%S}.{rest // MILLISECOND:03d}"
