"""What threads do, one at a time: a task is a thread that runs while all others stand still, until it waits or ends."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.simulation.world import World

# How often a task that waits for a lock or a condition looks.
LOOK = 0.01


class Task:
    """Work on a thread of its own, which runs only while the world stands still for it."""

    def __init__(self, world: World, work: Callable[[], object]) -> None:
        self._world = world
        self._work = work
        self._may_run = threading.Semaphore(0)
        self._has_stopped = threading.Semaphore(0)
        self._thread = threading.Thread(target=self._run, daemon=True)

    def begin(self) -> None:
        """Run it until it waits, or ends."""
        self._thread.start()
        self._let_run()

    def pause(self, seconds: float) -> None:
        """On the task's thread: let so much of the world's time pass."""
        self._world.at(self._world.mono() / 1000 + seconds, self._let_run)
        self._has_stopped.release()
        self._may_run.acquire()

    def park(self) -> None:
        """On the task's thread: wait until another one calls `resume`, however long that takes."""
        self._has_stopped.release()
        self._may_run.acquire()

    def resume(self) -> None:
        """Let it go on as the next thing that happens."""
        self._world.soon(self._let_run)

    def _let_run(self) -> None:
        self._may_run.release()
        assert self._has_stopped.acquire(timeout=30), "a task waits for something that the world knows nothing of"

    def _run(self) -> None:
        self._may_run.acquire()
        _tasks.current = self
        try:
            self._work()
        except BaseException as error:
            self._world.failure = error
        finally:
            self._has_stopped.release()


class TaskLock:
    """A lock whose waiting lets the world's time pass; outside of tasks it is a lock like any other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        task = current_task()
        if task is None or not blocking:
            return self._lock.acquire(blocking, timeout)
        waited = 0.0
        while not self._lock.acquire(blocking=False):
            if 0 <= timeout <= waited:
                return False
            task.pause(LOOK)
            waited += LOOK
        return True

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class TaskCondition(threading.Condition):
    """A condition on which tasks wait without a limit, until they are notified."""

    def __init__(self) -> None:
        super().__init__()
        self._tasks: list[Task] = []

    def wait(self, timeout: float | None = None) -> bool:
        task = current_task()
        assert task is not None, "only tasks wait here"
        assert timeout is None, "they wait without a limit"
        self._tasks.append(task)
        self.release()
        try:
            task.park()
        finally:
            self.acquire()
        return True

    def notify_all(self) -> None:
        tasks, self._tasks = self._tasks, []
        for task in tasks:
            task.resume()


_tasks = threading.local()


def current_task() -> Task | None:
    """The task that this code is part of."""
    return getattr(_tasks, "current", None)


class Crew:
    """Begins what it is given as the next thing that happens, until it is dead."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.is_dead = False
        self.is_full = False

    def submit(self, work: Callable[[], object]) -> None:
        self._world.soon(lambda: None if self.is_dead else Task(self._world, work).begin())

    def dismiss(self) -> None:
        """What was begun goes on."""
