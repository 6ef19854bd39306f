"""Recovery: regular rounds for died runs and missed ticks, of all jobs that rerun or catch up.

A round reads the record of each such job. If a run has died or a tick was missed, the job's lane gets a look. If the
lock is held, the job is looked at again when that lock expires.

The records of a few jobs are read one by one. For many jobs two requests are enough: the names of all nodes, and then
all nodes at once, if most of them belong to these jobs and they are not too many. A round keeps to its deadline, and
ends at once if the database can't be reached. The next call goes on with the jobs that are left.
"""

from __future__ import annotations

from collections import deque

from firecron.base.clocks import Deadline, Moment
from firecron.errors import Denied, Malformed
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.lock.database import Database
from firecron.lock.record import LockRecord, parse
from firecron.runs.lanes import Lanes
from firecron.runs.policy import missed, needs_rerun
from firecron.runs.runner import Runner

# Up to this many jobs are read one by one.
FEW = 10
# All nodes are read at once if there are at most this many for each job: in one reply with others a record costs less
# than half the bytes, and no round trip.
MOST_FOR_EACH = 2
# All nodes are read at once if there are at most this many: less than a megabyte.
MOST_AT_ONCE = 2_000


class Recovery:
    """Makes rounds over the jobs of the registry that the runner wants. The looks go to the `lanes`.

    `due` is when the next round is due, on the monotonic clock: at the start, then an interval after the last round
    began.
    """

    def __init__(self, database: Database, registry: Registry, runner: Runner, lanes: Lanes) -> None:
        self._database = database
        self._interval = database.settings.recovery_interval
        self._registry = registry
        self._runner = runner
        self._lanes = lanes
        self._left: deque[Job] = deque()
        self.due = 0.0

    def start(self) -> None:
        """Make the first round due now."""
        self.due = self._database.timing.mono()

    def make_if_due(self, ends: float, begins: bool | None = None) -> bool:
        """Make a round, or go on with one, if it is due. Stop at `ends` on the monotonic clock.

        `begins` says whether a round is due. With None one is due at the start, and when the interval is over.
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
            job
            for job in self._registry.jobs(stored=False)
            if self._registry.is_wanted(job) and job.options.needs_recovery
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

    def forget(self) -> None:
        """Drop the jobs that a round has left."""
        self._left = deque()

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
                self._lanes.look_again(job, record.free_at(self._database.margin))
        elif needs_rerun(record, job.options, now.server, self._database.margin) or (
            job.options.catches_up and missed(record, job.options, now.server, None)
        ):
            self._lanes.look(job)

    def _within(self, deadline: Deadline) -> Deadline:
        return deadline.within(self._database.settings.request_timeout)
