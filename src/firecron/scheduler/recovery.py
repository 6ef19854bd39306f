"""Recovery: regular looks for what did not run. What can be made up for is begun, and what is late is reported.

    Recovery    looks for died runs and missed ticks of all jobs that rerun or catch up
    Lateness    reports the jobs that are late, and their recovery, as events for logs and alerts

A round reads the record of each such job. If a run has died or a tick was missed, the job takes a turn. If the lock is
held, the job is looked at again when that lock expires.

The records of a few jobs are read one by one. For many jobs two requests are enough: the names of all nodes, and then
all nodes at once, if most of them belong to these jobs and they are not too many. A round keeps to its deadline, and
ends at once if the database can't be reached. The next call goes on with the jobs that are left.

Each lateness is reported once by each instance that looks, however long it lasts: its first tick identifies it. Once
the job isn't late any more, the instance that has reported it says so.

Time is divided into intervals, the same for all. At its first beat in an interval an instance looks if it is among the
first three of its group by rank (`base/tickets`), or if the rank is not known, or if it has reported a late job. So the
requests of the looks don't grow with the fleet. The first look comes as soon as the rank is known: what is late may be
late since last night. Other instances are the first in the next interval. They pass over what is late for more than two
intervals, unless they have just started, so a lateness of hours isn't reported by one instance after the other.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from firecron.base.clocks import Deadline, Moment
from firecron.base.threads import Crew
from firecron.errors import Denied, Malformed
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.lock.database import Database
from firecron.lock.record import LockRecord, parse
from firecron.runs.policy import missed, needs_rerun
from firecron.runs.runner import Runner
from firecron.runs.turn import Agenda, WantedClaim

# Up to this many jobs are read one by one.
FEW = 10
# All nodes are read at once if there are at most this many for each job: in one reply with others a record costs less
# than half the bytes, and no round trip.
MOST_FOR_EACH = 2
# All nodes are read at once if there are at most this many: less than a megabyte.
MOST_AT_ONCE = 2_000


class Recovery:
    """Makes rounds over the jobs of the registry that the runner wants. The turns go to the `agenda`.

    `due` is when the next round is due, on the monotonic clock: at the start, then an interval after the last round
    began.
    """

    def __init__(self, database: Database, registry: Registry, runner: Runner, agenda: Agenda) -> None:
        self._database = database
        self._interval = database.settings.recovery_interval
        self._registry = registry
        self._runner = runner
        self._agenda = agenda
        self._left: deque[Job] = deque()
        self._pending: set[str] = set()
        self.due = 0.0

    def start(self) -> None:
        """Make the first round due now."""
        self.due = self._database.timing.mono()

    def make_if_due(self, ends: float, begins: bool | None = None) -> bool:
        """Make a round, or go on with one, if it is due. Stop at `ends` on the monotonic clock.

        `begins` says whether one is due, None: at the start, and when the interval is over.
        Return whether a round was completed. Raise StoreError; the next call goes on with the round.
        """
        timing = self._database.timing
        began = timing.mono()
        is_due = began >= self.due if begins is None else begins or bool(self._left)
        # Without RTDB's time a round can't tell whether a lock has expired.
        if (
            not is_due
            or self._database.clock.peek() is None
            or not self.make(Deadline(self._database.timing.mono, ends))
        ):
            return False
        self.due = began + self._interval * 1000
        return True

    def make(self, deadline: Deadline) -> bool:
        """Look at all jobs, or at those that the last call left. Return whether none is left. Raise Unavailable."""
        left = self._left = self._left or deque(
            job for job in self._registry.jobs() if self._registry.is_wanted(job) and job.options.needs_recovery
        )
        nodes = self._read_all(left, deadline) if len(left) > FEW else None
        while left:
            moment = self._database.clock.peek()
            if moment is None or deadline.remaining() <= 0:
                return False
            job, node = left[0], None
            if self._runner.wants(job):  # asked again for each job: the instance may stop, and jobs are removed
                node = self._read(job, deadline) if nodes is None else nodes.get(job.name)
            left.popleft()
            self._evaluate(job, node, moment)
        return True

    def look_again(self, job: Job, instant: int) -> None:
        """Plan one more look at the job, at the instant when a lock that was seen expires, in case its run dies."""
        if job.name in self._pending:
            return
        self._pending.add(job.name)

        def look() -> None:
            self._pending.discard(job.name)
            if self._runner.wants(job):
                self._take_turn(job, insists=True)

        self._agenda.at(instant, look)

    def forget(self) -> None:
        """Drop the jobs that a round has left, and the looks that are planned."""
        self._left = deque()
        self._pending.clear()

    def _read_all(self, left: deque[Job], deadline: Deadline) -> dict[str, object] | None:
        """Return the nodes of all locks, and drop the jobs without a node from `left`.

        Return None if reading them one by one costs less, or if the security rules deny the whole list.
        """
        try:
            names = set(self._database.store.keys(self._database.paths.locks, self._within(deadline)))
            known = [job for job in left if job.name in names]
            left.clear()
            left.extend(known)
            if not known:
                return {}
            if len(names) > min(MOST_FOR_EACH * len(known), MOST_AT_ONCE):
                return None
            nodes = self._database.store.read(self._database.paths.locks, self._within(deadline)).node
        except Denied:
            return None
        return nodes if isinstance(nodes, dict) else {}

    def _read(self, job: Job, deadline: Deadline) -> object:
        try:
            return self._database.store.read(self._database.paths.lock(job.name), self._within(deadline)).node
        except Denied:
            return None  # the job's next tick will report it

    def _evaluate(self, job: Job, node: object, now: Moment) -> None:
        try:
            record = parse(node, now.server)
        except Malformed:
            return  # the job's next tick will report it
        if not isinstance(record, LockRecord):
            return
        if record.is_live(now.server, self._database.margin):
            if job.options.reruns:
                self.look_again(job, record.free_at(self._database.margin))
        elif needs_rerun(record, job.options, now.server, self._database.margin) or (
            job.options.catches_up and missed(record, job.options, now.server, None)
        ):
            self._take_turn(job)

    def _take_turn(self, job: Job, *, insists: bool = False) -> None:
        self._agenda.submit(self._runner.turn(job, WantedClaim(None, insists=insists)))

    def _within(self, deadline: Deadline) -> Deadline:
        return deadline.within(self._database.settings.request_timeout)


# --- the jobs that are late
#
# `evaluator` is handed in, because this room doesn't know how jobs are judged. A look waits for the database, so it is
# made on another thread than the beats.

# What the rank is for.
_PLACE = "job.late"
_FIRST = 3
# In intervals: what is late for longer has been reported, but by an instance that is younger than that.
_KNOWN = 2


@dataclass(frozen=True, slots=True)
class Evaluated:
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


class Evaluator(Protocol):
    """Judges the jobs by what the database says of them."""

    def evaluate(self) -> Sequence[Evaluated] | None:
        """Return what is said of each job; None if the database can't be read."""


