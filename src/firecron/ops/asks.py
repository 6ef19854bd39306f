"""The operator's side of asks: somebody asks for a run, where no code of the job is at hand (`lock/asks`).

    found = RunAsks(Database()).ask("digest", why="the feed was late")
    if isinstance(found, NotAsked): ...

What would be refused is not asked for: a job that only a trigger runs, that is disabled or paused, a tick that is
claimed already. What may still change, such as a held lock, an instance that takes it finds out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Literal

from firecron.base.instants import to_datetime, to_text
from firecron.cron.schedule import is_tick, newest_tick
from firecron.errors import Denied
from firecron.jobs.catalogue import CatalogueEntry, live_groups_of, read_declared, read_groups
from firecron.lock.asks import AskedRun, AskKind, Asks, new_ask
from firecron.lock.audit_log import LONGEST_WHO
from firecron.lock.database import Database
from firecron.lock.fields import reason
from firecron.ops.operator import Operator
from firecron.ops.remedy import Remedy, command, mending
from firecron.ops.views import LockView, claimed_user, inspect_lock
from firecron.runs.policy import check_key
from firecron.store import check_name


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Why nobody was asked: a word for programs, a sentence, and what to do. `standing` is the ask that is there."""

    word: str
    why: str
    remedy: Remedy | None = None
    standing: AskedRun | None = None


@dataclass(frozen=True, slots=True)
class Asked:
    """An ask that was made. `is_attended` says whether a live instance has the job, None if that can't be known."""

    ask: AskedRun
    is_attended: bool | None

    def to_json(self) -> dict[str, object]:
        """Return it for programs."""
        return {"job": self.ask.job, "ask": self.ask.to_json(), "attended": self.is_attended}


def why_not_askable(declared: CatalogueEntry | None, lock: LockView | None) -> NotAsked | None:
    """Return why nobody may be asked to run this job, given its lock (None without a node); None if one may."""
    if declared is None:
        return NotAsked("unknown", "its entry in the catalogue can't be read")
    if declared.stored is not None:
        remedy = Remedy("see its schedules", None, command("schedules", declared.name))
        return NotAsked("stored", "it has no schedule of its own: it runs by stored schedules", remedy)
    if not declared.ticks:
        return NotAsked("no_ticks", "no instance runs it by itself: only a trigger does", Remedy("call its trigger"))
    if declared.disabled:
        return NotAsked("disabled", "it is declared disabled")
    if lock is not None and lock.state == "malformed":
        return NotAsked("malformed", "nobody can claim its node", mending(declared.name, lock.path))
    if lock is not None and lock.is_leaders:
        return NotAsked("leader", "it is a leader, which is elected and not run")
    if lock is not None and lock.is_paused:
        return NotAsked("paused", "it is paused", Remedy("resume it", "resume", command("resume", declared.name)))
    return None


class RunAsks:
    """Asks for runs of the jobs of one database."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def ask(
        self,
        name: str,
        *,
        slot: datetime | Literal["now"] | None = None,
        resume: str | None = None,
        why: str | None = None,
        by: str | None = None,
    ) -> Asked | NotAsked:
        """Ask for a run of this job: without a tick, of the missed tick `slot`, or of the tick to `resume`.

        `slot` may be `now`: the newest tick within the job's grace. Raise StoreError if it is not known whether the ask
        was written, and ConfigurationError for a name or a key that can be none.
        """
        database, paths = self._database, self._database.paths
        node = database.node(paths.job(check_name(name)))
        if node is None:
            return NotAsked("unknown_job", f"no job {name} is in the catalogue")
        declared, now = read_declared(name, node), database.now(database.deadline())
        lock = database.node(paths.lock(name))
        view = None if lock is None else inspect_lock(name, paths.lock(name), lock, now, database.margin)
        refused = why_not_askable(declared, view)
        if refused is not None or declared is None:
            return refused or NotAsked("unknown", "its entry in the catalogue can't be read")
        kind: AskKind = "run"
        tick: str | None = None
        if resume is not None:
            kind, tick = "resume", check_key(resume)
            if not (declared.once_per_tick and declared.has_lease):
                return NotAsked("no_steps", "it has no steps, so no tick of it can be resumed")
        elif slot is not None:
            kind = "slot"
            found = self._tick(declared, view, slot, now)
            if isinstance(found, NotAsked):
                return found
            tick = found
        ask = new_ask(name, (by or claimed_user())[:LONGEST_WHO], now, reason(why), kind, tick)
        standing = Asks(database).make(ask)
        if standing is not None:
            return NotAsked("asked", f"{standing}, and that is still to be run", standing=standing)
        Operator(database).record("ask", name, why, by=by)
        return Asked(ask, self._is_attended(name, now))

    def _tick(
        self, declared: CatalogueEntry, lock: LockView | None, slot: datetime | Literal["now"], now: int
    ) -> str | NotAsked:
        if slot == "now":
            slot = newest_tick(declared.schedule, to_datetime(now), declared.grace / 1000)
        tick = to_text(slot)
        if not is_tick(declared.schedule, tick):
            return NotAsked("no_tick", f"{tick} is no tick of {declared.name}")
        if tick > to_text(now):
            return NotAsked("slot_early", "that tick is still to come", Remedy("wait for the tick"))
        if lock is not None and lock.slot is not None and tick <= lock.slot:
            why = "somebody was faster: that tick, or a later one, is claimed already"
            return NotAsked("slot_done", why, Remedy("see how its runs have ended", None, command("runs", lock.name)))
        return tick

    def _is_attended(self, name: str, now: int) -> bool | None:
        try:
            groups = read_groups(self._database.node(self._database.paths.groups))
        except Denied:
            return None
        return bool(live_groups_of(name, groups, now))
