"""A turn: one instance, one tick, from the claim to the history."""

from __future__ import annotations

import logging
from datetime import UTC, datetime

import pytest
from tests.unit.instances import NAME, START, Fleet, Instance, refusal_of, slot

from firecron import LeaseLost, Run, Stopping, current_run
from firecron.instants import to_text
from firecron.runner import Result

NOW = datetime(2026, 11, 18, 9, tzinfo=UTC)
ERROR = ValueError("no paper")


def failing(error: BaseException, times: int = 1_000) -> object:
    """A body that raises this so often."""
    left = [times]

    def body(run: Run) -> None:
        left[0] -= 1
        if left[0] >= 0:
            raise error

    return body


@pytest.fixture
def fleet() -> Fleet:
    return Fleet()


def test_a_run_knows_what_it_is_for(fleet: Fleet) -> None:
    """The body is handed its slot, attempt, fence, key and trigger, and finds the same run as `current_run`."""
    one = fleet.instance()
    seen: list[Run | None] = []
    fleet.body = lambda run: seen.append(current_run())
    (result,) = one.turn(slot())
    (run,) = fleet.runs
    assert (run.name, run.slot, run.attempt) == (NAME, datetime(2026, 11, 18, 9, tzinfo=UTC), 1)
    assert (run.fence, run.idempotency_key, run.trigger) == (START, f"job:{slot()}", "schedule")
    assert seen == [run]
    assert current_run() is None
    assert result == Result(run, "succeeded")


def test_a_run_is_released_and_written_down(fleet: Fleet) -> None:
    """After a run its lock is free, its slot finished, and its history entry complete."""
    one = fleet.instance()
    fleet.body = lambda run: fleet.world.advance(2.5)
    one.turn(slot())
    node = fleet.world.node()
    assert node["slot"] == slot()
    assert node["outcome"] == "succeeded"
    assert node["releasedAt"] == node["expiresAt"] == START + 2_500
    assert "unfinished" not in node
    assert fleet.world.history() == {
        slot(): {
            "outcome": "succeeded",
            "slot": slot(),
            "startedAt": START,
            "endedAt": START + 2_500,
            "durationMs": 2_500,
            "attempt": 1,
            "fence": START,
            "trigger": "schedule",
            "instance": one.locks.identity.instance,
            "instanceId": "local",
        }
    }


class Unspeakable(Exception):
    def __str__(self) -> str:
        raise RuntimeError


@pytest.mark.parametrize(
    ("error", "written"),
    [
        (ERROR, "ValueError: no paper"),
        (ValueError(), "ValueError"),
        (SystemExit(3), "SystemExit: 3"),
        (KeyError("x" * 2_000), "KeyError: '" + "x" * 489),
        (Unspeakable(), "Unspeakable: (and its text can't be had: RuntimeError)"),
        # Those of some other lock, or raised without cause, are errors like any other.
        (LeaseLost("another"), "LeaseLost: another"),
    ],
)
def test_a_failure_is_an_outcome(fleet: Fleet, error: BaseException, written: str) -> None:
    """Whatever a body raises, the turn ends, the lock is released, the slot is finished, and the error written down."""
    one = fleet.instance()
    fleet.body = failing(error)  # type: ignore[assignment]  # it is a body
    (result,) = one.turn(slot())
    assert (result.outcome, result.error) == ("failed", error)
    assert fleet.world.history()[slot()]["error"] == written
    assert fleet.world.node()["outcome"] == "failed"
    assert "unfinished" not in fleet.world.node()
    (event,) = one.said("run.failed")
    assert event.level == logging.ERROR


