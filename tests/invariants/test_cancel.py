"""The invariant of cancelling: a cancelled run is never rerun, and cancels no successor."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.network import failing, nothing
from tests.simulation.world import NAME, World, slot

from firecron import Run, distributed_cron
from firecron.base.instants import to_datetime
from firecron.errors import Unavailable
from firecron.lock.blocks import try_once
from firecron.lock.refusal import Refusal
from firecron.ops.operator import Operator
from firecron.runs.lane import Lane

RERUN = {"on_abandoned": "rerun"}


def cancel(one: Instance, why: str | None = None) -> bool:
    """What `firecron cancel` does, on an instance that need not have the job."""
    operator = Operator(one.locks.database)
    return operator.cancel(operator.read(NAME), why)


def history(world: World) -> dict[str, tuple[object, object]]:
    """The outcome and the attempt of each entry."""
    world.advance(0)
    return {key: (entry["outcome"], entry.get("attempt")) for key, entry in world.history().items()}


def until_cancelled(fleet: Fleet, asker: Instance, seconds: float = 5) -> Callable[[Run], None]:
    """A body that is cancelled after some seconds, and listens."""

    def body(run: Run) -> None:
        fleet.world.advance(seconds)
        assert cancel(asker, "wrong input")
        while True:
            run.check()
            fleet.world.advance(1)

    return body


def test_i50_who_listens_ends_as_cancelled() -> None:
    """A run learns of the cancel at its next renewal, keeps its lock until it has ended, and is not called again."""
    fleet = Fleet(**RERUN, retries=3)
    one, other = fleet.instance(), fleet.instance()
    fleet.body = until_cancelled(fleet, other)
    (result,) = one.turn(slot())
    assert result.outcome == "cancelled"
    node = fleet.world.node()
    # A renewal comes a third of the ttl after the one before.
    assert node["releasedAt"] == pytest.approx(result.run and result.run.fence and result.run.fence + 10_000, abs=2_000)
    assert (node["outcome"], node["cancel"], node["cancelWhy"]) == ("cancelled", node["fence"], "wrong input")
    assert "unfinished" not in node
    assert len(fleet.runs) == 1
    assert history(fleet.world) == {slot(): ("cancelled", 1)}
    assert fleet.world.history()[slot()]["error"] == "wrong input"
    assert [event.fields["why"] for event in one.said("lock.cancelled")] == ["wrong input"]
    assert one.slugs("run.") == ["run.started", "run.cancelled"]
    fleet.body = lambda run: None
    fleet.world.until(60)
    assert [one.outcome for one in other.turn(slot(60))] == ["succeeded"]
    assert fleet.slots() == [slot(), slot(60)]
    assert not {"cancel", "cancelWhy", "unfinished"} & fleet.world.node().keys()
    assert not fleet.runs[1].cancelled


@pytest.mark.parametrize("fails", [False, True])
def test_i50_who_does_not_listen_keeps_lock_and_outcome(fails: bool) -> None:
    """A body that never looks runs to its end under its own lock, renewed all the while, and has its own outcome."""
    fleet = Fleet(**RERUN, retries=3)
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        if len(fleet.runs) > 1:
            return
        assert cancel(other)
        fleet.world.advance(100)
        assert (bool(run.cancelled), bool(run.lost)) == (True, False)
        assert other.refused().holder == fleet.world.node()["holder"]
        if fails:
            raise ValueError("its own")

    fleet.body = body
    (result,) = one.turn(slot())
    outcome = "failed" if fails else "succeeded"
    assert result.outcome == outcome
    assert len(fleet.runs) == 1
    assert history(fleet.world) == {slot(): (outcome, 1)}
    assert "unfinished" not in fleet.world.node()


def test_i50_a_pause_between_two_tries_ends() -> None:
    """A run that is cancelled while it waits for its next try has no further one, and ends as cancelled."""
    fleet = Fleet(retries=3, retry_backoff=3_600)
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        fleet.world.at(fleet.world.mono() / 1000 + 5, lambda: cancel(other))
        raise ValueError("no")

    fleet.body = body
    (result,) = one.turn(slot())
    assert (result.outcome, len(fleet.runs)) == ("cancelled", 1)
    assert fleet.world.mono() < 60_000


@pytest.mark.parametrize("is_manual", [False, True])
def test_i50_who_dies_first_is_not_rerun(is_manual: bool) -> None:
    """A cancelled run whose instance died is begun by nobody; the next acquisition records it, also one by hand."""
    fleet = Fleet("0 * * * *", **RERUN)
    dying, one, other = fleet.instance(), fleet.instance(), fleet.instance()
    dying.hold(slot())
    assert cancel(other)
    dying.crash()
    one.start()
    fleet.world.until(600)
    other.turn(None)
    assert fleet.runs == []
    assert fleet.world.node()["unfinished"] == slot()
    assert history(fleet.world) == {}
    if is_manual:
        assert other.crons.registry.trigger(NAME).outcome == "succeeded"
    else:
        fleet.world.until(3_610)
    assert slot() not in fleet.slots()
    assert len(fleet.runs) == 1
    assert history(fleet.world)[slot()] == ("cancelled", 1)
    assert not {"cancel", "unfinished"} & fleet.world.node().keys()
    told = [event for instance in (one, other) for event in instance.said("books.cancelled")]
    assert [event.fields["slot"] for event in told] == [slot()]
    fleet.world.until(7_300)
    assert slot() not in fleet.slots()
    assert fleet.world.outcomes()[slot()] == "cancelled"


def test_i50_the_claim_itself_refuses_to_rerun() -> None:
    """Also a contender that has decided for a rerun, by an older version's policy, is refused the cancelled slot."""
    fleet = Fleet("0 * * * *", **RERUN)
    dying, one = fleet.instance(), fleet.instance()
    dying.hold(slot())
    assert cancel(one)
    dying.crash()
    fleet.world.until(40)
    before = fleet.world.node()
    rerun = lambda request, node, now: replace(request, slot=slot(), rerun=True)  # noqa: E731  # whatever it reads
    refusal = try_once(one.locks.database, one.locks.database.bid(NAME, 30, fenced=True, choose=rerun))
    assert isinstance(refusal, Refusal)
    assert refusal.reason == "slot_done"
    assert fleet.world.node() == before


