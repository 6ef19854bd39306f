"""Cancelling the run before a tick, with `overlap="cancel_previous"`: a tick asks the run of another tick to end.

Every run is asked by its node, also a run on this instance: if an instance dies in between, no other one runs the
cancelled tick again. A run by hand is left alone, as far as the node shows it: while it holds the lock nothing is
unfinished. The tick then waits for the end of the run, as with `overlap="queue"`.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from firecron.errors import StoreError
from firecron.jobs.job import Job
from firecron.lock.lease import Lease
from firecron.lock.refusal import Refusal
from firecron.lock.service import LockService
from firecron.runs.turn import PendingClaim

# Seconds between two looks for a run to cancel on this instance.
_AGAIN = 1.0


class Canceller:
    """Cancels the runs before ticks that are due."""

    def __init__(self, locks: LockService) -> None:
        self._contender = locks.contender
        self._events = locks.events

    def cancel_elsewhere(self, pending: PendingClaim, refusal: Refusal) -> None:
        """Cancel the run that holds the lock, by the refusal of a claim. The claim's next try follows it up.

        A claim that does not wait for the end of the run does not cancel it.
        """
        job, due = pending.job, pending.wanted.due
        if not job.options.cancels_previous or due is None or not pending.wanted.is_patient:
            return
        if refusal.reason != "held" or refusal.unfinished is None:
            return
        if refusal.holder is None or refusal.fence is None or pending.cancelled == refusal.holder:
            return
        if self._ask(job, due, refusal.holder, refusal.fence):
            pending.cancelled = refusal.holder

    def cancel_here(self, job: Job, due: str, leases: Iterable[Lease]) -> float | None:
        """Cancel the runs with these leases, which are under way on this instance.

        Return the seconds until another look; None if all are cancelled, or over.
        """
        is_settled = True
        for lease in leases:
            if lease.fence is None or lease.cancelled:
                continue
            if self._ask(job, due, lease.holder, lease.fence):
                lease.cancel(_why(due))
            else:
                is_settled = False
        return None if is_settled else _AGAIN

    def _ask(self, job: Job, due: str, holder: str, fence: int) -> bool:
        """Return whether the run is asked, or over. If the database does not say, a later look asks again."""
        try:
            self._contender.cancel(job.name, holder, fence, _why(due))
        except StoreError as error:
            message = f'"{job.name}" can\'t cancel the run before its tick {due} yet, and tries again: {error}'
            self._events.emit("run.delayed", job.name, logging.WARNING, message, slot=due, reason="held")
            return False
        return True


def _why(due: str) -> str:
    return f"the tick {due} came"
