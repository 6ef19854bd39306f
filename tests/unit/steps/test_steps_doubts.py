"""What another claim or try has left behind: a zombie's results, and steps that are in doubt."""

from __future__ import annotations

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.world import slot
from tests.unit.steps.sync_jobs import STEPS, Calls, run_once, steps_of

from firecron import ConfigurationError, LeaseLost, Run, StepInDoubt


def test_i47_a_zombies_result_never_replaces_its_successors() -> None:
    """A claim that wakes after its successor has recorded can't write, whatever it returned; nor is its result used."""
    fleet = Fleet(on_abandoned="rerun")
    zombie, heir = fleet.instance(), fleet.instance()
    records: list[object] = []

    def charge(run: Run) -> str:
        if run.attempt == 1:
            zombie.freeze(100)
            fleet.world.advance(40)
            heir.turn(None)
            records.append(steps_of(fleet))
            return "the zombie's"
        return "the heir's"

    fleet.body = lambda run: run.step("charge", charge, run)
    (result,) = zombie.turn(slot())
    assert result.outcome == "lost"
    assert steps_of(fleet) == records[0]
    assert steps_of(fleet)["charge"]["result"] == '"the heir\'s"'


def test_i47_whoever_finds_a_successors_record_has_lost_its_lease() -> None:
    """After an unlock a holder may trust its lease, and learn by a step that another claim is at work."""
    fleet = Fleet()
    one = fleet.instance()
    successors: dict[str, object] = {"result": "2", "doneAt": 2, "startedAt": 1}

    def body(run: Run) -> None:
        assert run.fence is not None
        successors["fence"] = run.fence + 1
        fleet.world.store.set(f"{STEPS}/charge", successors)
        run.step("charge", Calls(), 1)

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, type(result.error)) == ("lost", LeaseLost)
    assert steps_of(fleet)["charge"] == successors
    assert [event.fields["why"] for event in one.said("lock.lost")] == ["a later claim has written this step"]


def test_i47_a_successor_replaces_what_a_zombie_wrote_after_it_had_looked() -> None:
    """The write of a zombie may arrive while its successor calls: the successor's own result is what stays."""
    fleet = Fleet(on_abandoned="rerun")
    zombie, heir = fleet.instance(), fleet.instance()

    def charge(run: Run) -> str:
        if run.attempt == 1:
            zombie.freeze(100)
            fleet.world.advance(40)
            heir.turn(None)
            return "the zombie's"
        late = {"result": '"the zombie\'s"', "doneAt": 2, "startedAt": 1, "fence": fleet.runs[0].fence}
        fleet.world.store.set(f"{STEPS}/charge", late)
        return "the heir's"

    fleet.body = lambda run: run.step("charge", charge, run)
    zombie.turn(slot())
    assert steps_of(fleet)["charge"]["result"] == '"the heir\'s"'
    assert steps_of(fleet)["charge"]["fence"] == fleet.runs[1].fence


def test_i48_an_intent_without_a_result_is_in_doubt() -> None:
    """After a crash between intent and record, the rerun is told who called and when, and doesn't call."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    calls: list[int | None] = []
    doubts: list[StepInDoubt] = []

    def charge(run: Run) -> None:
        calls.append(run.attempt)
        one.freeze(1000)
        fleet.world.advance(100)
        other.turn(None)

    def body(run: Run) -> None:
        try:
            run.step("charge", charge, run, at_most_once=True)
        except StepInDoubt as doubt:
            doubts.append(doubt)
            raise

    fleet.body = body
    one.turn(slot())
    assert calls == [1]
    (doubt,) = doubts
    assert (doubt.name, doubt.instance, doubt.attempt) == ("charge", one.locks.identity.instance, 1)
    assert f"{doubt.at:%Y-%m-%dT%H:%M:%SZ}" == slot()
    assert "run.settle('charge', result)" in str(doubt)
    assert fleet.world.history()[slot()]["outcome"] == "failed"


def test_i48_a_call_that_raised_is_in_doubt_as_well() -> None:
    """A timeout may have charged: the retry of the same claim doesn't call again, with the flag or without it."""
    fleet = Fleet(retries=2)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise TimeoutError

    fleet.body = lambda run: run.step("charge", fail, at_most_once=len(fleet.runs) < 3)
    (result,) = fleet.instance().turn(slot())
    assert isinstance(result.error, StepInDoubt)
    assert calls == [1]


@pytest.mark.parametrize("way", ["settle", "retry"])
def test_a_doubt_is_ended_by_the_body(way: str) -> None:
    """`settle` records what is known to have come of it; `retry` lets the next call be made."""
    fleet = Fleet(retries=1)
    one = fleet.instance()
    calls: list[int] = []

    def charge() -> dict[str, int]:
        calls.append(len(fleet.runs))
        if len(fleet.runs) == 1:
            raise TimeoutError
        return {"charge": 2}

    def body(run: Run) -> None:
        try:
            got = run.step("charge", charge, at_most_once=True)
        except StepInDoubt:
            if way == "settle":
                got = run.settle("charge", {"charge": 1})
            else:
                run.retry("charge")
                got = run.step("charge", charge, at_most_once=True)
        assert got == {"charge": 1 if way == "settle" else 2}

    fleet.body = body
    (result,) = one.turn(slot())
    assert result.outcome == "succeeded"
    assert calls == ([1] if way == "settle" else [1, 2])
    assert steps_of(fleet)["charge"]["result"] == ('{"charge":1}' if way == "settle" else '{"charge":2}')


def test_a_retry_allows_one_call() -> None:
    """If that one raises, the step is in doubt again."""
    fleet = Fleet(retries=2)
    calls: list[int] = []

    def fail() -> None:
        calls.append(len(fleet.runs))
        raise TimeoutError

    def body(run: Run) -> None:
        if len(fleet.runs) == 2:
            with pytest.raises(StepInDoubt):
                run.step("charge", fail, at_most_once=True)
            run.retry("charge")
        run.step("charge", fail, at_most_once=True)

    fleet.body = body
    (result,) = fleet.instance().turn(slot())
    assert isinstance(result.error, StepInDoubt)
    assert calls == [1, 2]


def test_only_a_step_in_doubt_can_be_settled_or_retried() -> None:
    """Anything else would record what nobody called."""

    def body(run: Run) -> None:
        run.step("a", dict)
        for name in ("a", "b"):
            for call in (lambda name=name: run.settle(name, 1), lambda name=name: run.retry(name)):
                with pytest.raises(ConfigurationError, match="not in doubt"):
                    call()

    assert run_once(body).outcome == "succeeded"
