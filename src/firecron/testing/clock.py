"""A clock for a test on one thread: it says what time it is, and moves when it is told to."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta

from firecron.durations import Duration
from firecron.testing.timing import FakeTiming


class FakeClock(FakeTiming):
    """Shows `at` (an aware datetime, or a text such as `2026-11-18T09:00:00Z`) until it is moved.

    What waits on it doesn't wait: the time passes at once. So nothing that runs on it needs another thread.
    """

    def __init__(self, at: datetime | str = "2026-01-01T00:00:00Z") -> None:
        super().__init__(wall=_instant(at).timestamp() * 1000)

    @property
    def time(self) -> datetime:
        """What it shows, in UTC."""
        return datetime.fromtimestamp(round(self.wall(), 3) / 1000, UTC)

    def advance(self, seconds: Duration) -> None:
        """Let so much time pass."""
        super().advance(seconds.total_seconds() if isinstance(seconds, timedelta) else seconds)

    def move_to(self, instant: datetime | str) -> None:
        """Let time pass until then; ValueError if that is in the past."""
        seconds = (_instant(instant) - self.time).total_seconds()
        if seconds < 0:
            raise ValueError(f"the clock shows {self.time.isoformat()}: it can't be moved back to {instant}")
        self.advance(seconds)

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        """Let the time pass that would be waited."""
        if seconds is None:
            raise RuntimeError("this would wait for ever: on a FakeClock there is nobody else to wake it")
        self.advance(seconds)


def _instant(at: datetime | str) -> datetime:
    instant = datetime.fromisoformat(at) if isinstance(at, str) else at
    if instant.tzinfo is None:
        raise ValueError(f"{at!r} has no time zone: write 2026-11-18T09:00:00Z, or give an aware datetime")
    return instant.astimezone(UTC)
