"""Lanes: the lane of each job on this instance, under one lock, and the commands of its events carried out.

    ticker ─ due, look_back ─►        ┌─► a worker calls `Worker.go_on`, which claims and runs
    heartbeat ─ observe_tickets ─►  lanes ─► the agenda makes a call later: a next try, a look
    runner, claimer ─ what became ─►  └─► run.skipped

`lane` decides; this module has the threads, the time and the reports. No method blocks but by the lock, which is held
for decisions alone. An attempt has a worker thread while it claims, runs and records, and none while it waits.

Each instance reports the ticks that it skips or misses itself, at that time: only this module emits `run.skipped` and
`run.missed`. The bookkeeper reports the ticks that no instance ran.

Whether other instances are to ask for a tick first is the promise of `base/tickets`. Some ticks are always asked for at
once: those with less time than two heartbeats, those of jobs with `once_per_tick=False` or with another overlap than
"skip", and those of a job that the last ticket was not for. Runs by hand, triggered runs, reruns and catching up
go by no tickets. An open tick is asked for at most once, whichever thread judges it. Nothing is logged of a tick that
was not asked for: the instances that asked do that.
"""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable, Mapping
from functools import partial
from typing import Concatenate, ParamSpec, Protocol

from firecron.base.events import Events
from firecron.base.flag import Flag, in_each_process
from firecron.base.instants import to_milliseconds
from firecron.base.threads import Crew
from firecron.base.tickets import Tickets, TickWave, is_long_enough, place_of_tick
from firecron.jobs.job import Job
from firecron.jobs.run import Trigger
from firecron.lock.database import Database
from firecron.runs.lane import Attempt, Lane, LaneCommand, OpenTick, PendingClaim
from firecron.runs.policy import time_to_start

Event = ParamSpec("Event")

# Two plans this close, in milliseconds, are one.
_SAME = 1.0


class Agenda(Protocol):
    """Makes calls later, which must not block: the ticker."""

    def at(self, instant: int, call: Callable[[], None]) -> None:
        """Make this call when RTDB's clock shows the instant."""

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make this call in this many seconds."""


class Worker(Protocol):
    """Does on a worker's thread what may block: the runner."""

    def go_on(self, attempt: Attempt) -> float | None:
        """Claim and run until the attempt is over or has to wait. Return the seconds until its next try, if any."""

    def cancel_previous(self, attempt: Attempt) -> float | None:
        """Ask the runs of earlier ticks to end. Return the seconds until another look; None once all have ended."""

    def drop(self, pending: PendingClaim) -> None:
        """Give up a claim with which no attempt goes on."""