def test_a_loser_does_nothing(fleet: Fleet) -> None:
    """Who comes later is refused, whether the winner is at it or done, and writes nothing."""
    one, other = fleet.instance(), fleet.instance()
    refusals: list[str] = []
    fleet.body = lambda run: refusals.append(refusal_of(other.turn(slot())).reason)
    one.turn(slot())
    before = fleet.world.node(), fleet.world.history()
    refusals.append(refusal_of(other.turn(slot())).reason)
    assert refusals == ["slot_done", "slot_done"]
    assert fleet.slots() == [slot()]
    assert (fleet.world.node(), fleet.world.history()) == before
    assert other.network.requests() == ["swap", "swap"]


@pytest.mark.parametrize(("retries", "failures", "outcome"), [(2, 2, "succeeded"), (2, 3, "failed"), (0, 1, "failed")])
def test_a_failed_run_is_retried_under_its_lock(retries: int, failures: int, outcome: str) -> None:
    """It is tried again after a doubling pause, as often as it has retries, holding the lock and counting one claim."""
    fleet = Fleet(retries=retries, retry_backoff=20)
    one, other = fleet.instance(), fleet.instance()
    times: list[float] = []
    body = failing(ERROR, failures)

    def noted(run: Run) -> None:
        times.append(fleet.world.mono() / 1000)
        body(run)  # type: ignore[operator]  # it is a body

    fleet.body = noted
    fleet.world.at(59, lambda: other.turn(slot(59)))
    (result,) = one.turn(slot())
    assert result.outcome == outcome
    assert times == [0, 20, 60][: min(failures, retries) + 1]
    assert {run.attempt for run in fleet.runs} == {1}
    assert fleet.world.history()[slot()]["attempt"] == 1
    assert len(one.said("run.retried")) == min(failures, retries)
    if retries:
        # The other one asked in the pause, 29 seconds past the lock's first expiry.
        assert other.said("lock.refused")[-1].fields["reason"] == "held"


def test_a_lost_run_is_told_and_recorded_as_lost(fleet: Fleet) -> None:
    """A run whose lock was freed by hand learns it at the next renewal, and is `lost` whatever it answers."""
    one = fleet.instance()
    checks: list[bool] = []

    def body(run: Run) -> None:
        fleet.world.edit(expiresAt=0)
        checks.append(bool(run.lost))
        fleet.world.advance(11)
        checks.append(bool(run.lost))
        with pytest.raises(LeaseLost):
            run.check()

    fleet.body = body
    (result,) = one.turn(slot())
    assert checks == [False, True]
    assert result.outcome == "lost"
    assert fleet.world.outcomes() == {slot(): "lost"}


def test_a_lost_run_is_not_retried() -> None:
    """A failure after the lease is lost is the end: nothing is tried again without the lock."""
    fleet = Fleet(retries=5)
    one = fleet.instance()

    def body(run: Run) -> None:
        fleet.world.put(None)
        fleet.world.advance(11)
        raise ERROR

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, len(fleet.runs)) == ("lost", 1)


def test_what_was_cut_by_the_loss_stays_unfinished(fleet: Fleet) -> None:
    """A run that the loss of its lease cut short is not finished; one that came to its end all the same is."""
    one = fleet.instance()
    for seconds, cut in ((0, True), (60, False)):
        fleet.world.until(seconds)

        def body(run: Run, cut: bool = cut) -> None:
            one.network.is_down = True
            fleet.world.advance(29.5)
            one.network.is_down = False
            if cut:
                run.check()

        fleet.body = body
        (result,) = one.turn(slot(seconds))
        assert result.outcome == "lost"
        assert ("unfinished" in fleet.world.node()) is cut


def test_the_loss_found_by_the_release_counts(fleet: Fleet) -> None:
    """A run that only its release tells of a successor is recorded as lost."""
    one = fleet.instance()
    fleet.body = lambda run: fleet.world.edit(holder="another")
    (result,) = one.turn(slot())
    assert result.outcome == "lost"
    assert fleet.world.outcomes() == {slot(): "lost"}
    assert fleet.world.node()["holder"] == "another"


