"""Machines: the processes of a simulated fleet, each with its threads, its clocks, and its own chance.

Times are whole nanoseconds. Each machine's clocks derive from true time, with errors of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from tests.simulation.greenlets import Scheduler, Thread

MILLISECOND = 1_000_000
SECOND = 1_000_000_000
FOREVER = 1 << 62

State: TypeAlias = Literal["alive", "frozen", "dead"]


class Machine:
    """One process of the fleet. Its threads run only while it is alive.

    `drift` is how much faster its monotonic clock runs than true time, in seconds per second. `wall_error`
    (nanoseconds) may be changed at any time. `origin` is what the monotonic clock shows at time zero.
    """

    def __init__(self, name: str, seed: str, *, pid: int = 1, drift: float = 0.0, wall_error: int = 0) -> None:
        self.name = name
        self.pid = pid
        self.random = Random(seed)
        self.origin = self.random.randrange(1_000 * SECOND)
        self.drift = drift
        self.wall_error = wall_error
        self.state: State = "alive"
        self.main: Thread | None = None
        self.threads: list[Thread] = []
        self.at_exit: list[Callable[[], object]] = []
        self._parked: list[Thread] = []

    def mono(self, now: int) -> int:
        """Return the reading of its monotonic clock."""
        return self.origin + now + int(now * self.drift)

    def lasting(self, duration: int) -> int:
        """Return how long a wait on its clock takes in true time. A wait is never too short."""
        return int(duration / (1.0 + self.drift)) + 1

    def freeze(self) -> None:
        """Run no thread until `thaw`. Its clocks go on."""
        if self.state == "alive":
            self.state = "frozen"

    def thaw(self, scheduler: Scheduler) -> None:
        if self.state == "frozen":
            self.state = "alive"
            parked, self._parked = self._parked, []
            scheduler.ready.extend(parked)

    def kill(self) -> None:
        """Run no thread any more."""
        self.state = "dead"
        self._parked.clear()

    def park(self, thread: Thread) -> None:
        """Keep a thread that could run until the machine thaws, or for ever."""
        if self.state == "frozen":
            self._parked.append(thread)

    def alive(self) -> list[Thread]:
        """Return its threads that have started and not ended."""
        return [thread for thread in self.threads if thread.is_alive()]
