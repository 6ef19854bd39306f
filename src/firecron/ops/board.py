"""The board: all jobs, read once for all who ask: `/health`, the rounds that tell of late jobs, and the page.

    the locks       by a stream of the database while somebody follows the page live; else once they are three seconds
                    old
    the groups      every minute for the page, which so calls a job unattended up to a minute late; once they are ten
                    seconds old for the verdicts alone
    the catalogue   every five minutes, and when there is a new group of instances: its jobs may be new, or have other
                    schedules, by which no tick is late
    the histories   the newest entry of a job, when its lock has changed; for the page alone

So a page without visitors reads nothing, and one with many visitors reads no more than one with a single visitor. What
was read for one is there for the other, if it is young enough.

A run's entry is written after its lock is released. So after a release the history is asked a few times, with growing
pauses, until it has the entry of that run. Of a job whose runs leave no trace in its node, the entry is read when a
tick has come, at most every five minutes.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from math import inf
from typing import Generic, TypeAlias, TypeVar, cast

from firecron.base.clocks import Timing
from firecron.base.flag import in_each_process
from firecron.base.instants import to_text
from firecron.base.last_values import LastValues
from firecron.errors import Denied, StoreError
from firecron.jobs.catalogue import LIVE_BEATS, CatalogueEntry, Group, known_groups
from firecron.lock.database import Database
from firecron.lock.waiting import Follow, Update
from firecron.ops.health import JobVerdict
from firecron.ops.status import Nodes, Report, Row, SeenJobs, Status
from firecron.ops.views import children
from firecron.runs.entry import Entry
from firecron.scheduler.recovery import Evaluated

# --- the newest entry of each job's history

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


class NewestEntries:
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


# --- values that are read once for all who look, and kept for a while
#
# One thread reads a value at a time; the others wait for it. An error is shared as well, for three seconds at most: a
# database that is away is asked once for all, too, and soon again.

T = TypeVar("T")

_MOST = 100
# For how long an error is kept, in milliseconds. What is kept for minutes must not be missing for as long.
_ERROR_AGE = 3_000.0


class _Value(Generic[T]):
    """A value, or the error instead of it, and when it was read on the monotonic clock.

    `changes` counts the changes that were reported, and `seen` those before the last reading began.
    """

    def __init__(self) -> None:
        self.reading = threading.Lock()
        self.changes = 0
        self.seen = 0
        self.read_at: float | None = None
        self.value: T | None = None
        self.error: StoreError | None = None


class Shared(Generic[T]):
    """Values by their names. Each is read by `read` once it is older than `age` seconds. The last `most` are kept.

    Who needs a younger value than others says its `age`.
    """

    def __init__(self, read: Callable[[str], T], timing: Timing, age: float, *, most: int = _MOST) -> None:
        self._read = read
        self._timing = timing
        self._age = age
        self._most = most
        in_each_process(self._begin_process)

    def get(self, name: str = "", age: float = inf) -> T:
        """Return the value. Raise the StoreError that came instead of it."""
        most = min(self._age, age) * 1000
        with self._lock:
            value = self._values.get(name)
            if value is None:
                value = _Value()
                self._values.put(name, value)
        with value.reading:
            is_new = value.read_at is not None and value.seen == value.changes
            if value.error is not None:
                most = min(most, _ERROR_AGE)
            if not is_new or self._timing.mono() - (value.read_at or 0) >= most:
                self._fill(name, value)
            if value.error is not None:
                # Each raise adds to the traceback, which would keep what every caller had in hand.
                raise value.error.with_traceback(None)
            return cast("T", value.value)

    def changed(self, name: str = "") -> None:
        """Read the value anew when it is asked for next. A reading that has begun may not have seen the change."""
        with self._lock:
            value = self._values.get(name)
            if value is not None:
                value.changes += 1

    def _begin_process(self) -> None:
        self._lock = threading.Lock()
        self._values: LastValues[str, _Value[T]] = LastValues()
        self._values.most = self._most

    def _fill(self, name: str, value: _Value[T]) -> None:
        value.seen = value.changes
        try:
            value.value, value.error = self._read(name), None
        except StoreError as error:
            value.value, value.error = None, error
        value.read_at = self._timing.mono()


# --- the board

# In seconds.
_LOCKS_AGE = 3.0
_GROUPS_AGE = 60.0
_CATALOGUE_AGE = 300.0
_PICTURE_AGE = 1.0
_REPORT_AGE = 10.0


def _kept(groups: tuple[Group, ...] | None, then: int, age: float) -> tuple[Group, ...] | None:
    """Return the groups that were read `then`: one that was live counts as live for so many seconds more."""
    return groups and tuple(
        replace(group, heartbeat=2 * group.heartbeat + age / LIVE_BEATS) if group.is_live(then) else group
        for group in groups
    )


class Board:
    """Reads the jobs of one database. All threads may share it."""

    def __init__(self, database: Database) -> None:
        self.database = database
        timing = database.timing
        self._status = Status(database)
        self._newest = NewestEntries(self._status.last)
        self._catalogue = Shared(lambda _: self._status.catalogue(), timing, _CATALOGUE_AGE)
        self._groups = Shared(lambda _: self._read_groups(), timing, _GROUPS_AGE)
        self._nodes = Shared(lambda _: self._children(database.paths.locks), timing, _LOCKS_AGE)
        self._picture = Shared(lambda _: self._read_jobs(), timing, _PICTURE_AGE)
        # One for each page: a program may have several.
        self._follows: dict[Callable[[], object], Follow] = {}
        self._group_names: frozenset[str] = frozenset()

    def jobs(self) -> SeenJobs:
        """Return all jobs, with the newest entries of their histories. Raise StoreError."""
        return self._picture.get()

    def verdicts(self) -> Report:
        """Return the verdicts about all jobs. Raise StoreError."""
        nodes = self._read(_REPORT_AGE)
        return Report(tuple(self._status.verdicts(nodes)), nodes.now)

    @property
    def again_at(self) -> float:
        """When to look again for an entry that is about to come, on the monotonic clock."""
        return self._newest.again_at

    def node(self, name: str) -> object:
        """Return the node of a lock; None without one. Raise StoreError."""
        return self._lock_nodes().get(name)

    def declared(self, name: str) -> CatalogueEntry | None:
        """Return what the catalogue says of a job; None if it says nothing that can be read. Raise StoreError."""
        return self._catalogue.get().get(name)

    def now(self) -> int:
        """Return RTDB's time, which is asked for only where it is not known well enough. Raise StoreError."""
        moment = self.database.clock.peek()
        return self.database.now(self.database.deadline()) if moment is None else moment.server

    def changed(self) -> None:
        """Look anew: something was done, or the database has reported a change."""
        self._picture.changed()

    def done(self) -> None:
        """Read the locks anew, because a visitor has changed one."""
        self._nodes.changed()
        self.changed()

    @property
    def update(self) -> Update | None:
        """The last value of the stream of the locks; None where there is none, or where it may be dead."""
        believed = (follow.fresh() for follow in tuple(self._follows.values()))
        return next((update for update in believed if update is not None), None)

    def follow(self, wake: Callable[[], object]) -> None:
        """Follow the changes of the locks from now on. `wake` is called after each, by another thread."""
        follow = self._follows[wake] = Follow(self.database.paths.locks, wake)
        self.database.streams.add(follow)

    def unfollow(self, wake: Callable[[], object]) -> None:
        """Call `wake` no more."""
        self.database.streams.discard(self._follows.pop(wake))

    def _read_jobs(self) -> SeenJobs:
        seen = self._status.evaluate(self._read(_GROUPS_AGE))
        return self._newest.put_into(seen, self.database.timing.mono())

    def _read(self, groups_age: float) -> Nodes:
        # First, because they may show that the catalogue is old.
        groups, read_at = self._groups.get(age=groups_age)
        catalogue, nodes, now = self._catalogue.get(), self._lock_nodes(), self.now()
        then = now - int(self.database.timing.mono() - read_at)
        return Nodes(catalogue, nodes, _kept(groups, then, groups_age), now)

    def _lock_nodes(self) -> Mapping[str, object]:
        update = self.update
        return self._nodes.get() if update is None else children(update.node, self.database.paths.locks)

    def _read_groups(self) -> tuple[tuple[Group, ...] | None, float]:
        """Return the groups, and when they were read; None where the security rules don't let this user read them."""
        try:
            groups = known_groups(self.database.node(self.database.paths.groups))
        except Denied:
            groups = None  # the rules are older than the groups
        names = frozenset(group.name for group in groups or ())
        if not names <= self._group_names:
            self._catalogue.changed()  # instances with other jobs are another group
            self._group_names = names
        return groups, self.database.timing.mono()

    def _children(self, path: str) -> Mapping[str, object]:
        return children(self.database.node(path), path)


