"""The clocks of the holders' machines, each wrong in its own way.

The clock that a holder reads is the library's own; it only takes its estimate of RTDB's time for better than it is.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable

from firecron.base.clocks import Deadline, Moment, ServerClock, TimedLock

START = 1_794_992_400_000  # the server's clock when the model's time is 0; all in milliseconds
MARGIN = 1000
TTL = 6000
_SWITCHED_ON = 5000.0


class MachineClock:
    """A `Timing`: `error` is how wrong its estimate is when the model begins, `rate` how fast its clocks run."""

    def __init__(self, time: Callable[[], float], error: float = 0.0, rate: float = 1.0) -> None:
        self._time: Callable[[], float] = lambda: 0.0
        self._error = error
        self._rate = rate
        self._clock = ServerClock(
            _sample, self, margin=MARGIN, samples=1, drift=200e-6, interval=86_400, request_timeout=1
        )
        # A timestamp that is whole milliseconds wrong, after a round trip that makes up for the rest.
        stamp = math.floor(error - 0.5)
        self._clock.observe(START + stamp, _SWITCHED_ON - 2 * (error - 0.5 - stamp), _SWITCHED_ON)
        self._time = time

    def now(self) -> Moment:
        return self._clock.now(Deadline(self.mono, float("inf")))

    def mono(self) -> float:
        return _SWITCHED_ON + self._time() * self._rate

    def wall(self) -> float:
        return self.mono()

    def suspended(self) -> float:
        return 0.0

    def when_mono(self, mono: float) -> float:
        """The model's time at which the monotonic clock shows this."""
        return (mono - _SWITCHED_ON) / self._rate

    def when_server(self, server: float) -> float:
        """The model's time at which this machine believes that it is so late at the server."""
        return (server - START - self._error) / self._rate

    def sleep(self, seconds: float) -> None:
        raise AssertionError("exchanges ask for pauses, they don't sleep")

    def lock(self) -> TimedLock:
        return threading.Lock()

    def wait(self, condition: object, seconds: float | None) -> None:
        raise AssertionError("exchanges ask for pauses, they don't wait")


def _sample(deadline: Deadline) -> int:
    raise AssertionError("the estimate is young and tight, so nobody asks for another one")
