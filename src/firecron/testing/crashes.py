"""Crashes in a rehearsal: the process dies at a step, as by `kill -9`.

A process that is dead makes no request any more: its lock is not released, and nothing is recorded. Python can't end a
function from outside, so the body is left by an exception that a job doesn't catch; its `finally` blocks run, which in
a real crash they would not.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from firecron.base.clocks import Deadline
from firecron.errors import ConfigurationError
from firecron.jobs.step_names import check_step_name, to_key
from firecron.lock.step_record import read_step
from firecron.store import Paths, Snapshot, Store


class Crash(asyncio.CancelledError):
    """The process is dead. A cancellation, because jobs and asyncio let that through."""


class Death:
    """When a process dies: once a step is recorded, or once it has been called."""

    def __init__(self, step: str, *, recorded: bool) -> None:
        self.step = check_step_name(step)
        self.recorded = recorded
        self._ending = f"/{to_key(step)}"

    def is_at(self, path: str, node: object, paths: Paths) -> bool:
        """Return whether this write records the step."""
        if not (path.startswith(f"{paths.steps}/") and path.endswith(self._ending)):
            return False
        record = read_step(node)
        return record is not None and record.is_done


class MortalStore:
    """The store of one process in a rehearsal. `deaths` are to come; each process dies once, which calls `die`.

    Once it has died, every request raises Crash.
    """

    def __init__(self, store: Store, deaths: list[Death], die: Callable[[], None]) -> None:
        self._store = store
        self._deaths = deaths
        self._die = die
        self.paths: Paths | None = None  # once they are known
        self.is_dead = False

    @property
    def name(self) -> str:
        return self._store.name

    def connect(self) -> None:
        self._store.connect()

    def read(self, path: str, deadline: Deadline) -> Snapshot:
        return self._alive().read(path, deadline)

    def swap(self, path: str, etag: str, node: dict[str, object] | None, deadline: Deadline) -> str | Snapshot:
        store = self._alive()
        paths = self.paths
        death = None if paths is None else next((one for one in self._deaths if one.is_at(path, node, paths)), None)
        if death is None:
            return store.swap(path, etag, node, deadline)
        self._deaths.remove(death)
        if death.recorded:
            store.swap(path, etag, node, deadline)
        self.is_dead = True
        self._die()
        raise Crash(f'the process died at step "{death.step}"')

    def timestamp(self, path: str, deadline: Deadline) -> int:
        return self._alive().timestamp(path, deadline)

    def merge(self, path: str, values: dict[str, object], deadline: Deadline) -> dict[str, object]:
        return self._alive().merge(path, values, deadline)

    def keys(self, path: str, deadline: Deadline) -> list[str]:
        return self._alive().keys(path, deadline)

    def newest(self, path: str, deadline: Deadline) -> tuple[str, object] | None:
        return self._alive().newest(path, deadline)

    def close(self) -> None:
        self._store.close()

    def after_fork(self) -> None:
        self._store.after_fork()

    def _alive(self) -> Store:
        if self.is_dead:
            raise Crash("the process is dead")
        return self._store


def unreached(deaths: list[Death]) -> ConfigurationError:
    """Return the error of a test that has ended although a process was still to die."""
    names = ", ".join(f'"{death.step}"' for death in deaths)
    return ConfigurationError(f"crash_after({names}) was never reached: no run has recorded a step of that name")
