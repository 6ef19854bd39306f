"""What a machine hears of a node: late, twice, not at all, and sometimes what never was. Requests are `database`'s.

A machine that is cut off hears nothing, and its stream breaks or falls silent. Once nothing goes wrong any more, all is
told as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from tests.simulation.greenlets import Scheduler, Thread
from tests.simulation.machines import SECOND, Machine
from tests.simulation.stand_ins import EPOCH

from firecron.errors import Denied, Unavailable


class Inner(Protocol):
    """The database's own watch, which never errs."""

    def next(self) -> object: ...

    def close(self) -> None: ...


class Bell:
    """What a watch waits on: it is rung by the database, which is no thread. Nothing else runs between its steps."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self._waiting: list[Thread] = []

    def __enter__(self) -> bool:
        return True

    def __exit__(self, *_: object) -> None:
        """Nothing was taken."""

    def wait(self, timeout: float | None = None) -> bool:
        self._waiting.append(self._scheduler.thread)
        return self._scheduler.block(None)

    def notify_all(self) -> None:
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            self._scheduler.wake(thread)


class Hints:
    """A machine's `Watch`."""

    def __init__(
        self,
        inner: Inner,
        machine: Machine,
        scheduler: Scheduler,
        is_cut_off: Callable[[Machine], bool],
        is_fair: Callable[[], bool],
    ) -> None:
        self._inner = inner
        self._machine = machine
        self._scheduler = scheduler
        self._is_cut_off = is_cut_off
        self._is_fair = is_fair
        self._next: list[object] = []

    def next(self) -> object:
        random = self._scheduler.random
        while True:
            if self._next:
                return self._next.pop()
            node = self._inner.next()
            if self._is_cut_off(self._machine):
                if random.random() < 0.5:
                    raise Unavailable("the stream was cut")
                continue
            if self._is_fair():
                return node
            match random.random():
                case chance if chance < 0.1:
                    self._scheduler.block(int(20 * SECOND * random.random() ** 3))
                case chance if chance < 0.2:
                    self._next.append(node)
                case chance if chance < 0.3:
                    continue
                case chance if chance < 0.4:
                    self._next.append(node)
                    return self._invented()
                case chance if chance < 0.42:
                    raise Denied("the stream was cancelled")
                case chance if chance < 0.45:
                    raise Unavailable("the stream was cut")
            return node

    def close(self) -> None:
        self._inner.close()

    def _invented(self) -> object:
        random = self._scheduler.random
        now = (EPOCH + self._scheduler.now) // 1_000_000
        held = {"holder": "nobody", "expiresAt": now + int(60_000 * random.random())}
        return random.choice((None, held, {**held, "releasedAt": now}, {"paused": True}, "odd"))