def test_i50_a_stopped_run_that_was_cancelled_is_not_rerun() -> None:
    """A shutdown that ends a cancelled run leaves the tick unfinished, and nobody begins it again all the same."""
    fleet = Fleet("0 * * * *", **RERUN)
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        assert cancel(other)
        one.runner.stop(0)
        run.check()

    fleet.body = body
    (result,) = one.turn(slot())
    assert result.outcome == "interrupted"
    assert fleet.world.node()["unfinished"] == slot()
    fleet.body = lambda run: None
    fleet.world.until(60)
    other.turn(None)
    assert fleet.slots() == [slot()]
    fleet.world.until(3_600)
    other.turn(slot(3_600))
    assert fleet.slots() == [slot(), slot(3_600)]
    # The run's own entry stays: it has said itself how it ended.
    assert history(fleet.world)[slot()] == ("interrupted", 1)


def test_i50_a_cancel_comes_to_no_successor() -> None:
    """A cancel for an acquisition that has ended in the same instant is refused, and the next run is left alone."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    operator = Operator(other.locks.database)
    seen = []
    fleet.body = lambda run: seen.append(operator.read(NAME))
    one.turn(slot())
    fleet.world.until(60)

    def body(run: Run) -> None:
        before = fleet.world.node()
        assert operator.cancel(seen[0]) is False
        assert fleet.world.node() == before
        fleet.world.advance(25)
        assert not run.cancelled

    fleet.body = body
    assert [result.outcome for result in one.turn(slot(60))] == ["succeeded"]


@pytest.mark.parametrize("is_late", [False, True], ids=["before the release", "after the release"])
def test_i50_a_run_that_ends_in_the_same_instant_keeps_its_outcome(is_late: bool) -> None:
    """A cancel just before the release changes nothing of it; one just after is refused; the next run is its own."""
    fleet = Fleet(**RERUN)
    one, other = fleet.instance(), fleet.instance()
    asked: list[bool] = []
    operator = Operator(other.locks.database)

    def body(run: Run) -> None:
        seen = operator.read(NAME)
        ask = lambda: asked.append(operator.cancel(seen))  # noqa: E731  # at one of two instants
        one.network.next("swap", before=nothing if is_late else ask, after=ask if is_late else nothing)

    fleet.body = body
    assert [result.outcome for result in one.turn(slot())] == ["succeeded"]
    assert asked == [not is_late]
    assert "unfinished" not in fleet.world.node()
    assert history(fleet.world) == {slot(): ("succeeded", 1)}
    fleet.body = lambda run: fleet.world.advance(25)
    fleet.world.until(60)
    assert [result.outcome for result in other.turn(slot(60))] == ["succeeded"]
    assert not fleet.runs[1].cancelled


@pytest.mark.parametrize("is_early", [True, False])
def test_i50_a_cancel_whose_reply_is_lost_is_made_once(is_early: bool) -> None:
    """A cancel that may have been written is looked for before it is written again, and is one cancel."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        lose = failing(Unavailable("no reply"))
        other.network.next("swap", before=lose if is_early else nothing, after=nothing if is_early else lose)
        assert cancel(other)
        while True:
            run.check()
            fleet.world.advance(1)

    fleet.body = body
    assert [result.outcome for result in one.turn(slot())] == ["cancelled"]


