"""What the turns hear that wait for a run of another instance: one ear for each job that has such a turn.

An ear only says when to try again, and wakes the agenda when that may be sooner. It follows the lock's node from the
first refusal to the end of the claim. Where nothing is heard, the claimer tries as often as without it.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from firecron.base.clocks import Timing
from firecron.jobs.job import Job
from firecron.lock.refusal import Refusal
from firecron.lock.service import LockService
from firecron.lock.waiting import Waiting
from firecron.runs.agenda import Agenda


class Ears:
    """The ears of an instance, by the job's name."""

    def __init__(self, locks: LockService, timing: Timing, agenda: Agenda, chance: Callable[[], float]) -> None:
        self._locks = locks
        self._timing = timing
        self._agenda = agenda
        self._chance = chance
        self._ears: dict[str, Waiting] = {}

    def start(self, job: Job) -> None:
        """A try begins."""
        if (ear := self._ears.get(job.name)) is not None:
            ear.start(0.0)

    def refused(self, job: Job, refusal: Refusal) -> None:
        """The try was refused, and the job's ticks wait for other instances."""
        if not self._locks.streams.can_tell:
            return
        ear = self._ears.get(job.name)
        if ear is None:
            ear = self._ears[job.name] = Waiting(
                math.inf,
                self._locks.streams,
                self._locks.paths.lock(job.name),
                self._locks.clock,
                self._timing,
                self._locks.settings.margin_ms,
                wake=lambda: self._agenda.wake(job),
                chance=self._chance,
            )
            ear.start(0.0)
        ear.goes_on(refusal)

    def has_one(self, job: Job) -> bool:
        """Whether a turn of the job follows its lock, or is about to."""
        return job.name in self._ears

    def seconds(self, job: Job) -> float | None:
        """Return the seconds until the next try, by what is heard now; None if nothing is heard."""
        ear = self._ears.get(job.name)
        return None if ear is None or not ear.hears else ear.seconds()

    def close(self, job: Job) -> None:
        """The claim has ended."""
        if (ear := self._ears.pop(job.name, None)) is not None:
            ear.close()

    def forget(self) -> None:
        """Forget all ears. Their streams are closed by others, or are the parent's."""
        self._ears = {}
