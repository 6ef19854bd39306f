"""The status of all jobs: what the catalogue, the locks and the groups of instances say of each of them.

`Status` makes a row for each job. Five requests are enough for all rows: the catalogue with the holds and the mutes,
the locks and the groups. How the last run ended is in its lock. The newest entry of a history says more, and costs a
request: it is read of the jobs that somebody has named, that need a hand, or whose locks don't say how their last run
ended.

A `Report` has the verdicts alone. `firecron.ops.board` reads all of it once for many who ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from math import inf
from typing import Literal, TypeAlias

from firecron.base.clocks import Deadline
from firecron.base.instants import to_text
from firecron.base.texts import plain
from firecron.cron.schedule import due_after, schedule_fields
from firecron.cron.words import without_place
from firecron.errors import Denied
from firecron.jobs.catalogue import CatalogueEntry, Group, known_groups, read_declared
from firecron.lock.asks import AskedRun, read_asks
from firecron.lock.database import Database
from firecron.lock.holds import JobHold, read_holds
from firecron.ops.health import ALARMS, JobVerdict, VerdictWord, evaluate, undeclared
from firecron.ops.holds import HoldView, inspect_holds
from firecron.ops.mutes import Mute, read_mutes
from firecron.ops.remedies import acts_on, remedy_of, state_of
from firecron.ops.remedy import ActWord, forgetting
from firecron.ops.stored_health import StoredHealth, read_stored_health
from firecron.ops.views import LockView, children, inspect_lock, inspect_run
from firecron.runs.entry import Entry, as_outcome

# --- rows

_AT_A_TIME = 8
# There is nothing to do about these, so nobody has to look for it.
_QUIET: frozenset[VerdictWord] = frozenset({"ok", "running"})
_UNREADABLE = "its entry in the catalogue can't be read, so its schedule is not known"


@dataclass(frozen=True, slots=True)
class Row:
    """A job at one instant: the verdict, the declaration, the lock, the next tick, and the last run in its history.

    `declared` is None if the entry in the catalogue can't be read. `lock` is None without a node. `next` is None if no
    tick will come; of a stored job it is that of the schedule `next_key`. `last` is None if there is no run, or none
    was asked for. `ask` is what an operator has asked for.
    Texts are safe to print.
    """

    verdict: JobVerdict
    declared: CatalogueEntry | None = None
    lock: LockView | None = None
    next: int | None = None
    last: Entry | None = None
    ask: AskedRun | None = None
    next_key: str | None = None

    @property
    def job(self) -> str:
        """The job's name."""
        return self.verdict.job

    @property
    def words(self) -> str | None:
        """What the schedule means, without its time zone."""
        return None if self.declared is None else without_place(self.declared.schedule)

    def acts(self, *, can_run: bool) -> list[ActWord]:
        """Return what can be done to the job, the primary act first. `can_run`: whether it can be run from here."""
        state, is_muted = state_of(self.verdict, self.lock), self.verdict.mute is not None
        return acts_on(state, self.lock, can_run=can_run, is_muted=is_muted)

    def to_json(self) -> dict[str, object]:
        """Return the row for programs: it always has every field, and instants are texts."""
        declared = self.declared
        return {
            **self.verdict.to_json(),
            "muted": self.verdict.mute and self.verdict.mute.to_json(),
            "ask": self.ask and self.ask.to_json(),
            **schedule_fields(None if declared is None else declared.schedule),
            "words": self.words,
            "next": None if self.next is None else to_text(self.next),
            "nextKey": self.next_key,
            "lock": self.lock and self.lock.to_json(),
            "last": self.last and self.last.to_json(),
            "service": declared and declared.service,
            "revision": declared and declared.revision,
            "where": declared and declared.where,
            "role": declared and declared.role,
            "ticks": declared is not None and declared.ticks,
            "disabled": declared is not None and declared.disabled,
        }


@dataclass(frozen=True, slots=True)
class SeenJobs:
    """All jobs at one instant, `now` on RTDB's clock, in the order of their names.

    `others` are the locks that belong to no job of the catalogue: those of leaders, of plain locks, and of jobs that
    have no entry. `holds` are those that stand, and those that pause a lock although they don't.
    """

    rows: tuple[Row, ...]
    others: tuple[LockView, ...]
    now: int
    holds: tuple[HoldView, ...] = ()


