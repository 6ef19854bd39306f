"""What the jobs of a simulated fleet do: they take time, step by step, and some fail, look up, or go on regardless.

Each step is a point, where other threads go on. A body notes its begin, its end, and each look at `run.lost`, so the
oracle knows what really ran, and which body trusted its lease when.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from tests.simulation.greenlets import Scheduler
from tests.simulation.machines import Machine
from tests.simulation.stand_ins import sleep

from firecron.jobs.run import Run

if TYPE_CHECKING:
    from tests.simulation.fleets.happened import Body
    from tests.simulation.fleets.oracle import Oracle

# What a body does when its lease is lost or its instance stops: it looks up and ends, it goes on, or it is async.
Manner: TypeAlias = Literal["checks", "ignores", "async", "async_stubborn"]


class Failure(Exception):
    """What a failing body raises."""


@dataclass(frozen=True, slots=True)
class Work:
    """How long the bodies of a job take (seconds, from and to), in how many steps, and how often they fail.

    `takes` has the seconds that the runs of single ticks take. Of a job with `recorded` steps each one is recorded.
    """

    least: float
    most: float
    steps: int
    fails: float
    manner: Manner
    takes: tuple[tuple[str, float], ...] = ()
    recorded: int = 0
    at_most_once: bool = False


def make_body(name: str, work: Work, machine: Machine, scheduler: Scheduler, oracle: Oracle) -> Callable[[Run], object]:
    """Return the function of a job on one machine."""

    takes = dict(work.takes)

    def plan(run: Run) -> tuple[float, bool]:
        random = machine.random
        seconds = work.least + (work.most - work.least) * random.random()
        slot = "" if run.slot is None else f"{run.slot:%Y-%m-%dT%H:%M:%SZ}"
        return takes.get(slot, seconds), random.random() < work.fails

    def look(begun: Body) -> None:
        # What `lost` says was so at the look's beginning, whatever happens before the answer is noted.
        at = scheduler.now
        oracle.looks(begun, at, is_lost=bool(begun.run.lost), is_cancelled=bool(begun.run.cancelled))

    def body(run: Run) -> None:
        seconds, fails = plan(run)
        begun = oracle.begins(run, machine)
        try:
            for _ in range(work.steps):
                sleep(seconds / work.steps)
                look(begun)
                if work.manner == "checks":
                    run.check()
            if fails:
                raise Failure("as it was to")
        except BaseException as error:
            oracle.ends(begun, error)
            raise
        oracle.ends(begun, None)

    async def async_body(run: Run) -> None:
        seconds, fails = plan(run)
        begun = oracle.begins(run, machine)
        try:
            for _ in range(work.steps):
                try:
                    await asyncio.sleep(seconds / work.steps)
                except asyncio.CancelledError:
                    if work.manner != "async_stubborn":
                        raise
                    # It cleans up for a while, and then ends as it was told to.
                    await asyncio.sleep(min(seconds, 3.0))
                    raise
                look(begun)
            if fails:
                raise Failure("as it was to")
        except BaseException as error:
            oracle.ends(begun, error)
            raise
        oracle.ends(begun, None)

    chosen = async_body if work.manner.startswith("async") else body
    chosen.__name__ = chosen.__qualname__ = name.replace("-", "_")
    return chosen
