"""A turn: one instance, one tick, from the claim to the history."""

from __future__ import annotations

import logging
from datetime import UTC, datetime
from typing import Any

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron import Lease, LeaseLost, Run, current_run
from firecron.base.events import Event
from firecron.base.flag import begin_child
from firecron.base.instants import to_text
from firecron.errors import ConfigurationError
from firecron.jobs.registry import Result

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
        (Unspeakable(), "Unspeakable: (its text can't be read: RuntimeError)"),
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
    """Who comes later is refused, whether the winner still runs or is done, and writes nothing."""
    one, other = fleet.instance(), fleet.instance()
    refusals: list[str] = []
    fleet.body = lambda run: refusals.append(refusal_of(other.turn(slot())).reason)
    one.turn(slot())
    before = fleet.world.node(), fleet.world.history()
    refusals.append(refusal_of(other.turn(slot())).reason)
    assert refusals == ["slot_done", "slot_done"]
    assert fleet.slots() == [slot()]
    assert (fleet.world.node(), fleet.world.history()) == before
    assert other.network.requests() == ["swap", "read"], "a read is as much as a write in vain, and shorter"


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
        assert (result.outcome, fleet.world.node()["outcome"]) == ("lost", "lost")
        assert ("unfinished" in fleet.world.node()) is cut


@pytest.mark.parametrize(
    ("options", "seconds", "outcome", "is_finished"),
    [
        ({"max_runtime": 40}, 39.9, "interrupted", False),
        ({"max_runtime": 40}, 40, "lost", True),
        ({"renew": False}, 20, "interrupted", False),
        ({"renew": False}, 30, "lost", True),
    ],
)
def test_what_its_own_options_have_ended_is_finished(
    options: dict[str, Any], seconds: float, outcome: str, is_finished: bool
) -> None:
    """They would end a rerun at the same time. What a stop cuts short is for another to rerun, and that is no error."""
    fleet = Fleet(**options)
    one = fleet.instance()

    def body(run: Run) -> None:
        fleet.world.advance(seconds)
        run.stopping.set()
        run.check()

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, "unfinished" in fleet.world.node()) == (outcome, not is_finished)
    (entry,) = fleet.world.history().values()
    assert (result.error is None, "error" in entry) == (outcome == "interrupted", outcome == "lost")


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


def test_events_tell_how_late_and_how_long_a_run_was(fleet: Fleet) -> None:
    """A run says how many milliseconds after its slot it started, one by hand nothing of it, and each how long it took
    and what it raised.
    """
    one = fleet.instance()
    fleet.world.until(2.5)

    def body(run: Run) -> None:
        fleet.world.advance(1.5)
        if run.trigger == "schedule":
            raise ERROR

    fleet.body = body
    one.turn(slot())
    one.crons.registry.trigger(NAME)
    one.crons.registry.trigger(NAME, resume=NOW)
    assert [event.fields.get("lag") for event in one.said("run.started")] == [2_500, None, None]
    ends = [*one.said("run.failed"), *one.said("run.succeeded")]
    assert [(event.message, event.fields["took"]) for event in ends] == [
        ('"job" failed after 1.5 s: ValueError: no paper', 1_500),
        *[('"job" succeeded after 1.5 s', 1_500)] * 2,
    ]


def test_the_note_of_a_run_is_told_and_written_down(fleet: Fleet) -> None:
    """Its end says what the run has noted, and so does the history. A note that comes later is refused."""
    one = fleet.instance()
    fleet.body = lambda run: run.note("12 mails")
    one.turn(slot())
    assert [event.fields.get("note") for event in one.said("run.succeeded")] == ["12 mails"]
    assert fleet.world.history()[slot()]["note"] == "12 mails"
    with pytest.raises(ConfigurationError, match="has ended"):
        fleet.runs[0].note("13 mails")


