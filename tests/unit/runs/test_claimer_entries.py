"""Claims of stored schedules: by the schedule and the times in the node, and not by those of the job."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from tests.simulation.network import Network

from firecron import FireCron, Run, scheduled
from firecron.base.instants import to_milliseconds, to_text
from firecron.jobs.registry import Result
from firecron.settings import load
from firecron.testing import FakeClock, MemoryStore
from firecron.testing.rehearsal import Inline

NINE = datetime(2026, 11, 18, 9, tzinfo=UTC)
START = to_milliseconds(to_text(NINE))
SLOT = to_text(NINE)


class Entry:
    """One instance, whose crew is the test, and a schedule that ticks each hour; `runs` are its runs."""

    def __init__(self, **fields: object) -> None:
        self.runs: list[tuple[str | None, str]] = []

        @scheduled("nightly", lock_ttl=60, catch_up="all", on_abandoned="rerun")
        def nightly(run: Run) -> None:
            self.runs.append((None if run.slot is None else to_text(run.slot), run.trigger))

        self.clock = FakeClock(NINE)
        self.store = MemoryStore(self.clock.now)
        self.network = Network(self.store)
        timing: Any = {"timing": self.clock, "crew": Inline(), "has_threads": False}
        self.crons = FireCron(nightly, settings=load(), store=self.network, **timing)
        self.crons.schedules.put("nightly", "42", "0 * * * *")
        record = {"slot": SLOT, "fence": START, "holder": "it", "acquiredAt": START, "since": START - 60_000}
        self.edit(**record, **fields)

    def edit(self, **fields: object) -> None:
        node: Any = self.store.get("cron-schedules/nightly/:42")
        self.store.set("cron-schedules/nightly/:42", {**node, **fields})

    def trigger(self, slot: datetime | None = None) -> Result:
        return self.crons.registry.trigger("nightly:42", slot=slot)

    def go_on(self, seconds: float) -> None:
        for _ in range(round(seconds / 10)):
            self.clock.advance(10)
            self.crons.work()


@pytest.mark.parametrize("is_edited", [False, True])
def test_a_run_by_hand_leaves_missed_ticks_to_be_caught_up(is_edited: bool) -> None:
    """It claims none of them. Its claim remembers that they were missed, by the schedule that the node has then."""
    one = Entry(expiresAt=START, releasedAt=START)
    one.clock.advance(9_000)
    if is_edited:
        one.edit(line="0 9 * * *")
        one.network.next("read")  # of the job's pause; the next one is that of the entry, before its claim
        one.network.next("read", after=lambda: one.edit(line="0 * * * *"))
    assert one.trigger().outcome == "succeeded"
    one.go_on(60)
    caught_up = [(f"2026-11-18T{hour}:00:00Z", "catch_up") for hour in (10, 11)]
    assert one.runs == [(None, "manual"), *caught_up]


@pytest.mark.parametrize("looks_after", [90, 150])
def test_a_refusal_plans_no_look(looks_after: int) -> None:
    """The node says when that comes, also where a run may have died: no other plan stands beside it."""
    one = Entry(unfinished=SLOT, expiresAt=START + 30_000, nextAt=START + looks_after * 1000)
    refusal = one.trigger(NINE).refusal
    assert refusal is not None
    assert refusal.unfinished == SLOT
    one.go_on(looks_after - 10)
    assert one.runs == []
    one.go_on(10)
    assert one.runs == [(SLOT, "rerun")]
