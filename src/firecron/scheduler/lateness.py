"""Lateness: an instance tells of its jobs that are late, and of their recovery, as events for logs and alerts.

Each lateness is told once by each instance that looks, however long it lasts: its first tick identifies it. Once the
job isn't late any more, the instance that has told of it says so.

Time is divided into intervals, the same for all. At its first beat in an interval an instance looks if it is among the
first three of its group by rank (`base/tickets`), or if the rank is not known, or if it has told of a late job. So the
requests of the looks don't grow with the fleet. The first look comes as soon as the rank is known: what is late may be
late since last night. Other instances are the first in the next interval. They pass over what is late for more than two
intervals, unless they have just started, so a lateness of hours isn't told by one instance after the other.

`judge` is handed in, because this room doesn't know how jobs are judged. A look waits for the database, so it is made
on another thread than the beats.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from firecron.base.workers import Crew
from firecron.jobs.registry import Registry
from firecron.lock.service import LockService

# What the rank is for.
_PLACE = "job.late"
_FIRST = 3
# In intervals: what is late for longer has been told, but by an instance that is younger than that.
_KNOWN = 2


@dataclass(frozen=True, slots=True)
class Judged:
    """What is said of one job: `verdict` is a word, `why` a sentence.

    `slot` is the first tick that is late, or None, and `age` is for how many milliseconds the job is late.
    """

    job: str
    verdict: str
    slot: str | None
    age: float
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

    def __init__(self, locks: LockService, registry: Registry, ranks: Ranks, scribe: Crew) -> None:
        self.judge: Judge | None = None
        self._events = locks.events
        self._clock = locks.clock
        self._interval = locks.settings.recovery_interval * 1000
        self._registry = registry
        self._ranks = ranks
        self._scribe = scribe
        self.forget()

    def forget(self) -> None:
        """Begin anew, as after a start."""
        # When the first beat came, on the monotonic clock, and the interval of the last one.
        self._began: float | None = None
        self._last: int | None = None
        self._had_rank = False
        # The first late tick of each job that was told of. It is replaced as a whole: two threads use it.
        self._told: Mapping[str, str] = {}

    def look_if_due(self) -> None:
        """Have the jobs looked at, if that is due and this instance's turn. This doesn't block."""
        judge, moment, rank = self.judge, self._clock.peek(), self._ranks.rank(_PLACE)
        if judge is None or moment is None:
            return
        before, self._last = self._last, int(moment.server // self._interval)
        self._began = moment.mono if self._began is None else self._began
        is_due = before not in (None, self._last) or (rank is not None and not self._had_rank)
        self._had_rank = self._had_rank or rank is not None
        if is_due and (rank is None or rank < _FIRST or self._told):
            is_new = moment.mono < self._began + _KNOWN * self._interval
            self._scribe.submit(lambda: self._look(judge, is_new=is_new))

    def _look(self, judge: Judge, *, is_new: bool) -> None:
        judged = judge.judged()
        if judged is None:
            return
        before = self._told
        mine = {job.name for job in self._registry.jobs() if self._registry.is_wanted(job)}
        found = [one for one in judged if one.job in mine]
        self._told = {
            one.job: one.slot
            for one in found
            if one.slot is not None and (one.job in before or is_new or one.age < _KNOWN * self._interval)
        }
        for one in found:
            now = self._told.get(one.job)
            if now != before.get(one.job):
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
