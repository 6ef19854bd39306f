"""The verdict about a job: as it should be, or not and why. Pure: decided from nodes that were read, and RTDB's time.

paused       somebody paused it, or it is declared disabled
unattended   it ticks, and no live group of instances has it
stuck        its lock is held longer than a run takes, or nobody can claim its node
late         its lock is free, and a tick that should have been claimed was not
failing      its last runs of ticks failed, were lost or died
running      its lock is held
ok           none of these
retired      taken out on purpose: it is in no live group, while a newer group of its service lives
unknown      the database can't be read, or the job's entry in the catalogue
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

VerdictWord: TypeAlias = Literal[
    "paused", "unattended", "stuck", "late", "failing", "running", "ok", "retired", "unknown"
]

# The words that somebody has to be told.
ALARMS: frozenset[VerdictWord] = frozenset({"unattended", "stuck", "late", "failing"})


@dataclass(frozen=True, slots=True)
class JobVerdict:
    """What is to be said of one job. Instants are milliseconds of RTDB's clock.

    `since` is when this state began, `due` the tick that is late; None where there is none. `why` is one sentence for
    people. `is_warning` marks what is no alarm, but should be looked at, as a pause of more than a day.
    """

    job: str
    word: VerdictWord
    since: int | None = None
    due: int | None = None
    why: str = ""
    is_warning: bool = False

    @property
    def is_alarm(self) -> bool:
        """Whether somebody has to be told."""
        return self.word in ALARMS
