"""Ticks of a stored job that wait for the run before them, while the job is paused."""

from __future__ import annotations

from typing import Any

import pytest

from firecron import FireCron, Run, scheduled
from firecron.base.instants import to_milliseconds
from firecron.settings import load
from firecron.testing import FakeClock, MemoryStore
from firecron.testing.rehearsal import Inline

NODE = "cron-schedules/queued/:42"
NINE, NEXT = "2026-11-18T09:00:00Z", "2026-11-18T09:01:00Z"


class Jobs:
    def __init__(self) -> None:
        self.sent: list[str] = []

    @scheduled("queued", lock_ttl=60, overlap="queue", grace=600)
    def queued(self, run: Run) -> None:
        self.sent.append(run.idempotency_key)


class Alone:
    """One instance, whose crew is the test, and a schedule that ticks each minute."""

    def __init__(self) -> None:
        self.jobs, self.clock = Jobs(), FakeClock("2026-11-18T08:59:30Z")
        self.store = MemoryStore(self.clock.now)
        timing: Any = {"timing": self.clock, "crew": Inline(), "has_threads": False}
        self.crons = FireCron(self.jobs, settings=load(), store=self.store, **timing)
        self.crons.schedules.put("queued", "42", "* * * * *")

    def look(self) -> None:
        self.crons.engine.lookers.look(self.crons.registry.get("queued"))

    def go_on(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.clock.advance(1)
            self.crons.work()

    def pause(self) -> None:
        now = to_milliseconds(self.clock.time)
        self.store.set("cron-locks/queued", {"paused": True, "pausedBy": "ann", "pausedAt": now})


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_tick_that_waits_for_another_instance_does_not_begin_once_the_job_is_paused(is_paused: bool) -> None:
    """However long it has waited: each try after the first one reads the pause of the job."""
    one = Alone()
    node: Any = one.store.get(NODE)
    nine = to_milliseconds(NINE)
    held = {"slot": NINE, "unfinished": NINE, "fence": nine, "holder": "other", "instanceId": "x", "instance": "x"}
    times = {"acquiredAt": nine, "expiresAt": nine + 600_000, "attempt": 1, "nextAt": nine + 60_000}
    one.store.set(NODE, {**node, **held, **times})
    one.go_on(31)
    one.look()
    one.go_on(65)
    assert one.jobs.sent == []
    if is_paused:
        one.pause()
    one.store.set(f"{NODE}/unfinished", None)
    one.store.set(f"{NODE}/releasedAt", to_milliseconds(one.clock.time))
    one.store.set(f"{NODE}/expiresAt", to_milliseconds(one.clock.time))
    one.go_on(10)
    assert one.jobs.sent == ([] if is_paused else [f"queued:42:{NEXT}"])


def test_each_tick_of_a_paused_job_is_passed_over_as_it_comes() -> None:
    """Also those between two queries. So none of them is recorded as missed, or run, once the job is resumed."""
    one = Alone()
    one.crons.schedules.put("queued", "42", "*/5 * * * * *")
    one.pause()
    one.go_on(4)
    one.look()
    one.go_on(17)
    one.store.set("cron-locks/queued", None)
    one.look()
    one.go_on(1)
    assert one.jobs.sent == []
    runs: Any = one.store.get("cron-runs/queued")
    assert [(key, run["outcome"], run["error"]) for key, run in runs.items()] == [
        (f"2026-11-18T08:59:{second}Z:42", "skipped", "it was paused") for second in (35, 40, 45, 50)
    ]
