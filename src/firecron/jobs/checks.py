"""Checks of jobs before they tick. A job that can't work is refused. An odd job gets a WARNING, once in a process."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from itertools import pairwise

from firecron.base.events import Events, Slug
from firecron.base.instants import to_datetime
from firecron.cron.schedule import Schedule
from firecron.jobs.job import Job
from firecron.settings import Settings, unknown_variables

_MINUTE = 60_000
_HOUR = 3_600_000
_SOME_TICKS = 3

# The warnings that any FireCron of this process has emitted.
WARNED: set[str] = set()


class Checks:
    """Checks jobs. A schedule that several jobs share is examined once."""

    def __init__(self, settings: Settings, events: Events) -> None:
        self._settings = settings
        self._events = events
        self._intervals: dict[str, float] = {}

    def check(self, job: Job) -> None:
        """Raise ConfigurationError if the job's timings would break the promise of the lock."""
        self._settings.check_ttl(job.options.lock_ttl, f"lock_ttl of {job.name!r}")

    def warn(self, jobs: Iterable[Job]) -> None:
        """Emit a WARNING for each oddity of the environment or of these jobs, once in a process."""
        for problem, remedy in unknown_variables():
            self._say("settings.unknown", "firecron", f"{problem}: {remedy}")
        for job in jobs:
            for warning in self.warnings(job):
                self._say("job.suspicious", job.name, warning)

    def warnings(self, job: Job) -> Iterator[str]:
        """Yield what is odd about a job, each with a remedy."""
        options = job.options
        for warning in options.schedule.warnings:
            yield f"{job.where}: {warning}"
        ttl, jitter = options.lock_ttl / 1000, options.jitter / 1000
        is_in_milliseconds = options.lock_ttl >= _HOUR and options.lock_ttl_is_bare and options.has_lease
        if is_in_milliseconds:
            yield (
                f'"{job.name}": lock_ttl={ttl:g} is {ttl / 3600:.3g} hours. Is it in milliseconds? Then write '
                f"lock_ttl=60, which is renewed while the job runs. If not, write timedelta(seconds={ttl:g})"
            )
        for doubt in options.doubts.values():
            yield f'"{job.name}": {doubt}'
        is_held = options.once_per_tick and options.has_lease
        longest = max(options.jitter, options.lock_ttl if is_held else 0)
        if longest == 0 or (longest <= _MINUTE and not options.schedule.has_seconds):
            return  # ticks of a line with five fields are at least a minute apart
        interval = self._interval(options.schedule)
        if jitter > interval and "jitter" not in options.doubts:
            yield (
                f'"{job.name}": jitter ({jitter:g} s) is longer than the interval of its ticks '
                f"({interval:g} s), so a tick may start before the previous tick, which is then dropped; make jitter "
                f"{interval:g} s at most"
            )
        # The shortest ttl that is allowed.
        least = max(self._settings.least_ttl, options.hold_at_least / 1000)
        if is_held and not is_in_milliseconds and ttl > max(interval, least):
            better = (
                f"lock_ttl={max(least, min(interval, 60)):g}{'' if options.renew else ', and leave renew=False out'}"
            )
            yield (
                f'"{job.name}": lock_ttl ({ttl:g} s) is longer than the interval of its ticks ({interval:g} s), so an '
                f"instance that dies in a run costs ticks; write {better}: it is renewed while the job runs"
            )

    def _interval(self, schedule: Schedule) -> float:
        """Return the shortest time between some ticks of a schedule, in seconds."""
        key = repr(schedule)
        if key not in self._intervals:
            ticks = [schedule.after(to_datetime(0))]
            for _ in range(_SOME_TICKS):
                ticks.append(schedule.after(ticks[-1]))
            self._intervals[key] = min((later - tick).total_seconds() for tick, later in pairwise(ticks))
        return self._intervals[key]

    def _say(self, slug: Slug, name: str, message: str) -> None:
        if message not in WARNED:
            WARNED.add(message)
            self._events.emit(slug, name, logging.WARNING, message)
