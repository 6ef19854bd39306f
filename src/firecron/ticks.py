"""Which tick something is for that was started from outside: by a person, a crontab, a Kubernetes CronJob. Pure.

The clock that starts it is not RTDB's. One that is a second fast would ask for yesterday's tick, which is done, and
today's would never run; so a start shortly before a tick is meant for that tick, and waits for it.
"""

from __future__ import annotations

from datetime import datetime, timedelta

from firecron.claims import newest
from firecron.errors import FirecronError
from firecron.instants import to_datetime, to_milliseconds, to_text
from firecron.schedule import Schedule

# At most: of ticks that come often, a tenth of the time between them.
_LEAD = timedelta(seconds=5)


class NoTick(FirecronError):
    """There is no tick of the schedule to run for: wait for the next one, or allow more grace."""


def newest_tick(schedule: Schedule, now: datetime, grace: float | None = None) -> datetime:
    """The newest tick that there has been by now. NoTick if there is none, or it is more than `grace` seconds ago."""
    found = newest(schedule, 0, _milliseconds(now), 1)
    said = f"[{schedule.line}] ({schedule.timezone})"
    if not found:
        raise NoTick(f"there has been no tick of {said} yet")
    tick = to_datetime(to_milliseconds(found[0]))
    if grace is not None and now - tick > timedelta(seconds=grace):
        coming = to_text(_milliseconds(schedule.after(now)))
        raise NoTick(
            f"there has been no tick of {said} in the last {grace:g} s: the newest was {found[0]}, the next is {coming}"
        )
    return tick


def meant_tick(schedule: Schedule, now: datetime, grace: float | None = None) -> tuple[datetime, float]:
    """The tick that a start at this time is for, and in how many seconds it comes (0: it has been). NoTick as above."""
    coming = schedule.after(now)
    lead = min(_LEAD, (schedule.after(coming) - coming) / 10)
    if coming - now <= lead:
        return coming, (coming - now).total_seconds()
    return newest_tick(schedule, now, grace), 0.0


def _milliseconds(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)
