"""Claims a tick that is to be resumed: acquires the lock, and looks at the history under it."""

from __future__ import annotations

from dataclasses import replace

from firecron.errors import ConfigurationError, Denied, StoreError
from firecron.jobs.job import Job
from firecron.lock.record import LockRecord, parse
from firecron.lock.refusal import Refusal, not_known
from firecron.lock.service import LockService
from firecron.runs.claimer import Claimed, Claimer
from firecron.runs.history import History
from firecron.runs.resuming import Resumed, check_key, judge


class Resumer:
    """Claims ticks anew, by hand."""

    def __init__(self, locks: LockService, history: History, claimer: Claimer) -> None:
        self._locks = locks
        self._history = history
        self._claimer = claimer

    def claim(self, job: Job, key: str) -> Claimed | Refusal:
        """Return the acquired lock for the next attempt at a tick, or the refusal.

        `key` is the key of the tick's entry in the history. Raise ConfigurationError if there can be no such tick.
        """
        check_key(key)
        if not job.options.has_steps:
            raise ConfigurationError(
                f'"{job.name}" has no steps, so nothing tells a second attempt what the first one has done. A job with '
                'overlap="allow" or once_per_tick=False can\'t be resumed: run it by hand'
            )
        claimed = self._claimer.claim_manually(job)
        if isinstance(claimed, Refusal):
            return claimed
        try:
            found = self._judged(job, key, claimed)
        except BaseException:
            self._give_back(claimed)
            raise
        if isinstance(found, Resumed):
            return replace(claimed, resumed=found)
        self._give_back(claimed)
        self._locks.contender.tell(found)
        return found

    def _judged(self, job: Job, key: str, claimed: Claimed) -> Resumed | Refusal:
        record = claimed.held.record
        try:
            entry = self._history.entry(job.name, key)
        except StoreError as error:
            return not_known(job.name, "denied" if isinstance(error, Denied) else "unavailable", error)
        found = judge(key, entry, record.unfinished, int(record.attempt or 1))
        if isinstance(found, Resumed):
            return found
        return Refusal(job.name, "slot_done", f'"{job.name}" is not resumed: {found}', slot=record.slot)

    def _give_back(self, claimed: Claimed) -> None:
        """Release the lock as it was: it remembers the outcome of the last run."""
        held = claimed.held
        before = parse(held.replaced, held.term.reading.server)
        outcome = before.outcome if isinstance(before, LockRecord) else None
        self._locks.contender.unkept(claimed.bid, held).release(outcome=outcome)