@dataclass(frozen=True, slots=True)
class Declared:
    """What is read together, because it seldom changes: the catalogue, the holds, and the mutes, by their names.

    An entry of the catalogue that can't be read is None. Of holds and mutes there are none where the security rules
    don't know them.
    """

    entries: Mapping[str, CatalogueEntry | None]
    holds: Mapping[str, JobHold] = field(default_factory=dict)
    mutes: Mapping[str, Mute] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Nodes:
    """What is judged: what is declared, the nodes of all locks, and the groups, as they were at `now`.

    `groups` is None where the security rules don't let this user read them. `asks` are what operators have asked for.
    """

    declared: Declared
    locks: Mapping[str, object]
    groups: tuple[Group, ...] | None
    now: int
    asks: Mapping[str, AskedRun] = field(default_factory=dict)
    # Of the jobs whose schedules are stored, as far as the database tells.
    stored: Mapping[str, StoredHealth] = field(default_factory=dict)


class Status:
    """Reads the status of all jobs of one database. Every method raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def read(self) -> Nodes:
        """Return the nodes to judge."""
        # All of it takes as long as a try to acquire at most.
        ends = self._database.deadline(self._database.settings.acquire_timeout)
        declared = self.declared(ends)
        locks = children(self._read(self._database.paths.locks, ends), self._database.paths.locks)
        now = self._database.now(ends)
        return Nodes(declared, locks, self.groups(ends), now, stored=self.stored(declared, now))

    def stored(self, declared: Declared, now: int) -> dict[str, StoredHealth]:
        """Return the health of the jobs whose schedules are stored, as far as the database tells."""
        entries = ((name, entry) for name, entry in declared.entries.items() if entry is not None and entry.stored)
        found = {name: read_stored_health(self._database, entry, now) for name, entry in entries}
        return {name: health for name, health in found.items() if health is not None}

    def asks(self, ends: Deadline | None = None) -> dict[str, AskedRun]:
        """Return what operators have asked for, by the jobs' names: nothing where the rules are older than asks."""
        return read_asks(self._read_if_known(self._database.paths.asks, ends))

    def groups(self, ends: Deadline | None = None) -> tuple[Group, ...] | None:
        """Return the groups of instances; None where the security rules don't let this user read them."""
        try:
            return known_groups(self._read(self._database.paths.groups, ends))
        except Denied:
            return None  # the rules are older than the groups

    def declared(self, ends: Deadline | None = None) -> Declared:
        """Return the entries of the catalogue, the holds and the mutes."""
        paths = self._database.paths
        try:
            nodes = children(self._read(paths.jobs, ends), paths.jobs)
        except Denied as error:
            remedy = "The rules may be older than the catalogue: deploy those that `firecron rules` prints"
            raise Denied(f"{paths.jobs} can't be read. {error} {remedy}") from error
        entries = {name: read_declared(name, node) for name, node in nodes.items()}
        holds, mutes = (self._read_if_known(path, ends) for path in (paths.holds, paths.mutes))
        return Declared(entries, read_holds(holds), read_mutes(mutes))

    def _read_if_known(self, path: str, ends: Deadline | None) -> object:
        try:
            return self._read(path, ends)
        except Denied:
            return None  # the rules are older than this node

    def verdicts(self, nodes: Nodes) -> list[JobVerdict]:
        """Return the verdicts about all jobs, in the order of their names, with what to do."""
        return [self._verdict(name, declared, nodes) for name, declared in sorted(nodes.declared.entries.items())]

    def _verdict(self, name: str, declared: CatalogueEntry | None, nodes: Nodes) -> JobVerdict:
        job, node = plain(name), nodes.locks.get(name)
        if declared is None:
            remedy = forgetting(job, "start its service again")
            return JobVerdict(job, "unknown", why=_UNREADABLE, is_warning=True, remedy=remedy)
        mute = nodes.declared.mutes.get(name)
        found = evaluate(declared, node, nodes.groups, nodes.now, self._database.margin, mute=mute)
        if (health := nodes.stored.get(name)) is not None:
            found = health.judge(found)
        if found.word in _QUIET and not found.is_warning:
            return found
        lock = None if node is None else self._view(name, node, nodes.now)
        return replace(found, remedy=remedy_of(found, declared, lock, nodes.now))

    def evaluate(self, nodes: Nodes, names: Collection[str] | None = None) -> SeenJobs:
        """Return all jobs, or those of these names with their holds, as these nodes show them, without entries of
        histories.
        """
        rows = (
            self._row(name, verdict, nodes)
            for name, verdict in zip(sorted(nodes.declared.entries), self.verdicts(nodes), strict=True)
            if names is None or name in names
        )
        others = (
            self._view(name, node, nodes.now)
            for name, node in sorted(nodes.locks.items())
            if name not in nodes.declared.entries
        )
        holds = inspect_holds(nodes.declared.holds, nodes.declared.entries, nodes.locks, nodes.now)
        if names is not None:
            holds = tuple(view for view in holds if view.concerns(names))
        return SeenJobs(tuple(rows), tuple(others), nodes.now, holds)

    def _row(self, name: str, verdict: JobVerdict, nodes: Nodes) -> Row:
        declared, node, ask = nodes.declared.entries[name], nodes.locks.get(name), nodes.asks.get(name)
        following = None if declared is None else _next_tick(declared, verdict, nodes)
        stored = None if following is None else nodes.stored.get(name)
        return Row(
            verdict,
            None if declared is None else _printable(declared),
            None if node is None else self._view(name, node, nodes.now),
            following,
            ask=None if ask is None or ask.is_over(nodes.now) else ask,
            next_key=None if stored is None else stored.next_key,
        )

    def _view(self, name: str, node: object, now: int) -> LockView:
        return inspect_lock(name, self._database.paths.lock(name), node, now, self._database.margin)

    def _read(self, path: str, ends: Deadline | None) -> object:
        deadline = None if ends is None else ends.within(self._database.settings.request_timeout)
        return self._database.node(path, deadline)


