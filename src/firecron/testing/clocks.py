"""Clocks that a test moves by hand."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from firecron.base.clocks import TimedLock
from firecron.base.instants import Duration, exact_milliseconds

# One nanosecond: a sleep that is only a float's rounding error must still move the clock.
_LEAST_SLEEP = 1e-9


def _stopped() -> float:
    return 0.0


class FakeTiming:
    """Clocks that stand still until `advance`; `sleep` advances them.

    With `base` the clocks run, and `advance` makes them jump ahead. All services of the test share the jump, so a test
    can let a lock in a real database expire without waiting. The services must have asked the database for its time
    before the jump, because the database's own clock doesn't jump.

    Args:
        wall: The time that the wall clock shows at first, in milliseconds.
        base: Returns the time of a running clock, in milliseconds.
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

    def suspended(self) -> float:
        return 0.0

    def now(self) -> int:
        """Return the wall clock's time in whole milliseconds: a server's clock for an emulator or a `MemoryStore`."""
        return int(self.wall())

    def advance(self, seconds: Duration) -> None:
        """Let time pass, and wake all threads that wait on this clock.

        Args:
            seconds: How much time passes: seconds, or a `timedelta`.
        """
        passed = seconds.total_seconds() if isinstance(seconds, timedelta) else seconds
        with self._lock:
            # Rounded to the nanosecond, because 1.001 * 1000 is a little less than 1001.
            self._ahead += round(passed * 1000, 6)
            waiting = list(self._waiting)
        for condition in waiting:
            with condition:
                condition.notify_all()

    def step_wall(self, seconds: float) -> None:
        """Set this machine's wall clock forward or back, and nothing else.

        Args:
            seconds: By how many seconds; a negative number sets the clock back.
        """
        self._wall += seconds * 1000

    def sleep(self, seconds: float) -> None:
        self.advance(max(seconds, _LEAST_SLEEP))

    def lock(self) -> TimedLock:
        """Return a real lock, whose timeouts are measured in real time."""
        return threading.Lock()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Wait until the condition is notified or time is advanced; with a `base`, for `seconds` at most."""
        with self._lock:
            if getattr(self._seen, "ahead", None) != self._ahead:
                return  # the clock has moved since this thread computed `seconds`
            self._waiting.append(condition)
        try:
            condition.wait(None if self._base is _stopped else seconds)
        finally:
            with self._lock:
                self._waiting.remove(condition)


class FakeClock(FakeTiming):
    """A clock that shows one time until it is moved.

    A wait or sleep on this clock moves the clock and returns at once, so no other thread is needed.

    Args:
        at: The time that the clock shows: an aware `datetime`, or a text such as `2026-11-18T09:00:00Z`.
    """

    def __init__(self, at: datetime | str = "2026-01-01T00:00:00Z") -> None:
        super().__init__(wall=exact_milliseconds(_instant(at)))

    @property
    def time(self) -> datetime:
        """The time that the clock shows, in UTC."""
        return datetime.fromtimestamp(round(self.wall(), 3) / 1000, UTC)

    def move_to(self, instant: datetime | str) -> None:
        """Let time pass until the instant. Raise ValueError if it is in the past.

        Args:
            instant: An aware `datetime`, or a text such as `2026-11-18T09:00:00Z`.
        """
        seconds = (_instant(instant) - self.time).total_seconds()
        if seconds < 0:
            raise ValueError(f"the clock shows {self.time.isoformat()}: it can't be moved back to {instant}")
        self.advance(seconds)

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Let the time of the wait pass."""
        if seconds is None:
            raise RuntimeError("a wait without a timeout would never end: on a FakeClock no other thread runs")
        self.advance(seconds)


def _instant(at: datetime | str) -> datetime:
    try:
        instant = datetime.fromisoformat(at) if isinstance(at, str) else at
    except ValueError:
        raise ValueError(f"{at!r} is no instant: write 2026-11-18T09:00:00Z, or give an aware datetime") from None
    if instant.tzinfo is None:
        raise ValueError(f"{at!r} has no time zone: write 2026-11-18T09:00:00Z, or give an aware datetime")
    return instant.astimezone(UTC)
