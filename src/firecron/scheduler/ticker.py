"""The ticker: one thread and one heap, whatever the number of jobs.

The ticker waits on the monotonic clock for the next slot, hands (job, slot) over to the lanes, and computes the job's
next slot from the last slot, never from now. So a clock that jumps causes no burst of ticks and no second run. After a
freeze only the newest tick of each job is handed over; `catch_up` decides about older ticks. The ticker logs a freeze
once, with the remedy for Cloud Run.

It also makes the calls that others want later, on its thread: an attempt's next try, another look at an open tick, a
look for a dead run.
"""

from __future__ import annotations

import heapq
import logging
import math
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from itertools import count
from typing import Protocol, TypeVar

from firecron.base.clocks import Moment, backoff, heeding
from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.cron.schedule import newest
from firecron.errors import StoreError
from firecron.jobs.job import Job
from firecron.lock.database import Database
from firecron.runs.lanes import report_missed
from firecron.runs.policy import start_ends

_LONGEST_WAIT = 30.0
_STALL = 5_000
_LATE = 1_000
_SYNC_TIMEOUT = 8.0
_JOIN_TIMEOUT = 1.0
_STALL_HINT = (
    "On Cloud Run, CPU is given only during requests unless billing is instance-based: deploy with --no-cpu-throttling "
    "and a minimum of one instance on the service (--min 1), or trigger the jobs from outside"
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, order=True)
class _PlannedTick:
    """A planned tick. `start` is its slot plus jitter. `number` settles ties, and shows whether a plan is replaced."""

    start: int
    number: int
    job: Job = field(compare=False)
    slot: datetime = field(compare=False)


class Receiver(Protocol):
    """Receives the ticks of a ticker: the lanes. No method may block."""

    def due(self, job: Job, slot: str) -> None:
        """Run this tick, which is due."""

    def look_back(self, job: Job, slot: str) -> None:
        """Run this tick from before this instance had the job, if no instance has: its grace is not over."""


