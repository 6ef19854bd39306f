"""The operator: looks at locks, changes them by hand, and takes jobs out of the catalogue.

    operator = Operator(Database())
    seen = operator.read("nightly-import")
    operator.unlock(seen)

`unlock` frees the acquisition that was seen, however often it has been renewed since, and never a later acquisition:
each try is a compare-and-swap. It has the same effect as setting `expiresAt = 0` in the console: the slot, the fence
and all other fields stay, and the holder learns of it at its next renewal. It doesn't end the body that runs.

`cancel` asks the holder of the acquisition that was seen to stop. The lock stays held until the holder releases it.

Each change of a lock leaves an act in `cron-acts`: a pause and a resume in their own write, the others after it
(`lock/audit_log`). `by` is who acts, as the caller has authenticated them; without it, the user and the host of this
process.

    (entry,) = operator.entries(["digest"])
    operator.forget(entry)

`forget` removes the entry of a job that no program has any more, with its mute and the tracebacks of its runs, and
nothing else: the lock's node, with its last slot and its fence, and the history stay. So a job that comes back goes on
where it was. The entry is deleted only as it was seen, by compare-and-swap: a program that declares the job at the same
time is not undone.

Every method raises StoreError if the database can't be reached or refuses. `views` explains what a node means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from firecron.base.clocks import wait_or_raise
from firecron.base.instants import aware_milliseconds
from firecron.base.texts import plain
from firecron.errors import Denied, FirecronError, Malformed, Unavailable
from firecron.jobs.catalogue import CatalogueEntry, Group, live_groups_of, read_declared, read_groups
from firecron.lock.audit_log import Act, AuditLog, Deed
from firecron.lock.database import Database
from firecron.lock.protocol import OVERTAKEN
from firecron.lock.refusal import Instances, inspect_instances
from firecron.lock.stored import LookOptions, finished
from firecron.ops.views import (
    LockView,
    TickSteps,
    Unfinished,
    children,
    claimed_user,
    inspect_acts,
    inspect_lock,
    inspect_run,
    inspect_steps,
    inspect_traceback,
    inspect_unfinished,
)
from firecron.runs.entry import Entry, entry_of
from firecron.settings import Settings
from firecron.store import Snapshot, check_any_name, is_entry_name, split_name

_AT_A_TIME = 8
# How many children are deleted by one write.
_AT_ONCE = 500


@dataclass(frozen=True, slots=True)
class Seen:
    """A lock at one instant, `now` on RTDB's clock: its view, and the node itself."""

    view: LockView
    now: int
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class SeenAll:
    """All locks at one instant, in the order of their names."""

    views: tuple[LockView, ...]
    now: int


@dataclass(frozen=True, slots=True)
class LastRun:
    """The newest entry of a job's history, and the unfinished tick that isn't in the history yet."""

    name: str
    run: Entry | None
    unfinished: Unfinished | None


@dataclass(frozen=True, slots=True)
class SeenLast:
    """The last run of each job. `denied` says why the locks could not be read, None if they were."""

    jobs: tuple[LastRun, ...]
    denied: str | None = None


@dataclass(frozen=True, slots=True)
class SeenEntry:
    """An entry as it was read. `declared` is None if it can't be read, `live` are the live groups that run the job."""

    name: str
    snapshot: Snapshot
    declared: CatalogueEntry | None
    live: tuple[Group, ...] = ()


