"""The bookkeeper's threads: who waits for it, and who does its work after a fork."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import datetime

import pytest
from tests.unit.test_runner_stop import Bench
from tests.unit.threads import PATIENCE, ended
from tests.unit.world import NAME, slot

from firecron.workers import Workers


def missed_one(bench: Bench) -> None:
    """A tick was finished three ticks ago, so that the next claim owes two."""
    bench.store.set(
        f"cron-locks/{NAME}",
        {"slot": slot(-180), "expiresAt": bench.timing.now() - 150_000, "releasedAt": bench.timing.now() - 170_000},
    )


def entries(bench: Bench) -> set[object]:
    found = bench.store.get(f"cron-runs/{NAME}")
    return set(found) if isinstance(found, dict) else set()


def test_a_stop_waits_for_what_is_not_yet_written(go_on: threading.Event) -> None:
    """The stop of an instance comes back when all that its claims owe to the history is there."""
    bench = Bench(lambda: None)
    missed_one(bench)
    waited = threading.Event()
    record, wait = bench.crons.history.record_unrun, bench.timing.wait

    def slowly(*arguments: object) -> None:
        assert go_on.wait(PATIENCE)
        record(*arguments)  # type: ignore[arg-type]  # handed through

    def watched(condition: threading.Condition, seconds: float | None) -> None:
        if condition is bench.runner._bookkeeper._changed:
            waited.set()
        wait(condition, seconds)

    bench.crons.history.record_unrun = slowly  # type: ignore[method-assign,assignment]  # the same, slowly
    bench.timing.wait = watched  # type: ignore[method-assign]  # the same, and watched
    assert ended(bench.turn())

    def stop_instance() -> None:
        bench.crons.stop()
        waited.set()

    stop = bench.begin(stop_instance)
    assert waited.wait(PATIENCE)
    assert stop.is_alive()
    go_on.set()
    assert ended(stop)
    assert {slot(-120), slot(-60)} <= entries(bench)


def test_a_forked_child_writes_down_what_its_own_claims_owe(go_on: threading.Event) -> None:
    """In a forked child the parent's thread is not there, and what the parent had to write is not the child's."""
    bench = Bench(lambda: None)
    missed_one(bench)
    crew = bench.runner._bookkeeper._crew
    assert isinstance(crew, Workers)
    # What occupies the parent's only thread, which nothing ends in the child, and what waits there.
    written = threading.Event()
    crew.submit(lambda: go_on.wait(PATIENCE))
    crew.submit(written.set)
    bench.runner.after_fork()
    assert ended(bench.turn())
    bench.wait_for("books.missed")
    assert ended(bench.stop())
    assert {slot(-120), slot(-60)} <= entries(bench)
    assert not written.is_set()


def test_no_stop_waits_for_what_was_interrupted() -> None:
    """Where Ctrl-C comes as the work is handed over, a stop has nothing to wait for."""

    class Interrupted(Workers):
        def submit(self, work: Callable[[], object]) -> None:
            raise KeyboardInterrupt

    bench = Bench(lambda: None)
    missed_one(bench)
    bench.runner._bookkeeper._crew = Interrupted(1)
    with pytest.raises(KeyboardInterrupt):
        bench.crons.registry.trigger(NAME, slot=datetime.fromisoformat(slot()))
    assert ended(bench.begin(bench.crons.stop))
    assert bench.timing.mono() == 0
