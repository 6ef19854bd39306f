"""Leaders in a simulated fleet: each machine stands for one, beside its jobs, and says when it trusted its term.

What is wanted: no two terms are trusted at one time, their fences rise, and once all is well somebody leads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise

from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import SECOND, Machine
from tests.simulation.stand_ins import sleep

from firecron.leaders.decorator import leader
from firecron.lock.term import Term

# Seconds. Once all is well a leader is found by then: a ttl, a margin, and the pause of a follower.
_FOUND = 60


class Reigns:
    """The terms of all machines: for each fence when it was trusted first and last, and where."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.trusted: dict[int, tuple[int, int, str]] = {}

    def leader_of(self, machine: Machine) -> Callable[[Term], None]:
        """Return the leader that a machine declares."""

        @leader("reign", ttl=12, pause=1)
        def reign(term: Term) -> None:
            while True:
                # What `lost` says was so at the look's beginning, whatever happens before the answer is noted.
                at = self._scheduler.now
                if term.lost:
                    return
                first, last, _ = self.trusted.get(term.fence, (at, at, ""))
                self.trusted[term.fence] = (min(first, at), max(last, at), machine.name)
                if term.stopping:
                    return
                sleep(0.5)

        return reign

    def violations(self, ends: int) -> Iterator[str]:
        """Yield what was not as it should be. `ends` is when the fleet was told to stop, in true time."""
        order = sorted(self.trusted.items(), key=lambda one: one[1][0])
        if [fence for fence, _ in order] != sorted(self.trusted):
            yield f"the fences of terms don't rise: {order}"
        for (fence, (_, last, where)), (later, (first, _, other)) in pairwise(order):
            if first <= last:
                yield f"{where} still trusted the term {fence} when {other} trusted {later}"
        if not order or order[-1][1][1] < ends - _FOUND * SECOND:
            yield "nobody leads although all is well"
