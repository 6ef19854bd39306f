"""What a look writes to a stored schedule, once its node was read again: what `runs/look` says, or nothing.

    write    ticks that nobody may claim any more, the end of a run that died, a close; and the history after it.
             Or the node is deleted, if it is closed and its time is over, with the steps of its runs
    mend     the time of the next look, where a hand has left none

Each is one compare-and-swap. What fails is a WARNING, and is tried again by a later look.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from firecron.base.instants import number, to_text
from firecron.errors import StoreError
from firecron.jobs.job import Job
from firecron.lock.database import Database
from firecron.lock.fields import Pause
from firecron.lock.protocol import editing
from firecron.lock.stored import KEPT, Kept, Node
from firecron.runs.history import History
from firecron.runs.look import Deleted, Look, Written, evaluate, mended


class EntryWriter:
    """Writes the entries of one database. `job` is always the stored job, and `name` that of its entry."""

    def __init__(self, database: Database, history: History) -> None:
        self._database = database
        self._history = history

    def write(self, job: Job, name: str, hold: Pause | None) -> Node | None:
        """Look at the node as it is now, and write or delete what the look says; then the history.

        Return the node after that; None if there is none, or if it is not known.
        """
        database = self._database
        looked: list[Look] = []
        after: Node | None = None

        def decide(node: object, now: int) -> Node | Kept:
            found = evaluate(node, job.options, now, database.margin, hold)
            looked[:] = [found]
            return found.node if isinstance(found, Written) else KEPT

        with self._reported(name):
            deadline = database.deadline(database.settings.acquire_timeout)
            snapshot, kept = database.run(editing(decide), database.paths.lock(name), deadline)
            found, node = looked[0], snapshot.node if isinstance(snapshot.node, dict) else None
            if isinstance(found, Deleted):
                self._delete(name, snapshot.etag, node or {})
            else:
                after = node
            if isinstance(found, Written) and kept is None and found.entries:
                self._history.record_entries(job.named(name), list(found.entries))
        return after

    def mend(self, job: Job, name: str) -> Node | None:
        """Write when to look at the entry, whatever there is to do with it then. Return what was written, if anything.

        After a failure it is not known whether it was.
        """
        database = self._database
        deadline = database.deadline(database.settings.acquire_timeout)
        written: list[Node | None] = [None]

        def decide(node: object, now: int) -> Node | Kept:
            written[0] = mended(node, job.options, now, database.margin)
            return written[0] or KEPT

        with self._reported(name):
            database.run(editing(decide), database.paths.lock(name), deadline)
        return written[0]

    @contextmanager
    def _reported(self, name: str) -> Iterator[None]:
        """Report that an entry could not be looked at, and go on."""
        try:
            yield
        except StoreError as error:
            message = f'The stored schedule "{name}" could not be looked at, and the next beat tries again: {error}'
            self._database.events.emit("schedules.failed", name, logging.WARNING, message, why=str(error))

    def _delete(self, name: str, etag: str, node: Mapping[str, object]) -> None:
        """Delete a closed entry: its steps, and then the node as it was read, which a put may have changed.

        The runs of such a put are later than the end of the entry, and so are their steps: they stay.
        """
        database = self._database
        store, steps = database.store, database.paths.all_steps_of(name)
        end = max(str(node.get("slot") or ""), to_text(number(node.get("closedAt")) or 0))
        for tick in store.keys(steps, database.deadline()):
            if tick != node.get("unfinished") and tick.partition("-manual-")[0] <= end:
                store.merge(steps, {tick: None}, database.deadline())
        left = store.swap(database.paths.lock(name), etag, None, database.deadline())
        if isinstance(left, str) and (unfinished := node.get("unfinished")):
            store.merge(steps, {str(unfinished): None}, database.deadline())
