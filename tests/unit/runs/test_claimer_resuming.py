"""Resuming a tick by hand: which ticks, and with what."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, slot

from firecron import ConfigurationError, Denied, Run, Unavailable
from firecron.base.instants import to_datetime
from firecron.ops.operator import Operator
from firecron.runs.policy import Resumed, check_key, evaluate_resume

TICK = to_datetime(slot())
MANUAL = f"{slot()}-manual-a1b2c3"


@pytest.mark.parametrize(
    ("entry", "unfinished", "attempt", "found"),
    [
        ({"outcome": "failed", "attempt": 1}, None, 5, 2),
        ({"outcome": "failed", "attempt": 2}, slot(60), 5, 3),
        ({"outcome": "missed"}, None, 5, 1),
        (None, slot(), 2, 3),
        ({"outcome": "lost", "attempt": 1}, slot(), 2, 3),
        ({"outcome": "lost", "attempt": 3}, slot(), 2, 4),
        (None, slot(60), 1, "has no run of"),
        ({"outcome": "succeeded", "attempt": 1}, None, 1, "has succeeded"),
        ({"outcome": "succeeded", "attempt": 1}, slot(), 1, "has succeeded"),
        ({"outcome": "done"}, None, 1, "can't be read"),
    ],
)
def test_the_history_says_whether_a_tick_may_be_resumed(
    entry: object, unfinished: str | None, attempt: int, found: int | str
) -> None:
    """One that has succeeded may not, nor one of which nothing is known; else it is the attempt after the last."""
    answer = evaluate_resume(slot(), entry, unfinished, attempt)
    if isinstance(found, int):
        assert answer == Resumed(slot(), found)
    else:
        assert isinstance(answer, str)
        assert found in answer


@pytest.mark.parametrize(
    ("key", "remedy"),
    [(slot(), "it may have been pruned, or never claimed"), (MANUAL, "a run by hand that dies leaves no entry")],
)
def test_what_the_history_does_not_know_has_a_remedy(key: str, remedy: str) -> None:
    """A tick can be claimed. A run by hand may have died, and then it is begun anew."""
    answer = evaluate_resume(key, None, None, 1)
    assert isinstance(answer, str)
    assert "has no run of" in answer
    assert remedy in answer


@pytest.mark.parametrize("key", ["", "2026-11-18", f"{MANUAL}0", f"{slot()}-manual-", f"{slot()}x", "x/y"])
def test_a_key_is_a_tick_or_a_run_by_hand(key: str) -> None:
    """Any other text is refused, with examples."""
    assert check_key(slot()) == slot()
    assert check_key(MANUAL) == MANUAL
    with pytest.raises(ConfigurationError, match="can't be resumed"):
        check_key(key)


def failing_once(fleet: Fleet) -> list[str]:
    """A body of two steps, which fails between them the first time; and what is called."""
    calls: list[str] = []

    def body(run: Run) -> None:
        run.step("a", calls.append, "a")
        if len(fleet.runs) == 1:
            raise ValueError
        run.step("b", calls.append, "b")

    fleet.body = body
    return calls


def test_a_failed_tick_is_resumed_with_its_key_and_its_steps() -> None:
    """The run is by hand, has the tick's slot and key and the next attempt, calls what is missing, and is recorded."""
    fleet = Fleet()
    one = fleet.instance()
    calls = failing_once(fleet)
    one.turn(slot())
    fleet.world.until(90)
    one.turn(slot(60))
    before = fleet.world.node()
    result = one.crons.registry.trigger(NAME, resume=TICK)
    assert result.outcome == "succeeded"
    run = fleet.runs[-1]
    assert (run.slot, run.attempt, run.trigger, run.idempotency_key) == (TICK, 2, "manual", f"{NAME}:{slot()}")
    assert calls == ["a", "a", "b", "b"]
    assert fleet.world.outcomes() == {slot(): "succeeded", slot(60): "succeeded"}
    assert fleet.world.history()[slot()]["attempt"] == 2
    assert fleet.world.node()["slot"] == before["slot"] == slot(60)
    assert run.fence is not None
    assert before["fence"] == fleet.runs[1].fence
    assert run.fence > (fleet.runs[1].fence or 0)


def test_a_run_by_hand_is_resumed_by_its_key() -> None:
    """It keeps its own idempotency key, and has no slot."""
    fleet = Fleet()
    one = fleet.instance()
    calls = failing_once(fleet)
    one.crons.registry.trigger(NAME)
    (key,) = fleet.world.history()
    assert one.crons.registry.trigger(NAME, resume=key).outcome == "succeeded"
    first, second = fleet.runs
    assert (second.idempotency_key, second.attempt, second.slot) == (first.idempotency_key, 2, None)
    assert calls == ["a", "b"]
    assert fleet.world.outcomes() == {key: "succeeded"}


