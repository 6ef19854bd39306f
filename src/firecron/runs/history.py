"""The history, `cron-runs/<name>/<key>`: one entry for each run, and entries for the ticks that did not run.

    record                 writes the entry of a run, and now and then prunes
    record_passed_over     writes, on another thread, the ticks that a claim has passed over
    read, entry, latest    for those who ask what has run

An entry is written after the lock's own writes, and never delays them. A write that fails is tried again until its
deadline. Then it is logged and given up, so the history may lack an entry. An entry replaces another one only if it
outranks it (see `entry`). About every tenth write (of a history of more than 100, a write in a tenth of that) deletes
the oldest entries, with the steps of their ticks. Two instances that do so at the same time delete the same entries.

The last frames of a failed run's traceback are in `cron-errors/<name>/<key>`. They are written once, after the entry.
They are deleted with it, or by the entry of a later attempt that has not failed. They are long and seldom read, so
they are not in the entry, which is read often.

The instance whose claim replaces a record writes the ticks between the two slots, as their bookkeeper; no other
instance does. It writes on a thread of its own, after the claim: the run does not wait for it, and a write that fails
is only logged. Its events have slugs of their own, such as `books.skipped`: each instance has already emitted
`run.skipped` or `run.missed` for the ticks that it did not run itself.

A run that has not finished is `abandoned` if no node has its outcome. An instance that was stopped in order, or has
lost its lease, has released the lock with that outcome, and emits the event of its run itself. If it could not release
the lock, its own entry in the history has the outcome. So each end is emitted once.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from firecron.base.clocks import Deadline, wait_or_raise
from firecron.base.events import Slug
from firecron.base.threads import Crew, OpenWork
from firecron.errors import Denied, StoreError, Unavailable
from firecron.jobs.job import Job
from firecron.lock.database import Database
from firecron.lock.protocol import Held
from firecron.lock.record import LockRecord
from firecron.lock.stored import as_of_since
from firecron.runs.body import last_frames
from firecron.runs.entry import Entry, entry_of
from firecron.runs.policy import Claim, before_manual, between, cut_short, owes_entries
from firecron.store import NULL_ETAG, Snapshot, run_key, split_name

# One write in so many prunes; of a longer history, one in a tenth of its limit. Pruning lists all keys, so a run costs
# as many bytes whatever the limit.
_PRUNE_ONE_IN = 10
# The outcomes of ticks that did not run, or not to the end, and that no other instance reports.
_SLUGS: dict[str, Slug] = {
    "abandoned": "run.abandoned",
    "cancelled": "books.cancelled",
    "skipped": "books.skipped",
    "missed": "books.missed",
}


class History:
    """Reads and writes the history of a database, and keeps `history_limit` entries a job.

    The `crew` has the thread on which the ticks are written that did not run. `open_work` is what it has to do.
    """

    def __init__(self, database: Database, crew: Crew) -> None:
        self._database = database
        self.crew = crew
        self.open_work = OpenWork(database.timing)
        self._limit = database.settings.history_limit
        # How many entries the history of a stored job keeps, by its name: all its schedules share it.
        self.limits: dict[str, int] = {}
        self._is_refused = False

    def record(self, name: str, entry: Entry, raised: BaseException | None = None) -> bool:
        """Write the entry, with the traceback of what the run has `raised`, and sometimes prune.

        An error of the store is logged, not raised. Return False if another entry stands there, which this one doesn't
        outrank.
        """
        try:
            stands, replaces = self._put(self._path(name, entry.key), entry, split_name(name)[1])
        except StoreError as error:
            message = f'The history of "{name}" may lack the entry {entry.key} ({entry.outcome}): {error}'
            self._database.events.emit("history.failed", name, logging.WARNING, message, key=entry.key, why=str(error))
            return True
        if stands:
            self._keep(name, entry.key, raised, replaces=replaces)
        if self._database.chance() < 1 / max(_PRUNE_ONE_IN, self._limit_of(name) // 10):
            try:
                self.prune(name)
            except StoreError as error:
                message = f'The history of "{name}" was not pruned, and a later write tries again: {error}'
                self._database.events.emit("history.failed", name, logging.WARNING, message, why=str(error))
        return stands

    def read(self, name: str) -> dict[str, object]:
        """Return the entries of a job by their keys, oldest first. Raise StoreError.

        Args:
            name: The job's name.
        """
        node = self._database.store.read(self._database.paths.runs_of(name), self._deadline()).node
        entry = split_name(name)[1]
        return (
            {key: child for key, child in sorted(node.items()) if not entry or entry_of(key) == entry}
            if isinstance(node, dict)
            else {}
        )

    def entry(self, name: str, key: str) -> object:
        """Return the node of one entry, None if there is none. Raise StoreError.

        Args:
            name: The job's name.
            key: The entry's key: a tick, or the start of a run by hand.
        """
        return self._database.store.read(self._path(name, key), self._deadline()).node

    def latest(self, name: str, deadline: Deadline) -> tuple[str, object] | None:
        """Return the key and the node of the newest entry, None if there is none. Raise StoreError.

        Args:
            name: The job's name.
            deadline: When to give up: `locks.deadline(seconds)`.
        """
        return self._database.store.newest(self._database.paths.runs_of(name), deadline)

    def tracebacks(self, name: str) -> dict[str, str]:
        """Return the tracebacks of a job's failed runs that are kept, by the keys of their entries. Raise StoreError.

        Args:
            name: The job's name.
        """
        node = self._database.store.read(self._database.paths.errors_of(name), self._deadline()).node
        return (
            {key: text for key, text in sorted(node.items()) if isinstance(text, str)} if isinstance(node, dict) else {}
        )

    def prune(self, name: str) -> None:
        """Delete the oldest entries beyond the limit, in one write with their steps and tracebacks. Raise StoreError.

        The unfinished tick is kept: another attempt may need its steps.
        """
        store, paths = self._database.store, self._database.paths
        runs = paths.runs_of(name)
        keys, limit = sorted(store.keys(runs, self._deadline())), self._limit_of(name)
        old, kept = keys[:-limit], keys[-limit:]
        if not old:
            return
        if any(map(entry_of, old)):
            self._prune_entries(split_name(name)[0], old)
            return
        # Older than all that is kept: among them the steps of runs that died before they had an entry.
        ticks = [tick for tick in self._known(paths.all_steps_of(name)) if tick < kept[0]]
        unfinished = self._unfinished(name) if ticks else None
        gone = [f"{runs}/{key}" for key in old if key != unfinished]
        gone += [paths.steps_of(name, tick) for tick in ticks if tick != unfinished]
        gone += [f"{paths.errors_of(name)}/{key}" for key in self._known(paths.errors_of(name)) if key < kept[0]]
        if gone:
            store.merge(
                paths.prefix,
                {paths.relative(path): None for path in gone},
                self._deadline(),
            )

    def _prune_entries(self, job: str, old: list[str]) -> None:
        """Delete these runs of stored schedules, with their steps and tracebacks. The unfinished ticks are kept."""
        store, paths = self._database.store, self._database.paths
        runs, errors, gone = paths.runs_of(job), paths.errors_of(job), list[str]()
        for key in old:
            name, tick = f"{job}:{entry_of(key)}", key.removesuffix(f":{entry_of(key)}")
            has_steps = tick in self._known(paths.all_steps_of(name))
            if not has_steps or self._unfinished(name) != tick:
                gone += [f"{runs}/{key}", f"{errors}/{key}", *([paths.steps_of(name, tick)] if has_steps else [])]
        if gone:
            store.merge(paths.prefix, {paths.relative(path): None for path in gone}, self._deadline())

    def _limit_of(self, name: str) -> int:
        return self.limits.get(split_name(name)[0], self._limit)

    def _known(self, path: str) -> list[str]:
        """Return the keys below a path; none where the rules are older than what lies there."""
        try:
            return self._database.store.keys(path, self._deadline())
        except Denied:
            return []

    def _keep(self, name: str, key: str, raised: BaseException | None, *, replaces: bool) -> None:
        """Write the last frames of the traceback, or remove those of an earlier attempt. Log what fails."""
        text = None if raised is None or not self._database.settings.tracebacks else last_frames(raised)
        if text is None and not replaces:
            return
        try:
            self._database.store.merge(
                self._database.paths.errors_of(name), {run_key(name, key): text}, self._database.deadline()
            )
        except StoreError as problem:
            if text is None:
                return  # where nothing may be written there is nothing to remove, and pruning removes the rest
            is_old = isinstance(problem, Denied)
            remedy = ": deploy the rules that `firecron rules` prints, or set FIRECRON_TRACEBACKS=0" if is_old else ""
            message = f'The traceback of "{name}", {key}, was not kept{remedy}. {problem}'
            level = logging.DEBUG if is_old and self._is_refused else logging.WARNING
            self._is_refused = is_old
            self._database.events.emit("history.failed", name, level, message, key=key, why=str(problem))

    def _unfinished(self, name: str) -> str | None:
        node = self._database.store.read(self._database.paths.lock(name), self._deadline()).node
        unfinished = node.get("unfinished") if isinstance(node, dict) else None
        return unfinished if isinstance(unfinished, str) else None

    def _path(self, name: str, key: str) -> str:
        return self._database.paths.run(name, key)

    def _deadline(self) -> Deadline:
        return self._database.deadline(self._database.settings.release_timeout)

    def _put(self, path: str, entry: Entry, key: str) -> tuple[bool, bool]:
        """Write the entry, unless the key holds an entry of the same or a higher rank.

        Return whether the key has this entry now, and whether it has replaced another one. `key` is that of a stored
        schedule, by which the security rules find its lock; empty for any other job.

        An entry doesn't outrank itself. So a write whose reply was lost can be tried again.
        """
        deadline = self._deadline()
        etag, node = NULL_ETAG, {**entry.to_node(), **({"key": key} if key else {})}
        tries = 0
        while True:
            try:
                answer = self._database.store.swap(path, etag, node, deadline)
                if not isinstance(answer, Snapshot):
                    return True, etag != NULL_ETAG
                if not entry.outranks(answer.node):
                    return answer.node == node, False
                etag, problem = answer.etag, Unavailable("others keep changing the entry")
            except Unavailable as error:
                problem = error
            tries += 1
            wait_or_raise(problem, tries, deadline, self._database.timing, self._database.chance())

    # --- the ticks that did not run

    def record_passed_over(self, job: Job, held: Held, claim: Claim | None) -> None:
        """Give the ticks that this claim has passed over to a thread, which writes them. A run by hand has no claim.

        An error is only logged: the lock is held, and the run must begin.
        """
        record, moot = _replaced(job, held)
        if record is None or not job.options.once_per_tick:
            return
        mark = object()
        try:
            if moot is None and not owes_entries(record, job.options, claim):
                return  # a thread costs more than the claim
            self.open_work.add(mark)
            self.crew.submit(lambda: self._write(job, held, claim, mark))
        except BaseException as error:
            self.open_work.remove(mark)
            if not isinstance(error, Exception):
                raise  # Ctrl-C, or an exception of a signal's handler
            self._complain(job, error)

    def emit_entry(self, job: Job, entry: Entry) -> None:
        """Emit the event of an entry."""
        ticks = f"{'at least ' if entry.at_least else ''}{entry.count} ticks up to" if entry.count > 1 else "its tick"
        has_begun = entry.outcome in ("abandoned", "cancelled")
        level = logging.INFO if entry.outcome in ("skipped", "cancelled") else logging.WARNING
        said = f'"{job.name}" {"did not finish" if has_begun else "did not run"} {ticks} {entry.slot}'
        message = f"{said}: {entry.outcome}{'' if entry.error is None else f', because {entry.error}'}"
        self._database.events.emit(
            _SLUGS[entry.outcome],
            job.name,
            level,
            message,
            slot=entry.slot,
            count=entry.count,
            attempt=entry.attempt,
        )

    def wait(self, until: float) -> None:
        """Wait until everything is written, but not longer than `until` on the monotonic clock."""
        self.open_work.wait(until)

    def _write(self, job: Job, held: Held, claim: Claim | None, mark: object) -> None:
        try:
            record, moot = _replaced(job, held)
            if claim is None:
                entries = before_manual(record)
            else:
                silent_since = None
                if record is not None and record.releasedAt is None:  # else its holder has not died
                    silent_since = self._database.signs_of_life.silent_since(record, job.options.lock_ttl)
                entries = [*([] if moot is None else [moot]), *between(record, job.options, claim, silent_since)]
            self.record_entries(job, entries)
        except Exception as error:
            self._complain(job, error)
        finally:
            self.open_work.remove(mark)

    def record_entries(self, job: Job, entries: list[Entry]) -> None:
        """Emit and write the entries of ticks that did not run, now."""
        for entry in entries:
            if entry.outcome in _SLUGS and entry.outcome != "abandoned":
                self.emit_entry(job, entry)
        writer = self._database.identity
        for entry in entries:
            own = replace(entry, instance_id=writer.instance_id, instance=writer.instance)
            stands = self.record(job.name, own)
            if entry.outcome == "abandoned" and stands:
                self.emit_entry(job, entry)

    def _complain(self, job: Job, error: Exception) -> None:
        message = f'The ticks of "{job.name}" that did not run could not be written to its history: {error!r}'
        self._database.events.emit("history.failed", job.name, logging.WARNING, message, why=repr(error))


def _replaced(job: Job, held: Held) -> tuple[LockRecord | None, Entry | None]:
    """Return the record that a claim has replaced, None if there was none, as far as the claim could see it.

    Of a stored schedule also the entry of an unfinished tick that doesn't exist any more, since the schedule was put.
    """
    before = held.replaced if isinstance(held.replaced, LockRecord) else None
    if job.declared is None:
        return before, None
    seen = as_of_since(held.replaced)
    is_moot = before is not None and before.unfinished is not None and seen.unfinished is None
    return seen, cut_short(before, str(before.unfinished)) if before is not None and is_moot else None
