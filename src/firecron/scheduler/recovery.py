"""Recovery: looking for what others left behind, over all jobs that want it, every so often, and in time.

A job that reruns or catches up has its record looked at; where a run died or a tick was missed, it takes a turn, and
where somebody holds the lock, it is looked at again when that lock expires.

Few jobs are read one by one. For many, two requests are enough: what nodes there are, and, if most of them are theirs
and they are not too many, all of them in one answer. A round keeps to its deadline, ends at once when the database
can't be reached, and goes on with the jobs that are left when it is called again.
"""

from __future__ import annotations

from collections import deque

from firecron.base.clocks import Deadline, Moment, Timing
from firecron.errors import Denied, Malformed
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.jobs.run import Trigger
from firecron.lock.record import LockRecord, parse
from firecron.lock.service import LockService
from firecron.runs.agenda import Agenda
from firecron.runs.policy import missed, needs_rerun
from firecron.runs.runner import Runner
from firecron.runs.turn import WantedClaim

# So many jobs are read one by one.
FEW = 10
# In an answer with others a record costs less than half the bytes, and no round trip.
MOST_FOR_EACH = 2
# Less than a megabyte.
MOST_AT_ONCE = 2_000


class Recovery:
    """Makes rounds over the jobs of the registry, as long as the runner wants each; turns go to the `agenda`.

    A round is `due` (on the monotonic clock) at the start, and an interval after the last one began.
    """

    def __init__(self, locks: LockService, timing: Timing, registry: Registry, runner: Runner, agenda: Agenda) -> None:
        self._store = locks.store
        self._paths = locks.paths
        self._clock = locks.clock
        self._timing = timing
        self._margin = locks.settings.margin_ms
        self._request_timeout = locks.settings.request_timeout
        self._interval = locks.settings.recovery_interval
        self._registry = registry
        self._runner = runner
        self._agenda = agenda
        self._left: deque[Job] = deque()
        self._pending: set[str] = set()
        self.due = 0.0

    def start(self) -> None:
        """Let the first round be due now."""
        self.due = self._timing.mono()

    def make_if_due(self, ends: float) -> bool:
        """Make a round, or go on with it, until then (on the monotonic clock). Return whether one came to its end.
        Raises StoreError; the round goes on with the next call.
        """
        # Without RTDB's time there is nothing to be found out.
        if self._timing.mono() < self.due or self._clock.peek() is None:
            return False
        began = self._timing.mono()
        if not self.make(Deadline(self._timing.mono, ends)):
            return False
        self.due = began + self._interval * 1000
        return True

    def make(self, deadline: Deadline) -> bool:
        """Look at all jobs, or at those that the last call left; whether that was all. Raises Unavailable."""
        left = self._left = self._left or deque(
            job for job in self._registry.jobs() if self._registry.is_wanted(job) and job.options.needs_recovery
        )
        nodes = self._read_all(left, deadline) if len(left) > FEW else None
        while left:
            moment = self._clock.peek()
            if moment is None or deadline.remaining() <= 0:
                return False
            job, node = left[0], None
            if self._runner.wants(job):  # still: the instance may stop, and jobs come and go
                node = self._read(job, deadline) if nodes is None else nodes.get(job.name)
            left.popleft()
            self._judge(job, node, moment)
        return True

    def look_again(self, job: Job, instant: int) -> None:
        """A lock was seen that somebody holds: if it expires, its run died. Look once, at that time."""
        if job.name in self._pending:
            return
        self._pending.add(job.name)

        def look() -> None:
            self._pending.discard(job.name)
            if self._runner.wants(job):
                self._take_turn(job, "rerun")

        self._agenda.at(instant, look)

    def forget(self) -> None:
        """Begin anew: nothing is left of a round, and nothing is to be looked at again."""
        self._left = deque()
        self._pending.clear()

    def _read_all(self, left: deque[Job], deadline: Deadline) -> dict[str, object] | None:
        """The nodes of all locks; None where one by one costs less, or is all that the rules allow. Jobs that have no
        node are left out.
        """
        try:
            names = set(self._store.keys(self._paths.locks, self._within(deadline)))
            known = [job for job in left if job.name in names]
            left.clear()
            left.extend(known)
            if not known:
                return {}
            if len(names) > min(MOST_FOR_EACH * len(known), MOST_AT_ONCE):
                return None
            nodes = self._store.read(self._paths.locks, self._within(deadline)).node
        except Denied:
            return None
        return nodes if isinstance(nodes, dict) else {}

    def _read(self, job: Job, deadline: Deadline) -> object:
        try:
            return self._store.read(self._paths.lock(job.name), self._within(deadline)).node
        except Denied:
            return None  # its next tick will say so

    def _judge(self, job: Job, node: object, now: Moment) -> None:
        try:
            record = parse(node, now.server)
        except Malformed:
            return  # its next tick will say so
        if not isinstance(record, LockRecord):
            return
        if record.is_live(now.server, self._margin):
            if job.options.reruns:
                self.look_again(job, int(record.expiresAt) + self._margin)
        elif needs_rerun(record, job.options, now.server, self._margin) or (
            job.options.catches_up and missed(record, job.options, now.server, None)
        ):
            self._take_turn(job, "catch_up")

    def _take_turn(self, job: Job, trigger: Trigger) -> None:
        self._agenda.submit(self._runner.turn(job, WantedClaim(None, trigger)))

    def _within(self, deadline: Deadline) -> Deadline:
        return deadline.within(self._request_timeout)
