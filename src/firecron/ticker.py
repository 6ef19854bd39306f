"""The ticker: one thread and a heap, whatever the number of jobs.

It waits on the monotonic clock for the next slot, hands (job, slot) over, and computes the job's next slot from its
schedule, never from now. So a clock that jumps gives no burst and no second run. After a freeze only the newest tick
of each job is handed over; what became too old is catch_up's business. That it was frozen is said once, with what to
do about it on Cloud Run.
"""

from __future__ import annotations

import heapq
import logging
import random
import threading
from collections.abc import Callable
from datetime import datetime
from itertools import count

from firecron.backoff import backoff
from firecron.claims import newest_due
from firecron.clock import ServerClock
from firecron.errors import StoreError
from firecron.events import Events
from firecron.explorer import Job
from firecron.instants import to_datetime
from firecron.record import Moment
from firecron.timing import Deadline, Timing

_LONGEST_WAIT = 30.0
_STALL = 5_000
_SYNC_TIMEOUT = 8.0
_STALL_HINT = (
    "On Cloud Run, CPU is given only during requests unless billing is instance-based: deploy with --no-cpu-throttling "
    "and a minimum of one instance on the service (--min 1), or trigger the jobs from outside"
)


class Ticker:
    """Hands over the ticks of its jobs: `dispatch(job, slot)` must not block, nor may what `at` is given."""

    def __init__(
        self,
        clock: ServerClock,
        timing: Timing,
        events: Events,
        dispatch: Callable[[Job, datetime], None],
        chance: Callable[[], float] = random.random,
    ) -> None:
        self._clock = clock
        self._timing = timing
        self._events = events
        self._dispatch = dispatch
        self._chance = chance
        self._changed = threading.Condition()
        self._numbers = count()
        self._jobs: dict[str, Job] = {}
        # The start of a tick (its slot and the jitter), a number that settles ties, the job and its slot.
        self._ticks: list[tuple[int, int, Job, datetime]] = []
        self._calls: list[tuple[int, int, Callable[[], None]]] = []
        self._unplanned: list[Job] = []
        self._thread: threading.Thread | None = None
        self._is_awake = False
        self._was_woken = False
        self._has_stalled = False
        self._failures = 0

    def add(self, job: Job) -> None:
        """Tick for this job from now on."""
        with self._changed:
            self._jobs[job.name] = job
            self._unplanned.append(job)
            self._wake()

    def remove(self, name: str) -> None:
        """Tick for it no more."""
        with self._changed:
            self._jobs.pop(name, None)

    def at(self, instant: int, call: Callable[[], None]) -> None:
        """Call this when RTDB's clock shows the instant."""
        with self._changed:
            heapq.heappush(self._calls, (instant, next(self._numbers), call))
            self._wake()

    def start(self) -> None:
        with self._changed:
            self._thread = threading.Thread(target=self._run, name="firecron-ticker", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Hand over nothing more; returns when the thread has ended."""
        with self._changed:
            thread, self._thread = self._thread, None
            self._changed.notify_all()
        if thread is not None and thread is not threading.current_thread():
            thread.join(timeout=_SYNC_TIMEOUT)

    def after_fork(self) -> None:
        """In a forked child: the thread isn't here, and the ticks are the parent's."""
        self._changed = threading.Condition()
        self._thread = None

    def work(self) -> float:
        """Do what is due; answers with the seconds until there is more to do, at the most."""
        now = self._now()
        if now is None:
            return backoff(self._failures + 4, self._chance())
        self._plan(now)
        due, calls = self._due(now)
        self._note_stall(due, now)
        # All are handed over before the next slots are computed: a thousand jobs at one instant shouldn't wait for
        # each other.
        for job, slot in due:
            newest = self._newest(job, slot, now)
            if newest is not None:
                self._dispatch(job, newest)
        for call in calls:
            call()
        for job, slot in due:
            # From the slot, if the clock was set back meanwhile: no tick is handed over twice.
            self._schedule(job, max(slot, to_datetime(now.server)))
        with self._changed:
            starts = [heap[0][0] for heap in (self._ticks, self._calls) if heap]
        later = self._clock.peek() or now
        return min([_LONGEST_WAIT, *((start - later.server) / 1000 for start in starts)])

    def _run(self) -> None:
        me = threading.current_thread()
        while self._thread is me:
            with self._changed:
                self._is_awake = True
            seconds = self.work()
            with self._changed:
                # What came while this thread was at work has woken it already.
                self._is_awake = False
                if self._thread is me and seconds > 0 and not self._was_woken:
                    self._timing.wait(self._changed, seconds)
                self._was_woken = False

    def _wake(self) -> None:
        """Have the thread look again. Called under the lock."""
        self._was_woken = self._is_awake
        self._changed.notify()

    def _now(self) -> Moment | None:
        """RTDB's time; where it isn't known yet, it is asked for."""
        try:
            moment = self._clock.peek() or self._clock.now(Deadline.after(self._timing, _SYNC_TIMEOUT))
        except StoreError as error:
            self._failures += 1
            level = logging.ERROR if self._failures == 1 else logging.DEBUG
            message = f"RTDB unreachable - its time is not known, so no job can be run. Jobs will NOT run. {error}"
            self._events.emit("clock.unavailable", "clock", level, message, why=str(error), failures=self._failures)
            return None
        self._failures = 0
        return moment

    def _plan(self, now: Moment) -> None:
        with self._changed:
            jobs, self._unplanned = self._unplanned, []
        for job in jobs:
            self._schedule(job, to_datetime(now.server))

    def _schedule(self, job: Job, after: datetime) -> None:
        slot = job.options.schedule.after(after)
        start = round(slot.timestamp() * 1000 + job.options.jitter * self._chance())
        with self._changed:
            if self._jobs.get(job.name) is job:
                heapq.heappush(self._ticks, (start, next(self._numbers), job, slot))

    def _due(self, now: Moment) -> tuple[list[tuple[Job, datetime]], list[Callable[[], None]]]:
        due, calls = [], []
        with self._changed:
            while self._ticks and self._ticks[0][0] <= now.server:
                _, _, job, slot = heapq.heappop(self._ticks)
                if self._jobs.get(job.name) is job:
                    due.append((job, slot))
            while self._calls and self._calls[0][0] <= now.server:
                calls.append(heapq.heappop(self._calls)[2])
        return due, calls

    def _newest(self, job: Job, slot: datetime, now: Moment) -> datetime | None:
        """The tick to hand over: the newest by now, unless it is older than grace."""
        late = now.server - slot.timestamp() * 1000
        if late < 1000:
            return slot  # ticks are a second apart at the least, so there is no newer one
        newest = newest_due(job.options, slot, to_datetime(now.server)) or slot
        if now.server - newest.timestamp() * 1000 <= job.options.grace + job.options.jitter:
            return newest
        message = f'"{job.name}" missed its tick: {late / 1000:.0f} s late, which is more than its grace'
        self._events.emit("run.missed", job.name, logging.WARNING, message, late=round(late))
        return None

    def _note_stall(self, due: list[tuple[Job, datetime]], now: Moment) -> None:
        late = max((now.server - slot.timestamp() * 1000 - job.options.jitter for job, slot in due), default=0.0)
        if late > _STALL and not self._has_stalled:
            self._has_stalled = True
            message = f"The ticker woke {late / 1000:.0f} s late: this process was frozen. {_STALL_HINT}"
            self._events.emit("ticker.stalled", "ticker", logging.WARNING, message, late=round(late))
