"""Takers of asks: which instances look for the runs that operators have asked for (`lock/asks`), and when.

A rank is by the instance's newest ticket (`base/tickets`), as for other work of a group:

    rank below 3        follows `cron-asks` by one stream, and hears of an ask at once. Without a stream it looks at
                        each beat. It tries an ask that has to wait, as for the lock, every few seconds
    rank not known      looks at each beat, and tries again as well
    any other           looks at a beat by chance, with 12 / size, and tries an ask once

So the requests of the looks don't grow with the fleet: 12 a heartbeat, and as many streams as three instances open. An
instance tries for an ask only if it would run the job by its schedule, too, and has a free worker.

An instance that sees an ask that is over removes it, whether it has the job or not, and says why it was not run. The
lock, the live groups and the history say why: the taker may have died after the run was recorded.

No method blocks. What waits for the database is done on a thread of its own, and a run on a worker's.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol

from firecron.base.clocks import backoff
from firecron.base.events import LastValues
from firecron.base.flag import in_each_process
from firecron.base.instants import number
from firecron.base.texts import plain
from firecron.base.threads import Crew
from firecron.errors import ConfigurationError, Denied, Stopping, StoreError, UnknownJob
from firecron.jobs.catalogue import live_groups_of, read_declared, read_groups
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry, Result
from firecron.lock.asks import VALID, AskedRun, Asks, Taking, may_be_claimed_for, read_asks
from firecron.lock.database import Database
from firecron.lock.fields import is_paused
from firecron.lock.refusal import Refusal
from firecron.lock.waiting import Follow
from firecron.runs.entry import MANUAL, read_entry
from firecron.runs.lanes import Lanes
from firecron.runs.runner import Runner

# What the rank is for.
_PLACE = "asks"
_FIRST = 3
_LOOKS = 12
# The longest pause between two tries, in seconds.
_LONGEST = 3.0
# Within this time after its release a run has its entry in the history, in milliseconds.
_RECORDED = 60_000
# Nobody can run these later either.
_FINAL = ("slot_done", "slot_early", "malformed")


class GroupPlace(Protocol):
    """Says how many instances there are, and how many come before this one."""

    def size(self) -> float | None:
        """Return the size of the group; None if it is not known."""

    def rank(self, what: str) -> float | None:
        """Return the rank for this work by the newest ticket; None if the size of the group is not known."""


@dataclass
class _Known:
    """What this process knows of an ask: its own token for it, and whether it tries for it, or has begun its run.

    Also whether the ask was found gone, or taken by another one: no watch makes it free again. `plan` is the next try,
    until that begins. `refused` is why the last try has not run it.
    """

    token: str = field(default_factory=lambda: secrets.token_hex(6))
    tries: int = 0
    is_tried: bool = False
    plan: object = None
    has_begun: bool = False
    is_gone: bool = False
    is_others: bool = False
    refused: Refusal | None = None


class AskTaker:
    """Looks for asks at the beats, and takes them. The `looks` are a crew for what waits, `crew` runs the jobs."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        runner: Runner,
        group: GroupPlace,
        lanes: Lanes,
        crew: Crew,
        looks: Crew,
    ) -> None:
        self._database = database
        self._asks = Asks(database)
        self._registry = registry
        self._runner = runner
        self._group = group
        self._lanes = lanes
        self._crew = crew
        self._looks = looks
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()
        self._known: LastValues[str, _Known] = LastValues()
        self._follow: Follow | None = None
        self._is_first = False
        self._has_failed = False

    def forget(self) -> None:
        """Follow the asks no more, and drop the planned tries: after another start they are tried again."""
        with self._lock:
            self._is_first = False
            for known in filter(None, map(self._known.get, self._known)):
                if known.plan is not None:
                    known.plan, known.is_tried = None, False
        self._follow_if(False)

    def look_if_due(self) -> None:
        """Follow the asks, or have somebody look at them, if that is this instance's turn."""
        if self._runner.stopping or not self._registry.jobs():
            return
        rank, size = self._group.rank(_PLACE), self._group.size()
        self._is_first = rank is None or rank < _FIRST
        self._follow_if(rank is not None and rank < _FIRST and self._database.streams.can_watch)
        follow = self._follow
        if follow is not None and follow.fresh() is not None:
            self._heard()  # what has waited since it was heard of may be over
            return
        if self._is_first or size is None or self._database.chance() < _LOOKS / size:
            self._looks.submit(self._look)

    def _follow_if(self, wants: bool) -> None:
        follow = self._follow
        if wants and follow is None:
            self._follow = follow = Follow(self._database.paths.asks, self._heard)
            self._database.streams.add(follow)
        elif not wants and follow is not None:
            self._follow = None
            self._database.streams.discard(follow)

    def _heard(self) -> None:
        follow = self._follow
        update = None if follow is None else follow.fresh()
        if update is not None and update.node is not None:
            self._looks.submit(lambda: self._see(read_asks(update.node)))

    def _look(self) -> None:
        try:
            asks = self._asks.read()
        except StoreError as error:
            self._complain(error)
            return
        self._has_failed = False
        self._see(asks)

    def _see(self, asks: Mapping[str, AskedRun]) -> None:
        moment = self._database.clock.peek()
        for ask in () if moment is None else asks.values():
            known = self._known_of(ask)
            if known.is_gone:
                continue
            if moment is not None and ask.is_over(moment.server):
                self._clear(ask)
            elif known.has_begun:
                self._remove(ask)  # the first time has failed
            elif not known.is_others and ask.taken_by in (None, known.token) and not self._crew.is_full:
                self._try(ask)

    def _known_of(self, ask: AskedRun) -> _Known:
        with self._lock:
            known = self._known.get(ask.id)
            if known is None:
                known = _Known()
                self._known.put(ask.id, known)
            return known

    # --- the run

    def _try(self, ask: AskedRun) -> None:
        job, known = self._job_of(ask), self._known_of(ask)
        with self._lock:
            if job is None or known.is_tried:
                return
            known.is_tried = True
            known.plan = plan = object()
        self._crew.submit(partial(self._run, job, ask, known, plan))

    def _job_of(self, ask: AskedRun) -> Job | None:
        """Return the job, if this instance would run it by its schedule."""
        try:
            job = self._registry.get(ask.job)
        except UnknownJob:
            return None
        return job if self._runner.wants(job) else None

    def _run(self, job: Job, ask: AskedRun, known: _Known, plan: object) -> None:
        """Run what is asked for, if it still is, and if this is the plan. If that has to wait, plan another try."""
        with self._lock:
            if known.plan is not plan:
                return
            known.plan = None
        tries_again = False
        try:
            tries_again = self._run_or_wait(job, ask, known)
        except Stopping:
            pass  # others look, too
        except StoreError as error:
            self._complain(error)
            tries_again = True
        finally:
            is_here = self._job_of(ask) is job
            with self._lock:
                known.tries += tries_again
                known.is_tried = tries_again and self._is_first and is_here
                known.plan = next_plan = object() if known.is_tried else None
            if next_plan is not None:
                pause = min(backoff(known.tries + 2, self._database.chance()), _LONGEST)
                again: Callable[[], None] = partial(self._run, job, ask, known, next_plan)
                self._lanes.agenda.after(pause, lambda: self._crew.submit(again))

    def _run_or_wait(self, job: Job, ask: AskedRun, known: _Known) -> bool:
        """Return whether to try again. Raise StoreError, and Stopping."""
        found = self._asks.read().get(ask.job)
        known.is_gone = found is None or found.id != ask.id
        known.is_others = found is not None and found.taken_by not in (None, known.token)
        if known.is_gone or known.is_others:
            return False
        moment = self._database.clock.peek()
        if moment is not None and ask.is_over(moment.server):
            self._clear(ask)
            return False
        taking = Taking(self._database, ask, known.token, partial(self._begun, ask, known))
        try:
            result = self._result(job, ask, taking)
        except ConfigurationError as error:
            self._decline(ask, str(error))
            return False
        known.refused = result.refusal
        if result.refusal is None:
            return False
        if result.refusal.reason not in _FINAL:
            return True
        moment = self._database.clock.peek()
        if may_be_claimed_for(ask, result.refusal, job.options.has_lease, None if moment is None else moment.server):
            return True
        self._decline(ask, _why_final(ask, result.refusal))
        return False

    def _result(self, job: Job, ask: AskedRun, taking: Taking) -> Result:
        if ask.kind == "slot" and ask.tick is not None:
            return self._runner.run_tick(job, ask.tick, "manual", taking)
        return self._runner.run_manually(job, "manual", ask.tick, taking)

    def _begun(self, ask: AskedRun, known: _Known) -> None:
        known.has_begun = True
        message = f'"{ask.job}" runs because {ask}'
        self._database.events.emit(
            "ask.taken", ask.job, logging.INFO, message, id=ask.id, by=plain(ask.by), kind=ask.kind, slot=ask.tick
        )
        self._looks.submit(lambda: self._remove(ask))

    # --- the end of an ask

    def _remove(self, ask: AskedRun) -> None:
        try:
            self._asks.remove(ask)
            self._known_of(ask).is_gone = True
        except StoreError as error:
            self._complain(error)

    def _decline(self, ask: AskedRun, why: str) -> None:
        if self._asks.decline(ask, why):
            self._emit_lapse(ask, why)

    def _clear(self, ask: AskedRun) -> None:
        """Remove an ask that is over, and say why it was not run. What fails is done again, by whoever looks next."""
        try:
            if self._may_go_on(ask):
                return
            why = self._why(ask)
            is_removed = self._asks.remove(ask)
            self._known_of(ask).is_gone = True
            if is_removed and why is not None:
                self._asks.lapse(ask, why)
                self._emit_lapse(ask, why)
        except StoreError as error:
            self._complain(error)

    def _may_go_on(self, ask: AskedRun) -> bool:
        """Return whether the run of an ask that is over may be under way, or without its entry yet. Raise StoreError.

        Its taker could not remove the ask then, and only the entry shows that it was run.
        """
        if ask.taken_by is None or self._known_of(ask).has_begun:
            return False
        database = self._database
        node = database.node(database.paths.lock(ask.job))
        fields = node if isinstance(node, dict) else {}
        acquired, released = number(fields.get("acquiredAt")), number(fields.get("releasedAt"))
        # The taker has acquired the lock while the ask was valid.
        if acquired is None or not -database.margin <= acquired - ask.at <= VALID + database.margin:
            return False
        ends = (number(fields.get("expiresAt")) or 0) if released is None else released + _RECORDED
        return database.now(database.deadline()) < ends

    def _why(self, ask: AskedRun) -> str | None:
        """Return why an ask that is over was not run; None if it was. Raise StoreError."""
        database = self._database
        if ask.taken_by is not None:
            if self._known_of(ask).has_begun or self._is_in_history(ask):
                return None
            declared = read_declared(ask.job, database.node(database.paths.job(ask.job)))
            if declared is not None and not declared.has_lease:
                return "the instance that took it died, could not begin in time, or runs it still: it has no lock"
            return "the instance that took it died, or could not begin in time"
        now = database.clock.now(database.deadline()).server
        try:
            groups = read_groups(database.node(database.paths.groups))
        except Denied:
            groups = None
        if groups is not None and not live_groups_of(ask.job, groups, now):
            return "no live instance has the job"
        node = database.node(database.paths.lock(ask.job))
        fields = node if isinstance(node, dict) else {}
        if is_paused(fields, now):
            return "it is paused"
        claimed = fields.get("slot")
        if ask.kind == "slot" and isinstance(claimed, str) and claimed >= str(ask.tick):
            return f"{ask.tick}, or a later tick, was claimed before"
        if fields.get("releasedAt") is None and now < (number(fields.get("expiresAt")) or 0):
            return f"its lock was held, by {plain(str(fields.get('instanceId')))}/{plain(str(fields.get('instance')))}"
        refused = self._known_of(ask).refused
        return "no instance took it in time" if refused is None else f"no instance could: {refused.message}"

    def _is_in_history(self, ask: AskedRun) -> bool:
        """Return whether the run of an ask has ended, by its entry: that of its tick may be of an earlier attempt."""
        database, paths = self._database, self._database.paths
        if ask.tick is None:
            keys = database.store.keys(paths.runs_of(ask.job), database.deadline())
            return any(key.endswith(f"{MANUAL}{ask.id}") for key in keys)
        started = read_entry(ask.tick, database.node(paths.run(ask.job, ask.tick))).started_at
        return started is not None and started >= ask.at - database.margin

    def _emit_lapse(self, ask: AskedRun, why: str) -> None:
        self._database.events.emit(
            "ask.lapsed",
            ask.job,
            logging.WARNING,
            f"{ask}, and it was not run: {why}",
            id=ask.id,
            by=plain(ask.by),
            kind=ask.kind,
            slot=ask.tick,
            why=why,
        )

    def _complain(self, error: StoreError) -> None:
        level = logging.DEBUG if self._has_failed else logging.WARNING
        self._has_failed = True
        message = f"What operators have asked for could not be read or written, and is looked for again: {error}"
        self._database.events.emit("ask.failed", "asks", level, message, why=str(error))


def _why_final(ask: AskedRun, refusal: Refusal) -> str:
    if refusal.reason == "slot_done" and refusal.unfinished == ask.tick:
        # The lock is free again: whoever claimed the tick has not run it to its end.
        again = f"firecron ask {ask.job} --resume {ask.tick}"
        return f"{ask.tick} was claimed by an instance that died, or gave it up: {again} asks for another attempt"
    return refusal.message
