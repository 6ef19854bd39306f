"""Time that a test moves by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable

# A nanosecond: who sleeps for the rest of a float's rounding must get on nevertheless.
_LEAST_SLEEP = 1e-9


def _stopped() -> float:
    return 0.0


class FakeTiming:
    """A `Timing` that stands still until `advance`; `sleep` advances it.

    With `base` (a clock in milliseconds) it goes on by itself, and `advance` jumps ahead of it: so the expiry of a
    lock in a real database can be tested without waiting for it, as all services in the test share the jump. They
    must have asked the database for its time before that: it knows nothing of the jump.
    """

    def __init__(self, wall: float = 1_794_992_400_000.0, base: Callable[[], float] = _stopped) -> None:
        self._lock = threading.Lock()
        self._base = base
        self._started = base()
        self._ahead = 0.0
        self._wall = wall
        self._waiting: list[threading.Condition] = []
        self._seen = threading.local()

    def mono(self) -> float:
        self._seen.ahead = ahead = self._ahead
        return self._base() - self._started + ahead

    def wall(self) -> float:
        return self._wall + self.mono()

    def now(self) -> int:
        """The wall clock in whole milliseconds: a server's clock for an emulator or a `MemoryStore`."""
        return int(self.wall())

    def advance(self, seconds: float) -> None:
        """Let so much time pass, and wake whoever waits."""
        with self._lock:
            # To the nanosecond: 1.001 * 1000 is a little less than 1001.
            self._ahead += round(seconds * 1000, 6)
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()

    def step_wall(self, seconds: float) -> None:
        """Set this machine's wall clock forward or back, and nothing else."""
        self._wall += seconds * 1000

    def sleep(self, seconds: float) -> None:
        self.advance(max(seconds, _LEAST_SLEEP))

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait until the condition is notified, or time is advanced; with a `base`, so many seconds at most."""
        with self._lock:
            if getattr(self._seen, "ahead", None) != self._ahead:
                return  # this thread reckoned `seconds` from a time that is past
            self._waiting.append(condition)
        try:
            condition.wait(None if self._base is _stopped else seconds)
        finally:
            with self._lock:
                self._waiting.remove(condition)
