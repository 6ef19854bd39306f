"""The entries of a stored job as rows of their own: verdict, lock, next tick, and what can be done to each. Pure.

An entry is judged as a job that has the declaration of its stored job, and a schedule of its own (`health`). But it is

    retired       if it is closed: nobody claims it until it is put again
    stuck         if its schedule or its arguments can't be read
    what its job is, where that keeps it from running: paused, disabled, taken out, or without a live instance
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import inf

from firecron.base.instants import number
from firecron.cron.schedule import due_after
from firecron.jobs.catalogue import CatalogueEntry
from firecron.lock.database import Database
from firecron.lock.stored import is_closed
from firecron.ops.health import JobVerdict, VerdictWord, evaluate
from firecron.ops.remedies import acts_on, remedy_of, state_of
from firecron.ops.remedy import ActWord, Remedy, command
from firecron.ops.schedules import StoredSchedule, read_entry
from firecron.ops.status import Row, by_lock
from firecron.ops.views import LockView, inspect_lock
from firecron.store import entry_name

# What an entry has in common with its job.
_SHARED: frozenset[VerdictWord] = frozenset({"paused", "unattended", "retired"})
_CLOSED = {
    "removed": "it was removed",
    "over": "it is over: no tick is left",
    "missed": "its only tick was missed",
}


@dataclass(frozen=True, slots=True)
class EntryRow:
    """An entry at one instant: what is stored of it, and its row. `declared` is None if its schedule can't be read."""

    entry: StoredSchedule
    row: Row

    @property
    def declared(self) -> CatalogueEntry | None:
        return self.row.declared

    def acts(self, *, can_run: bool) -> list[ActWord]:
        """Return what can be done to the entry, the primary act first. It is no job of the catalogue to forget."""
        verdict, lock = self.row.verdict, self.row.lock
        return [act for act in acts_on(state_of(verdict, lock), lock, can_run=can_run) if act != "forget"]

    def to_json(self) -> dict[str, object]:
        """Return the row for programs, as that of a job, with what is stored in `entry`: without what both have."""
        row, entry = self.row.to_json(), self.entry.to_json()
        return {**row, "entry": {name: value for name, value in entry.items() if name not in row}}


def entry_row(
    declared: CatalogueEntry, key: str, node: object, now: int, database: Database, job: JobVerdict | None
) -> EntryRow:
    """Return the row of the entry that this node is: of a job that is `declared` so, with this verdict about it."""
    name, fields = entry_name(declared.name, key), node if isinstance(node, dict) else {}
    margin = database.margin
    entry = read_entry(declared.name, key, node, now, database)
    lock = inspect_lock(name, database.paths.lock(name), node, now, margin)
    if entry.schedule is None:
        return EntryRow(entry, Row(_unreadable(entry, lock), lock=lock, last=by_lock(lock)))
    own = replace(declared, name=name, schedule=entry.schedule, since=number(fields.get("since")), stored=None)
    next_tick = inf if is_closed(fields) else due_after(entry.schedule, max(now, own.since or 0))
    verdict = _judge(own, entry, fields, lock, now, margin, job)
    following = None if next_tick == inf else int(next_tick)
    return EntryRow(entry, Row(verdict, own, lock, following, by_lock(lock)))


def _judge(
    own: CatalogueEntry,
    entry: StoredSchedule,
    node: Mapping[str, object],
    lock: LockView,
    now: int,
    margin: int,
    job: JobVerdict | None,
) -> JobVerdict:
    if is_closed(node):
        return _unreadable(entry, lock)
    # A look that has passed a tick over has said what became of it.
    passed = max(own.since or 0, number(node.get("passed")) or 0)
    verdict = evaluate(replace(own, since=passed), node, None, now, margin)
    if job is not None and job.word in _SHARED and verdict.word in ("ok", "late", "failing"):
        return replace(job, job=own.name, why=f"with its job: {job.why}", is_warning=False, mute=None)
    return replace(verdict, remedy=remedy_of(verdict, own, lock, now))


def _unreadable(entry: StoredSchedule, lock: LockView) -> JobVerdict:
    """Return the verdict about an entry that has no schedule, because it is closed or can't be read."""
    said = f": {entry.why}" if entry.why else ""
    if entry.is_closed or entry.state == "removed":
        return JobVerdict(entry.name, "retired", why=f"{_CLOSED.get(entry.state, 'it is closed')}{said}")
    shown = command("schedule", "show", *entry.name.split(":"))
    remedy = Remedy("put it again, with what is right", "mend" if lock.state != "held" else None, shown)
    return JobVerdict(entry.name, "stuck", why=f"no instance runs it{said}", remedy=remedy)
