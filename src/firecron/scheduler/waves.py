"""Waves: whether this instance asks for a tick that is due, and when. `base/tickets` has the promise.

    due             the tick comes: it is asked for at once, or it stays open
    observe_beat    a beat has brought a ticket, or none: each job's open tick is judged again
    a look          a wave's time has come, or the last ticket is too old: the tick is judged again

A tick stays open until it is asked for, until a newer tick of its job comes, or until it may not start any more.
Nothing is logged of a tick that was not asked for: the instances that asked do that.

Some ticks are always asked for at once: those with less time than two heartbeats, those of jobs with
`once_per_tick=False` or with another overlap than "skip", and those of a job that the last ticket was not for. Runs by
hand, triggered runs, reruns and catching up don't come here.

Judging is cheap, does no I/O, and happens under one lock. So a tick is asked for at most once, whichever thread judges:
the ticker's or the heartbeat's.
"""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from firecron.base.flag import in_each_process
from firecron.base.instants import to_milliseconds
from firecron.base.threads import Crew
from firecron.base.tickets import Tickets, TickWave, group_of, is_long_enough, place_of_tick
from firecron.jobs.job import Job
from firecron.jobs.registry import Registry
from firecron.leaders.leaders import Leaders
from firecron.lock.database import Database
from firecron.lock.fields import LEADER
from firecron.runs.policy import time_to_start


class Asker(Protocol):
    """Asks for ticks, and makes calls later: the engine. No method blocks."""

    def ask(self, job: Job, slot: str, *, is_later: bool) -> None:
        """Run this tick, if no other instance does. `is_later` says that it came in an earlier wave."""

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make this call in this many seconds. The call must not block."""


@dataclass(frozen=True, slots=True)
class OwnGroup:
    """The group of an instance, and the jobs that it runs, by name.

    `takes_ticket` is False for an instance without a free worker: it would only delay a tick.
    """

    group: str
    jobs: dict[str, Job]
    takes_ticket: bool = True


NO_GROUP = OwnGroup("", {})


@dataclass(eq=False)
class OpenTick:
    """An open tick. `ends` is when it may not start any more, on the monotonic clock; `looks_at` is the next look."""

    job: Job
    slot: str
    wave: TickWave
    ends: float = math.inf
    looks_at: float = math.inf


class Waves:
    """Decides for the jobs of the registry when the `asker` asks for their ticks."""

    def __init__(
        self,
        database: Database,
        registry: Registry,
        leaders: Leaders,
        crew: Crew,
        asker: Asker,
    ) -> None:
        self._database = database
        self.contenders = database.settings.contenders
        self._heartbeat = database.settings.heartbeat * 1000
        self._registry = registry
        self._leaders = leaders
        self._crew = crew
        self._asker = asker
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()
        self.forget()

    def forget(self) -> None:
        """Drop the ticket and all open ticks."""
        with self._lock:
            self._tickets = Tickets(self._heartbeat)
            self._own_group = NO_GROUP
            self._open: dict[str, OpenTick] = {}

    def size(self) -> float | None:
        """Return the size of the group that this instance is in; None if it is not known."""
        return self._tickets.size(self._database.timing.mono())

    def rank(self, what: str) -> float | None:
        """Return how many instances come before this one for this work; None if the size of the group is not known."""
        size = self.size()
        return None if size is None else size * self._tickets.distance(place_of_tick(what, ""))

    def distance(self, name: str, what: str) -> float:
        """Return how far the last ticket is after the place of this, for the leader of this name."""
        return self._tickets.distance(place_of_tick(name, f"{LEADER} {what}"))

    def own_group(self) -> OwnGroup:
        """Return the group that the next beat belongs to."""
        jobs = {job.name: job for job in self._registry.jobs() if self._registry.is_wanted(job)}
        members = ((name, job.options.schedule.line, job.options.schedule.timezone) for name, job in jobs.items())
        everything = [*members, *self._leaders.members()]
        group = group_of(everything, self._heartbeat, self.contenders, self._database.identity.service)
        return OwnGroup(group, jobs, not self._crew.is_full)

    def observe_beat(self, own_group: OwnGroup | None, number: int | None, at: float) -> None:
        """Take the number that a beat has brought at this monotonic time, if any, and judge the open ticks again.

        Where all are to ask, the number counts for nothing.
        """
        own_group = own_group or NO_GROUP
        number = number if self.contenders else None
        with self._lock:
            before = self._tickets if own_group.group == self._own_group.group else Tickets(self._heartbeat)
            self._tickets, self._own_group = before.take(number, at), own_group
            open_ticks = list(self._open.values())
        for one in open_ticks:
            self._evaluate(one)

    def due(self, job: Job, slot: str) -> None:
        """Ask for a tick that has come, or leave it open."""
        open_tick = self._left_open(job, slot)
        if open_tick is None:
            self._asker.ask(job, slot, is_later=False)
        else:
            # Later, because it takes the job's next tick: a thousand jobs at one instant don't wait for each other.
            self._asker.after(0, lambda: self._begin(open_tick))

    def _left_open(self, job: Job, slot: str) -> OpenTick | None:
        """Return the tick, which is open from now on; None if this instance asks for it at once."""
        with self._lock:
            self._open.pop(job.name, None)
            now = self._database.timing.mono()
            size = self._tickets.size(now)
            if size is None or not job.options.asks_in_waves or self._own_group.jobs.get(job.name) is not job:
                return None
            wave = TickWave(now, self._tickets.distance(place_of_tick(job.name, slot)), size)
            if wave.asks_at(size, self.contenders) == now:
                return None
            open_tick = self._open[job.name] = OpenTick(job, slot, wave)
        return open_tick

    def _begin(self, open_tick: OpenTick) -> None:
        """Ask for an open tick after all if it has too little time, or if nobody knows how much."""
        time, now = time_to_start(open_tick.job.options, open_tick.slot), self._database.clock.peek()
        if now is not None and is_long_enough(time - open_tick.job.options.jitter, self._heartbeat):
            open_tick.ends = now.mono + to_milliseconds(open_tick.slot) + time - now.server
            self._evaluate(open_tick)
        elif self._close(open_tick):
            self._asker.ask(open_tick.job, open_tick.slot, is_later=False)

    def _evaluate(self, open_tick: OpenTick, *, is_look: bool = False) -> None:
        """Ask for an open tick if its time has come; else see to it that it is judged again."""
        now = self._database.timing.mono()
        with self._lock:
            if self._open.get(open_tick.job.name) is not open_tick:
                return
            if is_look:
                open_tick.looks_at = math.inf
            at = open_tick.wave.asks_at(self._tickets.size(now), self.contenders)
            is_over, is_time = now >= open_tick.ends, at is not None and at <= now
            if is_over or is_time:
                del self._open[open_tick.job.name]
            look = min(math.inf if at is None else at, self._tickets.stale_at)
            is_planned = is_over or is_time or open_tick.looks_at <= look
            if not is_planned:
                open_tick.looks_at = look
        if is_time and not is_over:
            self._asker.ask(open_tick.job, open_tick.slot, is_later=True)
        elif not is_planned:
            # A millisecond later, because calls come at whole milliseconds. A look that came too early would plan the
            # next one for the same millisecond, again and again.
            self._asker.after((math.floor(look - now) + 2) / 1000, lambda: self._evaluate(open_tick, is_look=True))

    def _close(self, open_tick: OpenTick) -> bool:
        """Remove an open tick, and return whether it was open."""
        with self._lock:
            if self._open.get(open_tick.job.name) is not open_tick:
                return False
            del self._open[open_tick.job.name]
            return True