def test_i50_a_cancelled_run_by_hand_ends_no_tick() -> None:
    """A run by hand that is cancelled takes its cancel with it: the tick that died before it is rerun as ever."""
    fleet = Fleet("0 * * * *", **RERUN)
    dying, one, other = fleet.instance(), fleet.instance(), fleet.instance()
    dying.die_holding(slot())
    fleet.world.until(40)
    fleet.body = until_cancelled(fleet, other)
    assert one.crons.registry.trigger(NAME).outcome == "cancelled"
    assert fleet.world.node()["unfinished"] == slot()
    assert slot() not in history(fleet.world)
    fleet.body = lambda run: None
    other.turn(None)
    assert fleet.slots() == [None, slot()]
    assert history(fleet.world)[slot()] == ("succeeded", 2)


def test_i50_the_previous_run_is_cancelled_by_the_next_tick() -> None:
    """With cancel_previous a tick asks the run of another instance to end, waits for that, and runs then."""
    fleet = Fleet(overlap="cancel_previous")
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        if len(fleet.runs) > 1:
            return
        other.start()
        while True:
            run.check()
            fleet.world.advance(1)

    fleet.body = body
    assert [result.outcome for result in one.turn(slot())] == ["cancelled"]
    assert 60_000 < fleet.world.mono() <= 72_000
    fleet.world.until(90)
    assert fleet.slots() == [slot(), slot(60)]
    assert history(fleet.world) == {slot(): ("cancelled", 1), slot(60): ("succeeded", 1)}
    assert fleet.world.history()[slot()]["error"] == f"the tick {slot(60)} came"


def test_i50_the_previous_run_is_cancelled_on_its_own_instance() -> None:
    """There, too, the node is asked first, and then the run at once, without a renewal."""
    fleet = Fleet(overlap="cancel_previous")
    one = fleet.instance()
    seen: list[tuple[object, bool]] = []

    def body(run: Run) -> None:
        if len(fleet.runs) > 1:
            return
        lease = one.runner.active()[0].lease
        lease.when_cancelled(lambda: seen.append((fleet.world.node().get("cancel"), bool(run.lost))))
        one.start()
        while True:
            run.check()
            fleet.world.advance(1)

    fleet.body = body
    assert [result.outcome for result in one.turn(slot())] == ["cancelled"]
    assert seen == [(fleet.runs[0].fence, False)]
    assert fleet.world.mono() <= 62_000
    fleet.world.until(65)
    assert fleet.slots() == [slot(), slot(60)]
    assert history(fleet.world) == {slot(): ("cancelled", 1), slot(60): ("succeeded", 1)}


def test_i50_a_run_on_its_own_instance_is_cancelled_when_the_node_says_so() -> None:
    """If the database can't be reached, the run goes on, and the tick asks again until it can."""
    fleet = Fleet(overlap="cancel_previous")
    one = fleet.instance()

    def body(run: Run) -> None:
        if len(fleet.runs) > 1:
            return
        one.start()
        fleet.world.until(59)
        one.network.is_down = True
        fleet.world.until(72)
        assert not run.cancelled
        one.network.is_down = False
        while True:
            run.check()
            fleet.world.advance(1)

    fleet.body = body
    assert [result.outcome for result in one.turn(slot())] == ["cancelled"]
    assert len(one.said("run.delayed")) > 0
    fleet.world.until(118)  # the tick looks again at times of its own, until the next one is due
    assert fleet.slots() == [slot(), slot(60)]


@pytest.mark.parametrize(("asked", "pause"), [(None, 1), (4.0, 4), (3_600.0, 10)])
def test_i50_a_cancel_that_the_database_puts_off_comes_when_it_asks_for_it(asked: float | None, pause: float) -> None:
    """The tick looks again after the pause that is asked for: after a third of the ttl at the latest, as a renewal."""
    fleet = Fleet(overlap="cancel_previous")
    one = fleet.instance()
    lease = one.hold(slot())
    one.network.before = lambda method, path: failing(Unavailable("later", retry_after=asked))()
    assert one.crons.engine.claimer.cancel_here(one.job(), slot(60), [lease]) == pause
    assert not lease.cancelled


