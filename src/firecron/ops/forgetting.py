"""Forgetting: takes the entry of a job out of the catalogue by hand, once no program has the job any more.

    catalogue = Catalogue(LockService())
    (seen,) = catalogue.look(["digest"])
    catalogue.forget(seen)

Nothing but the entry is removed: the lock's node, with its last slot and its fence, and the history stay. So a job that
comes back goes on where it was. The entry is deleted only as it was seen, by compare-and-swap: a program that declares
the job at the same time is not undone. Every method raises StoreError if the database can't be reached or refuses.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firecron.base.clocks import Deadline
from firecron.errors import Unavailable
from firecron.jobs.catalogue import Declared, read_declared
from firecron.jobs.groups import Group, live_groups_of, read_groups
from firecron.lock.names import check_name
from firecron.lock.service import LockService
from firecron.store import Snapshot


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """An entry as it was read. `declared` is None if it can't be read, `live` are the live groups that run the job."""

    name: str
    snapshot: Snapshot
    declared: Declared | None
    live: tuple[Group, ...] = ()

    @property
    def is_there(self) -> bool:
        """Whether the catalogue has the job."""
        return self.snapshot.node is not None


class Catalogue:
    """The catalogue of one database, for an operator."""

    def __init__(self, locks: LockService) -> None:
        self._locks = locks
        self._store = locks.store
        self._paths = locks.paths

    def look(self, names: Iterable[str]) -> list[SeenEntry]:
        """Return the entries of these jobs, and who runs them. Raise ConfigurationError for a name that is not valid.

        It takes one request for each job, and two for all.
        """
        paths = {name: self._paths.job(check_name(name)) for name in names}
        groups = read_groups(self._store.read(self._paths.groups, self._deadline()).node)
        now = self._locks.clock.now(self._deadline()).server
        found = {name: self._store.read(path, self._deadline()) for name, path in paths.items()}
        return [
            SeenEntry(name, snapshot, read_declared(name, snapshot.node), live_groups_of(name, groups, now))
            for name, snapshot in found.items()
        ]

    def names(self) -> list[str]:
        """Return the names of all jobs in the catalogue."""
        return self._store.keys(self._paths.jobs, self._deadline())

    def forget(self, seen: SeenEntry) -> bool:
        """Delete the entry that was seen, and return True. Return False if it has changed since, and stays."""
        path = self._paths.job(seen.name)
        try:
            return isinstance(self._store.swap(path, seen.snapshot.etag, None, self._deadline()), str)
        except Unavailable:
            # The write may have succeeded although its reply was lost.
            if self._store.read(path, self._deadline()).node is None:
                return True
            raise

    def _deadline(self) -> Deadline:
        return self._locks.deadline(self._locks.settings.request_timeout)
