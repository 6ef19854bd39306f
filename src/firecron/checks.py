"""Looking at a job before it ticks: what can't work is refused, what is odd gets a WARNING."""

from __future__ import annotations

import logging
from itertools import pairwise

from firecron.events import Events
from firecron.explorer import Job
from firecron.instants import to_datetime
from firecron.schedule import Schedule
from firecron.settings import Settings

_MINUTE = 60_000
_SOME_TICKS = 3


class Checks:
    """Looks at jobs; schedules that several of them share are looked at once."""

    def __init__(self, settings: Settings, events: Events) -> None:
        self._settings = settings
        self._events = events
        self._intervals: dict[str, float] = {}

    def check(self, job: Job) -> None:
        """ConfigurationError if the job's timings can't hold what the lock promises."""
        options = job.options
        self._settings.check_ttl(options.lock_ttl, f"lock_ttl of {job.name!r}")
        for warning in options.schedule.warnings:
            self._warn(job, f"{job.where}: {warning}")
        is_held = options.once_per_tick and options.overlap != "allow"
        longest = max(options.jitter, options.lock_ttl if is_held else 0)
        if longest == 0 or (longest <= _MINUTE and not options.schedule.has_seconds):
            return  # ticks of five fields are a minute apart at the least
        interval = self._interval(options.schedule)
        if options.jitter > interval * 1000:
            self._warn(
                job,
                f'"{job.name}": jitter ({options.jitter / 1000:g} s) is longer than the interval of its ticks '
                f"({interval:g} s), so a tick may start before the one ahead of it, which is then dropped; make jitter "
                f"{interval:g} s at most",
            )
        if is_held and options.lock_ttl > interval * 1000:
            self._warn(
                job,
                f'"{job.name}": lock_ttl ({options.lock_ttl / 1000:g} s) is longer than the interval of its ticks '
                f"({interval:g} s), so an instance that dies in a run costs ticks; with renewal 30 to 60 s is right",
            )

    def _interval(self, schedule: Schedule) -> float:
        """The shortest time between some ticks of a schedule, in seconds."""
        key = repr(schedule)
        if key not in self._intervals:
            ticks = [schedule.after(to_datetime(0))]
            for _ in range(_SOME_TICKS):
                ticks.append(schedule.after(ticks[-1]))
            self._intervals[key] = min((later - tick).total_seconds() for tick, later in pairwise(ticks))
        return self._intervals[key]

    def _warn(self, job: Job, message: str) -> None:
        self._events.emit("job.suspicious", job.name, logging.WARNING, message)
