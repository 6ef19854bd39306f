"""The ticks of a schedule: the newest ones in a span of time, the time between them, and the tick that a start from
outside is meant for. Pure.

A person, a crontab or a Kubernetes CronJob makes such a start, and its clock is not RTDB's. If that clock is a second
fast, the start would ask for yesterday's tick, which is done, and today's tick would never run. So a start shortly
before a tick is meant for that tick, and waits for it.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from itertools import islice, pairwise

from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.cron.schedule import Schedule
from firecron.errors import NoTick

_SECOND = timedelta(seconds=1)
# The longest lead. If ticks come often, the lead is a tenth of the time between them.
_LEAD = timedelta(seconds=5)
_SOME_TICKS = 3


def newest_tick(schedule: Schedule, now: datetime, grace: float | None = None) -> datetime:
    """Return the newest tick up to `now`.

    Raise NoTick if there is none, or if it is more than `grace` seconds ago.
    """
    found = newest(schedule, 0, to_milliseconds(now), 1)
    if not found:
        raise NoTick(f"there has been no tick of {schedule} yet")
    tick = to_datetime(found[0])
    if grace is not None and now - tick > timedelta(seconds=grace):
        coming = to_text(schedule.after(now))
        raise NoTick(
            f"there has been no tick of {schedule} in the last {grace:g} s: the newest was {found[0]}, "
            f"the next is {coming}"
        )
    return tick


def meant_tick(schedule: Schedule, now: datetime, grace: float | None = None) -> tuple[datetime, float]:
    """Return the tick that a start at `now` is for, and the seconds until that tick (0 if it has passed).

    Raise NoTick as `newest_tick` does.
    """
    coming = schedule.after(now)
    lead = min(_LEAD, (schedule.after(coming) - coming) / 10)
    if coming - now <= lead:
        return coming, (coming - now).total_seconds()
    return newest_tick(schedule, now, grace), 0.0


def newest(schedule: Schedule, start: int, end: int, most: int) -> list[str]:
    """Return the newest ticks after `start`, up to and including `end`: `most` ticks at most, oldest first.

    The search goes back from `end`, in spans that grow where ticks are few. So it never visits every tick of a day that
    has one each second.
    """
    found: list[datetime] = []
    first, last = to_datetime(start), to_datetime(end)
    if not has_tick(schedule, start, end):
        return []  # as after most claims, because nothing was missed
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


def shortest_interval(schedule: Schedule) -> float:
    """Return the shortest time between some ticks of a schedule, in seconds. It is the same on every instance."""
    ticks = [schedule.after(to_datetime(0))]
    for _ in range(_SOME_TICKS):
        ticks.append(schedule.after(ticks[-1]))
    return min((later - tick).total_seconds() for tick, later in pairwise(ticks))


def has_tick(schedule: Schedule, start: int, end: int) -> bool:
    """Return whether there is a tick after `start`, up to and including `end`."""
    # Ticks are at whole seconds. Most claims come within their tick's own second, and are decided without the schedule.
    if start // 1000 >= end // 1000:
        return False
    return schedule.after(to_datetime(start)) <= to_datetime(end)


def is_tick(schedule: Schedule, slot: str) -> bool:
    """Return whether a slot is a tick of this schedule."""
    instant = to_datetime(slot)
    return schedule.after(instant - _SECOND) == instant
