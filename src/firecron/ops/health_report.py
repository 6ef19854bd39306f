"""The verdicts about all jobs, shared by all who ask: `/health`, the page, and the rounds that tell of late jobs.

The database is read at most once in ten seconds, however many callers ask, and by one of them at a time: the others
wait for what it finds. The catalogue is read once in five minutes, and when there is a new group of instances: its
revision may have declared other schedules, by which no tick is late. A read that failed is shared as well, so that a
database that is away isn't asked by each caller in turn.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from firecron.base.clocks import Timing
from firecron.base.forks import tell_after_fork
from firecron.base.instants import to_text
from firecron.errors import StoreError
from firecron.jobs.catalogue import Declared
from firecron.lock.service import LockService
from firecron.ops.health import JobVerdict
from firecron.ops.status import Status
from firecron.scheduler.lateness import Judged

HealthWord: TypeAlias = Literal["ok", "failing", "unknown"]

# For how long what was read is shared, in milliseconds.
_FRESH = 10_000
_CATALOGUE_FRESH = 300_000


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
        """The word for a monitoring service. It is `unknown` if the database could not be read."""
        if self.problem is not None:
            return "unknown"
        return "failing" if self.alarms else "ok"

    def to_json(self) -> dict[str, object]:
        """Return the report for programs: with the alarms alone."""
        return {"status": self.status, "jobs": [verdict.to_json() for verdict in self.alarms]}


class HealthReport:
    """Makes the report of the jobs of one database. All threads may share it."""

    def __init__(self, locks: LockService, timing: Timing) -> None:
        self._status = Status(locks)
        self._events = locks.events
        self._timing = timing
        self._lock = threading.Lock()
        self._report = Report()
        self._until = -math.inf
        self._catalogue: Mapping[str, Declared | None] = {}
        self._catalogue_until = -math.inf
        self._groups: Set[str] = frozenset()
        tell_after_fork(self)

    def get(self) -> Report:
        """Return the report, which is at most ten seconds old. It blocks while the database is read."""
        with self._lock:
            if self._timing.mono() >= self._until:
                before, self._report = self._report, self._read()
                self._until = self._timing.mono() + _FRESH
                if self._report.problem is not None and before.problem is None:
                    self._complain(self._report.problem)
            return self._report

    def judged(self) -> Sequence[Judged] | None:
        """Return the verdict about each job; None if the database can't be read."""
        report = self.get()
        if report.problem is not None:
            return None
        return [_judged(verdict, report.now) for verdict in report.verdicts]

    def after_fork(self) -> None:
        """Replace the lock in a forked child: a thread that only the parent has may hold it."""
        self._lock = threading.Lock()

    def _read(self) -> Report:
        try:
            is_fresh = self._timing.mono() < self._catalogue_until
            nodes = self._status.read(self._catalogue if is_fresh else None)
            groups = {group.name for group in nodes.groups or ()}
            if is_fresh and not groups <= self._groups:
                nodes, is_fresh = replace(nodes, catalogue=self._status.catalogue()), False
            if not is_fresh:
                self._catalogue, self._groups = nodes.catalogue, groups
                self._catalogue_until = self._timing.mono() + _CATALOGUE_FRESH
            return Report(tuple(self._status.verdicts(nodes)), nodes.now)
        except StoreError as error:
            return Report(problem=str(error))

    def _complain(self, why: str) -> None:
        message = f"The jobs can't be judged, so it is not known whether one is late: {why}"
        self._events.emit("health.unknown", "firecron", logging.WARNING, message, why=why)


def _judged(verdict: JobVerdict, now: int) -> Judged:
    slot = None if verdict.due is None else to_text(verdict.due)
    return Judged(verdict.job, verdict.word, slot, 0 if verdict.since is None else now - verdict.since, verdict.why)
