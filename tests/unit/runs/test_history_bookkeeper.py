"""The bookkeeper's threads: who waits for it, and who does its work after a fork."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from datetime import datetime

import pytest
from tests.simulation.world import NAME, slot
from tests.unit.runs.test_runner_stop import Bench
from tests.unit.threads import PATIENCE, ended

from firecron.base.flag import begin_child
from firecron.base.threads import Workers
from firecron.runs.entry import Entry, unrun


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
    wait = bench.timing.wait

    def watched(condition: threading.Condition, seconds: float | None) -> None:
        if threading.current_thread() in bench.threads:
            waited.set()
        wait(condition, seconds)

    bench.before_the_books(lambda: go_on.wait(PATIENCE))
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
    crew = bench.crons.history.crew
    assert isinstance(crew, Workers)
    # What occupies the parent's only thread, which nothing ends in the child, and what waits there.
    written = threading.Event()
    crew.submit(lambda: go_on.wait(PATIENCE))
    crew.submit(written.set)
    begin_child()
    assert ended(bench.turn())
    bench.wait_for("books.missed")
    assert ended(bench.stop())
    assert {slot(-120), slot(-60)} <= entries(bench)
    assert not written.is_set()


def raising(error: BaseException) -> Callable[[Callable[[], object]], None]:
    """A crew's `submit` that raises this."""

    def submit(work: Callable[[], object]) -> None:
        raise error

    return submit


def test_no_stop_waits_for_what_was_interrupted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where Ctrl-C comes as the work is handed over, a stop has nothing to wait for."""
    bench = Bench(lambda: None)
    missed_one(bench)
    monkeypatch.setattr(bench.crons.history.crew, "submit", raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        bench.crons.registry.trigger(NAME, slot=datetime.fromisoformat(slot()))
    assert ended(bench.begin(bench.crons.stop))
    assert bench.timing.mono() == 0


@pytest.mark.parametrize("owes", [True, False])
@pytest.mark.parametrize("once_per_tick", [True, False])
def test_what_can_not_be_written_down_is_said(owes: bool, once_per_tick: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where no thread can be started to write down what a claim owes, that is said, the run begins all the same, and no
    stop waits for it. A claim that owes nothing needs no thread.
    """
    bench = Bench(lambda: None, once_per_tick=once_per_tick)
    if owes:
        missed_one(bench)
    else:
        bench.crons.registry.trigger(NAME, slot=datetime.fromisoformat(slot(-60)))
    no_thread = RuntimeError("can't start new thread")
    monkeypatch.setattr(bench.crons.history.crew, "submit", raising(no_thread))
    assert ended(bench.turn())
    failed = [(event.name, event.fields["why"]) for event in bench.heard if event.slug == "history.failed"]
    assert failed == [(NAME, repr(no_thread))] * (owes and once_per_tick)
    assert bench.outcome() == "succeeded"
    assert ended(bench.stop())
    assert bench.timing.mono() == 0


def test_an_error_while_it_writes_is_said() -> None:
    """Whatever breaks while the books are written is said with the job's name, and costs no stop its time."""
    bench = Bench(lambda: None)
    missed_one(bench)

    def fail() -> None:
        raise ValueError("a bug")

    bench.before_the_books(fail)
    assert ended(bench.turn())
    bench.wait_for("history.failed")
    (event,) = (event for event in bench.heard if event.slug == "history.failed")
    assert (event.name, event.fields["why"]) == (NAME, repr(ValueError("a bug")))
    assert ended(bench.stop())
    assert bench.timing.mono() == 0


def test_a_stop_waits_for_the_books_up_to_its_end(go_on: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where writing takes longer than the grace of a stop, the stop comes back without it."""
    bench = Bench(lambda: None)
    missed_one(bench)
    bench.before_the_books(lambda: go_on.wait(PATIENCE))
    waited: list[float | None] = []
    wait = bench.timing.wait

    def watched(condition: threading.Condition, seconds: float | None) -> None:
        if threading.current_thread() in bench.threads:
            waited.append(seconds)
        wait(condition, seconds)

    monkeypatch.setattr(bench.timing, "wait", watched)
    assert ended(bench.turn())
    bench.timing.advance(100)
    stop = bench.stop(8)
    bench.timing.rest(2)  # the keeper and the stop
    bench.timing.pass_by(7.5)
    assert stop.is_alive()
    bench.timing.pass_by(0.5)
    assert ended(stop)
    assert waited[0] is not None
    assert waited[0] <= 8
    go_on.set()


@pytest.mark.parametrize(
    ("entry", "level", "said"),
    [
        (unrun(slot(), "missed"), logging.WARNING, "did not run its tick {}: missed"),
        (unrun(slot(), "skipped", count=2), logging.INFO, "did not run 2 ticks up to {}: skipped"),
        (
            unrun(slot(), "missed", count=9, at_least=True),
            logging.WARNING,
            "did not run at least 9 ticks up to {}: missed",
        ),
        (unrun(slot(), "abandoned", 1, 5), logging.WARNING, "did not finish its tick {}: abandoned"),
        (unrun(slot(), "cancelled", 1, 5), logging.INFO, "did not finish its tick {}: cancelled"),
    ],
)
def test_the_books_are_told(entry: Entry, level: int, said: str) -> None:
    """Each entry is told as one tick or as how many; what overlap skipped, or a person ended, is no WARNING."""
    bench = Bench(lambda: None)
    bench.crons.history.emit_entry(bench.crons.registry.get(NAME), entry)
    (event,) = bench.heard
    assert (event.level, event.message) == (level, f'"{NAME}" {said.format(slot())}')


def test_an_entry_names_the_instance_that_wrote_it() -> None:
    """What a claim owes is written with the claimer's instance and revision."""
    bench = Bench(lambda: None)
    missed_one(bench)
    assert ended(bench.turn())
    assert ended(bench.stop())
    entry = bench.store.get(f"cron-runs/{NAME}/{slot(-60)}")
    assert isinstance(entry, dict)
    identity = bench.crons.locks.identity
    assert (entry["instance"], entry["instanceId"]) == (identity.instance, identity.instance_id)


def test_a_record_without_a_lock_owes_nothing() -> None:
    """A node that holds an operator's fields alone is no run that anything could be owed for."""
    bench = Bench(lambda: None)
    bench.store.set(f"cron-locks/{NAME}", {"paused": False})
    assert ended(bench.turn())
    assert ended(bench.stop())
    assert "history.failed" not in bench.slugs()
    assert entries(bench) == {slot()}