# --- the report


class HealthReport:
    """The verdicts about all jobs, for `/health` and for the rounds that tell of late jobs. All threads may share it.

    The board is asked at most once in ten seconds, however many callers ask, and by one of them at a time: the others
    wait for what it finds. A read that failed is shared as well, so that a database that is away isn't asked by each
    caller in turn.
    """

    def __init__(self, board: Board) -> None:
        self.board = board
        self._database = board.database
        self._report = Report()
        self._until = -inf
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()

    def get(self) -> Report:
        """Return the report, which was made in the last ten seconds. It blocks while the database is read."""
        with self._lock:
            if self._database.timing.mono() >= self._until:
                before, self._report = self._report, self._read()
                self._until = self._database.timing.mono() + _REPORT_AGE * 1000
                if self._report.problem is not None and before.problem is None:
                    self._complain(self._report.problem)
            return self._report

    def evaluate(self) -> Sequence[Evaluated] | None:
        """Return the verdict about each job; None if the database can't be read."""
        report = self.get()
        if report.problem is not None:
            return None
        return [_evaluated(verdict, report.now) for verdict in report.verdicts]

    def _read(self) -> Report:
        try:
            return self.board.verdicts()
        except StoreError as error:
            return Report(problem=str(error))

    def _complain(self, why: str) -> None:
        message = f"The jobs can't be judged, so it is not known whether one is late: {why}"
        self._database.events.emit("health.unknown", "firecron", logging.WARNING, message, why=why)


def _evaluated(verdict: JobVerdict, now: int) -> Evaluated:
    slot = None if verdict.due is None else to_text(verdict.due)
    return Evaluated(verdict.job, verdict.word, slot, 0 if verdict.since is None else now - verdict.since, verdict.why)
