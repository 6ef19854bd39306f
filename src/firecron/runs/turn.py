"""A turn: one attempt of this instance to run a job, with its state so far.

This module holds state only. `lanes` decides which turn may try, `claimer` makes the tries, and `runner` takes the turn
to its end.

    WantedClaim     which tick to claim, and how long to try
    PendingClaim    a wanted claim during its tries: the claims that were asked for, and the ticks in doubt
    Turn            a job, its wanted claim, its pending claim, and the results of its runs
    Lane            the turns and runs of one job on this instance
    Place           a place for a run by hand in a lane
    Agenda          takes the work that a turn schedules for later: the engine, which this room doesn't know
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol, TypeAlias

from firecron.jobs.job import Job
from firecron.jobs.registry import Result
from firecron.jobs.run import Trigger
from firecron.lock.protocol import Bid
from firecron.lock.refusal import Refusal
from firecron.runs.policy import Claim


@dataclass(frozen=True, slots=True)
class WantedClaim:
    """What to claim: first what the record leaves to do (an abandoned run, missed ticks), then the tick `due`.

    Without `due`, only what the record leaves to do is claimed. `trigger` is the trigger of a run of `due`. A patient
    claim is tried until the tick's grace is over. Any other claim is tried once, whatever the grace. A claim that
    `looks_back` is for a tick from before this instance had the job: it is made only if the job has run before, or
    `had_others` says that other instances had the job by then. A claim that `insists` is made again soon if the
    database can't be reached: a lock was seen to expire now. A claim that `is_later` is made some time after its tick
    (in a later wave, once a worker is free, by a new instance): the tick is skipped if the lock was held when it came.
    """

    due: str | None
    trigger: Trigger = "schedule"
    is_patient: bool = True
    looks_back: bool = False
    insists: bool = False
    is_later: bool = False
    had_others: bool = False

    @property
    def tick_to_report(self) -> str | None:
        """The tick to report if it does not run; None for a tick from before this instance had the job."""
        return None if self.looks_back else self.due


@dataclass(eq=False)
class PendingClaim:
    """A wanted claim that is being tried. All tries share the token of `bid`.

    `ends` is the monotonic time at which the tick's grace is over, None while that is not known. `asked` has each claim
    that was asked for, by the instant of its reading: any of them may have been written although its reply was lost.
    `in_doubt` has the earlier ticks that may have been claimed since they were refused, in this way or by others, each
    with its last refusal. `cancelled` is the holder of the run that this claim has cancelled.
    """

    job: Job
    wanted: WantedClaim
    bid: Bid = field(init=False)
    ends: float | None = None
    tries: int = 0
    refusal: Refusal | None = None
    asked: dict[int, Claim] = field(default_factory=dict)
    in_doubt: list[tuple[str, Refusal]] = field(default_factory=list)
    cancelled: str | None = None

    def retarget(self, wanted: WantedClaim) -> None:
        """Try for another tick with the same token: a write whose reply was lost may still become a win."""
        self.wanted = wanted
        self.ends = None
        self.tries = 0
        self.refusal = None


@dataclass(eq=False)
class Turn:
    """One attempt to run a job, until it has run or can't. `results` has the results of its runs, or its refusal.

    `came` is when it was made, on the monotonic clock: a worker may be free for it only later. While it waits,
    `tries_at` is when it tries again, on the same clock. `plans` grows each time that changes. `hold_left` returns how
    many seconds are left of the minimum hold of its last run; the runner sets it after each run.
    """

    job: Job
    wanted: WantedClaim
    lane: Lane
    came: float
    pending: PendingClaim | None = None
    results: list[Result] = field(default_factory=list)
    has_entered: bool = False
    plans: int = 0
    tries_at: float = 0.0
    hold_left: Callable[[], float] = lambda: 0.0

    @property
    def has_tried(self) -> bool:
        """Whether the turn has tried for its own tick. A pending claim that it took over is still for another tick."""
        return self.pending is not None and self.pending.wanted is self.wanted

    def take_up(self, now: float, margin: int) -> None:
        """Note that the turn tries now. If a worker came to it late, a tick that had to be skipped at once still is.

        Else a tick whose lock was held as it came would start late, once that lock and a worker are both free.
        """
        is_first = not self.has_tried and not self.results  # the turn's own runs have held the lock, too
        if is_first and now - self.came > margin and self.job.options.asks_in_waves:
            self.wanted = replace(self.wanted, is_later=True)

    def is_newer_than(self, other: Turn) -> bool:
        """Return whether this turn's tick is later. A turn with a tick is newer than a turn without one."""
        due, others = self.wanted.due, other.wanted.due
        return due is not None and (others is None or due > others)


LaneState: TypeAlias = Literal["called", "trying", "waiting", "holding"]


@dataclass(eq=False)
class Lane:
    """The turns and runs of one job on this instance.

    `current` is the turn that may try to claim, `line` has the turns after it, and `look` is a turn without a tick. A
    place is taken by a run (of a turn, or by hand), or reserved for a run by hand that has no lock yet. `running` and
    `reserved` are sets, so leaving a place twice is the same as leaving it once.
    """

    most: int = 1
    queues: bool = False
    keeps_all: bool = False
    running: set[Turn | Place] = field(default_factory=set)
    reserved: set[Place] = field(default_factory=set)
    current: Turn | None = None
    state: LaneState = "called"
    line: list[Turn] = field(default_factory=list)
    look: Turn | None = None

    @property
    def is_full(self) -> bool:
        return len(self.running) + len(self.reserved) >= self.most


@dataclass(eq=False)
class Place:
    """A place for a run by hand.

    The object is created before the place is reserved, so that the place can be left at any moment.
    """

    lane: Lane


class Agenda(Protocol):
    """Takes work to be done now or at an instant. The engine is the agenda. No method blocks."""

    def submit(self, turn: Turn) -> None:
        """Give the turn to a worker, which goes on with it."""

    def at(self, instant: int, call: Callable[[], None]) -> None:
        """Make this call when RTDB's clock shows the instant. The call must not block."""

    def look_again(self, job: Job, instant: int) -> None:
        """Look for a dead run of the job at this instant of RTDB's clock, when a lock that was seen expires."""

    def wake(self, job: Job) -> None:
        """Look again when the job's waiting turn is to try: its lock has changed, or isn't heard of any more."""
