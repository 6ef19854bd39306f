"""A clock on a bench: its server, the network between them, and the time that both see."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from firecron.base.clocks import Deadline, ServerClock, TimedLock
from firecron.errors import StoreError, Unavailable
from firecron.testing import FakeTiming

MARGIN = 1_000
DRIFT = 200e-6
INTERVAL = 300.0
ORIGIN = 1_794_992_400_000.25

Trip = tuple[float, float]


@dataclass(frozen=True)
class Slow:
    """Every sample fails, after so many seconds."""

    seconds: float


class Server:
    """RTDB's clock behind a network: each sample takes so many milliseconds there, and so many back."""

    def __init__(self, timing: FakeTiming) -> None:
        self.timing = timing
        self.trips: deque[Trip | StoreError] = deque()
        self.failing: Slow | None = None
        self.samples = 0
        self.before: Callable[[], object] = lambda: None
        self.deadlines: list[float] = []

    def true(self) -> float:
        return ORIGIN + self.timing.mono()

    def sample(self, deadline: Deadline) -> int:
        self.before()
        self.samples += 1
        self.deadlines.append(deadline.remaining())
        if self.failing is not None:
            self.timing.advance(self.failing.seconds)
            raise Unavailable("no answer")
        trip = self.trips.popleft() if self.trips else (0.0, 0.0)
        if isinstance(trip, StoreError):
            raise trip
        self.timing.advance(trip[0] / 1000)
        stamp = int(self.true())
        self.timing.advance(trip[1] / 1000)
        return stamp


class Clocks(FakeTiming):
    """Time that is moved by hand; locks that are waited for are from `make_lock`."""

    def __init__(self, make_lock: Callable[[], TimedLock]) -> None:
        super().__init__()
        self.make_lock = make_lock

    def lock(self) -> TimedLock:
        return self.make_lock()


class Bench:
    """A clock, its server, and the time that both see."""

    def __init__(
        self,
        *,
        samples: int = 3,
        drift: float = DRIFT,
        interval: float = INTERVAL,
        make_lock: Callable[[], TimedLock] = threading.Lock,
    ) -> None:
        self.timing = Clocks(make_lock)
        self.server = Server(self.timing)
        self.clock = ServerClock(
            self.server.sample,
            self.timing,
            margin=MARGIN,
            samples=samples,
            drift=drift,
            interval=interval,
            request_timeout=3.0,
        )

    def deadline(self, seconds: float = 8.0) -> Deadline:
        return Deadline.after(self.timing, seconds)

    def now(self) -> float:
        return self.clock.now(self.deadline()).server

    def asked(self) -> int:
        """How many samples the next reading takes."""
        before = self.server.samples
        self.now()
        return self.server.samples - before
