"""The run of a tick that somebody outside asks for: now, once, whatever its grace."""

from __future__ import annotations

import gc
from datetime import UTC, datetime, timedelta

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron import Run, distributed_cron
from firecron.base.flag import begin_child
from firecron.errors import Stopping
from firecron.jobs.run import Trigger
from firecron.lock.lease import Lease
from firecron.lock.protocol import Bid
from firecron.lock.refusal import Refusal
from firecron.runs.claimer import Claimed
from firecron.runs.execution import Execution
from firecron.runs.lane import PendingClaim
from firecron.runs.policy import MOST_MISSED

NINE = datetime(2026, 11, 18, 9, tzinfo=UTC)


@pytest.mark.parametrize("late", [0, 59, 7_200])
def test_a_tick_is_run_for_who_asks_however_late(late: float) -> None:
    """It is claimed as its slot whatever the grace, and its history says who asked."""
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.until(late)
    result = one.crons.registry.trigger(NAME, slot=NINE, source="http")
    assert result.outcome == "succeeded"
    assert fleet.slots() == [slot()]
    assert fleet.world.node()["slot"] == slot()
    assert fleet.world.history()[slot()]["trigger"] == "http"


def test_a_run_that_has_ended_leaves_nothing_to_the_collector_of_garbage() -> None:
    """Nothing of a run keeps itself: where there are many jobs, a look for such garbage takes as long as fifty runs."""
    fleet = Fleet()
    one = fleet.instance()
    kinds = (Execution, Run, Lease, PendingClaim, Bid)

    def left() -> list[str]:
        # Not by `isinstance`: that asks a proxy, such as a lazy object of Django, for the class of what it stands for.
        return [type(thing).__name__ for thing in gc.get_objects() if issubclass(type(thing), kinds)]

    gc.collect()
    gc.disable()
    try:
        before = left()
        for number in range(2):
            one.crons.registry.trigger(NAME, slot=NINE + timedelta(minutes=number - 1))
        assert len(fleet.runs) == 2
        fleet.runs.clear()
        assert left() == before
    finally:
        gc.enable()


def test_a_tick_that_was_claimed_is_not_run_again() -> None:
    """Asked for twice, also by different instances, it runs once; the other is refused `slot_done`."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    one.crons.registry.trigger(NAME, slot=NINE)
    for instance in (one, other):
        result = instance.crons.registry.trigger(NAME, slot=NINE)
        assert result.refusal is not None
        assert result.refusal.reason == "slot_done"
    assert fleet.slots() == [slot()]


@pytest.mark.parametrize(
    ("prepare", "reason"),
    [
        (lambda one, other: other.hold(slot(-60)), "held"),
        (lambda one, other: other.locks.pause(NAME), "paused"),
        (lambda one, other: setattr(one.network, "is_down", True), "unavailable"),
        (lambda one, other: setattr(one.network, "is_denied", True), "denied"),
        (lambda one, other: one.world.put({"expiresAt": "soon"}), "malformed"),
        (lambda one, other: one.world.put({"expiresAt": 1, "slot": slot(60)}), "slot_done"),
    ],
)
@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_there_is_one_try(prepare: object, reason: str, overlap: str) -> None:
    """What stands in the way is the answer, at once: nobody queues or tries again while somebody waits for it."""
    fleet = Fleet(overlap=overlap)
    one, other = fleet.instance(), fleet.instance()
    prepare(one, other)  # type: ignore[operator]  # one of the functions above
    before = fleet.world.mono()
    result = one.crons.registry.trigger(NAME, slot=NINE)
    assert result.refusal is not None
    assert result.refusal.reason == reason
    assert fleet.world.mono() - before < 10_000
    assert fleet.runs == []


def lose_the_reply(one: Instance) -> None:
    """The next write is applied, and nothing is heard of it before the try is over."""
    one.network.lose_reply()
    one.network.before = lambda method, path: setattr(one.network, "is_down", method == "read")


def mend(one: Instance) -> None:
    one.network.before = lambda method, path: None
    one.network.is_down = False


def test_a_claim_without_a_reply_is_won_by_the_next_try() -> None:
    """Who asks again for a tick that was claimed by a write whose reply was lost runs it, once, as its first
    attempt.
    """
    fleet = Fleet()
    one = fleet.instance()
    lose_the_reply(one)
    refusal = one.crons.registry.trigger(NAME, slot=NINE, source="schedule").refusal
    assert refusal is not None
    assert refusal.reason == "unavailable"
    assert fleet.world.node()["slot"] == slot()
    one.network.is_down = True
    one.network.before = lambda method, path: None
    assert one.crons.registry.trigger(NAME, slot=NINE, source="schedule").refusal is not None
    mend(one)
    result = one.crons.registry.trigger(NAME, slot=NINE, source="schedule")
    assert (result.outcome, fleet.slots()) == ("succeeded", [slot()])
    assert [(run.attempt, run.trigger) for run in fleet.runs] == [(1, "schedule")]
    again = one.crons.registry.trigger(NAME, slot=NINE, source="schedule").refusal
    assert again is not None
    assert again.reason == "slot_done"


def test_only_who_asks_again_has_the_token() -> None:
    """What another instance, a forked child or another tick asks for is refused by a claim whose reply was lost."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    lose_the_reply(one)
    one.crons.registry.trigger(NAME, slot=NINE)
    mend(one)
    fleet.world.until(max(5, fleet.world.mono() / 1000))
    begin_child()
    for instance in (one, other):
        refusal = instance.crons.registry.trigger(NAME, slot=NINE).refusal
        assert refusal is not None
        assert refusal.reason == "slot_done"
    assert fleet.runs == []


