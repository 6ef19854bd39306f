"""Lateness: an instance tells of its jobs that are late, and of their recovery, as events for logs and alerts.

Each lateness is told once by each instance that looks, however long it lasts: its first tick identifies it. Once the
job isn't late any more, the instance that has told of it says so.

Few instances look: at each beat the first three of a group by their rank (`base/tickets`), and those that have told of
a late job, each of them once in an interval at most. Where the rank is not known, an instance looks once in an
interval. So the requests of the looks don't grow with the fleet. The first look comes as soon as the rank is known:
what is late may be late since last night.

Who judges the jobs is handed in, because this room doesn't know how to. A look waits for the database, so it is made on
another thread than the beats.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from firecron.base.clocks import Timing
from firecron.base.workers import Crew
from firecron.jobs.registry import Registry
from firecron.lock.service import LockService

# What the rank is for.
_PLACE = "job.late"
_FIRST = 3


@dataclass(frozen=True, slots=True)
class Judged:
    """What is said of one job: `verdict` is a word, `slot` the first tick that is late, or None, `why` a sentence."""

    job: str
    verdict: str
    slot: str | None
    why: str


class Ranks(Protocol):
    """Says how many instances come before this one."""

    def rank(self, what: str) -> float | None:
        """Return the rank for this work by the newest ticket; None if the size of the group is not known."""


class Judge(Protocol):
    """Judges the jobs by what the database says of them."""

    def judged(self) -> Sequence[Judged] | None:
        """Return what is said of each job; None if the database can't be read."""


class Lateness:
    """Tells of the late jobs of the registry, once `judge` is set. The crew `scribe` makes the looks."""

    def __init__(self, locks: LockService, timing: Timing, registry: Registry, ranks: Ranks, scribe: Crew) -> None:
        self.judge: Judge | None = None
        self._events = locks.events
        self._interval = locks.settings.recovery_interval * 1000
        self._timing = timing
        self._registry = registry
        self._ranks = ranks
        self._scribe = scribe
        self.forget()

    def forget(self) -> None:
        """Begin anew, as after a start."""
        self._has_looked = False
        # When the next look is due, on the monotonic clock.
        self._due = self._timing.mono() + self._interval
        # The first late tick of each job that was told of. It is replaced as a whole: two threads use it.
        self._told: Mapping[str, str] = {}

    def look_if_due(self) -> None:
        """Have the jobs looked at, if that is due and this instance's turn. This doesn't block."""
        judge, now, rank = self.judge, self._timing.mono(), self._ranks.rank(_PLACE)
        is_first = rank is not None and rank < _FIRST
        is_due = now >= self._due or (is_first and not self._has_looked)
        if judge is None or not is_due or not (is_first or rank is None or self._told):
            return
        self._has_looked, self._due = True, now + self._interval
        self._scribe.submit(lambda: self._look(judge))

    def _look(self, judge: Judge) -> None:
        judged = judge.judged()
        if judged is None:
            return
        mine = {job.name for job in self._registry.jobs() if self._registry.is_wanted(job)}
        before = self._told
        self._told = {one.job: one.slot for one in judged if one.job in mine and one.slot is not None}
        for one in judged:
            if one.job in mine and one.slot != before.get(one.job):
                self._tell(one, before.get(one.job))

    def _tell(self, judged: Judged, before: str | None) -> None:
        name, why = judged.job, judged.why
        if judged.slot is not None:
            self._events.emit("job.late", name, logging.WARNING, f'"{name}" is late: {why}', slot=judged.slot, why=why)
        else:
            message = f'"{name}" is not late any more: {why}'
            self._events.emit(
                "job.recovered", name, logging.INFO, message, slot=before, verdict=judged.verdict, why=why
            )
