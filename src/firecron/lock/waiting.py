"""Waiting for a lock: how often to try, how long to wait, and which refusals are worth a wait.

    patience = Patience(wait, timing)
    for pause in patience:
        sleep(pause)
        answer = ...  # one try
        if not may_change(answer):
            break

The loop is the same on a thread, on an event loop, and where a signal ends the pause.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import inf
from random import random

from firecron.base.backoff import backoff
from firecron.base.clocks import Deadline, Timing
from firecron.lock.refusal import Refusal


class Patience:
    """The seconds to pause before each try.

    There is no pause before the first try. The last try comes when `wait` seconds are over. Without a wait there is one
    try.
    """

    def __init__(self, wait: float, timing: Timing) -> None:
        self._deadline = Deadline.after(timing, wait)
        self._has_none = wait <= 0

    def __iter__(self) -> Iterator[float]:
        yield 0.0
        tries = 0
        while (left := self._deadline.remaining()) > 0:
            tries += 1
            # The second try comes soon. Later tries come seconds apart.
            yield min(backoff(tries + 2, random()), left)

    def within(self, least: float) -> float:
        """Return how many seconds the next try may take: the rest of the wait, but not less than `least`.

        Without a wait there is no limit.
        """
        return inf if self._has_none else max(self._deadline.remaining(), least)


def may_change(answer: object) -> bool:
    """Return whether a later try may have another answer: a lock becomes free, or a database becomes reachable."""
    return isinstance(answer, Refusal) and answer.reason in ("held", "unavailable")