class Lanes:
    """The lanes of all jobs. The `crew` has the workers. The engine sets the other parts before the first event.

    A job with overlap="allow" may have `max_concurrent` runs at a time. Once `stopping` is set, nothing is called.
    `attempted` is called after each time that a worker was at an attempt; if it was for an entry, `attempted_entry`.
    """

    agenda: Agenda
    worker: Worker
    attempted: Callable[[Attempt], object]
    attempted_entry: Callable[[Attempt], object]

    def __init__(self, database: Database, crew: Crew) -> None:
        self._database = database
        self._most = database.settings.max_concurrent
        self._contenders = database.settings.contenders
        self._heartbeat = database.settings.heartbeat * 1000
        self._crew = crew
        self._lanes: dict[str, Lane] = {}
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        """Begin without lanes. In a forked child none of the parent's attempts is called."""
        self._lock = threading.Lock()
        self.clear()
        self._lanes = {}
        self.stopping = Flag()
        self.forget_tickets()

    def lane(self, job: Job) -> Lane:
        with self._lock:
            lane = self._lanes.get(job.name)
            if lane is None:
                lane = self._lanes[job.name] = Lane(job.options, self._most)
            lane.options = job.options  # it may have been removed, and another one of its name added
        return lane

    def claimed(self, name: str) -> int | None:
        """Return the newest tick of this job that the attempts of this instance have seen claimed, by whomever."""
        lane = self._lanes.get(name)
        return None if lane is None else lane.claimed

    def is_busy(self, name: str) -> bool:
        """Return whether an attempt at this job waits or runs here."""
        lane = self._lanes.get(name)
        return lane is not None and lane.is_busy

    def attempt(self, job: Job, due: str | None, trigger: Trigger = "schedule", **flags: bool) -> Attempt:
        """Return a new attempt at the job, with these flags. That of a caller who waits for the result is by hand."""
        return Attempt(job, self.lane(job), due, self._database.timing.mono(), trigger, **flags)

    def open(self) -> None:
        """Take attempts from now on, also after a stop. Those from before it are dropped: nothing would call them."""
        self.clear()
        self.stopping = Flag()

    # --- ticks, which come from the ticker

    def due(self, job: Job, slot: str) -> None:
        """Ask for a tick that has come, or leave it open."""
        attempt = self.attempt(job, slot, is_later=self._is_overdue(job, slot))
        with self._lock:
            open_tick = attempt.lane.open = None if self.stopping else self._left_open(attempt, slot)
        if open_tick is None:
            self.stand(attempt)
        else:
            # Later, because it takes the job's next tick: a thousand jobs at one instant don't wait for each other.
            self.agenda.after(0, lambda: self._judge(open_tick))

    def look_back(self, job: Job, slot: str, *, had_others: bool = False) -> None:
        """Ask for a tick from before this instance had the job.

        Without `once_per_tick` the record doesn't show whether the tick has run, so it is left out.
        """
        if job.options.once_per_tick:
            is_later = job.options.asks_in_waves
            self.stand(self.attempt(job, slot, is_later=is_later, looks_back=True, had_others=had_others))

    def stand(self, attempt: Attempt) -> None:
        """Run this tick, if no other instance does. It stands in line as it comes, before it has a worker."""
        with self._lock:
            self._register(attempt)
            commands = [] if self.stopping else attempt.lane.stand(attempt)
        self._carry_out(commands)

    def _register(self, attempt: Attempt) -> None:
        """Have the attempt in the lane of its job: that of an entry may have been dropped, or made anew."""
        if attempt.job.declared is not None:
            attempt.lane = self._lanes.setdefault(attempt.job.name, attempt.lane)

    def _forget_idle(self, attempt: Attempt) -> None:
        """Drop the lane of an entry in which nothing is left: there may be a hundred thousand."""
        if attempt.job.declared is None:
            return
        with self._lock:
            if self._lanes.get(attempt.job.name) is attempt.lane and not attempt.lane.is_busy:
                del self._lanes[attempt.job.name]

    def _left_open(self, attempt: Attempt, slot: str) -> OpenTick | None:
        """Return the tick if it is left to other instances for now. Called under the lock."""
        job = attempt.job
        if self._left_jobs.get(job.name) is not job or not job.options.asks_in_waves:
            return None
        now = self._database.timing.mono()
        size = self.tickets.size(now)
        if size is None:
            return None
        wave = TickWave(now, self.tickets.distance(place_of_tick(job.name, slot)), size)
        return None if wave.asks_at(size, self._contenders) == now else OpenTick(attempt, wave)

    def _is_overdue(self, job: Job, slot: str) -> bool:
        """Return whether the ticker brings the tick late, as after a time in which RTDB's time was not known: the run
        that held the lock when the tick came may have ended since.
        """
        moment = self._database.clock.peek() if job.options.asks_in_waves else None
        latest = to_milliseconds(slot) + job.options.jitter + self._database.margin
        return moment is not None and moment.server > latest

    def _judge(self, open_tick: OpenTick, *, is_look: bool = False) -> None:
        """Ask for an open tick if its time has come; else see to it that it is judged again."""
        attempt, now = open_tick.attempt, self._database.timing.mono()
        ends = self._ends_of(attempt) if open_tick.ends is None else open_tick.ends
        with self._lock:
            if attempt.lane.open is not open_tick:
                return
            open_tick.ends = ends
            found = open_tick.judge(now, self.tickets, self._contenders, is_look=is_look)
            if isinstance(found, str):
                attempt.lane.open = None
        if found == "ask":
            attempt.is_later |= ends is not None
            self.stand(attempt)
        elif isinstance(found, float) and found < math.inf:
            # A millisecond later, because calls come at whole milliseconds. A look that came too early would plan the
            # next one for the same millisecond, again and again.
            self.agenda.after((math.floor(found - now) + 2) / 1000, lambda: self._judge(open_tick, is_look=True))

    def _ends_of(self, attempt: Attempt) -> float | None:
        """Return when the tick may not start any more, if it has the time to be left to others, and RTDB's is known."""
        options, slot, now = attempt.job.options, str(attempt.due), self._database.clock.peek()
        time = time_to_start(options, slot)
        if now is None or not is_long_enough(time - options.jitter, self._heartbeat):
            return None
        return now.mono + to_milliseconds(slot) + time - now.server

    # --- tickets, which come from the heartbeat

    def forget_tickets(self) -> None:
        """Drop the ticket and all open ticks."""
        with self._lock:
            self.tickets = Tickets(self._heartbeat)
            # The jobs of the group whose ticks may be left to others: none while all of the group ask at once.
            self._left_jobs: Mapping[str, Job] = {}
            for lane in self._lanes.values():
                lane.open = None

    def observe_tickets(self, tickets: Tickets, jobs: Mapping[str, Job]) -> None:
        """Go by these tickets, of the group that runs these jobs, and judge the open ticks again."""
        with self._lock:
            self.tickets, self._left_jobs = tickets, jobs if tickets.leave_ticks(self._contenders) else {}
            open_ticks = [lane.open for lane in self._lanes.values() if lane.open is not None]
        # Workers may be few, so that what came first goes first.
        for open_tick in sorted(open_ticks, key=lambda one: one.attempt.came):
            self._judge(open_tick)

    # --- looks for a run that died, and for missed ticks

    def look(self, job: Job, *, insists: bool = False) -> None:
        """Have a worker look at the job now."""
        self.stand(self.attempt(job, None, insists=insists))

    def look_again(self, job: Job, instant: int) -> None:
        """Plan one more look at the job, at the instant when a lock that was seen expires, in case its run dies."""
        lane = self.lane(job)
        with self._lock:
            if lane.looks_at is not None:
                return
            lane.looks_at = instant

        def look() -> None:
            with self._lock:
                if lane.looks_at != instant:
                    return
                lane.looks_at = None
            self.look(job, insists=True)

        self.agenda.at(instant, look)

    # --- what becomes of an attempt

    def play(
        self,
        event: Callable[Concatenate[Lane, Attempt, Event], list[LaneCommand]],
        attempt: Attempt,
        *what: Event.args,
        **wishes: Event.kwargs,
    ) -> list[LaneCommand]:
        """Play an event of an attempt's lane. Carry out what it commands, and return that."""
        with self._lock:
            # In a forked child the attempts of the parent have no lane.
            is_own = self._lanes.get(attempt.job.name) is attempt.lane
            commands = event(attempt.lane, attempt, *what, **wishes) if is_own else []
        self._carry_out(commands)
        return commands

    def enter(self, attempt: Attempt) -> bool:
        """Return whether this worker tries with the attempt. If not, it stands in line, is over, or is another's."""
        commands = self.play(Lane.enter, attempt, self._database.timing.mono(), self._database.margin)
        return any(command.do == "try" for command in commands)

    def replan(self, lane: Lane) -> None:
        """Plan the next try of a waiting attempt anew: its lock has changed, or isn't heard of any more."""
        with self._lock:
            attempt, pending = lane.current, lane.pending
            if attempt is None or pending is None or lane.state != "waiting" or not pending.hears:
                return
        now = self._database.timing.mono()
        planned = attempt.tries_at - now
        # If nothing is heard any more, no try comes later than planned, and none after the end of the grace.
        seconds = pending.seconds(self._database.chance, planned / 1000)
        delay = max(0.0, min(seconds, pending.seconds_left(now)))
        if abs(delay * 1000 - planned) > _SAME:
            self._plan(attempt, delay)

    # --- runs by hand

    def reserve(self, attempt: Attempt) -> bool:
        """Reserve a place for a run by hand, before the run has its lock. Return whether the lane had room."""
        with self._lock:
            self._register(attempt)
            return attempt.lane.reserve(attempt)

    def leave_unanswered(self, attempt: Attempt, pending: PendingClaim) -> None:
        """Keep the claim of a call that got no answer, for the next call for the same tick."""
        with self._lock:
            attempt.lane.unanswered = pending

    def take_unanswered(self, attempt: Attempt) -> PendingClaim | None:
        """Remove and return the claim of an earlier call for the same tick that got no answer, if any.

        It is removed because no two calls may share it.
        """
        lane = attempt.lane
        with self._lock:
            pending, lane.unanswered = lane.unanswered, None
        if pending is None or not pending.attempt.is_like(attempt):
            return None
        pending.attempt = attempt
        return pending

    def vacate(self, attempt: Attempt, *, again: bool = False) -> None:
        """Free the place of a run by hand that is over.

        `again` says that this is the second call, because the first one may have been interrupted at any line.
        """
        lane = attempt.lane
        with self._lock:
            commands = lane.vacate(attempt)
            if again and lane.called is not None:
                # Perhaps not called yet; to call it twice does no harm.
                commands = [LaneCommand("call", lane.called)]
        self._carry_out(commands)
        self._forget_idle(attempt)

    # --- a stop

    def clear(self) -> None:
        """Drop all that waits. An attempt that is trying ends by itself."""
        with self._lock:
            pending = [lane.clear() for lane in self._lanes.values()]
        for claim in pending:
            if claim is not None:
                claim.unfollow()

    # --- commands

    def _carry_out(self, commands: list[LaneCommand]) -> None:
        for do, what, why in commands:
            if isinstance(what, PendingClaim):
                self._drop_claim(what)
            elif do == "call":
                self._submit(partial(self._go_on, what))
            elif do == "cancel":
                self._submit(partial(self._cancel_previous, what))
            elif do == "skip" and (slot := what.tick_to_report) is not None and not self.stopping:
                report_skipped(self._database.events, what.job.name, slot, why)

    def _submit(self, work: Callable[[], None]) -> None:
        """Have a worker do this. Once this instance stops it is dropped.

        A run that was left behind may still call the next one. A worker of its own would stay, and wait for work.
        """
        if not self.stopping:
            self._crew.submit(work)

    def _go_on(self, attempt: Attempt) -> None:
        attempt = attempt.lane.called or attempt
        delay = self.worker.go_on(attempt)
        with self._lock:
            attempt.lane.see(attempt)
        if attempt.job.declared is None:
            self.attempted(attempt)
        else:
            self.attempted_entry(attempt)
        if self.stopping:
            self.play(Lane.drop, attempt)  # it was trying as all that waited was dropped
        elif delay is not None and attempt.lane.current is attempt:
            self._plan(attempt, delay)
            self.replan(attempt.lane)  # what was heard since the delay was computed has planned nothing
        self._forget_idle(attempt)

    def _plan(self, attempt: Attempt, delay: float) -> None:
        """Have the attempt try again after so many seconds, whatever was planned for it before."""
        attempt.tries_at = self._database.timing.mono() + delay * 1000
        # Not by its time: the end of the grace may be planned for twice, and another time in between.
        plan = attempt.plan = object()
        self.agenda.after(delay, lambda: self._recall(attempt, plan))

    def _recall(self, attempt: Attempt, plan: object) -> None:
        self.play(Lane.recall, attempt, plan)

    def _cancel_previous(self, attempt: Attempt) -> None:
        """Cancel the runs that the attempt stands in line for, again and again, as long as it does."""
        delay = self.worker.cancel_previous(attempt) if attempt in attempt.lane.line else None
        if delay is not None:
            self.agenda.after(delay, lambda: self._submit(partial(self._cancel_previous, attempt)))

    def _drop_claim(self, pending: PendingClaim) -> None:
        """Have a worker give up the claim. Once this instance stops, nothing more is told of it."""
        if self.stopping:
            pending.unfollow()
        else:
            self._submit(partial(self.worker.drop, pending))


# --- reports of ticks that this instance did not run


def report_skipped(events: Events, name: str, slot: str, why: str) -> None:
    """Report that this instance leaves the tick out on purpose."""
    events.emit("run.skipped", name, logging.INFO, f'"{name}" skips its tick {slot}: {why}', slot=slot)


def report_missed(events: Events, name: str, slot: str, why: str, late: int | None = None) -> None:
    """Report that this instance could not run the tick in time."""
    events.emit("run.missed", name, logging.WARNING, f'"{name}" missed its tick {slot}: {why}', slot=slot, late=late)
