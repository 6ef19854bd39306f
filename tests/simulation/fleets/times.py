"""Slots and true time: a slot is a text, true time is nanoseconds since the beginning of the run."""

from __future__ import annotations

from datetime import UTC, datetime
from functools import cache

from tests.simulation.machines import MILLISECOND, SECOND
from tests.simulation.stand_ins import EPOCH


@cache
def time_of(slot: str) -> int:
    """Return the true time of a slot."""
    return round(datetime.fromisoformat(slot).timestamp()) * SECOND - EPOCH


@cache
def slot_at(time: int) -> str:
    """Return the slot at a whole second of true time."""
    return f"{datetime.fromtimestamp((EPOCH + time) // SECOND, UTC):%Y-%m-%dT%H:%M:%SZ}"


def slots_between(period: int, start: int, end: int) -> list[str]:
    """Return the slots of a period from `start` to `end`, both included."""
    step = period * SECOND
    first = -(-(EPOCH + start) // step) * step - EPOCH
    return [slot_at(time) for time in range(first, end + 1, step)]


def server_time(time: int) -> int:
    """Return the database's time, in milliseconds, at a true time."""
    return (EPOCH + time) // MILLISECOND


def number(value: object) -> int:
    """Return a number of a node; 0 for anything else."""
    return int(value) if isinstance(value, int | float) else 0