def test_an_instance_does_not_compete_for_what_it_runs(fleet: Fleet) -> None:
    """While the body runs, a tick of the same job is skipped here without a request, and said to be."""
    one = fleet.instance()

    def body(run: Run) -> None:
        one.network.requests()
        assert one.turn(slot(1)) == []
        assert one.network.requests() == []

    fleet.body = body
    one.turn(slot())
    (event,) = one.said("run.skipped")
    assert event.fields["slot"] == slot(1)
    fleet.body = lambda run: None
    fleet.world.until(60)
    assert [result.outcome for result in one.turn(slot(60))] == ["succeeded"]


def test_the_place_is_free_before_the_history_is_written(fleet: Fleet) -> None:
    """A slow history is not in the way of the next run."""
    one = fleet.instance()
    outcomes: list[object] = []

    def before(method: str, path: str) -> None:
        if path.endswith(slot()):
            fleet.world.until(60)
            outcomes.extend(result.outcome for result in one.turn(slot(60)))

    one.network.before = before
    one.turn(slot())
    assert outcomes == ["succeeded"]
    assert fleet.world.outcomes() == {slot(): "succeeded", slot(60): "succeeded"}


@pytest.mark.parametrize("hold", [0, 20])
def test_a_minimum_hold_keeps_others_out(hold: int) -> None:
    """With hold_at_least the next tick is refused until that time is over, though the run ended long before."""
    fleet = Fleet("* * * * * *", hold_at_least=hold)
    one, other = fleet.instance(), fleet.instance()
    one.turn(slot())
    fleet.world.until(19)
    answers = [other.turn(slot(19))]
    fleet.world.until(20)
    answers.append(other.turn(slot(20)))
    expected = ["succeeded", "succeeded"] if not hold else ["held", "succeeded"]
    assert [answer[0].outcome or refusal_of(answer).reason for answer in answers] == expected


def test_allow_is_one_write_and_no_lease() -> None:
    """With overlap="allow" a claim is one write that lets go at once; nothing is renewed and nothing released."""
    fleet = Fleet("* * * * * *", overlap="allow", grace=600)
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        node = fleet.world.node()
        assert node["releasedAt"] == node["expiresAt"] == node["acquiredAt"]
        assert "unfinished" not in node
        if run.slot == NOW:
            assert one.network.requests() == ["swap"]
            fleet.world.advance(100)
            assert one.network.requests("cron-locks") == []

    fleet.body = body
    fleet.world.at(1, lambda: other.turn(slot(1)))
    assert one.turn(slot())[0].outcome == "succeeded"
    assert refusal_of(one.turn(slot())).reason == "slot_done"
    assert fleet.slots() == [slot(0), slot(1)]
    assert fleet.world.outcomes() == {slot(0): "succeeded", slot(1): "succeeded"}


def test_allow_has_bounds_here() -> None:
    """No more than max_concurrent bodies of one job run on an instance, and the tick beyond them is left to others."""
    fleet = Fleet("* * * * * *", overlap="allow")
    one, other = fleet.instance(max_concurrent=3), fleet.instance()
    most: list[int] = []

    def body(run: Run) -> None:
        most.append(one.runner.running().get(NAME, 0))
        seconds = len(fleet.runs)
        fleet.world.until(seconds)
        if seconds <= 3:
            one.turn(slot(seconds))

    fleet.body = body
    one.turn(slot())
    assert most == [1, 2, 3]
    assert [event.fields["slot"] for event in one.said("run.skipped")] == [slot(3)]
    assert other.turn(slot(3))[0].outcome == "succeeded"


def test_a_lock_by_name_is_the_original_design() -> None:
    """With once_per_tick=False nothing is claimed: the node is plain, and gone after the run; the next may run again."""
    fleet = Fleet(once_per_tick=False)
    one, other = fleet.instance(), fleet.instance()
    nodes: list[dict[str, object]] = []

    def body(run: Run) -> None:
        nodes.append(fleet.world.node())
        if len(nodes) == 1:
            assert refusal_of(other.turn(slot())).reason == "held"

    fleet.body = body
    assert one.turn(slot())[0].outcome == "succeeded"
    assert not {"slot", "fence", "unfinished", "attempt"} & nodes[0].keys()
    assert fleet.world.node() == {}
    assert other.turn(slot())[0].outcome == "succeeded"
    assert [(run.fence, run.idempotency_key) for run in fleet.runs] == [(None, f"job:{slot()}")] * 2


