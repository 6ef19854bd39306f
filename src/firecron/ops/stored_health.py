"""The health of a stored job: which of its schedules are late, and which fail. Mostly, it takes three queries.

A schedule is late if a look at it is overdue by more than the grace and a minute, although it is neither closed, paused
nor held: no instance looks, or each one fails to. It is failing if its last `alert_after` runs have failed, also if it
is over since: the run of a single instant closes it. The verdict of the job counts them and names the first. It goes on
over those that don't count until it has a hundred of a kind, or has read a thousand.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

from firecron.base.instants import number
from firecron.base.texts import plain
from firecron.errors import Denied, Malformed
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.database import Database
from firecron.lock.fields import pause_in
from firecron.lock.record import LockRecord, parse
from firecron.lock.stored import OVER, is_closed, is_running
from firecron.ops.health import ALERT_MARGIN, JobVerdict
from firecron.store import Querying

# How many schedules of each kind are counted, and how many requests of a hundred are made for them at most.
_MOST = 100
_MOST_PAGES = 10
Node: TypeAlias = Mapping[str, object]


@dataclass(frozen=True, slots=True)
class StoredHealth:
    """The schedules of a job that are late or fail, by their keys, and which comes next and when, if one does."""

    late: tuple[str, ...] = ()
    failing: tuple[str, ...] = ()
    next: int | None = None
    next_key: str | None = None

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

    def find(
        order: str, counts: Callable[[Node], bool], start: int, end: int | None = None, most: int = _MOST
    ) -> list[tuple[str, Node]]:
        """Return the first `most` that count, by this field. The first request asks for no more than these."""
        found: list[tuple[str, Node]] = []
        begin: tuple[int, str] | int = start
        size = most
        for _ in range(_MOST_PAGES):
            page = store.query(path, order, database.deadline(), start=begin, end=end, most=size)
            nodes = [(name, node) for name, node in page if isinstance(node, dict) and (name, node) not in found]
            found += [(name, node) for name, node in nodes if counts(node)]
            last = number(nodes[-1][1].get(order)) if nodes else None
            if len(found) >= most or len(page) < size or last is None:
                break
            begin, size = (last, nodes[-1][0]), _MOST + 1
        return found[:most]

    try:
        late = find(
            "nextAt", lambda node: not is_closed(node) and not _is_kept_back(node, now, database.margin), 1, latest
        )
        failing = find("failures", lambda node: _fails(node, now), entry.alert_after)
        coming = find(
            "nextAt", lambda node: not is_closed(node) and number(node.get("nextAt")) is not None, now, most=1
        )
    except Denied:
        return None
    at, key = (number(coming[0][1].get("nextAt")), _keys(coming)[0]) if coming else (None, None)
    return StoredHealth(_keys(late), _keys(failing), at, key)


def _fails(node: Node, now: int) -> bool:
    """Return whether the runs of an entry count as failing: of a closed one, if its last run has failed at its end."""
    if number(node.get("failures")) is None:
        return False
    return not is_closed(node) or (node["closed"] == OVER and _outcome(node, now) in ("failed", "abandoned", "lost"))


def _outcome(node: Node, now: int) -> str | None:
    """Return how the last run of an entry ended; None if its record can't be read, too."""
    try:
        record = parse(node, now)
    except Malformed:
        return None
    return record.outcome if isinstance(record, LockRecord) else None


def _is_kept_back(node: Node, now: int, margin: int) -> bool:
    pause = pause_in(node)
    return (pause is not None and pause.holds(now)) or is_running(dict(node), now, margin)


def _keys(found: list[tuple[str, Node]]) -> tuple[str, ...]:
    return tuple(plain(name.removeprefix(":")) for name, _ in found)


def _counted(keys: tuple[str, ...]) -> str:
    """Return how many schedules these are, and which is the first."""
    count = f"{len(keys)} or more" if len(keys) >= _MOST else str(len(keys))
    return f"{count} of its schedules (first: {keys[0]}) {'is' if len(keys) == 1 else 'are'}"
