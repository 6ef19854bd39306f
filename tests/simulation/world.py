"""Virtual time for all that share a store: what threads would do happens when its time has come, one thing at a time.

A test that waits lets the world's time pass, and all else happens in between. What an instance does by itself is a task
(see `tasks`), so several bodies, and several requests, can be under way at once, and the order is the same in each run
of a test. `tests/interleaving` has a model of its own instead: to try each order of events, the state of everything
must be comparable, and quick to build thousands of times.
"""

from __future__ import annotations

import heapq
import threading
from collections.abc import Callable
from datetime import timedelta
from itertools import count
from typing import Protocol

from tests.simulation.tasks import LOOK, TaskCondition, TaskLock, current_task

from firecron.base.clocks import Deadline, TimedLock
from firecron.base.instants import Duration, to_milliseconds, to_text
from firecron.testing import FakeTiming, MemoryStore

NINE = "2026-11-18T09:00:00Z"
START = to_milliseconds(NINE)
NAME = "job"
NEVER = float("inf")

# A nanosecond: sleeping for the rest of a float's rounding takes time, too.
_LEAST_SLEEP = 1e-9


def slot(seconds: float = 0) -> str:
    """The tick so many seconds after nine."""
    return to_text(round(START + seconds * 1000))


class Machine(Protocol):
    """What has something to do at some time, in milliseconds on the world's clock."""

    @property
    def due(self) -> float: ...

    def work(self) -> None: ...


class World(FakeTiming):
    """The time, the database, and all that is to happen. Zero is nine o'clock; the database's clock is the world's,
    wrong by `server_error` seconds.
    """

    def __init__(self) -> None:
        super().__init__(wall=float(START))
        self.server_error = 0.0
        self.store = MemoryStore(lambda: self.now() + round(self.server_error * 1000))
        self.store.condition = TaskCondition
        self._numbers = count()
        self._to_come: list[tuple[float, int, Callable[[], object]]] = []
        self.machines: list[Machine] = []
        self.failure: BaseException | None = None

    def at(self, seconds: float, call: Callable[[], object]) -> None:
        """Have this happen so many seconds after nine."""
        heapq.heappush(self._to_come, (seconds * 1000, next(self._numbers), call))

    def soon(self, call: Callable[[], object]) -> None:
        """Have this happen next."""
        self.at(self.mono() / 1000, call)

    def until(self, seconds: float) -> None:
        """Let time pass until so many seconds after nine."""
        self.advance(seconds - self.mono() / 1000)

    def advance(self, seconds: Duration) -> None:
        assert not isinstance(seconds, timedelta), "worlds count in seconds"
        task = current_task()
        if task is not None:
            task.pause(max(seconds, 0.0))
            return
        # To the nanosecond: 1.001 * 1000 is a little less than 1001.
        target = round(self.mono() + seconds * 1000, 6)
        while self.step(target):
            self.check()
        self.check()

    def step(self, target: float) -> bool:
        """Let the next thing happen, if it comes by then; else it is then."""
        call_at = self._to_come[0][0] if self._to_come else NEVER
        due, _, instance = min(
            ((one.due, number, one) for number, one in enumerate(self.machines)), default=(NEVER, 0, None)
        )
        if min(due, call_at) > target:
            self.skip_to(target)
            return False
        self.skip_to(min(due, call_at))
        if call_at <= due:
            heapq.heappop(self._to_come)[2]()
        elif instance is not None:
            instance.work()
        return True

    def skip_to(self, mono: float) -> None:
        """It is so many milliseconds after nine, and nothing has happened in between."""
        # Exactly: whoever is due then must find that it is then.
        self._ahead = max(self._ahead, mono)

    def check(self) -> None:
        """Raise what a body's own assertions raised: as a job's error it would go unheard."""
        if self.failure is not None:
            raise self.failure

    def node(self, name: str = NAME) -> dict[str, object]:
        """What the lock's node holds; nothing where there is none."""
        found = self.store.get(f"cron-locks/{name}")
        return found if isinstance(found, dict) else {}

    def put(self, node: object, name: str = NAME) -> None:
        """What an operator does at the console; None deletes the node."""
        self.store.set(f"cron-locks/{name}", node)

    def edit(self, name: str = NAME, **fields: object) -> None:
        """What an operator types into some fields."""
        self.put({**self.node(name), **fields}, name)

    def history(self, name: str = NAME) -> dict[str, dict[str, object]]:
        """What `cron-runs` holds of a job, by key."""
        keys = self.store.keys(f"cron-runs/{name}", Deadline.after(self, 1))
        entries = {key: self.store.get(f"cron-runs/{name}/{key}") for key in keys}
        return {key: entry for key, entry in entries.items() if isinstance(entry, dict)}

    def outcomes(self, name: str = NAME) -> dict[str, object]:
        return {key: entry["outcome"] for key, entry in self.history(name).items()}


class Clock:
    """An instance's `Timing`: it runs with the world, and waiting on it lets the whole world's time pass.

    Its wall clock is wrong by `error` seconds; `pauses` are the sleeps so far; locks that are waited for are from
    `make_lock`.
    """

    def __init__(self, world: World, error: float = 0.0) -> None:
        self._world = world
        self._error = error * 1000
        self.pauses: list[float] = []
        self.make_lock: Callable[[], TimedLock] = TaskLock

    def mono(self) -> float:
        return self._world.mono()

    def wall(self) -> float:
        return self._world.wall() + self._error

    def suspended(self) -> float:
        return 0.0

    def step_wall(self, seconds: float) -> None:
        """Set the wall clock forward or back."""
        self._error += seconds * 1000

    def sleep(self, seconds: float) -> None:
        self.pauses.append(seconds)
        self._world.advance(max(seconds, _LEAST_SLEEP))

    def lock(self) -> TimedLock:
        return self.make_lock()

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        # To the next thing that happens: it may be what is waited for.
        assert seconds is not None, "nothing waits without a limit here"
        seconds = max(seconds, _LEAST_SLEEP)
        task = current_task()
        condition.release()
        try:
            if task is None:
                self._world.step(self._world.mono() + seconds * 1000)
            else:
                task.pause(min(seconds, LOOK))
        finally:
            condition.acquire()
