"""Instances that beat: at an emulator, or in a fleet with rounds that are only noted."""

from __future__ import annotations

from typing import Any

from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance

from firecron import FireCron
from firecron.base.clocks import Deadline
from firecron.scheduler.heartbeat import Heartbeat
from firecron.settings import load
from rtdb_emulator.pytest_plugin import Rtdb


def new_crons(*providers: object) -> FireCron:
    return FireCron(*providers, settings=load(), enabled=True, has_threads=False)


def nodes(rtdb: Rtdb) -> dict[str, dict[str, object]]:
    found = rtdb.get("/cron-instances")
    assert found is None or isinstance(found, dict)
    return {key: node for key, node in (found or {}).items() if key != "clock"}


def bench(fleet: Fleet, rounds: list[float], **settings: Any) -> tuple[Instance, Heartbeat]:
    """An instance, and its heartbeat with rounds that only note when they are made."""
    one = fleet.instance(**settings)

    def make(deadline: Deadline) -> bool:
        rounds.append(fleet.world.mono() / 1000)
        return True

    one.crons.engine.recovery.make = make  # type: ignore[method-assign]  # noted, not made
    return one, one.crons.engine.heartbeat
