"""The stand-in for the lease of a run that holds no lock."""

from __future__ import annotations

import math
from collections.abc import Callable

from firecron.base.flag import Flag


class Unlocked:
    """Stand-in lease for `overlap="allow"`: only `max_runtime` ends it."""

    ends = math.inf
    renewal_due = math.inf
    why_cancelled = None

    def __init__(self, name: str) -> None:
        self.name = name
        self.lost = Flag()
        self._on_lost: Callable[[], object] | None = None

    @property
    def was_lost(self) -> bool:
        """Whether `max_runtime` has ended it before the run ended."""
        return bool(self.lost)

    def when_lost(self, callback: Callable[[], object]) -> None:
        """Call this when `max_runtime` ends it."""
        self._on_lost = callback

    def when_cancelled(self, callback: Callable[[], object]) -> None:
        """Do nothing: without a lock, nobody can find the run to cancel it."""

    def keep(self, seconds: float) -> bool:
        return True

    def lose(self, why: str) -> None:
        self.lost.set()
        if self._on_lost is not None:
            self._on_lost()

    def disown(self) -> None:
        self.lost.set()

    def release(self, *, outcome: str | None = None, finished: str | None = None, tick: str | None = None) -> bool:
        """Return False: there is no lock to release."""
        return False
