"""A lease as the keeper sees it, for tests of the keeper."""

from __future__ import annotations

from collections.abc import Callable

from firecron.testing import FakeTiming

TTL = 60.0


class Kept:
    """A lease as the keeper sees it; `renewal` is what happens when it is renewed."""

    def __init__(self, timing: FakeTiming, ttl: float = TTL, name: str = "kept") -> None:
        self.name = name
        self.timing = timing
        self.ttl = ttl * 1000
        self.renewal: Callable[[], bool] = lambda: True
        self.losing: Callable[[], object] = lambda: None
        self.at: list[float] = []
        self.limits: list[float] = []
        self.lost: list[str] = []
        self._from(timing.mono())

    def _from(self, now: float) -> None:
        self.ends = now + self.ttl - 1000
        self.renewal_due = now + self.ttl / 3

    def keep(self, seconds: float) -> bool:
        self.at.append(self.timing.mono() / 1000)
        self.limits.append(seconds)
        if not self.renewal():
            return False
        self._from(self.timing.mono())
        return True

    def lose(self, why: str) -> None:
        self.lost.append(why)
        self.losing()
