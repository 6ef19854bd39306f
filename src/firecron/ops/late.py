"""The late and stuck jobs among an instance's own: what a look judges, and how little of the database it reads.

An instance judges its own jobs by its own schedules. Of each job it remembers up to when all ticks are all right. Until
the tick after that is late, nothing is read of the job. That a tick is all right is known

    by own tries       each shows the tick that was claimed last, by whomever
    by the start       what was due before a schedule was declared is not late, and the publisher knows since when it is
    by an earlier look

What is late for so long that others have told of it is of no interest either, but to an instance that has just started.
So where all instances ask for every tick, a look reads hardly anything. Of the other jobs the locks are read, and the
newest tick that was claimed decides nearly all. What is left is judged as `firecron status` does it: by the job's entry
in the catalogue, its lock, and the groups of instances. Only what is late by that is told.

A job that says how long a run takes at most (`expected_runtime`) is stuck once its lock is held for longer. Its lock is
read once after each tick that was seen to be claimed, and again in each look while it is held. A lock that nobody can
claim is found once a tick of the job is late by what is known.

What could be overlooked by it, and what becomes of it:

    a job of other programs, or of a role    their own instances look for it. Nobody else ever has
      that this instance lacks
    another version declared another         its own instances look for its ticks. Once its group has vanished, the job
      schedule for a job of this instance    is judged by the entry in the catalogue, too, until that says the schedule
                                             of this instance again: its next run of the job sees to that. An instance
                                             that made no look in the hour after the group's end doesn't know of it
    the declaration changes here             the job is another one, and nothing is known of it
    a job that is paused, held or skips      its lock is read when the next tick is late, and once for each tick
    a lock that nobody can claim             is read in each look, so a tick of before is late once the lock is mended
    a lock that was deleted, or set back     the ticks that were known to be claimed were claimed. Later ones count
    an unlock                                a tick that the lock had let skip before is not late
    a tick that only a trigger has claimed   is found in the lock
    a job that only triggers run, a leader   is not judged here, as before

A look takes its time: between some hundred jobs it gives way to the other threads, among them the program's event loop.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from math import inf

from firecron.base.clocks import Deadline
from firecron.base.instants import number, to_milliseconds, to_text
from firecron.cron.schedule import due_after
from firecron.errors import Denied, StoreError
from firecron.jobs.catalogue import LIVE_BEATS, digest, read_declared, read_groups
from firecron.jobs.job import Job
from firecron.lock.database import Database
from firecron.ops.health import ALERT_MARGIN, JobVerdict, VerdictWord, evaluate
from firecron.ops.mutes import Mute, read_mutes
from firecron.ops.status import Status
from firecron.ops.views import children
from firecron.scheduler.heartbeat import groups_seen
from firecron.scheduler.lateness import Evaluated

# Up to so many nodes, or so small a part of them, are read one by one: a node costs 600 bytes then, and 400 among all.
_FEW = 50
_SMALL_PART = 20
# After so many jobs a look gives way, for so many seconds.
_AT_ONCE = 200
_PAUSE = 0.001
# By these verdicts no tick of before can become late any more. By others it can, such as with a malformed lock.
_ALL_RIGHT: frozenset[VerdictWord] = frozenset({"ok", "failing", "running", "paused"})


class LateJobs:
    """Judges the jobs of this instance, on one thread at a time.

    `since` returns since when a job is declared by its schedule. `note` is told of each look whether the database could
    be read: the error if not.
    """

    def __init__(
        self, database: Database, since: Callable[[str], int | None], note: Callable[[StoreError | None], object]
    ) -> None:
        self._database = database
        self._since = since
        self._note = note
        self._status = Status(database)
        # The jobs of the last look, and the first tick of each that is not known to be all right: a number, which the
        # garbage collector passes over.
        self._jobs: Mapping[str, Job] = {}
        self._due: dict[str, float] = {}
        # Of each group that has vanished the jobs of this instance that it had by another schedule.
        self._left_by: dict[str, frozenset[str]] = {}
        # Of the jobs that say how long a run takes: the tick that each lock had when it was last read, and those whose
        # locks were held then.
        self._seen: dict[str, int] = {}
        self._held: frozenset[str] = frozenset()

    def evaluate(
        self, jobs: Mapping[str, Job], claimed: Callable[[str], int | None], told: Collection[str], age: float
    ) -> Sequence[Evaluated] | None:
        """Return what is said of the jobs that may be late or were `told`; None if the database can't be read.

        A job may be late if a tick of it is late for less than `age` milliseconds, as far as it is known.
        """
        # With once_per_tick=False no tick is remembered, so nothing is judged by it.
        judged = {name: job for name, job in jobs.items() if job.options.once_per_tick}
        try:
            found = self._look(judged, claimed, told, age)
        except StoreError as error:
            self._note(error)
            return None
        self._note(None)
        return found

    def _look(
        self, jobs: Mapping[str, Job], claimed: Callable[[str], int | None], told: Collection[str], age: float
    ) -> list[Evaluated]:
        ends = self._database.deadline(self._database.settings.recovery_interval)
        now = self._database.now(ends)
        self._due = {name: due for name, due in self._due.items() if jobs.get(name) is self._jobs[name]}
        self._jobs = jobs
        wanted = {*told, *self._left(jobs, now, ends)}
        doubtful = []
        for job in self._in_turns(jobs.values()):
            newest = claimed(job.name)
            self._remember(job, newest, now)
            if job.name in wanted or self._may_be_late(job, now, age) or self._may_run(job, newest):
                doubtful.append(job)
        locks = self._nodes(self._database.paths.locks, doubtful, len(jobs), ends)
        now = self._database.now(ends)
        late, held = [], set()
        for job in self._in_turns(doubtful):
            lock = locks.get(job.name)
            slot = _slot(lock)
            instants = (slot, self._since(job.name))
            self._remember(job, max((one for one in instants if one is not None), default=None), now)
            began = _began(lock) if job.options.expected_runtime is not None else None
            if slot is not None and job.options.expected_runtime is not None:
                self._seen[job.name] = slot
            if began is not None:
                held.add(job.name)
            is_overdue = began is not None and now - began > (job.options.expected_runtime or 0)
            if job.name in wanted or is_overdue or self._may_be_late(job, now, age):
                late.append(job)
        self._held = frozenset(held)
        self._seen = {name: slot for name, slot in self._seen.items() if name in jobs}
        return self._judge(late, locks, len(jobs), now, ends) if late else []

    def _judge(
        self, jobs: Sequence[Job], locks: Mapping[str, object], number: int, now: int, ends: Deadline
    ) -> list[Evaluated]:
        """Return what is to be said of these jobs, as the database declares them."""
        entries = self._nodes(self._database.paths.jobs, jobs, number, ends)
        groups, mutes = self._status.groups(ends), self._mutes(jobs, number, ends)
        found, settled = [], set()
        for job in self._in_turns(jobs):
            declared = read_declared(job.name, entries.get(job.name))
            if declared is None or declared.schedule == job.options.schedule:
                settled.add(job.name)
            if declared is None:
                continue  # the entry was removed, or can't be read
            mute = mutes.get(job.name)
            verdict = evaluate(declared, locks.get(job.name), groups, now, self._database.margin, mute=mute)
            if verdict.word in _ALL_RIGHT:
                self._remember(job, now - job.options.grace - ALERT_MARGIN, now)
            found.append(_evaluated(verdict, now, mute))
        self._left_by = {group: names - settled for group, names in self._left_by.items()}
        return found

    def _may_run(self, job: Job, newest: int | None) -> bool:
        """Return whether the lock may be held for longer than the job expects, as far as it is known."""
        if job.options.expected_runtime is None:
            return False
        return job.name in self._held or (newest is not None and newest > self._seen.get(job.name, 0))

    def _may_be_late(self, job: Job, now: int, age: float) -> bool:
        limit = now - job.options.grace - ALERT_MARGIN
        if age < inf:
            self._remember(job, int(limit - age), now)
        due = self._due.get(job.name)
        return due is None or due < limit

    def _remember(self, job: Job, until: int | None, now: int) -> None:
        """Note that no tick up to this instant is late. None: nothing is known.

        An instant in the future says nothing: somebody has edited the node, and may edit it again.
        """
        due = self._due.get(job.name)
        if until is not None and until <= now and (due is None or due <= until):
            self._due[job.name] = due_after(job.options.schedule, until)

    # --- jobs that another group has run by another schedule

    def _left(self, jobs: Mapping[str, Job], now: int, ends: Deadline) -> set[str]:
        """Return the jobs that a group which has vanished had by another schedule, as far as that is known."""
        try:
            seen = groups_seen(self._database, lambda: self._within(ends))
        except Denied:
            return set()  # the rules are older than the groups
        silent = now - LIVE_BEATS * self._database.settings.heartbeat * 1000
        left = {group: names for group, names in self._left_by.items() if names or group in seen}
        for group, at in seen.items():
            if at is None or at >= silent:
                left.pop(group, None)
            elif group not in left and (names := self._names_left(group, jobs, now, ends)) is not None:
                left[group] = names
        self._left_by = left
        return {name for names in left.values() for name in names if name in jobs}

    def _names_left(self, name: str, jobs: Mapping[str, Job], now: int, ends: Deadline) -> frozenset[str] | None:
        """Return the jobs that this group had by another schedule; None if it lives, with slower heartbeats."""
        node = self._database.node(f"{self._database.paths.groups}/{name}", self._within(ends))
        found = next(iter(read_groups({name: node})), None)
        if found is None or found.is_live(now):
            return None
        had = jobs.keys() if found.jobs is None else found.jobs & jobs.keys()
        return frozenset(job for job in had if found.digests.get(job) != digest(jobs[job].options.schedule))

    # --- reading

    def _nodes(self, path: str, jobs: Sequence[Job], number: int, ends: Deadline) -> Mapping[str, object]:
        """Return the children of a node for these of so many jobs: one by one, or all that it has in one reply."""
        if len(jobs) > max(_FEW, number // _SMALL_PART):
            return children(self._database.node(path, self._within(ends)), path)
        return {job.name: self._database.node(f"{path}/{job.name}", self._within(ends)) for job in jobs}

    def _mutes(self, jobs: Sequence[Job], number: int, ends: Deadline) -> Mapping[str, Mute]:
        try:
            return read_mutes(self._nodes(self._database.paths.mutes, jobs, number, ends))
        except Denied:
            return {}  # the rules are older than mutes

    def _within(self, ends: Deadline) -> Deadline:
        return ends.within(self._database.settings.request_timeout)

    def _in_turns(self, jobs: Collection[Job]) -> Iterator[Job]:
        """Yield the jobs, and give way to other threads now and then: they wait while this one computes."""
        for place, job in enumerate(jobs, 1):
            yield job
            if place % _AT_ONCE == 0:
                self._database.timing.sleep(_PAUSE)


def _slot(node: object) -> int | None:
    """Return the tick that was claimed last, by the node of a lock; None if it doesn't say."""
    try:
        return to_milliseconds(node["slot"]) if isinstance(node, dict) else None
    except (KeyError, TypeError, ValueError):
        return None


def _began(node: object) -> int | None:
    """Return since when a lock is held, by its node; None if it was released, or doesn't say."""
    if not isinstance(node, dict) or node.get("releasedAt") is not None:
        return None
    return number(node.get("acquiredAt"))


def _evaluated(verdict: JobVerdict, now: int, mute: Mute | None) -> Evaluated:
    slot = None if verdict.due is None else to_text(verdict.due)
    # Of a job that was muted somebody may be told once that is over, so it counts as late from then on.
    since = None if verdict.since is None else max(verdict.since, 0 if mute is None else mute.until)
    age = 0 if since is None else now - since
    return Evaluated(
        verdict.job, verdict.word, slot, age, verdict.why, verdict.about, verdict.mute is not None, verdict.since
    )