@pytest.mark.parametrize("answer", ["paused", "denied"])
def test_an_answer_ends_the_claim(answer: str) -> None:
    """Only tries that got no answer share a token: after a refusal the next one is a claim of its own."""
    fleet = Fleet()
    one = fleet.instance()
    pending_claims: list[PendingClaim] = []
    claim = one.crons.engine.claimer.claim

    def noting(pending: PendingClaim) -> Claimed | Refusal | float | None:
        pending_claims.append(pending)
        return claim(pending)

    one.crons.engine.claimer.claim = noting  # type: ignore[method-assign]  # to see who is asked for
    one.network.is_down = True
    one.crons.registry.trigger(NAME, slot=NINE)
    one.network.is_down = False
    if answer == "paused":
        one.locks.pause(NAME)
    one.network.is_denied = answer == "denied"
    one.crons.registry.trigger(NAME, slot=NINE)
    one.network.is_denied = False
    one.locks.pause(NAME, False)
    one.crons.registry.trigger(NAME, slot=NINE)
    first, second, third = pending_claims
    assert first is second is not third
    assert fleet.slots() == [slot()]


def test_a_tick_to_come_is_refused() -> None:
    """A slot in the future is `slot_early`, and stays unclaimed."""
    fleet = Fleet()
    one = fleet.instance()
    result = one.crons.registry.trigger(NAME, slot=datetime(2026, 11, 18, 9, 1, tzinfo=UTC))
    assert result.refusal is not None
    assert result.refusal.reason == "slot_early"
    assert "slot" not in fleet.world.node()


