"""Turns of other kinds: overlapping ones, locks by name, runs by hand, and those that come too late."""

from __future__ import annotations

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, World, slot
from tests.unit.runs.test_runner import NOW, failing

from firecron import Run, Stopping, scheduled
from firecron.base.events import Event
from firecron.base.threads import OpenWork
from firecron.runs.lanes import Lanes
from firecron.runs.runner import Runner


def test_a_stored_schedule_that_was_edited_runs_as_it_was_claimed() -> None:
    """Its arguments are those of the node that the claim has replaced, whatever the instance has read of it before."""
    world, sent = World(), list[str]()

    @scheduled("remind", lock_ttl=60)
    def remind(event: str) -> None:
        sent.append(event)

    one = Instance(world, remind).live()
    put = one.crons.schedules.put
    put("remind", "42", "* * * * *", args={"event": "dinner"})
    read = world.store.get("cron-schedules/remind/:42")
    assert isinstance(read, dict)
    attempt = one.crons.engine.lanes.attempt(one.job("remind").entry("remind:42", read), slot(60))
    put("remind", "42", "* * * * *", args={"event": "lunch"})
    world.until(60)
    assert one.go_on(attempt) is None
    assert sent == ["lunch"]


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
    """With once_per_tick=False nothing is claimed: the node is plain and gone after the run, and the next may run."""
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
    # A fence that another revision has left is no run's.
    fleet.world.put({"acquiredAt": START, "expiresAt": START, "releasedAt": START, "holder": "theirs", "fence": 7})
    assert other.turn(slot())[0].outcome == "succeeded"
    assert nodes[1]["fence"] == 7
    known = [(run.fence, run.attempt, run.idempotency_key) for run in fleet.runs]
    assert known == [(None, 1, f"job:{slot()}")] * 2


def test_a_run_by_hand_has_its_own_id(fleet: Fleet) -> None:
    """A manual run has neither slot nor tick, an id of its own in key and history, and a fence."""
    one = fleet.instance()
    result = one.crons.registry.trigger(NAME)
    (run,) = fleet.runs
    assert (result.outcome, run.slot, run.trigger, run.fence) == ("succeeded", None, "manual", START)
    assert run.attempt == 1
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


def test_a_claim_that_lands_as_the_instance_stops_is_run() -> None:
    """A tick that is won while the instance stops is run, because nobody else can claim it; its run knows that it is
    to be quick.
    """
    fleet = Fleet()
    one = fleet.instance()
    one.network.before = lambda method, path: one.runner.stopping.set()
    (result,) = one.turn(slot())
    assert (result.outcome, fleet.slots()) == ("succeeded", [slot()])
    assert fleet.runs[0].stopping
    assert fleet.world.outcomes() == {slot(): "succeeded"}


def test_what_is_claimed_too_late_in_a_stop_is_given_back() -> None:
    """In the last seconds of a stop no body is begun: the slot stays unfinished, for another to rerun."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()

    def end(event: Event) -> None:
        if event.slug == "run.started":
            one.runner.stop(0)

    one.crons.events.subscribe(end)
    (result,) = one.turn(slot())
    assert (result.outcome, fleet.runs) == ("interrupted", [])
    node = fleet.world.node()
    assert (node["unfinished"], node["outcome"]) == (slot(), "interrupted")
    assert "releasedAt" in node
    assert [result.outcome for result in other.turn(slot())] == ["succeeded"]
    assert fleet.runs[0].attempt == 2


def test_a_place_is_free_although_its_freeing_was_interrupted(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ctrl-C comes just as a run by hand ends, the job can be run again."""
    one = fleet.instance()
    vacate = Lanes.vacate

    def interrupted(*arguments: object) -> None:
        monkeypatch.setattr(Lanes, "vacate", vacate)
        raise KeyboardInterrupt

    monkeypatch.setattr(Lanes, "vacate", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.crons.registry.trigger(NAME)
    assert one.crons.registry.trigger(NAME).outcome == "succeeded"


def test_the_next_in_line_is_called_although_its_call_was_interrupted() -> None:
    """If Ctrl-C comes as a run by hand ends, just as the tick that waits for it is called, that tick runs."""
    fleet = Fleet(overlap="queue")
    one = fleet.instance()
    crew = vars(one.crew)

    def interrupted(work: object) -> None:
        del crew["submit"]
        raise KeyboardInterrupt

    def body(run: Run) -> None:
        if run.slot is None:
            fleet.world.until(60)
            one.crons.engine.lanes.stand(one.attempt(slot(60)))
            crew["submit"] = interrupted

    fleet.body = body
    with pytest.raises(KeyboardInterrupt):
        one.crons.registry.trigger(NAME)
    fleet.world.advance(1)
    assert fleet.slots() == [None, slot(60)]


def test_a_stop_waits_for_nothing_whose_end_was_interrupted(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ctrl-C comes just as a run by hand is noted as ended, no later stop waits for it."""
    one = fleet.instance()
    remove = OpenWork.remove

    def interrupted(*arguments: object) -> None:
        monkeypatch.setattr(OpenWork, "remove", remove)
        raise KeyboardInterrupt

    monkeypatch.setattr(OpenWork, "remove", interrupted)
    with pytest.raises(KeyboardInterrupt):
        one.crons.registry.trigger(NAME)
    assert len(one.runner.open_work) == 0


def test_a_run_is_over_although_its_end_was_interrupted(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """If Ctrl-C comes just as a run is taken from those under way, it is so all the same, and nothing is renewed."""
    one = fleet.instance()
    end = vars(Runner)["_end"]

    def interrupted(*arguments: object) -> None:
        monkeypatch.setattr(Runner, "_end", end)  # the first call alone is interrupted
        raise KeyboardInterrupt

    monkeypatch.setattr(Runner, "_end", interrupted)  # just before the run is taken from those under way
    with pytest.raises(KeyboardInterrupt):
        one.crons.registry.trigger(NAME)
    assert (one.runner.running(), one.locks.database.keeper.leases()) == ({}, [])


def test_after_a_run_without_a_lock_nothing_is_kept() -> None:
    """What bounds a run that holds no lock is over with it."""
    fleet = Fleet(overlap="allow")
    one = fleet.instance()
    kept: list[int] = []
    fleet.body = lambda run: kept.append(len(one.locks.database.keeper.leases()))
    one.turn(slot())
    assert (kept, one.locks.database.keeper.leases()) == ([1], [])
