"""Terminals of operators: each command is a process of its own, with its own way to the database.

    terminals.run("put k1", lambda database: ..., done)

A process may be killed at any moment, and what it has sent may arrive later. A command that says that it is not known
what has become of it is repeated, as an operator does it, until it says what it has done, or is killed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from tests.simulation.fleets.database import Wire
from tests.simulation.greenlets import Thread
from tests.simulation.machines import Machine
from tests.simulation.stand_ins import sleep

from firecron.errors import FirecronError, StoreError
from firecron.lock.database import Database
from firecron.lock.waiting import Places
from firecron.settings import load

if TYPE_CHECKING:
    from tests.simulation.fleets.run import World

T = TypeVar("T")

# Seconds between two tries of a command, and after how many of them the operator gives up.
_AGAIN = 3.0
_TRIES = 8


class Terminals:
    """The operators' processes of one world. `killed` is the chance that one is killed while it works."""

    def __init__(self, world: World, killed: float) -> None:
        self._world = world
        self._killed = killed
        self._number = 0

    def run(
        self,
        what: str,
        work: Callable[[Database], T],
        done: Callable[[T], object] = lambda result: None,
    ) -> str:
        """Do this in a new process, and return its name. `done` gets what it returns."""
        world = self._world
        scheduler, timeline, weather = world.scheduler, world.timeline, world.weather
        self._number += 1
        name = f"ops{self._number}"
        machine = Machine(name, f"terminal {world.scenario.seed} {name}", pid=10_000 + self._number)
        machine.origin -= world.scenario.begins
        wire = Wire(
            world.database, machine, scheduler, timeline, weather.fate, weather.is_cut_off, weather.is_fair
        )  # fmt: skip
        is_doomed = not weather.is_fair() and machine.random.random() < self._killed

        def process() -> None:
            timeline.say(name, "{}", what)
            database = Database(settings=load(heartbeat=world.scenario.settings["heartbeat"]), store=wire)
            database.streams.places = Places()
            for _ in range(_TRIES):
                try:
                    result = work(database)
                except StoreError as error:
                    timeline.say(name, "{}: {!r}", what, error)
                except (FirecronError, ValueError) as error:
                    timeline.say(name, "{} is refused: {}", what, error)
                    return
                else:
                    timeline.say(name, "{}: {}", what, result)
                    done(result)
                    return
                sleep(_AGAIN)

        scheduler.begin(Thread(target=process, name=what), machine)
        if is_doomed:
            lasts = 40 * world.scenario.latency[1]
            scheduler.at(scheduler.now + int(lasts * machine.random.random()), lambda: self._kill(machine))
        return name

    def _kill(self, machine: Machine) -> None:
        if machine.alive():
            self._world.timeline.say(machine.name, "is killed")
        machine.kill()