@pytest.mark.parametrize(
    ("options", "story", "said"),
    [
        ({}, "sffsfh", [("job.failing", 60, 1), ("job.recovered", 180, None), ("job.failing", 240, 1)]),
        ({"alert_after": 2}, "fffhsf", [("job.failing", 60, 2), ("job.recovered", 240, None)]),
        ({"alert_after": 2}, "ffh", [("job.failing", 60, 2)]),
        ({}, "df", [("job.failing", 60, 2)]),
        ({}, "dhf", []),
        ({}, "fs", [("job.failing", 0, 1), ("job.recovered", 60, None)]),
        ({"overlap": "allow"}, "fs", []),
        ({"once_per_tick": False}, "fs", []),
    ],
)
def test_the_run_that_makes_its_job_fail_says_so(
    options: dict[str, Any], story: str, said: list[tuple[str, float, int | None]]
) -> None:
    """The run with which as many ticks in a row have failed as are reported says so, once, and the first that succeeds
    after it says that this is over. A run by hand that fails says nothing, nor one that leaves no count in its lock.

    In the story each letter is a minute: a tick that fails or succeeds, one that dies, or a run by hand that fails.
    """
    fleet = Fleet(**options)
    one = fleet.instance()
    for number, letter in enumerate(story):
        fleet.world.until(60 * number)
        fleet.body = failing(ERROR, letter != "s")  # type: ignore[assignment]  # it is a body
        match letter:
            case "d":
                fleet.instance().die_holding(slot(60 * number))
            case "h":
                one.crons.registry.trigger(NAME)
            case _:
                one.turn(slot(60 * number))
    events = [event for event in one.events if event.slug.startswith("job.")]
    assert [(event.slug, event.fields["slot"], event.fields.get("failures")) for event in events] == [
        (slug, slot(seconds), failures) for slug, seconds, failures in said
    ]
    assert {event.name for event in events} <= {NAME}


def test_the_end_of_a_run_is_not_that_of_another() -> None:
    """What runs is counted run by run: when one of two has ended, the other runs on."""
    fleet = Fleet(overlap="allow")
    one = fleet.instance()
    running: list[dict[str, int]] = []

    def body(run: Run) -> None:
        if run.slot is not None:
            running.append(one.runner.running())
            one.crons.registry.trigger(NAME)
        running.append(one.runner.running())

    fleet.body = body
    one.turn(slot())
    assert running == [{NAME: 1}, {NAME: 2}, {NAME: 1}]
    assert one.runner.running() == {}


def test_each_claim_of_a_turn_has_a_token_of_its_own() -> None:
    """A turn that reruns what was abandoned and then runs its own tick holds two locks, one after the other."""
    fleet = Fleet(on_abandoned="rerun")
    dead, one = fleet.instance(), fleet.instance()
    dead.die_holding(slot(-60))
    fleet.world.until(40)
    holders: list[object] = []
    fleet.body = lambda run: holders.append(fleet.world.node()["holder"])
    one.turn(slot())
    assert fleet.slots() == [slot(-60), slot()]
    assert len(set(holders)) == 2


@pytest.mark.parametrize("catch_up", ["skip", "all"])
def test_a_tick_that_could_not_start_in_time_has_no_result(catch_up: str) -> None:
    """Of a tick whose grace is over without an answer there is neither a run nor a refusal."""
    fleet = Fleet(grace=5, catch_up=catch_up)
    one = fleet.instance()
    one.network.is_down = True
    assert one.turn(slot()) == []


@pytest.mark.parametrize("catch_up", ["once", "all"])
def test_a_tick_that_its_own_catch_up_has_delayed_is_caught_up(catch_up: str) -> None:
    """Where catching up takes longer than the tick's grace, that tick is caught up next, by the same turn."""
    fleet = Fleet(catch_up=catch_up, grace=5)
    one = fleet.instance()
    before = START - 120_000
    fleet.world.put(
        {"acquiredAt": before, "expiresAt": before, "releasedAt": before, "holder": "theirs", "slot": slot(-120)}
    )
    fleet.body = lambda run: fleet.world.advance(10)
    fleet.world.until(0.5)
    results = one.turn(slot())
    assert fleet.slots() == [slot(-60), slot()]
    assert [result.run.trigger for result in results if result.run] == ["catch_up", "catch_up"]


