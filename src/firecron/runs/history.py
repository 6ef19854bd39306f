"""The history: `cron-runs/<name>/<key>`, one entry a run or a tick that did not run.

Side work: it happens after the lock's own writes and is never in their way. What can't be written is logged and given
up after some tries. An entry is written only where there is none. Where another run's is there, the higher fence wins.
Between a run's own entry and the bookkeeper's guess, the later attempt wins, and the run's own where that is the same.
Every tenth write or so the oldest entries are pruned; two that prune at once delete the same ones.
"""

from __future__ import annotations

import logging
import random
from collections.abc import Callable
from dataclasses import dataclass

from firecron.base.backoff import backoff
from firecron.base.clocks import Deadline, Timing
from firecron.base.events import Events
from firecron.base.instants import to_text
from firecron.errors import StoreError, Unavailable
from firecron.jobs.run import Outcome, Trigger
from firecron.runs.policy import Entry
from firecron.store import NULL_ETAG, Snapshot, Store

_PRUNE_ONE_IN = 10
_ERROR_LENGTH = 500
BOOKKEEPER = "bookkeeper"


@dataclass(frozen=True, slots=True)
class Finished:
    """A run that has ended."""

    key: str
    outcome: Outcome
    trigger: Trigger
    slot: str | None
    started_at: int
    ended_at: int
    attempt: int
    fence: int | None
    instance: str
    instance_id: str
    error: str | None = None

    def to_json(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "outcome": self.outcome,
            "slot": self.slot,
            "startedAt": self.started_at,
            "endedAt": self.ended_at,
            "durationMs": self.ended_at - self.started_at,
            "attempt": self.attempt,
            "fence": self.fence,
            "trigger": self.trigger,
            "instance": self.instance,
            "instanceId": self.instance_id,
            "error": self.error and self.error[:_ERROR_LENGTH],
        }
        return {name: value for name, value in fields.items() if value is not None}


def manual_key(started_at: int, run_id: str) -> str:
    return f"{to_text(started_at)}-manual-{run_id}"


class History:
    """Writes the history below `root`, keeping `limit` entries a job."""

    def __init__(
        self,
        store: Store,
        root: str,
        limit: int,
        events: Events,
        deadline: Callable[[], Deadline],
        timing: Timing,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._store = store
        self._root = root
        self._limit = limit
        self._events = events
        self._deadline = deadline
        self._timing = timing
        self._chance = chance

    def record(self, name: str, finished: Finished) -> None:
        """Write down a run that has ended."""
        self._write(name, finished.key, finished.to_json())

    def record_unrun(self, name: str, entries: list[Entry], instance: str, instance_id: str) -> None:
        """Write down ticks that did not run, as the bookkeeper: whoever claimed the slot after them."""
        for entry in entries:
            fields: dict[str, object] = {
                "outcome": entry.outcome,
                "slot": entry.slot,
                "attempt": entry.attempt,
                "fence": entry.fence,
                "count": None if entry.count == 1 else entry.count,
                "atLeast": entry.at_least or None,  # there are more than `count`, and nobody counted them
                "recordedBy": BOOKKEEPER,
                "instance": instance,
                "instanceId": instance_id,
            }
            self._write(name, entry.slot, {key: value for key, value in fields.items() if value is not None})

    def read(self, name: str) -> dict[str, object]:
        """The entries of a job by key, oldest first. Raises StoreError."""
        node = self._store.read(f"{self._root}/{name}", self._deadline()).node
        return dict(sorted(node.items())) if isinstance(node, dict) else {}

    def entry(self, name: str, key: str) -> object:
        """One entry, None if there is none. Raises StoreError."""
        return self._store.read(f"{self._root}/{name}/{key}", self._deadline()).node

    def latest(self, name: str, deadline: Deadline) -> tuple[str, object] | None:
        """The newest entry's key, and the entry. Raises StoreError."""
        return self._store.newest(f"{self._root}/{name}", deadline)

    def prune(self, name: str) -> None:
        """Delete the oldest entries beyond the limit."""
        path = f"{self._root}/{name}"
        keys = self._store.keys(path, self._deadline())
        old = sorted(keys)[: -self._limit]
        if old:
            self._store.merge(path, dict.fromkeys(old), self._deadline())

    def _write(self, name: str, key: str, entry: dict[str, object]) -> None:
        try:
            self._put(f"{self._root}/{name}/{key}", entry)
        except StoreError as error:
            message = f'The history of "{name}" could not be written ({key}: {entry["outcome"]}): {error}'
            self._events.emit("history.failed", name, logging.WARNING, message, key=key, why=str(error))
            return
        if self._chance() < 1 / _PRUNE_ONE_IN:
            try:
                self.prune(name)
            except StoreError as error:
                message = f'The history of "{name}" could not be pruned: {error}'
                self._events.emit("history.failed", name, logging.WARNING, message, why=str(error))

    def _put(self, path: str, entry: dict[str, object]) -> None:
        """Write the entry, or find one there that it gives way to. What may have been written already is just such
        a one, so it can be tried again.
        """
        deadline = self._deadline()
        etag = NULL_ETAG
        tries = 0
        while True:
            try:
                answer = self._store.swap(path, etag, entry, deadline)
                if not isinstance(answer, Snapshot) or not _outranks(entry, answer.node):
                    return
                etag, problem = answer.etag, Unavailable("others keep changing it")
            except Unavailable as error:
                problem = error
            tries += 1
            delay = max(backoff(tries, self._chance()), problem.retry_after or 0.0)
            if delay >= deadline.remaining():
                raise problem
            self._timing.sleep(delay)


def _outranks(entry: dict[str, object], other: object) -> bool:
    """Whether an entry replaces another one that is there already."""
    if not isinstance(other, dict):
        return True
    is_ours, is_theirs = "recordedBy" in entry, other.get("recordedBy") == BOOKKEEPER
    if is_ours != is_theirs:
        # The bookkeeper was not there, and the fence that it found may be a later run's: a run by hand raises it.
        ours, theirs = _number(entry, "attempt"), _number(other, "attempt")
        return ours > theirs if is_ours else ours >= theirs
    return _number(entry, "fence") > _number(other, "fence")


def _number(entry: dict[str, object], name: str) -> float:
    found = entry.get(name)
    return found if isinstance(found, int | float) and not isinstance(found, bool) else 0
