"""The status of all jobs: what the catalogue, the locks and the groups of instances say of each of them.

`Status` makes a row for each job. Three requests are enough for all rows: the catalogue, the locks and the groups. The
newest entry of each history costs one more request a job, several of them at the same time.

A `Report` has the verdicts alone. `firecron.ops.board` reads all of it once for many who ask.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from firecron.base.clocks import Deadline
from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.base.texts import plain
from firecron.cron.schedule import schedule_fields
from firecron.cron.words import without_place
from firecron.errors import Denied
from firecron.jobs.catalogue import CatalogueEntry, Group, known_groups, read_declared
from firecron.lock.database import Database
from firecron.ops.health import JobVerdict, evaluate, undeclared
from firecron.ops.views import LockView, children, inspect_lock, inspect_run
from firecron.runs.entry import Entry

# --- rows

_AT_A_TIME = 8
# How long after the lock's release the entry of a run may come, in milliseconds.
_SETTLED = 30_000
_UNREADABLE = (
    "its entry in the catalogue can't be read, so its schedule is not known: start its service again, or remove the "
    "entry: firecron forget"
)


@dataclass(frozen=True, slots=True)
class Row:
    """A job at one instant: the verdict, the declaration, the lock, the next tick, and the newest entry of its history.

    `declared` is None if the entry in the catalogue can't be read. `lock` is None without a node. `next` is None if no
    tick will come. `last` is None if there is no entry, or it was not asked for. Texts are safe to print.
    """

    verdict: JobVerdict
    declared: CatalogueEntry | None = None
    lock: LockView | None = None
    next: int | None = None
    last: Entry | None = None

    @property
    def job(self) -> str:
        """The job's name."""
        return self.verdict.job

    @property
    def words(self) -> str | None:
        """What the schedule means, without its time zone."""
        return None if self.declared is None else without_place(self.declared.schedule)

    def to_json(self) -> dict[str, object]:
        """Return the row for programs: it always has every field, and instants are texts."""
        declared = self.declared
        return {
            **self.verdict.to_json(),
            "warning": self.verdict.is_warning,
            **schedule_fields(None if declared is None else declared.schedule),
            "words": self.words,
            "next": None if self.next is None else to_text(self.next),
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
    have no entry.
    """

    rows: tuple[Row, ...]
    others: tuple[LockView, ...]
    now: int


@dataclass(frozen=True, slots=True)
class Nodes:
    """What is judged: the entries of the catalogue, the nodes of all locks, and the groups, as they were at `now`.

    An entry that can't be read is None. `groups` is None where the security rules don't let this user read them.
    """

    catalogue: Mapping[str, CatalogueEntry | None]
    locks: Mapping[str, object]
    groups: tuple[Group, ...] | None
    now: int


class Status:
    """Reads the status of all jobs of one database. Every method raises StoreError."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def jobs(self) -> SeenJobs:
        """Return all jobs, with the newest entries of their histories."""
        return self.with_last(self.evaluate(self.read()))

    def read(self, catalogue: Mapping[str, CatalogueEntry | None] | None = None) -> Nodes:
        """Return the nodes to judge. A `catalogue` that was read before is not read again."""
        # All of it takes as long as a try to acquire at most.
        ends = self._database.deadline(self._database.settings.acquire_timeout)
        if catalogue is None:
            catalogue = self.catalogue(ends)
        locks = children(self._read(self._database.paths.locks, ends), self._database.paths.locks)
        try:
            groups = known_groups(self._read(self._database.paths.groups, ends))
        except Denied:
            groups = None  # the rules are older than the groups
        return Nodes(catalogue, locks, groups, self._database.now(ends))

    def catalogue(self, ends: Deadline | None = None) -> dict[str, CatalogueEntry | None]:
        """Return the entries of the catalogue, by the name of their job."""
        try:
            nodes = children(
                self._read(self._database.paths.jobs, ends or self._database.deadline()), self._database.paths.jobs
            )
        except Denied as error:
            remedy = "The rules may be older than the catalogue: deploy those that `firecron rules` prints"
            raise Denied(f"{self._database.paths.jobs} can't be read. {error} {remedy}") from error
        return {name: read_declared(name, node) for name, node in nodes.items()}

    def verdicts(self, nodes: Nodes) -> list[JobVerdict]:
        """Return the verdicts about all jobs, in the order of their names."""
        return [
            JobVerdict(plain(name), "unknown", why=_UNREADABLE, is_warning=True)
            if declared is None
            else evaluate(declared, nodes.locks.get(name), nodes.groups, nodes.now, self._database.margin)
            for name, declared in sorted(nodes.catalogue.items())
        ]

    def evaluate(self, nodes: Nodes, names: Collection[str] | None = None) -> SeenJobs:
        """Return all jobs, or those of these names, as these nodes show them, without entries of histories."""
        rows = (
            self._row(name, verdict, nodes)
            for name, verdict in zip(sorted(nodes.catalogue), self.verdicts(nodes), strict=True)
            if names is None or name in names
        )
        others = (
            self._view(name, node, nodes.now)
            for name, node in sorted(nodes.locks.items())
            if name not in nodes.catalogue
        )
        return SeenJobs(tuple(rows), tuple(others), nodes.now)

    def with_last(self, seen: SeenJobs, before: SeenJobs | None = None) -> SeenJobs:
        """Return the jobs with the newest entries of their histories: one request for each job.

        A job whose lock has not been acquired or released since the look `before`, nor just before it, has its entry
        from there.
        """
        known = {row.job: row for row in before.rows} if before is not None else {}

        def last(row: Row) -> Row:
            earlier = known.get(row.job)
            if before is not None and earlier is not None and _is_settled(earlier, row, before.now):
                return replace(row, last=earlier.last)
            return replace(row, last=self.last(row.job))

        with ThreadPoolExecutor(_AT_A_TIME) as pool:
            return replace(seen, rows=tuple(pool.map(last, seen.rows)))

    def last(self, name: str) -> Entry | None:
        """Return the newest entry of a job's history; None if it has none."""
        newest = self._database.store.newest(self._database.paths.runs_of(name), self._database.deadline())
        return None if newest is None else inspect_run(*newest)

    def _row(self, name: str, verdict: JobVerdict, nodes: Nodes) -> Row:
        declared, node = nodes.catalogue[name], nodes.locks.get(name)
        return Row(
            verdict,
            None if declared is None else _printable(declared),
            None if node is None else self._view(name, node, nodes.now),
            None if declared is None else _next_tick(declared, verdict, nodes.now),
        )

    def _view(self, name: str, node: object, now: int) -> LockView:
        return inspect_lock(name, self._database.paths.lock(name), node, now, self._database.margin)

    def _read(self, path: str, ends: Deadline) -> object:
        return self._database.store.read(path, ends.within(self._database.settings.request_timeout)).node


def _is_settled(earlier: Row, row: Row, at: int) -> bool:
    """Return whether the entry that was read `at` this time, with the row `earlier`, is still the newest."""
    changes, others = ([one.since, one.released_at] if one else [None, None] for one in (earlier.lock, row.lock))
    return changes == others and all(change is None or change < at - _SETTLED for change in changes)


def _next_tick(declared: CatalogueEntry, verdict: JobVerdict, now: int) -> int | None:
    if declared.disabled or verdict.word == "retired":
        return None
    return to_milliseconds(declared.schedule.after(to_datetime(now)))


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


# --- the report that is shared

HealthWord: TypeAlias = Literal["ok", "failing", "unknown"]


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
        """The word for a monitoring service. It is `unknown` if the database could not be read, or has no job."""
        if self.alarms:
            return "failing"
        return "ok" if any(verdict.is_judged for verdict in self.verdicts) else "unknown"

    def expecting(self, names: Iterable[str]) -> Report:
        """Return the report for a caller who says which jobs have to be there."""
        if self.problem is not None:
            return self
        absent = {verdict.job: verdict for verdict in undeclared(names, self.verdicts)}
        others = (verdict for verdict in self.verdicts if verdict.job not in absent)
        return replace(self, verdicts=(*absent.values(), *others))

    def to_json(self) -> dict[str, object]:
        """Return the report for programs: with the alarms alone."""
        return {"status": self.status, "jobs": [verdict.to_json() for verdict in self.alarms]}