def test_a_tick_that_a_rerun_has_delayed_is_missed() -> None:
    """Where a rerun takes longer than the tick's grace, and nothing is to be caught up, the turn is over."""
    fleet = Fleet("*/30 * * * * *", on_abandoned="rerun", grace=5)
    dead, one = fleet.instance(), fleet.instance()
    dead.die_holding(slot())
    fleet.world.until(31)
    fleet.body = lambda run: fleet.world.advance(40)
    turn = one.attempt(slot(30))
    assert one.go_on(turn) is None
    assert [result.outcome for result in turn.results] == ["succeeded"]
    assert fleet.slots() == [slot()]


def test_a_rerun_that_is_interrupted_leaves_the_lane_free() -> None:
    """Where a listener ends a turn in the middle, the ticks after it run, also if they queue."""
    fleet = Fleet(on_abandoned="rerun", overlap="queue", grace=600)
    dead, one = fleet.instance(), fleet.instance()
    dead.die_holding(slot(-60))
    fleet.world.until(31)
    interrupts = [KeyboardInterrupt]

    def interrupt(event: Event) -> None:
        if event.slug == "run.started" and interrupts:
            raise interrupts.pop()

    one.crons.events.subscribe(interrupt)
    with pytest.raises(KeyboardInterrupt):
        one.turn(slot())
    fleet.world.until(100)
    one.turn(slot(60))
    assert fleet.slots()[-1] == slot(60)


def test_a_claim_that_is_interrupted_leaves_the_lane_free() -> None:
    """Where Ctrl-C ends a turn as it claims, the ticks after it run, also if they queue."""
    fleet = Fleet(overlap="queue", grace=600)
    one = fleet.instance()
    interrupts = [KeyboardInterrupt]

    def interrupt(method: str, path: str) -> None:
        if interrupts:
            raise interrupts.pop()

    one.network.before = interrupt
    with pytest.raises(KeyboardInterrupt):
        one.turn(slot())
    fleet.world.until(60)
    one.turn(slot(60))
    assert fleet.slots() == [slot(60)]


@pytest.mark.parametrize(
    ("due", "wishes", "is_stopping", "said"),
    [
        (slot(), "", False, [slot()]),
        (slot(), "", True, []),
        (slot(), "looks_back", False, []),
        (None, "insists", False, []),
    ],
)
def test_a_tick_of_a_job_that_is_paused_here_is_said_to_be_skipped(
    fleet: Fleet, due: str | None, wishes: str, is_stopping: bool, said: list[str]
) -> None:
    """A tick that comes after its job was paused here is said to be skipped; a look for what others left is no tick,
    and at a stop nothing is said.
    """
    one = fleet.instance()
    turn = one.attempt(due, looks_back="looks_back" in wishes, insists="insists" in wishes)
    one.crons.registry.pause(NAME)
    if is_stopping:
        one.runner.stopping.set()
    assert one.go_on(turn) is None
    assert slots_of(one, "run.skipped") == said


@pytest.mark.parametrize("overlap", ["skip", "allow"])
def test_a_run_of_the_parent_is_not_the_childs_to_record(overlap: str) -> None:
    """A body that forks is lost in the child, also if it has no lock, and nothing is written down there."""
    fleet = Fleet(overlap=overlap)
    one = fleet.instance()

    def body(run: Run) -> None:
        begin_child()
        assert run.lost

    fleet.body = body
    (result,) = one.turn(slot())
    assert result == Result(fleet.runs[0], "lost")
    assert fleet.world.history() == {}


def test_an_error_beside_a_minimum_hold_frees_the_lane() -> None:
    """If writing the history raises what it never should, no turn is left behind that the next ticks would wait for."""
    fleet = Fleet("*/10 * * * * *", catch_up="all", hold_at_least=5)
    one = fleet.instance()
    before = START - 20_000
    fleet.world.put(
        {"acquiredAt": before, "expiresAt": before, "releasedAt": before, "holder": "theirs", "slot": slot(-20)}
    )
    record = one.crons.history.record

    def broken(name: str, entry: object, raised: BaseException | None = None) -> bool:
        raise ERROR

    one.crons.history.record = broken  # type: ignore[method-assign]  # it raises nothing
    with pytest.raises(ValueError, match="no paper"):
        one.turn(slot())
    one.crons.history.record = record  # type: ignore[method-assign]  # as it was
    fleet.world.until(10)
    assert {result.outcome for result in one.turn(slot(10))} == {"succeeded"}