def test_what_was_abandoned_comes_first() -> None:
    """A run that died is rerun before the tick that was asked for, as in any claim."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    other.die_holding(slot())
    fleet.world.until(60)
    result = one.crons.registry.trigger(NAME, slot=datetime(2026, 11, 18, 9, 1, tzinfo=UTC), source="http")
    assert result.outcome == "succeeded"
    assert [(run.trigger, run.attempt) for run in fleet.runs] == [("rerun", 2), ("http", 1)]
    assert fleet.slots() == [slot(), slot(60)]


def test_what_was_missed_comes_first_although_the_job_is_paused_here() -> None:
    """A pause of this instance ends its schedule, and no run by hand. What the claim of a tick would leave behind for
    ever is run before that tick, as in any claim.
    """
    fleet = Fleet(catch_up="all")
    one = fleet.instance()
    one.turn(slot())
    one.crons.registry.pause(NAME)
    fleet.world.until(200)
    result = one.crons.registry.trigger(NAME, slot=datetime(2026, 11, 18, 9, 3, tzinfo=UTC))
    assert result.outcome == "succeeded"
    assert [run.trigger for run in fleet.runs] == ["schedule", "catch_up", "catch_up", "manual"]
    assert fleet.slots() == [slot(seconds) for seconds in (0, 60, 120, 180)]


@pytest.mark.parametrize("is_asked_for", [True, False], ids=["asked for", "scheduled"])
def test_a_hundred_missed_ticks_come_first(is_asked_for: bool) -> None:
    """As many ticks as are caught up at the most are run before the tick itself, in one call."""
    fleet = Fleet("* * * * * *", catch_up="all", catch_up_window=3_600)
    one = fleet.instance()
    before = START - 200_000
    fleet.world.put(
        {"acquiredAt": before, "expiresAt": before, "releasedAt": before, "holder": "theirs", "slot": slot(-200)}
    )
    if is_asked_for:
        one.crons.registry.trigger(NAME, slot=NINE)
    else:
        one.turn(slot())
    assert fleet.slots() == [slot(second) for second in range(-MOST_MISSED, 1)]


@pytest.mark.parametrize("stops", [False, True])
def test_a_minimum_hold_is_waited_for(stops: bool) -> None:
    """The tick that is asked for comes after the missed ones and their holds. A stop ends the wait in a second."""
    fleet = Fleet("*/10 * * * * *", catch_up="all", hold_at_least=20)
    one = fleet.instance()
    before = START - 30_000
    fleet.world.put(
        {"acquiredAt": before, "expiresAt": before, "releasedAt": before, "holder": "theirs", "slot": slot(-30)}
    )
    if stops:
        fleet.world.at(25, one.runner.stopping.set)
        with pytest.raises(Stopping):
            one.crons.registry.trigger(NAME, slot=NINE)
        assert fleet.slots() == [slot(-20), slot(-10)]
        assert fleet.world.mono() <= 26_000
    else:
        assert one.crons.registry.trigger(NAME, slot=NINE).outcome == "succeeded"
        assert fleet.slots() == [slot(-20), slot(-10), slot()]
        assert fleet.world.mono() == pytest.approx(40_000, abs=100)


def test_a_stop_ends_the_catching_up() -> None:
    """Once the instance stops, what is left of the missed ticks is not run, nor the tick itself."""
    fleet = Fleet("* * * * * *", catch_up="all")
    one = fleet.instance()
    before = START - 20_000
    fleet.world.put(
        {"acquiredAt": before, "expiresAt": before, "releasedAt": before, "holder": "theirs", "slot": slot(-20)}
    )
    fleet.body = lambda run: one.runner.stopping.set()
    with pytest.raises(Stopping):
        one.crons.registry.trigger(NAME, slot=NINE)
    assert fleet.slots() == [slot(-19)]


def test_what_a_run_is_called_makes_no_rerun_of_it() -> None:
    """A tick that is asked for under the name of a rerun is claimed as any other, and what died before is abandoned."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    other.die_holding(slot())
    fleet.world.until(60)
    refusal = one.crons.registry.trigger(NAME, slot=NINE, source="rerun").refusal
    assert refusal is not None
    assert refusal.reason == "slot_done"
    result = one.crons.registry.trigger(NAME, slot=NINE + timedelta(minutes=1), source="rerun")
    assert result.outcome == "succeeded"
    assert [(run.trigger, run.attempt) for run in fleet.runs] == [("rerun", 1)]
    fleet.world.until(70)
    assert fleet.world.history()[slot()]["outcome"] == "abandoned"