def _next_tick(declared: CatalogueEntry, verdict: JobVerdict, nodes: Nodes) -> int | None:
    if declared.disabled or verdict.word == "retired":
        return None
    if (health := nodes.stored.get(declared.name)) is not None:
        return health.next
    due = due_after(declared.schedule, nodes.now)
    return None if due == inf else int(due)


def _printable(declared: CatalogueEntry) -> CatalogueEntry:
    """Return the declaration with texts that are safe to print."""
    return replace(
        declared,
        name=plain(declared.name),
        where=plain(declared.where),
        service=plain(declared.service),
        revision=declared.revision and plain(declared.revision),
        role=declared.role and plain(declared.role),
    )


# --- the last run of each job

# What of a lock changes with each run.
Mark: TypeAlias = tuple[object, ...]

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
    """Puts the last runs into rows, for one who looks again and again: the newest entries of their histories.

    Of most jobs the lock says enough, so no entry is read. One that was read stays until the lock changes.

    A run's entry is written after its lock is released. So after a release the history is asked a few times, with
    growing pauses, until it has the entry of that run. Of a job whose runs leave no trace in its node, the entry is
    read when a tick has come, at most every five minutes.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, _Last] = {}
        # When there is an entry to read again, on the monotonic clock.
        self.again_at = inf

    def put_into(self, seen: SeenJobs, named: Collection[str] = ()) -> SeenJobs:
        """Return the rows with their last runs. Entries that are needed and may be old are read now. Raise StoreError.

        The entries of the `named` jobs are needed, whatever their locks say.
        """
        rows, mono = seen.rows, self._database.timing.mono()
        needed = [row for row in rows if row.job in named or _needs_entry(row)]
        old = [row for row in needed if self._is_old(row, mono)]
        for row, entry in zip(old, self._read_all(old), strict=True):
            self._known[row.job] = self._plan(row, entry, seen.now, mono)
        current = {row.job: last for row in rows if (last := self._known.get(row.job)) and last.mark == _mark(row)}
        self._known = current
        self.again_at = min((current[row.job].again_at for row in needed), default=inf)
        return replace(seen, rows=tuple(replace(row, last=self._last(row)) for row in rows))

    def _last(self, row: Row) -> Entry | None:
        known = self._known.get(row.job)
        entry = None if known is None else known.entry
        return entry if _has_come(row, entry) else by_lock(row.lock) or entry

    def _read_all(self, rows: Sequence[Row]) -> list[Entry | None]:
        """Return the newest entry of each row's history.

        Many jobs without a lock have never run, mostly: then it is asked first which of them have a history.
        """
        blank = {row.job for row in rows if row.lock is None}
        if len(blank) > _AT_A_TIME:
            deadline = self._database.deadline()
            blank.difference_update(self._database.store.keys(self._database.paths.runs, deadline))
        else:
            blank = set()
        wanted = [row.job for row in rows if row.job not in blank]
        if len(wanted) > 1:
            with ThreadPoolExecutor(_AT_A_TIME) as pool:
                found = dict(zip(wanted, pool.map(self._read, wanted), strict=True))
        else:
            found = {name: self._read(name) for name in wanted}
        return [found.get(row.job) for row in rows]

    def _read(self, name: str) -> Entry | None:
        path = self._database.paths.runs_of(name)
        newest = self._database.store.newest(path, self._database.deadline())
        if newest is None:
            return None
        entry = inspect_run(*newest)
        if entry.did_run:
            return entry
        entries = children(self._database.node(path), path)
        found = (inspect_run(key, entries[key]) for key in sorted(entries, reverse=True))
        return next((entry for entry in found if entry.did_run), None)

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


def by_lock(lock: LockView | None) -> Entry | None:
    """Return the last run as its lock shows it; None if that doesn't show how a run ended.

    It may have been a run by hand, so the tick is not known.
    """
    outcome = None if lock is None or lock.released_at is None else as_outcome(lock.outcome)
    if lock is None or outcome is None:
        return None
    return Entry(
        key="",
        outcome=outcome,
        started_at=lock.since,
        ended_at=lock.released_at,
        fence=lock.fence,
        instance_id=lock.instance_id,
        instance=lock.instance,
    )


def _needs_entry(row: Row) -> bool:
    """Return whether the lock says too little: nothing of the last run, or nothing of why the job needs a hand."""
    verdict = row.verdict
    return verdict.word in ALARMS or verdict.is_warning or _leaves_no_trace(row) or by_lock(row.lock) is None


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


# --- the report that is shared

HealthWord: TypeAlias = Literal["ok", "held", "failing", "unknown"]


@dataclass(frozen=True, slots=True)
class Report:
    """The verdicts about all jobs, at the time `now` of RTDB's clock.

    If the database could not be read, there are none, and `problem` says why.
    """

    verdicts: tuple[JobVerdict, ...] = ()
    now: int = 0
    problem: str | None = None

    @property
    def alarms(self) -> list[JobVerdict]:
        """The verdicts that are alarms."""
        return [verdict for verdict in self.verdicts if verdict.is_alarm]

    @property
    def status(self) -> HealthWord:
        """The word for a monitoring service. It is `unknown` if the database could not be read, or has no job.

        It is `held` where a hold pauses a job, and all others are as they should be.
        """
        if self.alarms:
            return "failing"
        if any(verdict.hold is not None for verdict in self.verdicts):
            return "held"
        return "ok" if any(verdict.is_judged for verdict in self.verdicts) else "unknown"

    @property
    def is_well(self) -> bool:
        """Whether nobody has to be told of anything."""
        return self.status in ("ok", "held")

    def expecting(self, names: Iterable[str]) -> Report:
        """Return the report for a caller who says which jobs have to be there."""
        if self.problem is not None:
            return self
        absent = {verdict.job: verdict for verdict in undeclared(names, self.verdicts)}
        others = (verdict for verdict in self.verdicts if verdict.job not in absent)
        return replace(self, verdicts=(*absent.values(), *others))

    def to_json(self) -> dict[str, object]:
        """Return the report for programs: with the alarms alone."""
        return {"status": self.status, "jobs": [verdict.to_health() for verdict in self.alarms]}
