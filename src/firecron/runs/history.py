"""The history, `cron-runs/<name>/<key>`: one entry for each run, and entries for the ticks that did not run.

An entry is written after the lock's own writes, and never delays them. A write that fails is tried again until its
deadline. Then it is logged and given up, so the history may lack an entry. An entry replaces another one only if it
outranks it (see `entry`). About every tenth write deletes the oldest entries, with the steps of their ticks. Two
instances that do so at the same time delete the same entries.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable

from firecron.base.backoff import wait_or_raise
from firecron.base.clocks import Deadline, Timing
from firecron.errors import Denied, StoreError, Unavailable
from firecron.lock.service import LockService
from firecron.runs.entry import Entry
from firecron.store import NULL_ETAG, Snapshot

_PRUNE_ONE_IN = 10


class History:
    """Reads and writes the history in the store of `locks`, and keeps `history_limit` entries a job."""

    def __init__(self, locks: LockService, timing: Timing, chance: Callable[[], float] = random.random) -> None:
        self._locks = locks
        self._store = locks.store
        self._paths = locks.paths
        self._limit = locks.settings.history_limit
        self._events = locks.events
        self._timing = timing
        self._chance = chance

    def record(self, name: str, entry: Entry) -> None:
        """Write the entry, and sometimes prune. An error of the store is logged, not raised."""
        try:
            self._put(self._path(name, entry.key), entry)
        except StoreError as error:
            message = f'The history of "{name}" may lack the entry {entry.key} ({entry.outcome}): {error}'
            self._events.emit("history.failed", name, logging.WARNING, message, key=entry.key, why=str(error))
            return
        if self._chance() < 1 / _PRUNE_ONE_IN:
            try:
                self.prune(name)
            except StoreError as error:
                message = f'The history of "{name}" was not pruned, and a later write tries again: {error}'
                self._events.emit("history.failed", name, logging.WARNING, message, why=str(error))

    def read(self, name: str) -> dict[str, object]:
        """Return the entries of a job by their keys, oldest first. Raise StoreError.

        Args:
            name: The job's name.
        """
        node = self._store.read(self._paths.runs_of(name), self._deadline()).node
        return dict(sorted(node.items())) if isinstance(node, dict) else {}

    def entry(self, name: str, key: str) -> object:
        """Return the node of one entry, None if there is none. Raise StoreError.

        Args:
            name: The job's name.
            key: The entry's key: a tick, or the start of a run by hand.
        """
        return self._store.read(self._path(name, key), self._deadline()).node

    def latest(self, name: str, deadline: Deadline) -> tuple[str, object] | None:
        """Return the key and the node of the newest entry, None if there is none. Raise StoreError.

        Args:
            name: The job's name.
            deadline: When to give up: `locks.deadline(seconds)`.
        """
        return self._store.newest(self._paths.runs_of(name), deadline)

    def prune(self, name: str) -> None:
        """Delete the oldest entries beyond the limit, each in one write with the steps of its tick. Raise StoreError.

        The unfinished tick is kept: another attempt may need its steps.
        """
        runs = self._paths.runs_of(name)
        keys = sorted(self._store.keys(runs, self._deadline()))
        old, kept = keys[: -self._limit], keys[-self._limit :]
        if not old:
            return
        # Older than all that is kept: among them the steps of runs that died before they had an entry.
        ticks = [tick for tick in self._ticks_with_steps(name) if tick < kept[0]]
        unfinished = self._unfinished(name) if ticks else None
        gone = [f"{runs}/{key}" for key in old if key != unfinished]
        gone += [self._paths.steps_of(name, tick) for tick in ticks if tick != unfinished]
        if gone:
            self._store.merge(self._paths.prefix, {self._paths.relative(path): None for path in gone}, self._deadline())

    def _ticks_with_steps(self, name: str) -> list[str]:
        """Return the ticks of a job that have steps; none where the rules are older than steps."""
        try:
            return self._store.keys(self._paths.all_steps_of(name), self._deadline())
        except Denied:
            return []

    def _unfinished(self, name: str) -> str | None:
        node = self._store.read(self._paths.lock(name), self._deadline()).node
        unfinished = node.get("unfinished") if isinstance(node, dict) else None
        return unfinished if isinstance(unfinished, str) else None

    def _path(self, name: str, key: str) -> str:
        return f"{self._paths.runs_of(name)}/{key}"

    def _deadline(self) -> Deadline:
        return self._locks.deadline(self._locks.settings.release_timeout)

    def _put(self, path: str, entry: Entry) -> None:
        """Write the entry, unless the key holds an entry that it doesn't outrank.

        An entry doesn't outrank itself. So a write whose reply was lost can be tried again.
        """
        deadline = self._deadline()
        etag, node = NULL_ETAG, entry.to_node()
        tries = 0
        while True:
            try:
                answer = self._store.swap(path, etag, node, deadline)
                if not isinstance(answer, Snapshot) or not entry.outranks(answer.node):
                    return
                etag, problem = answer.etag, Unavailable("others keep changing the entry")
            except Unavailable as error:
                problem = error
            tries += 1
            wait_or_raise(problem, tries, deadline, self._timing, self._chance())
