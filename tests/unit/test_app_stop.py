"""The end of a FireCron: whose runs it waits for, that it keeps to its time, and that no thread stays."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial

import pytest
from tests.simulation.world import NAME, START
from tests.unit.threads import PATIENCE, ended

from firecron import FireCron, Run, distributed_cron
from firecron.base.clocks import Deadline
from firecron.base.events import Event
from firecron.errors import Stopping
from firecron.settings import load
from firecron.testing import FakeTiming, MemoryStore


class Silent(MemoryStore):
    """A store that takes no writes of instances any more once it is silent, and doesn't say so."""

    def __init__(self, now: Callable[[], int]) -> None:
        super().__init__(now)
        self.answers = threading.Event()
        self.answers.set()

    def merge(
        self, path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True
    ) -> dict[str, object]:
        assert self.answers.wait(PATIENCE)
        return super().merge(path, values, deadline, echo=echo)


class Bench:
    """One instance with real threads, in virtual time."""

    def __init__(self, body: Callable[[Run], object], *, enabled: bool) -> None:
        self.timing = FakeTiming(wall=START)
        self.store = Silent(self.timing.now)
        self.heard: list[Event] = []
        self.happened = threading.Condition()

        @distributed_cron(NAME, "0 0 1 1 *", lock_ttl=60)
        def work(run: Run) -> None:
            body(run)

        self.crons = FireCron(work, store=self.store, timing=self.timing, settings=load(), enabled=enabled)
        self.crons.events.subscribe(self.note)
        self.threads: list[threading.Thread] = []

    def note(self, event: Event) -> None:
        with self.happened:
            self.heard.append(event)
            self.happened.notify_all()

    def wait_for(self, slug: str) -> None:
        with self.happened:
            assert self.happened.wait_for(lambda: slug in [event.slug for event in self.heard], PATIENCE), slug

    def begin(self, call: Callable[[], object]) -> threading.Thread:
        thread = threading.Thread(target=call)
        self.threads.append(thread)
        thread.start()
        return thread

    def trigger(self) -> threading.Thread:
        return self.begin(lambda: self.crons.registry.trigger(NAME))

    def tick(self, number: int, done: threading.Event) -> None:
        """Run a tick of the last hour, one after another."""
        slot = datetime.fromtimestamp(START / 1000 + 60 * (number - 60), UTC)
        assert self.crons.registry.trigger(NAME, slot=slot).outcome == "succeeded"
        done.set()

    def outcomes(self) -> list[object]:
        entries = self.crons.history.read(NAME).values()
        return [entry["outcome"] for entry in entries if isinstance(entry, dict)]


@pytest.mark.parametrize("enabled", [True, False], ids=["ticking", "guarded"])
@pytest.mark.parametrize("is_started", [True, False], ids=["started", "not started"])
def test_a_stop_ends_runs_by_hand(enabled: bool, is_started: bool) -> None:
    """Wherever a job is run by hand, a stop tells that run and waits for it; a start makes such runs possible again."""
    is_cut = True

    def body(run: Run) -> None:
        if is_cut:
            assert run.stopping.wait(PATIENCE)
            run.check()

    bench = Bench(body, enabled=enabled)
    if is_started:
        bench.crons.start()
    run = bench.trigger()
    bench.wait_for("run.started")
    assert ended(bench.begin(bench.crons.stop))
    assert bench.outcomes() == ["interrupted"]
    assert ended(run)
    with pytest.raises(Stopping, match=f'"{NAME}" was not run: this instance is stopping, or was stopped'):
        bench.crons.registry.trigger(NAME)
    is_cut = False
    with bench.crons:
        assert bench.crons.registry.trigger(NAME).outcome == "succeeded"
    with pytest.raises(Stopping, match=f'"{NAME}" was not run: this instance is stopping, or was stopped'):
        bench.crons.registry.trigger(NAME)


def test_a_stop_keeps_to_its_grace(go_on: threading.Event) -> None:
    """With a body that goes on and a database that never answers, a stop is over when its eight seconds are."""
    bench = Bench(lambda run: go_on.wait(PATIENCE), enabled=True)
    bench.crons.start()
    run = bench.trigger()
    bench.wait_for("run.started")
    bench.store.answers.clear()
    stop = bench.begin(bench.crons.stop)
    assert bench.crons.engine.runner.stopping.wait(PATIENCE)
    for _ in range(16):
        assert stop.is_alive()
        bench.timing.advance(0.5)
    assert ended(stop), "it wants more than its grace"
    assert bench.timing.mono() == 8_000
    bench.store.answers.set()
    go_on.set()
    assert ended(run)


def test_all_of_a_stop_has_the_time_of_its_grace(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is stopped is told when the eight seconds are over."""
    bench = Bench(lambda run: None, enabled=False)
    ends: list[float] = []
    monkeypatch.setattr(bench.crons.engine, "stop", ends.append)
    bench.timing.advance(2)
    bench.crons.stop()
    assert ends == [10_000]


def test_the_node_is_gone_while_runs_go_on(go_on: threading.Event) -> None:
    """An instance that stops removes its node at once, and does not wait for its runs with that."""
    bench = Bench(lambda run: go_on.wait(PATIENCE), enabled=True)
    removed = threading.Event()
    merge = bench.store.merge

    def watch(path: str, values: dict[str, object], deadline: Deadline, *, echo: bool = True) -> dict[str, object]:
        stored = merge(path, values, deadline, echo=echo)
        if None in values.values():
            removed.set()
        return stored

    bench.store.merge = watch  # type: ignore[method-assign]  # the same, and watched
    bench.crons.start()
    run = bench.trigger()
    bench.wait_for("run.started")
    stop = bench.begin(bench.crons.stop)
    assert removed.wait(PATIENCE)
    assert stop.is_alive()
    assert bench.store.get(f"cron-instances/{bench.crons.engine.heartbeat.id}") is None
    go_on.set()
    assert ended(stop)
    assert ended(run)


def firecrons() -> set[threading.Thread]:
    return {thread for thread in threading.enumerate() if thread.name.startswith("firecron")}


@pytest.mark.parametrize("holds", [False, True], ids=["nothing held", "a lock held by hand"])
def test_no_thread_stays(holds: bool) -> None:
    """After five starts and stops, with runs in between, no thread is left but the one that keeps a lock by hand."""
    before = firecrons()
    bench = Bench(lambda run: None, enabled=True)
    hold = bench.crons.locks.hold("mine", 30)
    lease = hold.__enter__() if holds else None
    for number in range(5):
        done = threading.Event()
        bench.crons.start()
        # Each tick but the first replaces a record, which is the bookkeeper's work.
        bench.crons.engine.crew.submit(partial(bench.tick, 2 * number, done))
        assert done.wait(PATIENCE)
        bench.tick(2 * number + 1, done)
        names = {thread.name for thread in firecrons() - before}
        assert names >= {"firecron-ticker", "firecron-heartbeat", "firecron-keeper", "firecron-worker"}
        bench.crons.stop()
        left = [thread for thread in firecrons() - before if not (holds and thread.name == "firecron-keeper")]
        assert all(map(ended, left)), left
    assert bench.outcomes() == ["succeeded"] * 10
    kept = firecrons() - before
    assert [thread.name for thread in kept] == ["firecron-keeper"] * holds
    if lease is not None:
        bench.timing.advance(11)
        bench.wait_for("lock.renewed")
        assert not lease.lost
        hold.__exit__(None, None, None)
        bench.crons.stop()
        assert all(map(ended, kept))
