"""The health of a stored job: which of its schedules are late, and which fail. Two queries, however many there are.

A schedule is late if a look at it is overdue by more than the grace and a minute, although it is neither closed, paused
nor held: no instance looks, or each one fails to. It is failing if its last `alert_after` runs have failed. The verdict
of the job counts them and names the first: no more than a hundred of each are read.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from firecron.base.instants import number
from firecron.base.texts import plain
from firecron.errors import Denied
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.database import Database
from firecron.lock.fields import pause_in
from firecron.lock.stored import is_closed, is_running
from firecron.ops.health import ALERT_MARGIN, JobVerdict
from firecron.store import Querying

# How many schedules are read of each kind.
_MOST = 100


@dataclass(frozen=True, slots=True)
class StoredHealth:
    """The schedules of a job that are late or fail, by their keys, and when the next one is due, if any is to come."""

    late: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    next: int | None = None

    def judge(self, verdict: JobVerdict) -> JobVerdict:
        """Return the verdict about the job with what its schedules say, unless there is something worse to say."""
        if verdict.word not in ("ok", "running"):
            return verdict
        if self.late:
            return replace(verdict, word="late", why=f"{_counted(self.late)} late: no instance has run what was due")
        if self.failing:
            return replace(verdict, word="failing", why=f"{_counted(self.failing)} failing", failures=len(self.failing))
        return verdict


def read_stored_health(database: Database, entry: CatalogueEntry, now: int) -> StoredHealth | None:
    """Return the health of a stored job; None if the database can't tell, as without an index. Raise StoreError."""
    store, path = database.store, database.paths.schedules_of(entry.name)
    if not isinstance(store, Querying):
        return None
    latest = now - entry.grace - ALERT_MARGIN
    try:
        overdue = store.query(path, "nextAt", database.deadline(), start=1, end=latest, most=_MOST)
        failed = store.query(path, "failures", database.deadline(), start=entry.alert_after, most=_MOST)
        coming = store.query(path, "nextAt", database.deadline(), start=now, most=_MOST)
    except Denied:
        return None
    late = _keys(overdue, lambda node: not is_closed(node) and not _is_kept_back(node, now, database.margin))
    failing = _keys(failed, lambda node: not is_closed(node) and number(node.get("failures")) is not None)
    ahead = (number(node.get("nextAt")) for _, node in coming if isinstance(node, dict) and not is_closed(node))
    return StoredHealth(late, failing, next((at for at in ahead if at is not None), None))


def _is_kept_back(node: Mapping[str, object], now: int, margin: int) -> bool:
    pause = pause_in(node)
    return (pause is not None and pause.holds(now)) or is_running(dict(node), now, margin)


def _keys(page: list[tuple[str, object]], wanted: Callable[[Mapping[str, object]], bool]) -> tuple[str, ...]:
    return tuple(plain(name.removeprefix(":")) for name, node in page if isinstance(node, dict) and wanted(node))


def _counted(keys: tuple[str, ...]) -> str:
    """Return how many schedules these are, and which is the first."""
    count = f"{len(keys)} or more" if len(keys) >= _MOST else str(len(keys))
    return f"{count} of its schedules (first: {keys[0]}) {'is' if len(keys) == 1 else 'are'}"
