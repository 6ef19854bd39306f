"""A lane: all that waits for one job on this instance, and which run of the job may begin here. Pure decisions.

A lane has one method for each event. The method changes the lane and returns commands, in their order. `lanes` carries
them out, and is the only caller: under one lock, so no two events of a lane interleave. Time and what the policy of the
job says are arguments.

An attempt is a try of this instance to run one tick of the job; an attempt without a tick is a look for a run that died
and for missed ticks. At most one attempt of a lane is the current one, and only the current one has a pending claim:

    state      what goes on
    -          there is no current attempt
    called     a worker is to come, or is on its way to the next claim
    trying     it is on a worker, and asks for the lock
    waiting    it has no worker, and waits for its next try; the pending claim stays, with its token
    holding    it has run an earlier tick, and waits for the end of that run's minimum hold

Beside it: `open`, a tick that is left to other instances for now; `line`, the attempts after the current one, oldest
first; `look`, an attempt without a tick; `looks_at`, when the next look was planned for; `running` and `reserved`, the
runs under way here, and the runs by hand that have no lock yet; `unanswered`, the claim of a run by hand that got no
answer; `claimed`, the newest tick that its attempts have seen claimed, by whomever.

    event (method)                  -           called       trying       waiting      holding
    a tick: Lanes.due               open, or stands in line, in every state; it replaces an open tick
    a ticket: OpenTick.judge        the open tick goes on waiting, or its attempt stands in line
    an attempt comes: stand         called      newer: 1     line         newer: 1     2
    a worker comes: enter           3           trying: 4    3            3            trying: 4
    the minimum hold lasts: hold    -           -            holding      -            -
    refused, tries again: wait      -           -            waiting      -            -
    its time has come: recall       3           3            3            called: 5    called: 5
    the lock has changed: replan    3           3            3            waiting: 5   3
    refused for good: leave         3           no current   no current   -            no current
    acquired: begin                 -           -            running      -            -
    the run has ended: end          called or holding if it goes on; else the next in line is called
    not wanted any more: drop       3           no current   3            no current   no current
    by hand: reserve, occupy, vacate            a place is taken, is running, is free
    stop: clear                     all but what tries or runs is dropped

    1  a newer tick becomes the current attempt, and takes over the pending claim, token and all: a write whose reply
       was lost may still become a win. `catch_up` runs what was not claimed until then. A look that gives way is made
       later. If all ticks queue, the newer one stays in line
    2  the lock is held as it is by a run: the tick stays in line if ticks queue, else it is skipped
    3  nothing happens: the attempt is over, a newer one has its place, or another worker is at it
    4  if a run by hand took the place since it was called, the attempt goes back to the line
    5  the last plan counts: the time of any other one is nothing

A dash says that the event can't come: only the worker that tries with the attempt reports what became of its try.
After each change the lane is settled: if there is no current attempt and a place is free, the first in line is called.
If all places are taken by runs, the line stays if ticks queue, and is skipped if they don't. With `cancel_previous` a
tick that stands in line has the run before it cancelled, as it comes and as that run begins. A look comes after all
ticks; one is enough, and none is needed once a run begins, because the run's claim has looked.

A worker that comes goes on with the attempt that is called by then (`called`): if a newer one has taken the place of
the one that called it, its own call is still on its way, and finds nothing to do.

A fork needs no event: the child begins without lanes, and an attempt of the parent has no events there.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

from firecron.base.clocks import Moment
from firecron.base.instants import to_milliseconds
from firecron.base.tickets import Tickets, TickWave
from firecron.jobs.job import Job
from firecron.jobs.options import JobOptions
from firecron.jobs.registry import Result
from firecron.jobs.run import Trigger
from firecron.lock.blocks import Tries
from firecron.lock.protocol import Bid
from firecron.lock.refusal import Refusal
from firecron.runs.policy import Claim


@dataclass(eq=False)
class Attempt:
    """A try of this instance to run the tick `due`, until it has run or can't; without one, a look.

    First what the record leaves to do is claimed (an abandoned run, missed ticks), then the tick. `trigger` is the
    trigger of a run of the tick. `came` is when the attempt was made, on the monotonic clock: a worker may be free for
    it only later.

    A patient attempt tries until the tick's grace is over; any other one tries once, whatever the grace. One that
    `looks_back` is for a tick from before this instance had the job: it claims only if the job has run before, or
    `had_others` says that other instances had the job by then. One that `insists` tries again soon if the database
    can't be reached: a lock was seen to expire now. One that `is_later` tries some time after its tick (in a later
    wave, once a worker is free, once RTDB's time is known, on a new instance): the tick is skipped if the lock was held
    when it came.

    `results` are the results of its runs, or its refusal. `claimed_at` is the clock reading of the claim of its last
    run, from which that run's minimum hold counts. `tries_at` is when it tries again, on the monotonic clock, and
    `plan` the call that is planned for it: any earlier one is void.
    """

    job: Job
    lane: Lane
    due: str | None
    came: float
    trigger: Trigger = "schedule"
    is_patient: bool = True
    looks_back: bool = False
    insists: bool = False
    is_later: bool = False
    had_others: bool = False
    results: list[Result] = field(default_factory=list, init=False)
    claimed_at: Moment | None = field(default=None, init=False)
    tries_at: float = field(default=0.0, init=False)
    plan: object = field(default=None, init=False)

    @property
    def tick_to_report(self) -> str | None:
        """The tick to report if it does not run; None for a tick from before this instance had the job."""
        return None if self.looks_back else self.due

    def is_like(self, other: Attempt) -> bool:
        """Return whether the other attempt is for the same tick, job and trigger."""
        return self.job is other.job and (self.due, self.trigger) == (other.due, other.trigger)

    def is_newer_than(self, other: Attempt) -> bool:
        """Return whether this attempt's tick is later. An attempt with a tick is newer than a look."""
        return (self.due or "") > (other.due or "")


