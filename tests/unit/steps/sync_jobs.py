"""Sync jobs with steps: one run of a body, what its steps were called with, and what was recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, slot

from firecron import Run
from firecron.jobs.registry import Result

STEPS = f"cron-steps/{NAME}/{slot()}"


class Calls:
    """What the functions of steps were called with."""

    def __init__(self) -> None:
        self.seen: list[object] = []

    def __call__(self, value: object) -> object:
        self.seen.append(value)
        return value


def steps_of(fleet: Fleet, tick: str = slot()) -> dict[str, Any]:
    node = fleet.world.store.get(f"cron-steps/{NAME}/{tick}")
    return node if isinstance(node, dict) else {}


def turned(fleet: Fleet, body: Callable[[Run], object], one: Instance | None = None) -> Result:
    """One run of the job with this body, on this instance or on a new one."""
    fleet.body = body
    (result,) = (one or fleet.instance()).turn(slot())
    return result


def run_once(body: Callable[[Run], object], **options: Any) -> Result:
    return turned(Fleet(**options), body)