@pytest.mark.parametrize("source", ["rerun", "http"])
def test_what_a_run_is_called_has_nothing_looked_for(source: Trigger) -> None:
    """A tick that is asked for while the database is down is refused, whatever it is called, and no dead run is looked
    for because of it.
    """
    one = Fleet(on_abandoned="rerun").instance()
    looks: list[int] = []
    one.crons.engine.lanes.look_again = lambda job, instant: looks.append(instant)  # type: ignore[method-assign]  # noted, not made
    one.network.is_down = True
    refusal = one.crons.registry.trigger(NAME, slot=NINE, source=source).refusal
    assert refusal is not None
    assert (refusal.reason, looks) == ("unavailable", [])


def test_an_instance_does_not_run_it_beside_itself() -> None:
    """While the job's body runs here, a tick that is asked for is `held`, without a request."""
    fleet = Fleet()
    one = fleet.instance()
    reasons: list[object] = []

    def body(run: Run) -> None:
        one.network.requests()
        refusal = one.crons.registry.trigger(NAME, slot=datetime(2026, 11, 18, 8, tzinfo=UTC)).refusal
        reasons.append(None if refusal is None else refusal.reason)
        reasons.append(one.network.requests())

    fleet.body = body
    one.crons.registry.trigger(NAME, slot=NINE)
    assert reasons == ["held", []]


def test_after_a_stop_there_are_no_more() -> None:
    """Once the instance stops, who asks gets Stopping, and nothing is claimed."""
    fleet = Fleet()
    one = fleet.instance()
    one.crons.stop()
    for slot_wanted in (NINE, None):
        with pytest.raises(Stopping):
            one.crons.registry.trigger(NAME, slot=slot_wanted)
    assert fleet.world.node() == {}


def test_a_naive_slot_is_an_error() -> None:
    """A slot without a time zone says so, and how to write it."""
    with pytest.raises(ValueError, match="aware"):
        Fleet().instance().crons.registry.trigger(NAME, slot=datetime(2026, 11, 18, 9))  # noqa: DTZ001  # the very mistake


def test_the_history_holds_no_secret() -> None:
    """What a job's error quotes of a token or a key is not written down."""
    fleet = Fleet()

    def body(run: Run) -> None:
        raise ValueError("GET https://api.example/x?access_token=abcdef failed")

    fleet.body = body
    result = fleet.instance().crons.registry.trigger(NAME, slot=NINE)
    assert result.outcome == "failed"
    assert fleet.world.history()[slot()]["error"] == (
        "ValueError: GET https://api.example/x?access_token=[redacted] failed"
    )


@pytest.mark.parametrize("other", ["tick", "job"])
def test_what_was_not_answered_is_not_shared(other: str) -> None:
    """A claim without a reply is won neither by who asks for another tick, nor for another job of the name."""
    fleet = Fleet()
    one = fleet.instance()
    lose_the_reply(one)
    one.crons.registry.trigger(NAME, slot=NINE)
    mend(one)
    if other == "job":
        one.crons.registry.remove(NAME)
        one.crons.registry.add(distributed_cron(NAME, "* * * * *")(lambda: None))
    fleet.world.until(max(5, fleet.world.mono() / 1000))
    refusal = one.crons.registry.trigger(NAME, slot=NINE + timedelta(minutes=other == "tick")).refusal
    assert refusal is not None
    assert refusal.reason == ("slot_done" if other == "job" else "held")
    assert fleet.runs == []


def test_a_tick_beside_a_run_for_who_asks_is_skipped() -> None:
    """While the body runs that somebody asked for, a tick of the schedule is skipped here, and said to be."""
    fleet = Fleet()
    one = fleet.instance()
    said: list[object] = []

    def body(run: Run) -> None:
        fleet.world.until(60)
        one.turn(slot(60))
        said.extend(event.fields["slot"] for event in one.said("run.skipped"))

    fleet.body = body
    one.crons.registry.trigger(NAME, slot=NINE)
    assert said == [slot(60)]