def test_an_unfinished_tick_that_is_resumed_is_not_rerun() -> None:
    """Its run ends with the resumed one, so that nobody takes it over."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    one.die_holding(slot())
    fleet.world.until(40)
    assert fleet.world.node()["unfinished"] == slot()
    result = other.crons.registry.trigger(NAME, resume=TICK)
    assert (result.outcome, fleet.runs[-1].attempt) == ("succeeded", 2)
    assert "unfinished" not in fleet.world.node()
    assert refusal_of(other.turn(None)).reason == "slot_done"


@pytest.mark.parametrize("listens", [True, False])
def test_a_resumed_run_that_is_cancelled_leaves_another_tick_to_its_rerun(listens: bool) -> None:
    """The cancel is for the resumed tick. Another one, whose run has died meanwhile, is run again all the same."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    failing_once(fleet)
    one.turn(slot())
    fleet.world.until(60)
    one.die_holding(slot(60))
    fleet.world.until(100)

    def body(run: Run) -> None:
        operator = Operator(other.locks.database)
        assert operator.cancel(operator.read(NAME))
        fleet.world.advance(15)
        if listens:
            run.check()

    fleet.body = body
    result = other.crons.registry.trigger(NAME, resume=TICK)
    assert result.outcome == ("cancelled" if listens else "succeeded")
    fleet.body = lambda run: None
    other.turn(None)
    assert (fleet.runs[-1].slot, fleet.runs[-1].trigger) == (to_datetime(slot(60)), "rerun")
    assert fleet.world.outcomes()[slot(60)] == "succeeded"


@pytest.mark.parametrize("is_other", [True, False])
def test_a_resumed_run_that_is_cancelled_and_interrupted_takes_its_cancel_with_it(is_other: bool) -> None:
    """The instance stops before the run has heard of the cancel. Another tick is run again; the resumed one is not."""
    fleet = Fleet(on_abandoned="rerun")
    one, other, third = fleet.instance(), fleet.instance(), fleet.instance()
    if is_other:
        failing_once(fleet)
        one.turn(slot())
        fleet.world.until(60)
    one.die_holding(slot(60 * is_other))
    fleet.world.until(100)

    def body(run: Run) -> None:
        operator = Operator(third.locks.database)
        assert operator.cancel(operator.read(NAME))
        run.stopping.set()
        run.check()

    fleet.body = body
    assert other.crons.registry.trigger(NAME, resume=TICK).outcome == "interrupted"
    fleet.body = lambda run: None
    begun = len(fleet.runs)
    third.turn(None)
    assert [(run.slot, run.trigger) for run in fleet.runs[begun:]] == [(to_datetime(slot(60)), "rerun")] * is_other
    fleet.world.until(180)
    third.turn(slot(180))
    fleet.world.advance(1)
    assert not {"cancel", "cancelWhy", "unfinished"} & fleet.world.node().keys()
    assert not fleet.runs[-1].cancelled
    assert fleet.world.outcomes()[slot(60 * is_other)] == ("succeeded" if is_other else "interrupted")


def test_a_resumed_run_that_dies_is_rerun_by_nobody() -> None:
    """It is a run by hand: the tick stays as the history has it, and can be resumed again."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    calls = failing_once(fleet)
    one.turn(slot())

    def body(run: Run) -> None:
        run.step("b", calls.append, "b")
        one.freeze(1000)
        fleet.world.advance(100)
        raise ValueError

    fleet.body = body
    one.crons.registry.trigger(NAME, resume=TICK)
    assert refusal_of(other.turn(None)).reason == "slot_done"
    fleet.body = lambda run: [run.step(name, calls.append, name) for name in ("a", "b")]
    assert other.crons.registry.trigger(NAME, resume=TICK).outcome == "succeeded"
    assert calls == ["a", "b"]


def test_an_unfinished_tick_whose_resumed_run_dies_is_run_again_as_the_next_attempt() -> None:
    """The resumed run is one more claim of the tick, so the rerun after it has an attempt of its own."""
    fleet = Fleet(on_abandoned="rerun")
    one, other, third = fleet.instance(), fleet.instance(), fleet.instance()
    one.die_holding(slot())
    fleet.world.until(40)

    def body(run: Run) -> None:
        if run.trigger == "manual":
            other.freeze(1000)
            fleet.world.advance(100)
            third.turn(None)

    fleet.body = body
    other.crons.registry.trigger(NAME, resume=TICK)
    assert [(run.trigger, run.attempt) for run in fleet.runs] == [("manual", 2), ("rerun", 3)]
    assert fleet.world.history()[slot()]["attempt"] == 3


@pytest.mark.parametrize(("before", "attempt"), [({"attempt": 2}, 3), ({}, 2)], ids=str)
def test_an_unfinished_tick_is_resumed_as_the_attempt_after_those_in_its_record(
    before: dict[str, object], attempt: int
) -> None:
    """A run that died has left no entry in the history. A record that doesn't count its claims is of the first one."""
    fleet = Fleet()
    died = {"slot": slot(), "unfinished": slot(), "fence": 1, "holder": "dead", "acquiredAt": 1, "expiresAt": 2}
    fleet.world.put({**died, **before})
    assert fleet.instance().crons.registry.trigger(NAME, resume=TICK).outcome == "succeeded"
    assert [run.attempt for run in fleet.runs] == [attempt]


