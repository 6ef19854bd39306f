"""The board: all jobs, read once for all who ask: `/health` and the page.

    the locks       by a stream of the database while somebody follows the page live; else once they are three seconds
                    old
    the groups      every minute for the page, which so calls a job unattended up to a minute late; once they are ten
                    seconds old for the verdicts alone
    the schedules   which of those that are stored are late or fail, and which is next: as the groups, and once they
                    are ten seconds old when the next one was to come
    the catalogue   every five minutes, with the holds and the mutes; and when there is a new group of instances: its
                    jobs may be new, or have other schedules, by which no tick is late; and when other holds pause the
                    locks than before
    the asks        every five minutes, and once they are three seconds old while a job is asked for
    the histories   the newest entry of a job that needs a hand, or whose lock doesn't say how its last run ended; and
                    of a job that a page shows, when its lock has changed
    the report      the verdicts alone, at most once in ten seconds, however many callers ask

So a page without visitors reads nothing, and one with many visitors reads no more than one with a single visitor. What
was read for one is there for the other, if it is young enough.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import inf
from typing import Generic, TypeVar, cast

from firecron.base.clocks import Timing
from firecron.base.events import LastValues
from firecron.base.flag import in_each_process
from firecron.errors import StoreError
from firecron.jobs.catalogue import LIVE_BEATS, CatalogueEntry, Group
from firecron.lock.database import Database
from firecron.lock.waiting import Follow, Update
from firecron.ops.holds import holds_of
from firecron.ops.status import NewestEntries, Nodes, Report, SeenJobs, Status
from firecron.ops.views import children

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
# For how long a page that asks for a job shows it, in milliseconds. It asks again when the job's row changes.
_SHOWN = 60_000.0


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
        self._newest = NewestEntries(database)
        self._declared = Shared(lambda _: self._status.declared(), timing, _CATALOGUE_AGE)
        self._groups = Shared(lambda _: self._read_groups(), timing, _GROUPS_AGE)
        self._asks = Shared(lambda _: self._status.asks(), timing, _CATALOGUE_AGE)
        self._has_asks = False
        self._stored = Shared(lambda _: self._status.stored(self._declared.get(), self.now()), timing, _GROUPS_AGE)
        locks = database.paths.locks
        self._nodes = Shared(lambda _: children(database.node(locks), locks), timing, _LOCKS_AGE)
        self._picture = Shared(lambda _: self._read_jobs(), timing, _PICTURE_AGE)
        self._report = Shared(lambda _: self._read_report(), timing, _REPORT_AGE)
        self._is_away = False
        # One for each page: a program may have several.
        self._follows: dict[Callable[[], object], Follow] = {}
        self._group_names: frozenset[str] = frozenset()
        # When a page has asked for a job, on the monotonic clock.
        self._shown: dict[str, float] = {}
        self._holds: frozenset[str] | None = None

    def jobs(self) -> SeenJobs:
        """Return all jobs, with the newest entries of their histories. Raise StoreError."""
        return self._picture.get()

    def report(self) -> Report:
        """Return the verdicts about all jobs, as they were in the last ten seconds, for `/health`.

        A read that failed is shared as well, so that a database that is away isn't asked by each caller in turn.
        """
        return self._report.get()

    def note(self, error: StoreError | None) -> None:
        """Note whether the jobs could just be judged, by whomever. The first error of an outage is an event."""
        is_news, self._is_away = error is not None and not self._is_away, error is not None
        if is_news:
            message = f"The jobs can't be judged, so it is not known whether one is late: {error}"
            self.database.events.emit("health.unknown", "firecron", logging.WARNING, message, why=str(error))

    @property
    def again_at(self) -> float:
        """When to look again for an entry that is about to come, on the monotonic clock."""
        return self._newest.again_at

    def node(self, name: str) -> object:
        """Return the node of a lock; None without one. Raise StoreError."""
        return self._lock_nodes().get(name)

    def declared(self, name: str) -> CatalogueEntry | None:
        """Return what the catalogue says of a job; None if it says nothing that can be read. Raise StoreError."""
        return self._declared.get().entries.get(name)

    def now(self) -> int:
        """Return RTDB's time, which is asked for only where it is not known well enough. Raise StoreError."""
        return self.database.now(self.database.deadline())

    def show(self, names: Iterable[str]) -> None:
        """Have the newest entries of these jobs read from now on, because a page shows them. Raise StoreError."""
        now, catalogue, shown = self.database.timing.mono(), self._declared.get().entries, self._still_shown()
        asked = {name: now for name in names if name in catalogue}
        self._shown = shown | asked
        if not asked.keys() <= shown.keys():
            self.changed()
            for wake in tuple(self._follows):
                wake()

    def changed(self) -> None:
        """Look anew: something was done, or the database has reported a change."""
        self._picture.changed()

    def done(self, *, of_many: bool = False) -> None:
        """Read the locks anew, because a visitor has changed one. With `of_many` also what is declared."""
        self._nodes.changed()
        if self._has_asks:
            self._asks.changed()
        self._stored.changed()
        if of_many:
            self._declared.changed()
        self.changed()

    def asked(self) -> None:
        """Read the asks anew, because a visitor has made one."""
        self._asks.changed()
        self.changed()
        for wake in tuple(self._follows):
            wake()

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
        asks = self._asks.get(age=_LOCKS_AGE if self._has_asks else inf)
        self._has_asks = bool(asks)
        nodes = replace(self._read(_GROUPS_AGE), asks=asks)
        return self._newest.put_into(self._status.evaluate(nodes), self._still_shown())

    def _still_shown(self) -> dict[str, float]:
        now = self.database.timing.mono()
        return {name: at for name, at in self._shown.items() if now - at < _SHOWN}

    def _read_report(self) -> Report:
        try:
            nodes = self._read(_REPORT_AGE)
            report = Report(tuple(self._status.verdicts(nodes)), nodes.now)
        except StoreError as error:
            self.note(error)
            return Report(problem=str(error))
        self.note(None)
        return report

    def _read(self, groups_age: float) -> Nodes:
        # First, because they may show that the catalogue is old.
        groups, read_at = self._groups.get(age=groups_age)
        declared, nodes, now = self._declared.get(), self._lock_nodes(), self.now()
        before, self._holds = self._holds, frozenset(name for node in nodes.values() for name in holds_of(node, now))
        if before not in (None, self._holds):
            self._declared.changed()  # somebody holds jobs, or has taken that back
            declared = self._declared.get()
        then = now - int(self.database.timing.mono() - read_at)
        stored = self._stored.get(age=groups_age)
        if any(health.next is not None and health.next <= now for health in stored.values()):
            stored = self._stored.get(age=_REPORT_AGE)
        return Nodes(declared, nodes, _kept(groups, then, groups_age), now, stored=stored)

    def _lock_nodes(self) -> Mapping[str, object]:
        update = self.update
        return self._nodes.get() if update is None else children(update.node, self.database.paths.locks)

    def _read_groups(self) -> tuple[tuple[Group, ...] | None, float]:
        """Return the groups, and when they were read."""
        groups = self._status.groups()
        names = frozenset(group.name for group in groups or ())
        if not names <= self._group_names:
            self._declared.changed()  # instances with other jobs are another group
            self._stored.changed()
            self._group_names = names
        return groups, self.database.timing.mono()
