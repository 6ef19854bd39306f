"""Ticks of a stored job that wait for the run before them, while the job is paused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from tests.simulation.network import Network

from firecron import Denied, FireCron, Run, Unavailable, scheduled
from firecron.base.events import Event
from firecron.base.instants import to_milliseconds
from firecron.errors import StoreError
from firecron.settings import load
from firecron.testing import FakeClock, MemoryStore
from firecron.testing.rehearsal import Inline

NODE = "cron-schedules/queued/:42"
NINE, BEFORE, NEXT = "2026-11-18T09:00:00Z", "2026-11-18T09:00:01Z", "2026-11-18T09:01:00Z"


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
        self.network = Network(self.store)
        timing: Any = {"timing": self.clock, "crew": Inline(), "has_threads": False, "chance": lambda: 0.5}
        self.crons = FireCron(self.jobs, settings=load(), store=self.network, **timing)
        self.crons.schedules.put("queued", "42", "* * * * *")
        self.events: list[Event] = []
        self.crons.events.subscribe(self.events.append)

    def look(self) -> None:
        self.crons.engine.lookers.look(self.crons.registry.get("queued"))

    def wait(self) -> None:
        """The tick after nine waits for another instance's run, which is of a schedule that the entry had before."""
        node: Any = self.store.get(NODE)
        nine = to_milliseconds(NINE)
        held: Any = dict.fromkeys(("slot", "unfinished"), BEFORE) | dict.fromkeys(("instanceId", "instance"), "x")
        held |= {"fence": nine, "holder": "other"}
        times = {"acquiredAt": nine, "expiresAt": nine + 600_000, "attempt": 1, "nextAt": nine + 60_000}
        self.store.set(NODE, {**node, **held, **times})
        self.go_on(31)
        self.look()
        self.go_on(65)
        assert self.jobs.sent == []

    def free(self) -> None:
        """That run ends."""
        now = to_milliseconds(self.clock.time)
        for field, value in (("unfinished", None), ("releasedAt", now), ("expiresAt", now)):
            self.store.set(f"{NODE}/{field}", value)

    def refusals(self) -> list[tuple[str, object]]:
        return [(event.name, event.fields["reason"]) for event in self.events if event.slug.startswith("lock.")]

    def go_on(self, seconds: float) -> None:
        for _ in range(round(seconds)):
            self.clock.advance(1)
            self.crons.work()

    def pause(self) -> None:
        now = to_milliseconds(self.clock.time)
        self.store.set("cron-locks/queued", {"paused": True, "pausedBy": "ann", "pausedAt": now})


def failing_for(where: str, error: StoreError) -> Callable[[str, str], None]:
    """The requests for this path fail."""

    def fail(method: str, path: str) -> None:
        if path == where:
            raise error

    return fail


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_tick_that_waits_for_another_instance_does_not_begin_once_the_job_is_paused(is_paused: bool) -> None:
    """However long it has waited: each try after the first one reads the pause of the job."""
    one = Alone()
    one.wait()
    if is_paused:
        one.pause()
    one.free()
    one.go_on(10)
    assert one.jobs.sent == ([] if is_paused else [f"queued:42:{NEXT}"])
    told = [event for event in one.events if event.slug == "lock.refused"]
    assert [(event.name, event.fields["reason"]) for event in told] == [("queued:42", "paused")] * is_paused
    assert all("by ann" in event.message and "`firecron resume queued`" in event.message for event in told)
    assert [event for event in one.events if event.slug == "job.schedule_differs"] == []


def test_a_tick_that_waits_is_refused_where_the_pause_of_its_job_may_not_be_read() -> None:
    """As it would be where its entry may not be read: nothing begins, and the reason is told."""
    one = Alone()
    one.wait()
    one.free()
    one.network.before = failing_for("cron-locks/queued", Denied("no"))
    one.go_on(10)
    assert (one.jobs.sent, one.refusals()) == ([], [("queued:42", "denied")])


@pytest.mark.parametrize("is_paused", [False, True])
def test_a_tick_that_waits_does_not_begin_while_the_pause_of_its_job_is_not_known(is_paused: bool) -> None:
    """Each try reads it until it is known, although the one before was refused because of that, and not as held."""
    one = Alone()
    one.wait()
    one.free()
    if is_paused:
        one.pause()
    one.network.before = failing_for("cron-locks/queued", Unavailable("away"))
    one.go_on(10)
    assert (one.jobs.sent, one.refusals()) == ([], [])
    one.network.before = lambda method, path: None
    one.go_on(10)
    assert one.jobs.sent == [f"queued:42:{NEXT}"] * (not is_paused)


def test_a_first_try_reads_no_pause() -> None:
    """The look that has found the tick has read it."""
    one = Alone()
    one.go_on(29)
    one.network.requests()
    one.go_on(1)
    assert one.jobs.sent == [f"queued:42:{NINE}"]
    assert one.network.requests("cron-locks/queued") == []


def test_a_claim_that_may_have_been_written_goes_on_though_the_job_is_paused() -> None:
    """Nobody else could free the lock that it may have. Before it was made, the pause was not known for a while."""
    one = Alone()
    one.wait()
    one.network.before = failing_for("cron-locks/queued", Unavailable("away"))
    one.go_on(5)
    one.network.before = lambda method, path: None
    one.free()

    def lose() -> None:
        one.network.before = failing_for(NODE, Unavailable("away"))
        raise Unavailable("the reply was lost")

    one.network.next("swap", after=lose)
    one.go_on(5)
    assert one.jobs.sent == []
    one.pause()
    one.network.before = lambda method, path: None
    one.go_on(5)
    assert one.jobs.sent == [f"queued:42:{NEXT}"]


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
