"""The end of an instance, with real threads: what is told, waited for, cancelled and left."""

from __future__ import annotations

import asyncio
import math
import threading
from collections.abc import Callable

import pytest
from tests.simulation.instance import go_on
from tests.simulation.world import NAME, START, slot
from tests.unit.locks import lock_of
from tests.unit.runs.bodies import running_loop
from tests.unit.threads import PATIENCE, Followed, ended

from firecron import FireCron, Run, distributed_cron
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.runs.entry import Entry
from firecron.settings import load
from firecron.testing import MemoryStore


class Bench:
    """One instance in virtual time, whose turns and stop are on threads of their own."""

    def __init__(self, function: Callable[..., object], line: str = "* * * * *", **options: object) -> None:
        self.timing = Followed(wall=START)
        self.store = MemoryStore(self.timing.now)
        job = distributed_cron(NAME, line, **{"lock_ttl": 60, **options})(function)  # type: ignore[arg-type]  # any options
        self.crons = FireCron(job, store=self.store, timing=self.timing, settings=load(), enabled=True)
        self.runner = self.crons.engine.runner
        self.heard: list[Event] = []
        self.happened = threading.Condition()
        self.crons.events.subscribe(self.note)
        self.threads: list[threading.Thread] = []

    def note(self, event: Event) -> None:
        with self.happened:
            self.heard.append(event)
            self.happened.notify_all()

    def wait_for(self, slug: str, number: int = 1) -> None:
        with self.happened:
            assert self.happened.wait_for(lambda: self.slugs().count(slug) >= number, PATIENCE), slug

    def slugs(self) -> list[str]:
        return [event.slug for event in self.heard]

    def turn(self, due: str = slot()) -> threading.Thread:
        job = self.crons.registry.get(NAME)
        return self.begin(lambda: go_on(self.crons.engine, self.crons.engine.lanes.attempt(job, due)))

    def stop(self, grace: float = 8) -> threading.Thread:
        thread = self.begin(lambda: self.runner.stop(grace))
        assert self.runner.stopping.wait(PATIENCE)
        return thread

    def begin(self, call: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=call)
        self.threads.append(thread)
        thread.start()
        return thread

    def before_the_books(self, act: Callable[[], object]) -> None:
        """Have this done before each entry that the bookkeeper writes."""
        record = self.crons.history.record

        def slowly(name: str, entry: Entry, raised: BaseException | None = None) -> bool:
            if entry.recorded_by is not None:
                act()
            return record(name, entry, raised)

        self.crons.history.record = slowly  # type: ignore[method-assign]  # the same, slowly

    def outcome(self) -> object:
        entry = self.store.get(f"cron-runs/{NAME}/{slot()}")
        return entry.get("outcome") if isinstance(entry, dict) else None

    def node(self) -> dict[str, object]:
        found = self.store.get(f"cron-locks/{NAME}")
        return found if isinstance(found, dict) else {}


def test_a_stop_waits_for_what_looks_at_its_run() -> None:
    """A body that checks its run is interrupted, released unfinished and recorded, and then the stop returns."""

    def work(run: Run) -> None:
        assert run.stopping.wait(PATIENCE)
        run.check()

    bench = Bench(work, on_abandoned="rerun")
    turn = bench.turn()
    bench.wait_for("run.started")
    stop = bench.stop()
    assert ended(stop)
    assert bench.timing.mono() == 0, "nobody had to wait for the grace"
    assert bench.outcome() == "interrupted"
    assert ended(turn)
    assert (bench.node()["unfinished"], "releasedAt" in bench.node()) == (slot(), True)


def test_a_run_that_comes_to_its_end_in_time_is_no_interruption(go_on: threading.Event) -> None:
    """A body that ends within the grace by itself has succeeded, and its slot is finished."""
    bench = Bench(lambda: go_on.wait(PATIENCE))
    bench.turn()
    bench.wait_for("run.started")
    stop = bench.stop()
    go_on.set()
    assert ended(stop)
    assert bench.outcome() == "succeeded"
    assert "unfinished" not in bench.node()