def test_a_run_by_hand_has_its_own_id(fleet: Fleet) -> None:
    """A manual run has neither slot nor tick, an id of its own in key and history, and a fence."""
    one = fleet.instance()
    result = one.crons.registry.trigger(NAME)
    (run,) = fleet.runs
    assert (result.outcome, run.slot, run.trigger, run.fence) == ("succeeded", None, "manual", START)
    run_id = run.idempotency_key.removeprefix("job:manual:")
    ((key, entry),) = fleet.world.history().items()
    assert key == f"{slot()}-manual-{run_id}"
    assert len(run_id) == 6
    assert (entry["trigger"], entry["outcome"]) == ("manual", "succeeded")
    assert "slot" not in entry


def test_a_run_by_hand_needs_the_lock(fleet: Fleet) -> None:
    """A manual run is refused while the job runs, on another instance or here."""
    one, other = fleet.instance(), fleet.instance()
    reasons: list[str] = []

    def body(run: Run) -> None:
        for instance in (one, other):
            refusal = instance.crons.registry.trigger(NAME).refusal
            assert refusal is not None
            reasons.append(refusal.reason)

    fleet.body = body
    one.turn(slot())
    assert reasons == ["held", "held"]
    assert len(fleet.runs) == 1


def test_a_run_by_hand_hands_an_interrupt_on(fleet: Fleet) -> None:
    """Ctrl-C in a job that was triggered by hand releases the lock, is recorded, and goes on to the caller."""
    one = fleet.instance()
    fleet.body = failing(KeyboardInterrupt())  # type: ignore[assignment]  # it is a body
    with pytest.raises(KeyboardInterrupt):
        one.crons.registry.trigger(NAME)
    assert list(fleet.world.outcomes().values()) == ["failed"]
    assert "releasedAt" in fleet.world.node()


def test_a_stopped_runner_takes_no_turn(fleet: Fleet) -> None:
    """Once an instance stops, a turn claims nothing, and a run by hand is refused with Stopping."""
    one = fleet.instance()
    one.runner.stop(1)
    assert one.turn(slot()) == []
    with pytest.raises(Stopping):
        one.crons.registry.trigger(NAME)
    assert fleet.world.node() == {}


def test_a_claim_that_lands_as_the_instance_stops_is_given_back() -> None:
    """A lock that is won while the instance stops runs nothing, and its slot stays unfinished for another to rerun."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    one.network.before = lambda method, path: one.runner.stopping.set()
    (result,) = one.turn(slot())
    assert (result.outcome, fleet.runs) == ("interrupted", [])
    node = fleet.world.node()
    assert (node["unfinished"], node["outcome"]) == (slot(), "interrupted")
    assert "releasedAt" in node
    assert [result.outcome for result in other.turn(slot())] == ["succeeded"]
    assert fleet.runs[0].attempt == 2


def slots_of(instance: Instance, slug: str) -> list[object]:
    return [event.fields["slot"] for event in instance.said(slug)]


def test_events_tell_a_run(fleet: Fleet) -> None:
    """A run says when it starts and how it ended, with its key, slot, attempt and fence."""
    one = fleet.instance()
    one.turn(slot())
    started, ended = one.said("run.started")[0], one.said("run.succeeded")[0]
    for event in (started, ended):
        assert event.fields["slot"] == slot()
        assert event.fields["fence"] == START
        assert (event.fields["attempt"], event.fields["key"]) == (1, f"job:{slot()}")
    assert slots_of(one, "run.started") == [to_text(START)]
