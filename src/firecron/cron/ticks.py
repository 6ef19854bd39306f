"""The ticks of a schedule: the newest ones in a span of time, and which one a start from outside is meant for. Pure.

Such a start is made by a person, a crontab or a Kubernetes CronJob, and its clock is not RTDB's. A clock that is a
second fast would ask for yesterday's tick, which is done, and today's would never run. So a start shortly before a tick
is meant for that tick, and waits for it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice

from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.cron.schedule import Schedule
from firecron.errors import NoTick

_SECOND = timedelta(seconds=1)
# At most: of ticks that come often, a tenth of the time between them.
_LEAD = timedelta(seconds=5)


def newest_tick(schedule: Schedule, now: datetime, grace: float | None = None) -> datetime:
    """The newest tick that there has been by now. NoTick if there is none, or it is more than `grace` seconds ago."""
    found = newest(schedule, 0, to_milliseconds(now), 1)
    said = f"[{schedule.line}] ({schedule.timezone})"
    if not found:
        raise NoTick(f"there has been no tick of {said} yet")
    tick = to_datetime(found[0])
    if grace is not None and now - tick > timedelta(seconds=grace):
        coming = to_text(schedule.after(now))
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


def newest(schedule: Schedule, start: int, end: int, most: int) -> list[str]:
    """The newest ticks after `start`, up to and including `end`, that many at the most; oldest first.

    Looked for from the end, in spans that grow where ticks are few: a day of every-second ticks is never walked
    through.
    """
    found: list[datetime] = []
    first, last = to_datetime(start), to_datetime(end)
    span = _SECOND
    while first < last and len(found) < most:
        low = max(first, last - span)
        ticks = list(islice(schedule.between(low, last), 2 * most + 1))
        if len(ticks) > 2 * most and span > _SECOND:
            span = max(span / 32, _SECOND)
            continue
        found = ticks + found
        last = low
        if len(ticks) <= most // 2:
            span *= 4
    return [to_text(tick) for tick in found[-most:]]


def is_tick(schedule: Schedule, slot: str) -> bool:
    """Whether a slot is on this schedule."""
    instant = to_datetime(slot)
    return schedule.after(instant - _SECOND) == instant
