"""What really happened: the claims of the locks, the bodies, what the instances said, and the history of each job.

The oracle writes this down as it watches. Nothing here judges.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.simulation.fleets.scenario import JobSpec
from tests.simulation.machines import SECOND

from firecron.base.events import Event
from firecron.jobs.run import Run


@dataclass(eq=False)
class Claim:
    """A write that took a lock. All times are true time in nanoseconds, but for `expires` (the record's, in ms)."""

    job: str
    machine: str
    slot: str | None
    attempt: int
    fence: int | None
    at: int
    # When it was sent, by its own record: it may have been on its way for long.
    dated: int
    was_before: dict[str, object]
    # Until when the lock counts as held by the last write of this holder, in the database's milliseconds.
    held_until: int
    expires: int
    # Until when whoever asked found it held: a release is dated by its sender, and may arrive much later.
    looked_held_until: int = 0
    # When it had expired, if it was released only after that.
    expired: int | None = None
    is_released: bool = False
    released_at: int | None = None
    outcome: str | None = None
    # Whether an operator has unlocked or deleted it, and when one has cancelled it.
    is_meddled_with: bool = False
    cancelled_at: int | None = None
    body: Body | None = None
    # The tick that it resumes, of a claim by hand that does.
    resumes: str | None = None


@dataclass(eq=False)
class Body:
    """A run's bodies: more than one only by `retries`."""

    run: Run
    machine: str
    job: str
    slot: str | None
    begun: int
    # The last time at which it looked and its lease was not lost.
    trusted: int | None = None
    has_seen_loss: bool = False
    is_running: bool = True
    ended: int | None = None
    error: BaseException | None = None
    calls: int = 1
    is_resumed: bool = False


@dataclass
class Said:
    """An event of an instance."""

    at: int
    machine: str
    event: Event


@dataclass
class History:
    """What really happened to one job."""

    spec: JobSpec
    claims: list[Claim] = field(default_factory=list)
    bodies: list[Body] = field(default_factory=list)
    # Spans in which the node said that the job is paused.
    paused: list[tuple[int, int | None]] = field(default_factory=list)
    deleted: list[int] = field(default_factory=list)
    unlocked: list[int] = field(default_factory=list)
    # The fences of the runs that an operator has seen and wants to end.
    unwanted: set[int] = field(default_factory=set)
    # What was written to the history: for each tick when, the outcome, and the attempt.
    written: dict[str, list[tuple[int, object, int]]] = field(default_factory=dict)
    # Where and when an operator has asked for a tick once more: the lock is taken to look whether that may be.
    looked: list[tuple[str, int, int]] = field(default_factory=list)

    def may_look(self, claim: Claim) -> bool:
        """Return whether a claim may have been made only to look at the history."""
        return claim.slot in (None, claim.was_before.get("unfinished")) and any(
            machine == claim.machine and start <= claim.at <= end + SECOND for machine, start, end in self.looked
        )

    def has_succeeded(self, slot: str) -> bool:
        """Return whether the history has said of a tick that it succeeded."""
        return any(outcome == "succeeded" for _, outcome, _ in self.written.get(slot, []))

    def claimed_at(self, body: Body) -> int:
        """Return when the lock was taken for a body; when it began, if that is not known."""
        if self.spec.once_per_tick:
            return next((claim.at for claim in self.claims if claim.body is body), body.begun)
        # No fence names the claim: it is the machine's last one before the body.
        claims = (one.at for one in self.claims if one.machine == body.machine and one.at <= body.begun)
        return max(claims, default=body.begun)

    def deleted_between(self, claim: Claim, body: Body) -> bool:
        """Return whether the node was deleted between this claim and that of a body."""
        first, last = sorted((claim.at, self.claimed_at(body)))
        return any(first <= time <= last for time in self.deleted)