class Ticker:
    """Hands the ticks of its jobs to the `receiver`, and makes calls at given instants. The calls must not block.

    `has_news` is set when something is added. Then there may be work before the time that the last `work` returned.
    """

    def __init__(self, database: Database, receiver: Receiver) -> None:
        self._database = database
        self._events = database.events
        self._receiver = receiver
        self._changed = threading.Condition()
        self._numbers = count()
        self._jobs: dict[str, Job] = {}
        self._planned: dict[str, int] = {}
        self._ticks: list[_PlannedTick] = []
        self._calls: list[tuple[int, int, Callable[[], None]]] = []
        # Jobs without a plan, each with the time when it was added, on the monotonic clock.
        self._unplanned: list[tuple[Job, float]] = []
        # Since when this instance ticks, on the same clock: no job is added before that.
        self._began = math.inf
        self._thread: threading.Thread | None = None
        self._ended: threading.Thread | None = None
        self.has_news = False
        self._wakes_at: float | None = None
        self._has_stalled = False
        self._failures = 0
        self._stops = 0

    def add(self, job: Job) -> None:
        """Tick for this job from now on."""
        with self._changed:
            self._jobs[job.name] = job
            self._unplanned.append((job, self._database.timing.mono()))
            self._wake()

    def remove(self, name: str) -> None:
        """Tick for this job no more."""
        with self._changed:
            self._jobs.pop(name, None)
            self._planned.pop(name, None)

    def at(self, instant: int, call: Callable[[], None]) -> None:
        """Make this call when RTDB's clock shows the instant."""
        with self._changed:
            heapq.heappush(self._calls, (instant, next(self._numbers), call))
            self._wake()

    def after(self, seconds: float, call: Callable[[], None]) -> None:
        """Make this call in this many seconds; if RTDB's time isn't known, as soon as it is."""
        moment = self._database.clock.peek()
        # Not sooner: what finds that it is too soon would be planned for the same millisecond again and again.
        self.at(0 if moment is None else moment.server + math.ceil(round(seconds * 1000, 6)), call)

    def begin(self) -> None:
        """Count the jobs as added now, those that were added before as well: their ticks so far are others' ticks."""
        with self._changed:
            self._began = self._database.timing.mono()

    def start(self) -> None:
        """Tick on a thread of its own. A second call changes nothing."""
        with self._changed:
            if self._thread is None:
                self._wakes_at = None
                thread = threading.Thread(target=self._run, name="firecron-ticker", daemon=True)
                self._thread = thread
                try:
                    thread.start()
                except RuntimeError:
                    self._thread = None  # a thread that has not started can't be joined
                    raise

    def stop(self) -> None:
        """Hand over no more ticks, and drop all plans. A later `begin` plans from its own time on."""
        with self._changed:
            self._stops += 1
            self._ended, self._thread = self._thread or self._ended, None
            self._ticks.clear()
            self._calls.clear()
            self._planned.clear()
            self._unplanned = [(job, self._database.timing.mono()) for job in self._jobs.values()]
            self._began = math.inf
            self._wakes_at = None
            self._wake()

    def wait(self, seconds: float) -> None:
        """Wait for the thread's end, but not long: it may be asking for RTDB's time, and hands over no tick."""
        ended = self._ended
        if ended is not None and ended is not threading.current_thread():
            ended.join(timeout=min(seconds, _JOIN_TIMEOUT))

    def work(self) -> float:
        """Hand over the ticks and make the calls that are due. Return at most how many seconds to wait for the next."""
        with self._changed:
            # News from here on is either seen below, or keeps the thread from waiting afterwards.
            self.has_news = False
        stops, wakes_at = self._stops, self._wakes_at
        if wakes_at is not None:
            self._log_stall(self._database.timing.mono() - wakes_at)
        seconds = self._work(stops)
        with self._changed:
            # After a stop there is no time to wake at, and the next thread has times of its own.
            if self._stops == stops:
                self._wakes_at = self._database.timing.mono() + seconds * 1000
        return seconds

    @property
    def planned(self) -> int:
        """The number of jobs that have a planned tick."""
        return len(self._planned)

    def next_start(self) -> int | None:
        """Return when the next tick or call is due, on RTDB's clock; None if none is planned."""
        with self._changed:
            starts = [tick.start for tick in self._ticks[:1]] + [call[0] for call in self._calls[:1]]
        return min(starts, default=None)

    def expect_leap(self) -> None:
        """Don't report a freeze if the next work comes late: a test is going to move the clock."""
        self._wakes_at = None

    def _work(self, stops: int) -> float:
        now = self._now()
        if isinstance(now, StoreError):
            return heeding(backoff(self._failures + 4, self._database.chance()), now, _LONGEST_WAIT)
        self._plan(now, stops)
        due, calls = self._due(now)
        # All due ticks are handed over before the next slots are computed, so that a thousand jobs at one instant don't
        # wait for each other.
        passed = [(tick.job, self._guarded(tick.job.name, self._hand_over, tick, now) or tick.slot) for tick in due]
        for call in calls:
            self._guarded("ticker", call)
        for job, slot in passed:
            self._guarded(job.name, self._schedule, job, slot)
        start = self.next_start()
        later = self._database.clock.peek() or now
        return _LONGEST_WAIT if start is None else max(0.0, min(_LONGEST_WAIT, (start - later.server) / 1000))

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            try:
                seconds = self.work()
            except Exception as error:
                # No error may end the thread, and all ticks with it, silently.
                self._complain("ticker", error)
                seconds = backoff(8, self._database.chance())
            with self._changed:
                if self._thread is me and not self.has_news:
                    self._database.timing.wait(self._changed, seconds)

    def _wake(self) -> None:
        """Wake the thread to look again. Called under the lock."""
        self.has_news = True
        self._changed.notify_all()

    def _now(self) -> Moment | StoreError:
        """Return RTDB's time, and ask RTDB for it if it isn't known yet; the error if it can't be had."""
        try:
            moment = self._database.clock.peek() or self._database.clock.now(self._database.deadline(_SYNC_TIMEOUT))
        except StoreError as error:
            self._failures += 1
            level = logging.ERROR if self._failures == 1 else logging.DEBUG
            message = f"{error.what} - its time is not known, so no job can run. Jobs will NOT run. {error}"
            self._events.emit("clock.unavailable", "clock", level, message, why=str(error), failures=self._failures)
            return error
        if self._failures:
            self._events.emit("clock.available", "clock", logging.INFO, "RTDB's time is known again: jobs run")
        self._failures = 0
        return moment

    def _plan(self, now: Moment, stops: int) -> None:
        with self._changed:
            if self._stops != stops:
                return  # a stop came while RTDB was asked for its time: what is not planned is for the next start
            jobs, self._unplanned = self._unplanned, []
            began = self._began
        for job, added in jobs:
            self._guarded(job.name, self._plan_first, job, now, max(added, began))

    def _plan_first(self, job: Job, now: Moment, added: float) -> None:
        """Plan the first tick after the job was `added`: it may be past, because RTDB's time is only known now.

        Look back on a tick from before that, if it is the newest one and its grace isn't over.
        """
        options = job.options
        since = now.server - math.ceil(max(0.0, now.mono - added))
        oldest = min(since, now.server - options.grace - 1)
        # Mostly there is no tick between the two, and then one search is enough.
        slot = options.schedule.next_after(to_datetime(oldest))
        if slot is not None and slot <= to_datetime(since):
            slot = options.schedule.next_after(to_datetime(since))
            if slot is None or slot > to_datetime(now.server):
                (before,) = newest(options.schedule, oldest, now.server, 1)
                self._plan_tick(job, slot)
                self._receiver.look_back(job, before)
                return
        self._plan_tick(job, slot)

    def _schedule(self, job: Job, after: datetime) -> None:
        self._plan_tick(job, job.options.schedule.next_after(after))

    def _plan_tick(self, job: Job, slot: datetime | None) -> None:
        """Plan the tick; None is of a schedule that has ended, which has no tick any more."""
        if slot is None:
            return
        start = to_milliseconds(slot) + round(job.options.jitter * self._database.chance())
        with self._changed:
            if self._jobs.get(job.name) is job:
                tick = _PlannedTick(start, next(self._numbers), job, slot)
                self._planned[job.name] = tick.number
                heapq.heappush(self._ticks, tick)

    def _due(self, now: Moment) -> tuple[list[_PlannedTick], list[Callable[[], None]]]:
        due, calls = [], []
        with self._changed:
            while self._ticks and self._ticks[0].start <= now.server:
                tick = heapq.heappop(self._ticks)
                if self._planned.get(tick.job.name) == tick.number:
                    due.append(tick)
            while self._calls and self._calls[0][0] <= now.server:
                calls.append(heapq.heappop(self._calls)[2])
        return due, calls

    def _hand_over(self, tick: _PlannedTick, now: Moment) -> datetime:
        """Hand over the newest tick up to `now`, unless it is too late to start. Return the slot to plan on from."""
        job, options, planned = tick.job, tick.job.options, to_text(tick.slot)
        if now.server - tick.start < _LATE:
            self._receiver.due(job, planned)  # ticks are at least a second apart, so there is no newer one
            return tick.slot
        due = next(iter(newest(options.schedule, to_milliseconds(tick.slot), now.server, 1)), planned)
        if now.server > start_ends(options, due):
            late = now.server - to_milliseconds(due)
            report_missed(self._events, job.name, due, f"it is {late / 1000:.0f} s late, too late to start", late)
        else:
            if due != planned:
                message = f'"{job.name}" goes on with its tick {due}; its ticks since {planned} came too late'
                self._events.emit("run.coalesced", job.name, logging.INFO, message, slot=due)
            self._receiver.due(job, due)
        return to_datetime(due)

    def _log_stall(self, late: float) -> None:
        """Log once that this thread woke much later than planned."""
        if late > _STALL and not self._has_stalled:
            self._has_stalled = True
            message = f"The ticker woke {late / 1000:.0f} s late: this process was frozen. {_STALL_HINT}"
            self._events.emit("ticker.stalled", "ticker", logging.WARNING, message, late=round(late))

    def _guarded(self, name: str, step: Callable[..., T], *arguments: object) -> T | None:
        """Call the step and log its error, so that an error of one job doesn't reach the others."""
        try:
            return step(*arguments)
        except Exception as error:
            self._complain(name, error)
            return None

    def _complain(self, name: str, error: Exception) -> None:
        message = f'The ticker could not do its work for "{name}": {error!r}'
        self._events.emit("ticker.failed", name, logging.ERROR, message, error, why=repr(error))