def test_i50_only_a_lease_that_can_be_asked_to_end_is_asked_once() -> None:
    """One without a fence is left alone, and one that was asked already makes no request."""
    fleet = Fleet(overlap="cancel_previous")
    one = fleet.instance()
    leases = [one.keep("plain"), one.hold(slot())]
    for requests in (["read", "swap"], []):
        one.network.requests()
        assert one.crons.engine.claimer.cancel_here(one.job(), slot(60), leases) is None
        assert [bool(lease.cancelled) for lease in leases] == [False, True]
        assert one.network.requests("cron-locks/") == requests


def test_i50_a_tick_asks_another_instance_once() -> None:
    """The run goes on after the cancel: while the tick waits for its end, each try makes one request."""
    fleet = Fleet(overlap="cancel_previous")
    one, other = fleet.instance(), fleet.instance()
    lease = other.hold(slot(-60))
    turn = one.attempt(slot())
    assert one.go_on(turn)
    assert fleet.world.node()["cancel"] == lease.fence
    for _ in range(3):
        one.network.requests()
        assert one.go_on(turn)
        assert one.network.requests("cron-locks/") == ["read"]


@pytest.mark.parametrize("missing", ["holder", "fence", "unfinished"])
def test_i50_a_holder_that_the_node_does_not_name_is_not_asked(missing: str) -> None:
    """A tick has asked one run to end. It waits for the next holder, which may be no run, and leaves the node alone."""
    fleet = Fleet(overlap="cancel_previous")
    one, other = fleet.instance(), fleet.instance()
    other.die_holding(slot(-60))
    next_holder = {**fleet.world.node(), "holder": "next"}
    turn = one.attempt(slot())
    assert one.go_on(turn)
    fleet.world.put({name: value for name, value in next_holder.items() if name != missing})
    before = fleet.world.node()
    one.network.requests()
    assert one.go_on(turn)
    assert (fleet.world.node(), one.network.requests("cron-locks/")) == (before, ["read"])


def test_i50_a_run_that_is_about_to_begin_is_looked_for_again() -> None:
    """A tick that finds a run that has claimed, and can't be told to end yet, looks again in a second."""
    fleet = Fleet(overlap="cancel_previous")
    one = fleet.instance()
    one.crons.engine.lanes.play(Lane.begin, one.attempt(slot()))
    fleet.world.until(60)
    assert one.runner.cancel_previous(one.attempt(slot(60))) == 1.0


def test_i50_a_run_that_is_about_to_begin_is_looked_for_beside_a_run_by_hand() -> None:
    """The run by hand is not the one that the tick asks to end: it goes on looking."""
    fleet = Fleet(overlap="cancel_previous")
    one = fleet.instance()
    found: list[float | None] = []
    fleet.body = lambda run: found.append(one.runner.cancel_previous(one.attempt(slot(60))))
    assert one.crons.registry.trigger(NAME).outcome == "succeeded"
    assert found == [1.0]


@pytest.mark.parametrize(
    ("name", "due", "is_paused", "found"),
    [
        (NAME, 120, False, (None, True)),
        (NAME, 60, False, (1.0, False)),
        (NAME, 0, False, (1.0, False)),
        (NAME, 120, True, (None, False)),
        ("other", 120, False, (1.0, False)),
    ],
)
def test_i50_a_tick_cancels_the_run_of_an_earlier_tick_alone(
    name: str, due: int, is_paused: bool, found: tuple[float | None, bool]
) -> None:
    """A run of the same tick, of a later one, or of another job is not cancelled on the instance; nor is any by a job
    that is paused there.
    """
    fleet = Fleet(overlap="cancel_previous")
    one = fleet.instance()
    one.crons.registry.add(distributed_cron("other", "* * * * *", overlap="cancel_previous")(lambda: None))
    seen: list[tuple[float | None, bool]] = []

    def body(run: Run) -> None:
        if is_paused:
            one.crons.registry.pause(NAME)
        seen.append((one.runner.cancel_previous(one.attempt(slot(due), name)), bool(run.cancelled)))

    fleet.body = body
    fleet.world.until(60)
    one.turn(slot(60))
    assert seen == [found]


@pytest.mark.parametrize("is_own", [True, False])
def test_i50_a_run_by_hand_is_left_alone(is_own: bool) -> None:
    """With cancel_previous a tick waits for a run by hand, and doesn't cancel it."""
    fleet = Fleet(overlap="cancel_previous")
    one, other = fleet.instance(), fleet.instance()
    asker = one if is_own else other

    def body(run: Run) -> None:
        if run.slot is None:
            asker.start()
            fleet.world.until(90)
            assert not run.cancelled

    fleet.body = body
    assert one.crons.registry.trigger(NAME).outcome == "succeeded"
    fleet.world.until(100)
    assert fleet.slots() == [None, slot(60)]