def test_a_missed_tick_that_is_resumed_twice_knows_its_steps() -> None:
    """A tick that was never claimed has no attempt: its second resumption is a first attempt again, and reads."""
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.store.set(f"cron-runs/{NAME}/{slot()}", {"outcome": "missed", "slot": slot()})
    calls = failing_once(fleet)
    one.crons.registry.trigger(NAME, resume=TICK)
    assert one.crons.registry.trigger(NAME, resume=TICK).outcome == "succeeded"
    assert calls == ["a", "b"]


@pytest.mark.parametrize("outcome", ["succeeded", None])
def test_a_refused_tick_leaves_the_lock_as_it_was(outcome: str | None) -> None:
    """The refusal says why, nothing runs, the lock is released, and remembers its last outcome."""
    fleet = Fleet()
    one = fleet.instance()
    one.turn(slot())
    if outcome is None:
        fleet.world.store.set(f"cron-runs/{NAME}", None)
    result = one.crons.registry.trigger(NAME, resume=TICK)
    assert result.refusal is not None
    assert (result.refusal.reason, result.refusal.slot) == ("slot_done", slot())
    assert ("has succeeded" if outcome else "has no run of") in result.refusal.message
    assert len(fleet.runs) == 1
    node = fleet.world.node()
    assert (node["outcome"], node["releasedAt"]) == ("succeeded", fleet.world.now())
    assert one.said("lock.refused")[-1].message == result.refusal.message
    assert one.locks.database.keeper.leases() == []