class Operator:
    """Looks at the locks and the catalogue of one database, and changes them by hand."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @property
    def settings(self) -> Settings:
        """The settings of the database."""
        return self._database.settings

    def read(self, name: str) -> Seen:
        """Return the view and the node of one lock. Raise ConfigurationError if the name is not valid."""
        snapshot = self._database.store.read(self._path(name), self._database.deadline())
        now = self._now()
        view = inspect_lock(name, self._path(name), snapshot.node, now, self._database.margin)
        if view.is_taken:
            view = inspect_lock(name, self._path(name), snapshot.node, now, self._database.margin, self._instances())
        return Seen(view, now, snapshot)

    def read_all(self, *, with_holders: bool = False) -> SeenAll:
        """Return every lock that has a node. `with_holders` also finds out whether the holders' instances are alive."""
        node = self._database.node(self._database.paths.locks)
        nodes = children(node, self._database.paths.locks)
        instances = self._instances() if nodes and with_holders else None
        now = self._now()
        views = (
            inspect_lock(name, self._database.paths.lock(name), nodes[name], now, self._database.margin, instances)
            for name in sorted(nodes)
        )
        return SeenAll(tuple(views), now)

    def names(self) -> list[str]:
        """Return all names that have a lock's node, a history, or an entry in the catalogue."""
        found = {*self._keys(self._database.paths.locks), *self._keys(self._database.paths.runs)}
        try:
            return sorted(found.union(self.declared()))
        except Denied:
            return sorted(found)  # the rules are older than the catalogue

    def runs(self, name: str) -> tuple[Entry, ...]:
        """Return the history of one job, oldest first."""
        return self._history(check_any_name(name))

    def histories(self) -> dict[str, tuple[Entry, ...]]:
        """Return the history of every job, by its name. It takes one request for each job, several at the same time."""
        names = self._keys(self._database.paths.runs)
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return dict(zip(map(plain, names), pool.map(self._history, names), strict=True))

    def _history(self, name: str) -> tuple[Entry, ...]:
        path = self._database.paths.runs_of(name)
        entries, entry = children(self._database.node(path), path), split_name(name)[1]
        return tuple(inspect_run(key, entries[key]) for key in sorted(entries) if not entry or entry_of(key) == entry)

    def steps(
        self, name: str, ticks: Collection[str], recorded: Collection[str] | None = None
    ) -> tuple[TickSteps, ...]:
        """Return the steps of these ticks of a job, oldest first: of those that have any.

        With `recorded`, the keys of all entries of the history, also those of ticks without an entry, unless an entry
        that is not asked for is newer: a run by hand that is under way, or that died, shows in its steps alone.

        It takes one request for the job, and one for each of the ticks.
        """
        there = self._database.store.keys(
            self._database.paths.all_steps_of(check_any_name(name)), self._database.deadline()
        )
        wanted = set(there) & set(ticks)
        if recorded is not None:
            after = max(set(recorded) - set(ticks), default="")
            wanted |= {tick for tick in there if tick > after and tick not in recorded}
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return tuple(pool.map(lambda tick: self._steps(name, tick), sorted(wanted)))

    def tracebacks(self, name: str) -> dict[str, str]:
        """Return the tracebacks that a job's failed runs have left, by the keys of their entries, with safe texts."""
        path = self._database.paths.errors_of(check_any_name(name))
        return {
            plain(key): lines
            for key, node in sorted(children(self._database.node(path), path).items())
            if (lines := inspect_traceback(node)) is not None
        }

    def traceback(self, name: str, key: str) -> str | None:
        """Return the traceback that one run has left, with safe texts; None if there is none."""
        return inspect_traceback(self._database.node(f"{self._database.paths.errors_of(check_any_name(name))}/{key}"))

    def last_runs(self) -> SeenLast:
        """Return the last run of every job: of all names that have a history, or a lock with a tick.

        It takes one request for each job, several of them at the same time, and two or three requests for all.
        """
        try:
            views, denied = {view.name: view for view in self.read_all(with_holders=True).views}, None
        except Denied as error:
            # A user that may not read the locks still gets the history.
            views, denied = {}, str(error)
        jobs = {name for name, view in views.items() if view.slot is not None}
        names = sorted(jobs | set(self._keys(self._database.paths.runs)))
        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return SeenLast(tuple(pool.map(lambda name: self._last_run(name, views.get(name)), names)), denied)

    def _steps(self, name: str, tick: str) -> TickSteps:
        path = self._database.paths.steps_of(name, tick)
        return inspect_steps(tick, self._database.node(path), path)

    def _last_run(self, name: str, lock: LockView | None) -> LastRun:
        path = self._database.paths.runs_of(name)
        newest = self._database.store.newest(path, self._database.deadline())
        found = [] if newest is None else [inspect_run(*newest)]
        unfinished = None if lock is None else inspect_unfinished(lock, found)
        if unfinished is not None:
            # The newest entry may be of a later run by hand, so read the entry of the unfinished tick itself.
            entry = self._database.node(f"{path}/{unfinished.slot}")
            of_slot = [] if entry is None else [inspect_run(unfinished.slot, entry)]
            unfinished = None if lock is None else inspect_unfinished(lock, of_slot)
        return LastRun(plain(name), found[0] if found else None, unfinished)

    def unlock(self, seen: Seen, why: str | None = None, *, by: str | None = None) -> bool:
        """Free the lock that was seen, and return True.

        Return False and change nothing if the lock was released or taken over since. Raise Unavailable if it is not
        known whether the lock was freed, and Malformed if the node can't be unlocked.
        """
        node = seen.snapshot.node
        if not isinstance(node, dict) or seen.view.state == "malformed":
            raise Malformed(f"{seen.view.name} can't be unlocked: {seen.view.problem or 'it has no node'}")
        path, etag, deadline = self._path(seen.view.name), seen.snapshot.etag, self._database.deadline()
        acquisition = _acquisition(node)
        tries = 0
        while isinstance(node, dict) and _acquisition(node) == acquisition:
            freed: dict[str, object] = {**node, "expiresAt": 0}
            if is_entry_name(seen.view.name):
                freed = finished(freed, LookOptions(self._database.margin), seen.now)
            try:
                answer = self._database.store.swap(path, etag, freed, deadline)
            except Unavailable:
                # The write may have succeeded although its reply was lost.
                if self._database.node(path) != freed:
                    raise
                answer = etag
            if isinstance(answer, str):
                if is_entry_name(seen.view.name):
                    self._database.ring(split_name(seen.view.name)[0])
                self.record("unlock", seen.view.name, why, by=by)
                return True
            # A renewal or a pause changes the node, but not the acquisition.
            etag, node = answer.etag, answer.node
            tries += 1
            problem = Unavailable(f"{seen.view.name} could not be unlocked: {OVERTAKEN}")
            wait_or_raise(problem, tries, deadline, self._database.timing, self._database.chance())
        return False

    def cancel(self, seen: Seen, why: str | None = None, *, by: str | None = None) -> bool:
        """Ask the holder that was seen to stop, and return True. `why` is for the history, too.

        Return False and change nothing if the lock was released or taken over since. Raise FirecronError if nobody
        holds the lock, or its holder would not notice. Raise StoreError if it is not known whether the holder is asked.
        """
        node, view = seen.snapshot.node, seen.view
        if view.why_not_cancelled is not None or not isinstance(node, dict) or view.fence is None:
            raise FirecronError(f"{view.name} can't be cancelled: {view.why_not_cancelled}")
        if not self._database.cancel(view.name, str(node.get("holder")), view.fence, why):
            return False
        self.record("depose" if view.is_leaders else "cancel", view.name, why, by=by)
        return True

    def pause(self, name: str, why: str | None = None, until: datetime | None = None, *, by: str | None = None) -> None:
        """Pause the lock, so that nothing can acquire it: until it is resumed, or until an aware `datetime`.

        Raise ConfigurationError if `until` is not in the future.
        """
        ends = None if until is None else aware_milliseconds(until, "until")
        AuditLog(self._database).pause(name, by or claimed_user(), why, ends)

    def resume(self, name: str, why: str | None = None, *, by: str | None = None) -> None:
        """End the pause of the lock."""
        AuditLog(self._database).resume(name, by or claimed_user(), why)

    def record(self, deed: Deed, name: str, why: str | None = None, *, by: str | None = None) -> bool:
        """Record an act that was done. If that fails, say so in a WARNING and return False."""
        return AuditLog(self._database).record(deed, name, by or claimed_user(), why)

    def acts(self, name: str | None = None) -> tuple[Act, ...]:
        """Return the newest acts, or those of them on this name, oldest first."""
        path = self._database.paths.acts
        return inspect_acts(children(self._database.node(path), path), name)

    def entries(self, names: Iterable[str]) -> list[SeenEntry]:
        """Return the entries of these keys of the catalogue, and who runs the jobs.

        A key may be one that no job can have: somebody has typed it, and the status shows it. It takes one request for
        each job, and two for all.
        """
        paths = {name: self._database.paths.job(name) for name in names}
        groups = read_groups(self._database.node(self._database.paths.groups))
        now = self._database.clock.now(self._database.deadline()).server
        found = {name: self._database.store.read(path, self._database.deadline()) for name, path in paths.items()}
        return [
            SeenEntry(name, snapshot, read_declared(name, snapshot.node), live_groups_of(name, groups, now))
            for name, snapshot in found.items()
        ]

    def declared(self) -> list[str]:
        """Return the names of all jobs in the catalogue."""
        return self._keys(self._database.paths.jobs)

    def forget(self, seen: SeenEntry) -> bool:
        """Delete the entry that was seen, and return True. Return False if it has changed since, and stays."""
        path = self._database.paths.job(seen.name)
        try:
            answer = self._database.store.swap(path, seen.snapshot.etag, None, self._database.deadline())
        except Unavailable:
            # The write may have succeeded although its reply was lost.
            if self._database.node(path) is not None:
                raise
            answer = ""
        if isinstance(answer, Snapshot):
            return False
        for node in (self._database.paths.errors, self._database.paths.mutes, self._database.paths.told):
            with suppress(Denied):  # the rules are older than these
                self._database.store.merge(node, {seen.name: None}, self._database.deadline())
        return True

    def forget_history(self, name: str) -> int:
        """Delete what is recorded of a job's runs: the history, its tracebacks and its steps. Return how many runs.

        The steps of a tick whose run has not ended stay, and so does what is done once and for all; the lock's node
        stays in any case, with its slot and its fence.
        """
        paths, lock = self._database.paths, self._database.node(self._path(name))
        open_tick = lock.get("unfinished") if isinstance(lock, dict) else None
        runs = self._keys(paths.runs_of(name))
        self._delete(paths.runs_of(name), runs)
        with suppress(Denied):  # the rules are older than steps
            steps = [tick for tick in self._keys(paths.all_steps_of(name)) if tick not in ("once", open_tick)]
            self._delete(paths.all_steps_of(name), steps)
        with suppress(Denied):  # and than tracebacks
            self._database.store.merge(paths.errors, {name: None}, self._database.deadline())
        return len(runs)

    def _delete(self, path: str, keys: Sequence[str]) -> None:
        for begin in range(0, len(keys), _AT_ONCE):
            gone = dict.fromkeys(keys[begin : begin + _AT_ONCE])
            self._database.store.merge(path, gone, self._database.deadline(), echo=False)

    def _keys(self, path: str) -> list[str]:
        return self._database.store.keys(path, self._database.deadline())

    def _instances(self) -> Instances | None:
        """Return the instances' signs of life; None if the security rules don't let this user read them."""
        try:
            node = self._database.node(self._database.paths.instances)
        except Denied:
            return None
        return inspect_instances(node, self.settings.heartbeat)

    def _now(self) -> int:
        return self._database.now(self._database.deadline())

    def _path(self, name: str) -> str:
        return self._database.paths.lock(check_any_name(name))


def _acquisition(node: dict[str, object]) -> tuple[object, ...]:
    """Return the fields that identify an acquisition: they stay the same until the lock is released."""
    return tuple(node.get(field) for field in ("holder", "acquiredAt", "releasedAt"))