@pytest.mark.parametrize("is_own", [True, False])
def test_i50_a_run_by_hand_after_a_run_that_died_is_left_alone_on_its_own_instance(is_own: bool) -> None:
    """The died run's tick is unfinished in the node, so a tick elsewhere takes the holder for that tick's run."""
    fleet = Fleet(overlap="cancel_previous", on_abandoned="skip")
    dying, one, other = fleet.instance(), fleet.instance(), fleet.instance()
    dying.die_holding(slot())
    fleet.world.until(45)
    seen: list[bool] = []

    def body(run: Run) -> None:
        if run.slot is None:
            (one if is_own else other).start()
            fleet.world.until(90)
            seen.append(bool(run.cancelled))

    fleet.body = body
    assert one.crons.registry.trigger(NAME).outcome == "succeeded"
    fleet.world.until(100)
    assert seen == [not is_own]
    assert fleet.slots() == [None, slot(60)]
    assert fleet.world.outcomes()[slot()] == "abandoned"


@pytest.mark.parametrize("raises", [None, ValueError("own")])
def test_i50_a_cancelled_run_that_comes_to_its_own_end_has_no_error_of_the_cancel(raises: Exception | None) -> None:
    """The entry says why a run was cancelled if that has ended it. A run that succeeds has no error, and one that fails
    has its own.
    """
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        assert cancel(other, "wrong input")
        fleet.world.advance(15)
        assert run.cancelled
        if raises is not None:
            raise raises

    fleet.body = body
    one.turn(slot())
    entry = fleet.world.history()[slot()]
    assert (entry["outcome"], entry.get("error")) == (
        ("succeeded", None) if raises is None else ("failed", "ValueError: own")
    )


@pytest.mark.parametrize("is_own", [True, False])
@pytest.mark.parametrize("is_unfinished", [True, False])
def test_i50_a_resumed_run_is_left_alone_unless_its_tick_is_unfinished(is_own: bool, is_unfinished: bool) -> None:
    """A resumed run is one by hand, and cancelled by no tick. One that resumes the unfinished tick is that tick's run,
    and is cancelled wherever it runs.
    """
    fleet = Fleet(overlap="cancel_previous", on_abandoned="skip")
    one, other = fleet.instance(), fleet.instance()
    asker = one if is_own else other
    seen: list[bool] = []

    def body(run: Run) -> None:
        if run.trigger != "manual":
            if is_unfinished:
                run.stopping.set()
                run.check()
            raise ValueError
        asker.start()
        fleet.world.until(90)
        seen.append(bool(run.cancelled))
        run.check()

    fleet.body = body
    (first,) = one.turn(slot())
    assert first.outcome == ("interrupted" if is_unfinished else "failed")
    result = one.crons.registry.trigger(NAME, resume=to_datetime(slot()))
    assert (seen, result.outcome) == ([is_unfinished], "cancelled" if is_unfinished else "succeeded")
    fleet.body = lambda run: None
    fleet.world.until(100)
    assert fleet.slots() == [slot(), slot(), slot(60)]


def test_i50_a_run_that_does_not_end_makes_the_tick_wait_and_skip() -> None:
    """With cancel_previous a tick whose predecessor never listens waits as a queued one, and is skipped by the next."""
    fleet = Fleet(overlap="cancel_previous")
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        if len(fleet.runs) == 1:
            other.start()
            fleet.world.until(130)

    fleet.body = body
    assert [result.outcome for result in one.turn(slot())] == ["succeeded"]
    fleet.world.until(140)
    assert fleet.slots() == [slot(), slot(120)]
    assert [event.fields["slot"] for event in other.said("run.skipped")] == [slot(60)]
    assert history(fleet.world)[slot(60)] == ("skipped", None)


@pytest.mark.parametrize("is_own", [True, False])
def test_i50_a_trigger_cancels_nothing(is_own: bool) -> None:
    """A tick that is run by hand or by a trigger doesn't wait, so it doesn't cancel either: it is refused."""
    fleet = Fleet(overlap="cancel_previous")
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        fleet.world.until(60)
        result = (one if is_own else other).runner.run_tick(one.job(), slot(60), "http")
        assert result.refusal is not None
        assert result.refusal.reason == "held"
        fleet.world.until(90)
        assert not run.cancelled

    fleet.body = body
    assert [result.outcome for result in one.turn(slot())] == ["succeeded"]