class Lateness:
    """Tells of the late jobs of the registry, once `evaluator` is set. The crew `history_worker` makes the looks."""

    def __init__(self, database: Database, registry: Registry, ranks: Ranks, history_worker: Crew) -> None:
        self.evaluator: Evaluator | None = None
        self._database = database
        self._interval = database.settings.recovery_interval * 1000
        self._registry = registry
        self._ranks = ranks
        self._history_worker = history_worker
        self.forget()

    def forget(self) -> None:
        """Begin anew, as after a start."""
        # When the first beat came, on the monotonic clock, and the interval of the last one.
        self._began: float | None = None
        self._last: int | None = None
        self._had_rank = False
        # The first late tick of each job that was reported. It is replaced as a whole: two threads use it.
        self._told: Mapping[str, str] = {}

    def look_if_due(self) -> None:
        """Have the jobs looked at, if that is due and this instance's turn. This doesn't block."""
        evaluator, moment, rank = self.evaluator, self._database.clock.peek(), self._ranks.rank(_PLACE)
        if evaluator is None or moment is None:
            return
        before, self._last = self._last, int(moment.server // self._interval)
        self._began = moment.mono if self._began is None else self._began
        is_due = before not in (None, self._last) or (rank is not None and not self._had_rank)
        self._had_rank = self._had_rank or rank is not None
        if is_due and (rank is None or rank < _FIRST or self._told):
            is_new = moment.mono < self._began + _KNOWN * self._interval
            self._history_worker.submit(lambda: self._read(evaluator, is_new=is_new))

    def _read(self, evaluator: Evaluator, *, is_new: bool) -> None:
        evaluated = evaluator.evaluate()
        if evaluated is None:
            return
        before = self._told
        mine = {job.name for job in self._registry.jobs() if self._registry.is_wanted(job)}
        found = [one for one in evaluated if one.job in mine]
        self._told = {
            one.job: one.slot
            for one in found
            if one.slot is not None and (one.job in before or is_new or one.age < _KNOWN * self._interval)
        }
        for one in found:
            now = self._told.get(one.job)
            if now != before.get(one.job):
                self._emit_lateness(one, before.get(one.job))

    def _emit_lateness(self, evaluated: Evaluated, before: str | None) -> None:
        name, why = evaluated.job, evaluated.why
        if evaluated.slot is not None:
            self._database.events.emit(
                "job.late", name, logging.WARNING, f'"{name}" is late: {why}', slot=evaluated.slot, why=why
            )
        else:
            message = f'"{name}" is not late any more: {why}'
            self._database.events.emit(
                "job.recovered", name, logging.INFO, message, slot=before, verdict=evaluated.verdict, why=why
            )