@pytest.mark.parametrize(("hold", "took", "ran"), [(0, 0, [-20, -10, 0, 10]), (10, 9.5, [-20, -10, 0])])
def test_a_tick_that_comes_between_two_claims_of_a_turn(hold: float, took: float, ran: list[int]) -> None:
    """While the run of a missed tick is recorded, a newer tick comes: it is skipped if the minimum hold of that run is
    not over, if only by half a second. Without a hold it runs, also if RTDB's time is found to be earlier than it was.
    """
    fleet = Fleet("*/10 * * * * *", catch_up="all", hold_at_least=hold, grace=60)
    one = fleet.instance()
    before = START - 30_000
    fleet.world.put(
        {"acquiredAt": before, "expiresAt": before, "releasedAt": before, "holder": "theirs", "slot": slot(-30)}
    )
    fleet.world.until(1)

    def body(run: Run) -> None:
        fleet.world.advance(took)
        if not hold:
            one.locks.clock.observe(START + 990, fleet.world.mono(), fleet.world.mono())

    def come(method: str, path: str) -> None:
        if path.endswith(slot(-20)):
            one.network.before = lambda method, path: None
            fleet.body = lambda run: None
            fleet.world.until(11)
            one.turn(slot(10))

    fleet.body, one.network.before = body, come
    one.turn(slot())
    assert fleet.slots() == [slot(seconds) for seconds in ran]
    assert slots_of(one, "run.skipped") == [slot(10) if hold else slot()]


def test_a_minimum_hold_is_over_by_the_time_as_it_is_known_then() -> None:
    """If RTDB's time is found to be earlier during a hold, the turn waits longer, and all that it catches up is run."""
    fleet = Fleet("*/10 * * * * *", catch_up="all", hold_at_least=5, grace=60)
    one = fleet.instance()
    before = START - 30_000
    fleet.world.put(
        {"acquiredAt": before, "expiresAt": before, "releasedAt": before, "holder": "theirs", "slot": slot(-30)}
    )
    now, sent = START + 1_990, fleet.world.mono() + 2_000
    fleet.world.at(2, lambda: one.locks.clock.observe(now, sent, sent))
    assert {result.outcome for result in one.turn(slot())} == {"succeeded"}
    assert fleet.slots() == [slot(-20), slot(-10), slot()]
    assert one.locks.clock.peek() is not None


def test_a_minimum_hold_is_waited_for_while_the_time_is_not_known() -> None:
    """If the machine's clock was set after the release, RTDB's time is not known; the monotonic clock counts then."""
    fleet = Fleet("*/10 * * * * *", catch_up="all", hold_at_least=5, grace=60)
    one = fleet.instance()
    one.turn(slot())
    one.crons.events.subscribe(lambda event: one.timing.step_wall(60 * (event.slug == "run.succeeded")))
    fleet.body = lambda run: fleet.world.advance(2)
    fleet.world.until(22)
    assert one.go_on(one.attempt(slot(20))) == pytest.approx(3, abs=0.001)
    assert (fleet.slots(), one.locks.clock.peek()) == ([slot(), slot(10)], None)


def test_a_run_that_ended_before_an_interruption_is_not_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C may come once the body has returned, and before its lock is released: the node says that it succeeded."""
    fleet = Fleet(on_abandoned="rerun")
    one = fleet.instance()
    release, interrupts = Lease.release, [KeyboardInterrupt()]

    def interrupted(lease: Lease, **words: str | None) -> bool:
        if interrupts:
            raise interrupts.pop()
        return release(lease, **words)  # type: ignore[arg-type]  # its words, as they came

    monkeypatch.setattr(Lease, "release", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.turn(slot())
    node = fleet.world.node()
    assert (node["outcome"], "unfinished" in node, "releasedAt" in node) == ("succeeded", False, True)
    fleet.world.until(61)
    one.turn(slot(60))
    assert fleet.slots() == [slot(), slot(60)]
