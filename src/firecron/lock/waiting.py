"""Waiting for a lock: how long, and how often to look."""

from __future__ import annotations

from math import inf
from random import random

from firecron.base.backoff import backoff
from firecron.base.clocks import Deadline, Timing
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal


class Patience:
    """How long to wait for a lock, and how often to look."""

    def __init__(self, wait: float, timing: Timing) -> None:
        self._timing = timing
        self._deadline = Deadline.after(timing, wait)
        self._tries = 0
        self._has_none = wait <= 0

    def within(self, least: float) -> float:
        """How long the next try may take: what is left of the wait, but `least` so many seconds; without a wait, any
        time.
        """
        return inf if self._has_none else max(self._deadline.remaining(), least)

    def delay_after(self, answer: Lease | Refusal) -> float | None:
        """Seconds until the next try; None: that was the answer."""
        if isinstance(answer, Lease) or answer.reason not in ("held", "unavailable"):
            return None
        self._tries += 1
        # The first look comes soon; later ones some seconds apart.
        delay = backoff(self._tries + 2, random())
        left = self._deadline.remaining()
        return min(delay, left) if left > 0 else None