@dataclass(eq=False)
class PendingClaim:
    """A claim that is being tried, for an attempt. All tries share the token of `bid`.

    `ends` is the monotonic time at which the tick's grace is over, None while that is not known. `asked` has each claim
    that was asked for, by the instant of its reading and the tick that it writes, if it writes one: any of them may
    have been written although its reply was lost.
    `in_doubt` has the earlier ticks that may have been claimed since they were refused, in this way or by others, each
    with its last refusal. `cancelled` is the holder of the run that this claim has cancelled. `follow` follows the
    lock of another instance's run, which the tick waits for, from the first refusal to the end of the claim.
    `is_pause_unknown` says that the last try could not read the pause of its stored job, and so has asked for nothing.
    """

    attempt: Attempt
    bid: Bid = field(init=False)
    ends: float | None = None
    tries: int = 0
    refusal: Refusal | None = None
    asked: dict[tuple[int, str | None], Claim] = field(default_factory=dict)
    in_doubt: list[tuple[str, Refusal]] = field(default_factory=list)
    cancelled: str | None = None
    follow: Tries | None = None
    is_pause_unknown: bool = False

    def retarget(self, attempt: Attempt) -> None:
        """Try for another tick with the same token: a write whose reply was lost may still become a win."""
        self.attempt = attempt
        self.ends = None
        self.tries = 0
        self.refusal = None

    @property
    def hears(self) -> bool:
        """Whether it waits for another instance's run, whose end it may hear."""
        return self.follow is not None and self.refusal is not None and self.refusal.reason == "held"

    def seconds_left(self, now: float) -> float:
        """Return the seconds until the grace is over."""
        return math.inf if self.ends is None else (self.ends - now) / 1000

    def seconds(self, chance: Callable[[], float], planned: float = math.inf) -> float:
        """Return the seconds until the next try for a held lock, by what is heard of it.

        If nothing is heard, it is some seconds, or those `planned`: a stream that fails again and again would put the
        try off each time.
        """
        if self.follow is not None and self.follow.hears:
            return self.follow.seconds()
        return min(0.5 + 4.5 * chance(), planned)

    def unfollow(self) -> None:
        """Follow the lock no more."""
        follow, self.follow = self.follow, None
        if follow is not None:
            follow.close()


@dataclass(eq=False)
class OpenTick:
    """A tick that is left to other instances for now: its attempt does not stand in line yet.

    `ends` is when it may not start any more, on the monotonic clock, and `looks_at` when it is judged next. A tick with
    too little time to be left to others, or with nobody knows how much, has no end, and is asked for.
    """

    attempt: Attempt
    wave: TickWave
    ends: float | None = None
    looks_at: float = math.inf

    def judge(self, now: float, tickets: Tickets, contenders: int, *, is_look: bool) -> Literal["over", "ask"] | float:
        """Return whether its time has come; if not, when to judge it again, or infinity if that is planned already."""
        if is_look:
            self.looks_at = math.inf
        at = self.wave.asks_at(tickets.size(now), contenders)
        if self.ends is not None and now >= self.ends:
            return "over"
        if self.ends is None or (at is not None and at <= now):
            return "ask"
        look = min(math.inf if at is None else at, tickets.stale_at)
        if self.looks_at <= look:
            return math.inf
        self.looks_at = look
        return look


class LaneCommand(NamedTuple):
    """What `lanes` has to do after an event.

    call    have a worker come for the attempt
    try     the worker that came goes on with the attempt
    cancel  have the runs before the attempt's tick end, which it stands in line for
    skip    report the attempt's tick as skipped
    drop    give up the claim, with which no attempt goes on
    """

    do: Literal["call", "try", "cancel", "skip", "drop"]
    what: Attempt | PendingClaim
    why: str = ""


