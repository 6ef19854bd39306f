"""The bookkeeper: writes the ticks that did not run to the history.

The instance whose claim replaces a record writes the ticks between the two slots; no other instance does. The
bookkeeper writes on a thread of its own, after the claim: the run does not wait for it, and a write that fails is only
logged. Its events have slugs of their own, such as `books.skipped`: each instance has already emitted `run.skipped` or
`run.missed` for the ticks that it did not run itself.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from firecron.base.clocks import Timing
from firecron.base.events import Events, Slug
from firecron.base.identity import Identity
from firecron.base.outstanding import Outstanding
from firecron.base.workers import Crew
from firecron.errors import Malformed
from firecron.jobs.job import Job
from firecron.lock.instances import Roster
from firecron.lock.protocol import Held
from firecron.lock.record import LockRecord, parse
from firecron.runs.entry import Entry
from firecron.runs.history import History
from firecron.runs.policy import Claim, before_manual, between

# The outcomes of ticks that did not run, or not to the end: the bookkeeper writes no others.
_SLUGS: dict[str, Slug] = {
    "abandoned": "run.abandoned",
    "cancelled": "books.cancelled",
    "skipped": "books.skipped",
    "missed": "books.missed",
}


class Bookkeeper:
    """Writes to the history, on the threads of its `crew`, the ticks that claims have passed over."""

    def __init__(
        self, history: History, crew: Crew, identity: Identity, timing: Timing, events: Events, roster: Roster
    ) -> None:
        self._history = history
        self.crew = crew
        self._identity = identity
        self._events = events
        self._roster = roster
        self.outstanding = Outstanding(timing)

    def note(self, job: Job, held: Held, claim: Claim | None) -> None:
        """Give the ticks that this claim has passed over to a thread, which writes them. A run by hand has no claim.

        An error is only logged: the lock is held, and the run must begin.
        """
        if held.replaced is None or not job.options.once_per_tick:
            return
        mark = object()
        try:
            self.outstanding.add(mark)
            self.crew.submit(lambda: self._write(job, held, claim, mark))
        except BaseException as error:
            self.outstanding.remove(mark)
            if not isinstance(error, Exception):
                raise  # Ctrl-C, or an exception of a signal's handler
            self._complain(job, error)

    def tell(self, job: Job, entry: Entry) -> None:
        """Emit the event of an entry."""
        ticks = f"{'at least ' if entry.at_least else ''}{entry.count} ticks up to" if entry.count > 1 else "its tick"
        has_begun = entry.outcome in ("abandoned", "cancelled")
        level = logging.INFO if entry.outcome in ("skipped", "cancelled") else logging.WARNING
        said = f'"{job.name}" {"did not finish" if has_begun else "did not run"} {ticks} {entry.slot}'
        message = f"{said}: {entry.outcome}"
        self._events.emit(
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
        self.outstanding.wait(until)

    def after_fork(self) -> None:
        """Forget in a forked child the entries that are not written yet: the parent writes them."""
        self.outstanding.after_fork()
        self.crew.after_fork()

    def _write(self, job: Job, held: Held, claim: Claim | None, mark: object) -> None:
        try:
            current = parse(held.replaced, held.term.reading.server)
            record = current if isinstance(current, LockRecord) else None
            if claim is None:
                entries = before_manual(record)
            else:
                silent_since = None if record is None else self._roster.silent_since(record, job.options.lock_ttl)
                entries = between(record, job.options, claim, silent_since)
            for entry in entries:
                self.tell(job, entry)
            writer = self._identity
            for entry in entries:
                own = replace(entry, instance_id=writer.instance_id, instance=writer.instance)
                self._history.record(job.name, own)
        except Malformed:
            return  # a claim can't replace a malformed record, so an operator has changed the node
        except Exception as error:
            self._complain(job, error)
        finally:
            self.outstanding.remove(mark)

    def _complain(self, job: Job, error: Exception) -> None:
        message = f'The ticks of "{job.name}" that did not run could not be written to its history: {error!r}'
        self._events.emit("history.failed", job.name, logging.WARNING, message, why=repr(error))