@pytest.mark.parametrize("error", [Unavailable("x"), KeyboardInterrupt()], ids=repr)
def test_a_refused_resume_is_no_claim_of_the_unfinished_tick(error: BaseException) -> None:
    """The tick keeps its attempt, and how its run was cut short, however often it is refused: its rerun is due."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        run.stopping.set()
        run.check()

    fleet.body = body
    one.turn(slot())
    fleet.world.until(40)
    before = fleet.world.node()
    assert (before["unfinished"], before["attempt"], before["outcome"]) == (slot(), 1, "interrupted")
    for _ in range(3):
        other.network.next("read", before=fail(error))
        with suppress(KeyboardInterrupt):
            other.crons.registry.trigger(NAME, resume=TICK)
        assert {key: fleet.world.node()[key] for key in ("attempt", "outcome")} == {
            "attempt": 1,
            "outcome": "interrupted",
        }
        assert "releasedAt" in fleet.world.node()
    fleet.body = lambda run: None
    other.turn(None)
    assert [(run.slot, run.attempt) for run in fleet.runs] == [(TICK, 1), (TICK, 2)]


def cancelled_and_dead(fleet: Fleet) -> Instance:
    """An instance of a fleet where the run of the first tick was cancelled, and its instance died before that ended."""
    dying, other = fleet.instance(), fleet.instance()
    dying.hold(slot())
    operator = Operator(other.locks.database)
    assert operator.cancel(operator.read(NAME))
    dying.crash()
    fleet.world.until(40)
    return other


@pytest.mark.parametrize("error", [None, Unavailable("x"), KeyboardInterrupt()], ids=repr)
def test_a_refused_resume_records_the_cancelled_run_that_it_finds_dead(error: BaseException | None) -> None:
    """Its claim removes the tick and the cancel from the node, so the history gets the entry that each claim owes."""
    fleet = Fleet(on_abandoned="rerun")
    other = cancelled_and_dead(fleet)
    if error is not None:
        other.network.next("read", before=fail(error))
    with suppress(KeyboardInterrupt):
        assert other.crons.registry.trigger(NAME, resume=to_datetime(slot(-60))).refusal is not None
    fleet.world.advance(1)
    assert fleet.runs == []
    assert not {"cancel", "unfinished"} & fleet.world.node().keys()
    assert fleet.world.outcomes() == {slot(): "cancelled"}
    assert [event.fields["slot"] for event in other.said("books.cancelled")] == [slot()]


def test_a_cancelled_run_that_died_is_resumed_before_the_history_has_it() -> None:
    """The record knows the tick and its attempt, so the next one has another number, and is the last in the history."""
    fleet = Fleet(on_abandoned="rerun")
    other = cancelled_and_dead(fleet)
    assert other.crons.registry.trigger(NAME, resume=TICK).outcome == "succeeded"
    assert [(run.slot, run.attempt, run.trigger) for run in fleet.runs] == [(TICK, 2, "manual")]
    fleet.world.advance(1)
    assert fleet.world.outcomes() == {slot(): "succeeded"}
    assert fleet.world.history()[slot()]["attempt"] == 2


def test_a_refused_tick_is_no_failure() -> None:
    """The lock remembers that its last run has failed, and counts that once; a resumed run that fails counts too."""
    fleet = Fleet()
    one = fleet.instance()
    failing_once(fleet)
    one.turn(slot())
    assert one.crons.registry.trigger(NAME, resume=to_datetime(slot(-60))).refusal is not None
    node = fleet.world.node()
    assert (node["outcome"], node["failures"]) == ("failed", 1)
    body, fleet.body = fleet.body, lambda run: run.name.index("?")
    assert one.crons.registry.trigger(NAME, resume=TICK).outcome == "failed"
    fleet.body = body
    assert fleet.world.node()["failures"] == 2
    assert one.crons.registry.trigger(NAME, resume=TICK).outcome == "succeeded"
    assert "failures" not in fleet.world.node()


def test_a_held_or_paused_lock_is_refused_as_for_a_run_by_hand() -> None:
    """Resuming never runs beside another run."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    one.hold(slot())
    result = other.crons.registry.trigger(NAME, resume=TICK)
    assert result.refusal is not None
    assert result.refusal.reason == "held"


def fail(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


@pytest.mark.parametrize(("error", "reason"), [(Unavailable("x"), "unavailable"), (Denied("x"), "denied")])
def test_a_history_that_can_not_be_read_is_a_refusal(error: Exception, reason: str) -> None:
    """Without it nothing is known, so nothing runs, and the lock is free again."""
    fleet = Fleet()
    one = fleet.instance()
    one.turn(slot())
    one.network.next("read", before=fail(error))
    result = one.crons.registry.trigger(NAME, resume=TICK)
    assert result.refusal is not None
    assert result.refusal.reason == reason
    assert "releasedAt" in fleet.world.node()


def test_an_interruption_while_it_looks_frees_the_lock() -> None:
    """Ctrl-C reaches the caller, and no lock stays behind."""
    fleet = Fleet()
    one = fleet.instance()
    one.turn(slot())

    def interrupt() -> None:
        raise KeyboardInterrupt

    one.network.next("read", before=interrupt)
    with pytest.raises(KeyboardInterrupt):
        one.crons.registry.trigger(NAME, resume=TICK)
    assert "releasedAt" in fleet.world.node()


@pytest.mark.parametrize("options", [{"overlap": "allow"}, {"once_per_tick": False}], ids=str)
def test_a_job_without_steps_can_not_be_resumed(options: dict[str, Any]) -> None:
    """Nothing would tell the second attempt what the first has done."""
    fleet = Fleet(**options)
    with pytest.raises(ConfigurationError, match="no steps"):
        fleet.instance().crons.registry.trigger(NAME, resume=TICK)


def test_a_tick_is_an_aware_instant_and_not_a_slot_besides() -> None:
    """A naive instant is a ValueError, and a run that claims a tick resumes none."""
    fleet = Fleet()
    registry = fleet.instance().crons.registry
    with pytest.raises(ValueError, match=r"resume=.* must be an aware datetime"):
        registry.trigger(NAME, resume=datetime(2026, 11, 18, 9))  # noqa: DTZ001  # that is the mistake
    with pytest.raises(ConfigurationError, match="leave one of them out"):
        registry.trigger(NAME, resume=TICK, slot=datetime(2026, 11, 18, 9, tzinfo=UTC))