RUNS = "it still runs on this instance"
HOLDS = "the minimum hold of its last run is not over"
NEWER = "a newer tick came"
UNWANTED = "the job does not run here any more (paused, or removed)"

_ITS_WORKER = "nobody but the worker that tries with the attempt says what becomes of it"

State: TypeAlias = Literal["called", "trying", "waiting", "holding"]


@dataclass(eq=False)
class Lane:
    """What waits for one job, and what runs of it. The text above is about this class.

    It goes by the `options` of the job that has the name now. If runs of the job may overlap, there are `most` of them
    at a time. `running` and `reserved` are sets, so to leave a place twice is the same as to leave it once.
    """

    options: JobOptions
    most: int
    open: OpenTick | None = None
    current: Attempt | None = None
    state: State = "called"
    pending: PendingClaim | None = None
    line: list[Attempt] = field(default_factory=list)
    look: Attempt | None = None
    looks_at: int | None = None
    running: set[Attempt] = field(default_factory=set)
    reserved: set[Attempt] = field(default_factory=set)
    unanswered: PendingClaim | None = None
    claimed: int | None = None

    @property
    def free(self) -> int:
        """How many more runs may begin."""
        return self.options.places(self.most) - len(self.running) - len(self.reserved)

    @property
    def is_trying(self) -> bool:
        """Whether the current attempt asks for the lock."""
        return self.current is not None and self.state == "trying"

    @property
    def is_busy(self) -> bool:
        """Whether anything waits or runs here."""
        waits = self.current or self.look or self.line or self.open or self.unanswered
        return bool(waits or self.running or self.reserved)

    # --- attempts

    def stand(self, attempt: Attempt) -> list[LaneCommand]:
        """An attempt comes. A tick that comes while its job runs here is skipped now, not once a worker is free."""
        commands = [*self._line_up(attempt), *self.settle()]
        return [*commands, *self._cancel([attempt])]

    @property
    def called(self) -> Attempt | None:
        """The attempt that a worker is to go on with, whichever it was called for.

        Else ticks that come faster than workers are free would displace each other at the end of the workers' queue
        for ever.
        """
        return self.current if self.state == "called" else None

    def enter(self, attempt: Attempt, now: float, margin: int) -> list[LaneCommand]:
        """A worker comes. If the attempt may claim, and its place is still free, the worker tries.

        If the worker came late to the first try, a tick that had to be skipped at once still is. Else a tick whose lock
        was held as it came would start late, once that lock and a worker are both free.
        """
        if self.current is not attempt or self.state not in ("called", "holding"):
            return []
        if self.free <= 0:
            self.current = None  # a run by hand took the place
            return [*self._line_up(attempt), *self.settle()]
        self.state = "trying"
        is_first = not self._has_tried(attempt) and attempt.claimed_at is None  # its own runs have held the lock, too
        if is_first and now - attempt.came > margin and attempt.job.options.asks_in_waves:
            attempt.is_later = True
        return [LaneCommand("try", attempt)]

    def hold(self, attempt: Attempt) -> list[LaneCommand]:
        """The minimum hold of the attempt's last run is not over."""
        assert self.current is attempt, _ITS_WORKER
        self.state = "holding"
        return self.settle()

    def wait(self, attempt: Attempt, pending: PendingClaim | None) -> list[LaneCommand]:
        """The attempt's try was refused, and it tries again, with this claim."""
        assert self.current is attempt, _ITS_WORKER
        self.state, self.pending = "waiting", pending
        return self.settle()

    def recall(self, attempt: Attempt, plan: object) -> list[LaneCommand]:
        """The time of a next try has come. Any other plan than the attempt's last one is void."""
        if self.current is not attempt or self.state not in ("waiting", "holding") or attempt.plan is not plan:
            return []
        self.state = "called"
        return [LaneCommand("call", attempt)]

    def begin(self, attempt: Attempt) -> list[LaneCommand]:
        """The attempt has its lock, and its run begins."""
        self.running.add(attempt)
        self.look = None
        return [*self.leave(attempt), *self._cancel(self.line)]

    def end(self, attempt: Attempt, *, goes_on: bool, holds: bool) -> list[LaneCommand]:
        """A run has ended. If its attempt goes on with another claim, it comes before all others in line.

        If it still holds the lock, it goes on later, and the line treats it as a run until then.
        """
        self.running.discard(attempt)
        commands: list[LaneCommand] = []
        if goes_on and self.current is None:
            self.current, self.state = attempt, "holding" if holds else "called"
        elif goes_on:
            commands = self._line_up(attempt)
        return [*commands, *self.settle()]

    def leave(self, attempt: Attempt) -> list[LaneCommand]:
        """An attempt is over, or runs. Its claim is not pending any more."""
        if self.current is attempt:
            self.current = self.pending = None
        return self.settle()

    def drop(self, attempt: Attempt) -> list[LaneCommand]:
        """An attempt is not wanted any more. One that tries, on another worker, is left alone."""
        if self.current is not attempt or self.state == "trying":
            return []
        self.current = None
        told = LaneCommand("skip", attempt, UNWANTED)
        return [told, *self._drop_claim([told]), *self.settle()]

    # --- runs by hand

    def reserve(self, attempt: Attempt) -> bool:
        """Reserve a place for a run by hand, before it has its lock. Return whether there was one.

        If the job holds no lock, nothing else keeps the run and an attempt that is trying apart.
        """
        if self.free <= (self.is_trying and not self.options.has_lease):
            return False
        self.reserved.add(attempt)
        return True

    def occupy(self, attempt: Attempt) -> list[LaneCommand]:
        """A run by hand has its lock, and begins. Further calls change nothing."""
        self.running.add(attempt)
        self.reserved.discard(attempt)
        return self.settle()

    def vacate(self, attempt: Attempt) -> list[LaneCommand]:
        """A run by hand is over. Further calls change nothing."""
        self.running.discard(attempt)
        self.reserved.discard(attempt)
        return self.settle()

    # --- the rest

    def see(self, attempt: Attempt) -> None:
        """Note the newest claimed tick that this attempt knows of: that of its own run, or of a refusal."""
        for result in attempt.results:
            seen = result.run or result.refusal
            if seen is not None and seen.slot is not None:
                slot = to_milliseconds(seen.slot)
                self.claimed = max(slot, self.claimed or slot)

    def clear(self) -> PendingClaim | None:
        """Drop all that waits, for a stop or a new start. Return the claim that is not pending any more.

        An attempt that is trying ends by itself.
        """
        self.line.clear()
        self.open = self.look = self.looks_at = None
        if self.is_trying:
            return None
        pending, self.current, self.pending = self.pending, None, None
        return pending

    def settle(self) -> list[LaneCommand]:
        """Call the next attempt if it may claim now. The text above says when."""
        if not self.line:
            if self.look is None or self.current is not None or self.free <= 0:
                return []
            self.current, self.look, self.state = self.look, None, "called"
            return [LaneCommand("call", self.current)]
        first, commands = self.line[0], list[LaneCommand]()
        holds = self.current is not None and self.state == "holding"
        if self.current is not None and not holds:
            if self.state == "trying" or self.options.keeps_all_waiting or not first.is_newer_than(self.current):
                return []
            if self.current.due is None:
                self.look = self.current
            elif not self._has_tried(self.current):
                # It has not tried for its own tick, so it has not reported the tick, and will not.
                commands.append(LaneCommand("skip", self.current, NEWER))
        elif holds or self.free <= 0:
            if self.options.waits or not (holds or self.free + len(self.reserved) <= 0):
                return []
            commands = [LaneCommand("skip", one, HOLDS if holds else RUNS) for one in self.line]
            self.line.clear()
            return commands if holds else [*commands, *self._drop_claim(commands)]
        self.current, self.state = self.line.pop(0), "called"
        return [*commands, LaneCommand("call", first)]

    def _has_tried(self, attempt: Attempt) -> bool:
        """Return whether the pending claim is for this attempt: before its first try it is for an older one."""
        return self.pending is not None and self.pending.attempt is attempt

    def _cancel(self, attempts: list[Attempt]) -> list[LaneCommand]:
        """Have the runs end for which these stand in line, if that is the policy of their job."""
        return [LaneCommand("cancel", one) for one in attempts if one in self.line and one.job.options.cancels_previous]

    def _line_up(self, attempt: Attempt) -> list[LaneCommand]:
        """Put an attempt in line. Only the newest one stays, unless all ticks queue."""
        if attempt.due is None:
            # Kept although others are ahead: they may be given up without another try.
            self.look = attempt
            return []
        self.line.append(attempt)
        self.line.sort(key=lambda one: one.due or "")
        if self.options.keeps_all_waiting:
            return []
        *older, _ = self.line
        del self.line[:-1]
        # The newest one takes over a pending claim and its token. The claimer then reports the tick that it was for.
        return [LaneCommand("skip", one, NEWER) for one in older if not self._has_tried(one)]

    def _drop_claim(self, told: list[LaneCommand]) -> list[LaneCommand]:
        """Drop the pending claim: no attempt goes on with it. Its tick is told of already, or was overtaken in line."""
        pending, self.pending = self.pending, None
        if pending is None:
            return []
        is_told = any(command.what is pending.attempt for command in told)
        return [LaneCommand("drop", pending), *([] if is_told else [LaneCommand("skip", pending.attempt, NEWER)])]