def test_async_bodies_are_cancelled_two_seconds_before_the_end() -> None:
    """An async body that takes no notice is cancelled when two seconds of the grace are left, and is interrupted."""
    with running_loop() as loop:
        begun = threading.Semaphore(0)
        cancelled: list[float] = []

        async def work() -> None:
            begun.release()
            try:
                await asyncio.Event().wait()
            finally:
                cancelled.append(bench.timing.mono() / 1000)

        for is_on_applications_loop in (True, False):
            bench = Bench(work)
            bench.runner.loop = loop if is_on_applications_loop else None
            bench.turn()
            assert begun.acquire(timeout=PATIENCE)
            stop = bench.stop(8)
            # The keeper and the stop wait for time to pass, and on the application's loop the turn as well.
            bench.timing.rest(3 if is_on_applications_loop else 2)
            bench.timing.pass_by(5.5)
            assert (bench.outcome(), stop.is_alive()) == (None, True)
            bench.timing.pass_by(0.5)
            assert ended(stop)
            assert bench.outcome() == "interrupted"
            assert "releasedAt" in bench.node()
    assert cancelled == [6, 6]


def test_a_stop_in_a_hurry_cancels_async_bodies_at_once() -> None:
    """They are interrupted and released, and nobody waits for the rest of the grace."""

    async def work() -> None:
        await asyncio.Event().wait()

    bench = Bench(work)
    bench.turn()
    bench.wait_for("run.started")
    stop = bench.stop(8)
    bench.timing.rest(2)  # the keeper and the stop
    bench.runner.hurry()
    assert ended(stop)
    assert bench.timing.mono() == 0
    assert bench.outcome() == "interrupted"
    assert "releasedAt" in bench.node()


def test_i07_a_stop_in_a_hurry_releases_no_lock_under_a_body(go_on: threading.Event) -> None:
    """A sync body that goes on has two more seconds, and then is left with its lock; the next start has its grace."""
    bench = Bench(lambda: go_on.wait(PATIENCE))
    turn = bench.turn()
    bench.wait_for("run.started")
    bench.crons.engine.hurry()
    assert bench.runner.open_work.latest == math.inf, "there is no stop yet"
    stop = bench.stop(8)
    bench.timing.rest(2)
    bench.crons.engine.hurry()
    bench.timing.pass_by(1.5)
    assert stop.is_alive()
    bench.timing.pass_by(0.5)
    assert ended(stop)
    bench.wait_for("run.left_behind")
    assert "releasedAt" not in bench.node()
    go_on.set()
    assert ended(turn)
    bench.runner.open()
    assert bench.runner.open_work.latest == math.inf


def test_a_body_that_goes_on_is_left_with_its_lock(go_on: threading.Event) -> None:
    """When the grace is over the stop returns; the body has its lock, renewed until then and no more after."""
    bench = Bench(lambda: go_on.wait(PATIENCE), lock_ttl=12)
    turn = bench.turn()
    bench.wait_for("run.started")
    stop = bench.stop(8)
    bench.timing.rest(2)  # the keeper and the stop
    bench.timing.pass_by(7.5)
    assert stop.is_alive()
    bench.timing.pass_by(0.5)
    assert ended(stop)
    bench.wait_for("lock.renewed")
    bench.wait_for("run.left_behind")
    before = bench.node()
    assert "releasedAt" not in before
    bench.timing.advance(6)
    assert not bench.crons.locks.database.keeper.leases()
    assert bench.node() == before
    go_on.set()
    assert ended(turn)


def test_a_claim_that_waits_ends_at_once() -> None:
    """A stop ends a tick that waits for the database or for its turn: neither does it claim, nor is it waited for."""
    bench = Bench(lambda: None, overlap="queue")
    other = bench.crons.locks.acquire(NAME, 60)
    assert other
    waiting = bench.turn()
    bench.wait_for("run.delayed")
    queued = bench.turn(slot(60))
    stop = bench.stop()
    for thread in (stop, waiting, queued):
        assert ended(thread)
    assert bench.timing.mono() == 0
    assert "run.started" not in bench.slugs()


def test_a_tick_that_queues_here_ends_at_once(go_on: threading.Event) -> None:
    """A stop ends also the tick that waits for the run on its own instance, though that run goes on."""
    bench = Bench(lambda: go_on.wait(PATIENCE), overlap="queue")
    bench.turn()
    bench.wait_for("run.started")
    queued = bench.turn(slot(60))
    stop = bench.stop()
    assert ended(queued)
    assert bench.timing.mono() == 0
    go_on.set()
    assert ended(stop)
    assert "run.skipped" not in bench.slugs()


