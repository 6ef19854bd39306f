"""A turn: one job that wants to run on this instance, and what has come of it so far.

State only. `lanes` decides whose turn it is, `claimer` makes the tries, `runner` takes the turn to its end.

    WantedClaim     which tick to claim, and how long to try
    PendingClaim    a wanted claim over all its tries: what was asked for, and what is not known yet
    Turn            a job, its wanted claim, its pending claim, and the results of its runs
    Lane            the turns and runs of one job on this instance
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from firecron.jobs.job import Job
from firecron.jobs.result import Result
from firecron.jobs.run import Trigger
from firecron.lock.contender import Bid
from firecron.lock.refusal import Refusal
from firecron.runs.policy import Claim

State: TypeAlias = Literal["called", "trying", "waiting"]


@dataclass(frozen=True, slots=True)
class WantedClaim:
    """A claim that is wanted: of the tick `due`, after what the record says comes first; without `due`, only of the
    latter.

    A patient one is tried until the tick's grace is over, any other once, whatever the grace. One that `looks_back` is
    for a tick from before this instance was there: it is made only where the job has run before.
    """

    due: str | None
    trigger: Trigger
    is_patient: bool = True
    looks_back: bool = False

    @property
    def tick_to_report(self) -> str | None:
        """The tick, to be reported if it does not run; None for one from before this instance was there."""
        return None if self.looks_back else self.due


@dataclass(eq=False)
class PendingClaim:
    """A wanted claim that is being tried; all tries share the token of `bid`.

    `ends` is the monotonic time at which the tick's grace is over, None while it is not known. `asked` has each claim
    that was asked for, by the instant of the asking: any of them may have been written although its reply was lost.
    `in_doubt` has the earlier ticks for which that is not known yet, with the last refusal of each.
    """

    job: Job
    wanted: WantedClaim
    bid: Bid = field(init=False)
    ends: float | None = None
    tries: int = 0
    refusal: Refusal | None = None
    asked: dict[int, Claim] = field(default_factory=dict)
    in_doubt: list[tuple[str, Refusal]] = field(default_factory=list)

    def retarget(self, wanted: WantedClaim) -> None:
        """Try for another tick, with the same token: a write whose reply was lost may still become a win."""
        self.wanted = wanted
        self.ends = None
        self.tries = 0
        self.refusal = None


@dataclass(eq=False)
class Turn:
    """A job that wants to run, until it has run or can't. `results` are those of its runs, or the refusal."""

    job: Job
    wanted: WantedClaim
    lane: Lane
    pending: PendingClaim | None = None
    results: list[Result] = field(default_factory=list)
    has_entered: bool = False

    @property
    def has_tried(self) -> bool:
        """Whether it has tried for its own tick. A pending claim that it took over is still for another's."""
        return self.pending is not None and self.pending.wanted is self.wanted

    def is_newer_than(self, other: Turn) -> bool:
        """Whether its tick is later; a turn with a tick is newer than one without."""
        due, others = self.wanted.due, other.wanted.due
        return due is not None and (others is None or due > others)


@dataclass(eq=False)
class Lane:
    """What one job does on this instance.

    `current` is the turn that may try to claim, `line` the turns after it, `look` one without a tick. A place is taken
    by a run (of a turn, or by hand), or reserved for a run by hand that has no lock yet. Both are sets: to leave a
    place twice is to leave it once.
    """

    most: int = 1
    queues: bool = False
    keeps_all: bool = False
    running: set[Turn | Place] = field(default_factory=set)
    reserved: set[Place] = field(default_factory=set)
    current: Turn | None = None
    state: State = "called"
    line: list[Turn] = field(default_factory=list)
    look: Turn | None = None

    @property
    def is_full(self) -> bool:
        return len(self.running) + len(self.reserved) >= self.most


@dataclass(eq=False)
class Place:
    """A place for a run by hand. The run makes it before it reserves it, so that it can be left at any moment."""

    lane: Lane
