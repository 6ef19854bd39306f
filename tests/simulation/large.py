"""A large fleet in virtual time: what each tick costs it, and when the tick starts.

python -m tests.simulation.large [size]         a table, in a quarter of an hour
"""

from __future__ import annotations

import logging
import random
import statistics
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron import Run

# When all have started, and know how many they are.
WARM = 100.0


@dataclass(frozen=True, slots=True)
class Tick:
    """How many instances asked for a tick, and how many seconds after its slot it started; None if it was missed."""

    askers: int
    lag: float | None


class Large(Fleet):
    """A fleet whose instances have started within half a minute, each with a chance of its own."""

    def __init__(self, size: int, seed: int = 1, **settings: Any) -> None:
        super().__init__()
        self._rng = random.Random(seed)
        self._settings = settings
        self.instances: list[Instance] = []
        self._lags: dict[str, float] = {}
        self.body = self._note
        self.start(size)
        self.world.until(WARM)

    def start(self, number: int, *providers: object, spread: float = 30) -> None:
        """Have so many more instances start within so many seconds, with more jobs than the fleet's."""

        def begin() -> None:
            one = self.instance(**self._settings)
            one.crons.engine.heartbeat.chance = random.Random(self._rng.random()).random
            for job in providers:
                one.crons.registry.add(job)  # type: ignore[arg-type]  # a function with jobs
            self.instances.append(one)
            one.start()

        for _ in range(number):
            self.world.at(self.world.mono() / 1000 + spread * self._rng.random(), begin)

    def some(self, number: int) -> list[Instance]:
        return self._rng.sample(self.instances, number)

    def kill(self, number: int) -> None:
        for one in self.some(number):
            one.crash()
            self.instances.remove(one)

    def occupy(self, number: int) -> None:
        """Have so many instances get no free worker any more."""
        for one in self.some(number):
            one.crew.is_full = one.crew.is_dead = True  # what it is given waits for ever

    def tick(self, seconds: float, until: float | None = None) -> Tick:
        """What the tick so many seconds after nine has cost, and how late it was."""
        self.world.until(seconds - 0.5)
        for one in self.instances:
            one.network.requests()
        self.world.until(until or seconds + 59)
        askers = [one for one in self.instances if one.network.requests(f"cron-locks/{NAME}")]
        return Tick(len(askers), self._lags.get(slot(seconds)))

    def _note(self, run: Run) -> None:
        assert run.slot is not None
        key = slot(run.slot.timestamp() - START / 1000)
        assert key not in self._lags, "a tick has started twice"
        self._lags[key] = self.world.now() / 1000 - run.slot.timestamp()


def table(size: int) -> None:
    """Each row of it: the askers of the ticks at 240 to 360 seconds, and the lag of the first of them."""
    nothing: Callable[[Large], object] = lambda fleet: None  # noqa: E731
    rows: list[tuple[str, float, Callable[[Large], object], int]] = [
        (f"{size} instances", 230, nothing, 1),
        (f"{size}, half of them die just before a tick", 239.9, lambda fleet: fleet.kill(size // 2), 2),
        (f"{size}, all but 5 die just before a tick", 239.9, lambda fleet: fleet.kill(size - 5), 4),
        (f"{size}, all but one die just before a tick", 239.9, lambda fleet: fleet.kill(size - 1), 4),
        (f"{size}, of which 9 in 10 have no free worker", 210, lambda fleet: fleet.occupy(size * 9 // 10), 4),
    ]
    for title, at, happens, seeds in rows:
        ticks = []
        for seed in range(seeds):
            fleet = Large(size, seed)
            fleet.world.at(at, lambda fleet=fleet, happens=happens: happens(fleet))  # type: ignore[misc]
            ticks.append([fleet.tick(seconds) for seconds in (240, 300, 360)])
        lags = [tick.lag for run in ticks for tick in run]
        askers = statistics.mean(tick.askers for run in ticks for tick in run)
        latest = max((lag for lag in lags if lag is not None), default=0)
        print(
            f"{title:50} askers {askers:6.1f}   latest start {latest:5.1f} s   missed {lags.count(None)} of {len(lags)}"
        )


if __name__ == "__main__":
    logging.getLogger("firecron").setLevel(logging.CRITICAL)
    table(int(sys.argv[1]) if len(sys.argv) > 1 else 200)
