"""The newest entry of each job's history, read again only when the job's lock shows that there may be a newer one.

A run's entry is written after its lock is released. So after a release the history is asked a few times, with growing
pauses, until it has the entry of that run. Of a job whose runs leave no trace in its node, the entry is read when a
tick has come, at most every five minutes.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from typing import TypeAlias

from firecron.ops.status import Row, SeenJobs
from firecron.runs.entry import Entry

# What of a lock changes with each run.
Mark: TypeAlias = tuple[object, ...]

_AT_A_TIME = 8
# In milliseconds on the monotonic clock: the first pause, which doubles, and how often it does so.
_FIRST_PAUSE = 300.0
_MOST_TRIES = 6
_WITHOUT_TRACE = 300_000.0


@dataclass(frozen=True, slots=True)
class _Last:
    """The entry of a job, read when its lock had this mark. `again_at` is when to read it again, if ever."""

    mark: Mark
    entry: Entry | None
    tries: int
    again_at: float


class Lasts:
    """Puts the newest entries into rows. `read` returns the newest entry of a job, or raises StoreError."""

    def __init__(self, read: Callable[[str], Entry | None]) -> None:
        self._read = read
        self._known: dict[str, _Last] = {}
        # When there is an entry to read again, on the monotonic clock.
        self.again_at = inf

    def put_into(self, seen: SeenJobs, mono: float) -> SeenJobs:
        """Return the rows with their entries, of which those that may be old are read now. Raise StoreError."""
        rows = seen.rows
        old = [row for row in rows if self._is_old(row, mono)]
        if len(old) > 1:
            with ThreadPoolExecutor(_AT_A_TIME) as pool:
                entries = list(pool.map(self._read, (row.job for row in old)))
        else:
            entries = [self._read(row.job) for row in old]
        for row, entry in zip(old, entries, strict=True):
            self._known[row.job] = self._plan(row, entry, seen.now, mono)
        for name in self._known.keys() - {row.job for row in rows}:
            del self._known[name]
        self.again_at = min((last.again_at for last in self._known.values()), default=inf)
        return replace(seen, rows=tuple(replace(row, last=self._known[row.job].entry) for row in rows))

    def _is_old(self, row: Row, mono: float) -> bool:
        known = self._known.get(row.job)
        return known is None or known.mark != _mark(row) or mono >= known.again_at

    def _plan(self, row: Row, entry: Entry | None, now: int, mono: float) -> _Last:
        known, mark = self._known.get(row.job), _mark(row)
        tries = known.tries + 1 if known is not None and known.mark == mark else 0
        if _has_come(row, entry):
            pause = max(_WITHOUT_TRACE, (row.next or now) - now) if _leaves_no_trace(row) else inf
        else:
            pause = _FIRST_PAUSE * 2**tries if tries < _MOST_TRIES else inf
        return _Last(mark, entry, tries, mono + pause)


def _mark(row: Row) -> Mark:
    lock = row.lock
    if lock is None:
        return ()
    return lock.slot, lock.unfinished, lock.fence, lock.since, lock.released_at, lock.outcome


def _leaves_no_trace(row: Row) -> bool:
    declared = row.declared
    return declared is not None and not (declared.once_per_tick and declared.has_lease)


def _has_come(row: Row, entry: Entry | None) -> bool:
    """Return whether the entry is that of the last run in the lock, or the lock shows no run that has ended."""
    lock = row.lock
    if lock is None or lock.released_at is None or (lock.fence is None and lock.slot is None):
        return True
    if entry is None:
        return False
    return entry.fence == lock.fence if lock.fence is not None else entry.slot == lock.slot
