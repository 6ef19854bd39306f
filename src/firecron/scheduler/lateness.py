"""Lateness: who looks for late and stuck jobs, and when; and what is told of them, as events for logs and alerts.

Each lateness is reported once by each instance that looks, however long it lasts: its first tick identifies it. A job
that is stuck is identified by when that began. Once the job is neither, the instance that has reported it says so.
While a job is muted, nothing is said of it, and what is late then is looked for until that is over.

Time is divided into intervals, the same for all. At its first beat in an interval an instance looks if it is among the
first three of its group by rank (`base/tickets`), or if the rank is not known, or if it has reported a late job. So the
requests of the looks don't grow with the fleet. The first look comes as soon as the rank is known: what is late may be
late since last night. Other instances are the first in the next interval. They pass over what is late for more than two
intervals, unless they have just started, so a lateness of hours isn't reported by one instance after the other.

An instance looks for its own jobs alone. How they are judged is handed in (`Evaluator`), because this room doesn't know
it. A look waits for the database, and may read much, so it is made on a thread of its own.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from firecron.base.threads import Crew
from firecron.jobs.about import NOTHING, About
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.jobs.turns import emit_recovery, emit_trouble
from firecron.lock.database import Database
from firecron.runs.lanes import Lanes

# What the rank is for.
_PLACE = "job.late"
_FIRST = 3
# In intervals: what is late for longer has been reported, but by an instance that is younger than that.
_KNOWN = 2


# A word, and the tick or the time with which that began.
Mark: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Evaluated:
    """What is said of one job: `verdict` is a word, `why` a sentence.

    `slot` is the first tick that is late, or None. `since` is when the job got stuck, if that is known. `age` is for
    how many milliseconds the job is late or stuck. `about` is what its program says of it. If it `is_muted`, nobody is
    to be told.
    """

    job: str
    verdict: str
    slot: str | None
    age: float
    why: str
    about: About = NOTHING
    is_muted: bool = False
    since: int | None = None

    @property
    def mark(self) -> Mark | None:
        """What identifies that the job is late or stuck; None if it is neither."""
        if self.verdict == "stuck":
            return "stuck", str(self.since)
        return None if self.slot is None else ("late", self.slot)


class Ranks(Protocol):
    """Says how many instances come before this one."""

    def rank(self, what: str) -> float | None:
        """Return the rank for this work by the newest ticket; None if the size of the group is not known."""


class Evaluator(Protocol):
    """Judges jobs by what the database says of them."""

    def evaluate(
        self, jobs: Mapping[str, Job], claimed: Callable[[str], int | None], told: Collection[str], age: float
    ) -> Sequence[Evaluated] | None:
        """Return what is said of the jobs that may be late or were `told`; None if the database can't be read.

        `claimed` returns the newest tick of a job that was seen to be claimed. What is late for longer than `age`, in
        milliseconds, is of no interest.
        """


class Lateness:
    """Tells of the late jobs of the registry, once `evaluator` is set. The `crew` makes the looks."""

    def __init__(self, database: Database, registry: Registry, ranks: Ranks, lanes: Lanes, crew: Crew) -> None:
        self.evaluator: Evaluator | None = None
        # What else is done with each look: whoever tells people of all jobs looks as often.
        self.rounds: list[Callable[[], object]] = []
        self._database = database
        self._interval = database.settings.recovery_interval * 1000
        self._registry = registry
        self._ranks = ranks
        self._lanes = lanes
        self._crew = crew
        self.forget()

    def forget(self) -> None:
        """Begin anew, as after a start. A look that is under way tells nothing any more."""
        self._term = object()
        # When the first beat came, on the monotonic clock, and the interval of the last one.
        self._began: float | None = None
        self._last: int | None = None
        self._had_rank = False
        # What was reported of each job. It is replaced as a whole: two threads use it.
        self._told: Mapping[str, Mark] = {}
        # The jobs that are late or stuck, and of which nobody is to be told for now.
        self._muted: frozenset[str] = frozenset()

    def look_if_due(self) -> None:
        """Have the jobs looked at, if that is due and this instance's turn. This doesn't block."""
        evaluator, moment, rank = self.evaluator, self._database.clock.peek(), self._ranks.rank(_PLACE)
        if evaluator is None or moment is None:
            return
        before, self._last = self._last, int(moment.server // self._interval)
        self._began = moment.mono if self._began is None else self._began
        is_due = before not in (None, self._last) or (rank is not None and not self._had_rank)
        self._had_rank = self._had_rank or rank is not None
        is_first = rank is None or rank < _FIRST
        for look in self.rounds if is_due and is_first else ():
            self._crew.submit(look)
        if is_due and (is_first or self._told):
            is_new = moment.mono < self._began + _KNOWN * self._interval
            term = self._term
            age = math.inf if is_new else _KNOWN * self._interval
            self._crew.submit(lambda: self._read(evaluator, term, age))

    def _read(self, evaluator: Evaluator, term: object, age: float) -> None:
        before = self._told
        jobs = {job.name: job for job in self._registry.jobs(stored=False) if self._registry.is_wanted(job)}
        wanted = (before.keys() | self._muted) & jobs.keys()
        found = evaluator.evaluate(jobs, self._lanes.claimed, wanted, age)
        if found is None or term is not self._term:
            return
        muted = {one.job for one in found if one.is_muted}
        self._muted = frozenset(one.job for one in found if one.is_muted and one.mark is not None)
        self._told = {job: mark for job, mark in before.items() if job in muted} | {
            one.job: one.mark
            for one in found
            if one.mark is not None and not one.is_muted and (one.job in before or one.age < age)
        }
        for one in found:
            now = self._told.get(one.job)
            if now != before.get(one.job):
                self._emit_turn(one, now, before.get(one.job))

    def _emit_turn(self, evaluated: Evaluated, now: Mark | None, before: Mark | None) -> None:
        events, name, why, about = self._database.events, evaluated.job, evaluated.why, evaluated.about
        if now is not None and now[0] == "stuck":
            emit_trouble(events, "stuck", name, why, about)
        elif now is not None:
            emit_trouble(events, "late", name, why, about, slot=evaluated.slot)
        elif before is not None:
            was, mark = before
            slot = mark if was == "late" else None
            emit_recovery(events, was, name, why, about, slot=slot, verdict=evaluated.verdict)