def test_a_retry_is_not_waited_for() -> None:
    """A run between two tries is interrupted at once, and left for another to rerun."""

    def work() -> None:
        raise ValueError

    bench = Bench(work, retries=3, retry_backoff=100, on_abandoned="rerun")
    bench.turn()
    bench.wait_for("run.retried")
    assert ended(bench.stop())
    assert bench.outcome() == "interrupted"
    assert bench.node()["unfinished"] == slot()


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_an_async_body_is_cancelled_when_its_lease_is_lost(overlap: str) -> None:
    """The loss of the lease, or the end of max_runtime, cancels an async body on the application's loop."""
    with running_loop() as loop:

        async def work() -> None:
            await asyncio.Event().wait()

        bench = Bench(work, overlap=overlap, max_runtime=30)
        bench.runner.loop = loop
        turn = bench.turn()
        bench.timing.rest(2)  # the keeper and the turn
        bench.timing.pass_by(29.5)
        assert (bench.outcome(), turn.is_alive()) == (None, True)
        bench.timing.pass_by(0.5)
        assert ended(turn)
        assert bench.outcome() == "lost"


def test_the_history_is_written_before_a_stop_returns(go_on: threading.Event) -> None:
    """A stop waits also for what has ended and is not yet recorded."""
    bench = Bench(lambda: None)
    writing = threading.Event()
    record = bench.crons.history.record

    def slowly(*arguments: object) -> None:
        writing.set()
        assert go_on.wait(PATIENCE)
        record(*arguments)  # type: ignore[arg-type]  # handed through

    bench.crons.history.record = slowly  # type: ignore[method-assign,assignment]  # the same, slowly
    bench.turn()
    assert writing.wait(PATIENCE)
    stop = bench.stop()
    assert stop.is_alive()
    go_on.set()
    assert ended(stop)
    assert bench.outcome() == "succeeded"


def test_what_was_missed_is_written_before_a_stop_returns(go_on: threading.Event) -> None:
    """A stop waits also for the bookkeeper, but no longer than for anything else."""
    bench = Bench(lambda: None)
    ended_at = START - 180_000
    bench.store.set(
        f"cron-locks/{NAME}",
        {"slot": slot(-180), "holder": "h", "acquiredAt": ended_at, "expiresAt": ended_at, "releasedAt": ended_at},
    )
    writing = threading.Event()

    def write() -> None:
        writing.set()
        assert go_on.wait(PATIENCE)

    bench.before_the_books(write)
    assert ended(bench.turn())
    assert writing.wait(PATIENCE)
    stop = bench.stop(8)
    bench.timing.rest(1)  # the stop
    bench.timing.pass_by(7.5)
    assert stop.is_alive()
    bench.timing.pass_by(0.5)
    assert ended(stop)
    go_on.set()
    bench.crons.history.wait(bench.timing.mono() + 1)
    assert bench.store.get(f"cron-runs/{NAME}/{slot(-60)}/outcome") == "missed"


def test_a_forked_child_has_nothing_to_stop(go_on: threading.Event) -> None:
    """In a child nothing of the parent's runs, stops, or holds a lock: a run by hand is refused by the parent's lease
    alone, and a stop has nothing to wait for.
    """
    bench = Bench(lambda: go_on.wait(PATIENCE))
    bench.store.set(f"cron-locks/{NAME}", {"slot": slot(-180), "expiresAt": START - 1, "releasedAt": START - 1})
    bench.before_the_books(lambda: go_on.wait(PATIENCE))
    turn = bench.turn()
    bench.wait_for("run.started")
    runner = bench.runner
    runner.loop = asyncio.new_event_loop()
    runner.loop.close()
    runner.stopping.set()
    for lock in (runner.open_work.changed, lock_of(runner), bench.crons.history.open_work.changed):
        assert ended(bench.begin(lock.acquire))
    begin_child()
    assert bench.runner.loop is None
    refusal = bench.crons.registry.trigger(NAME).refusal
    assert refusal is not None
    assert refusal.holder is not None
    runner.stop(8)
    assert bench.timing.mono() == 0
    go_on.set()
    assert ended(turn)
