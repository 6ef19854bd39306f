"""The invariants of slots: what is claimed when, by whom, and what becomes of the rest."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron import Run
from firecron.base.instants import to_text
from firecron.lock.record import DAY

RERUN = {"on_abandoned": "rerun"}


def test_i17_a_slot_is_claimed_with_the_lock_and_outlives_it() -> None:
    """The slot is in the record from its first write on, and a finished run of any length leaves it there."""
    fleet = Fleet()
    one, late = fleet.instance(), fleet.instance()
    one.network.before = lambda method, path: nodes.append(fleet.world.node())
    nodes: list[dict[str, object]] = []
    one.turn(slot())
    assert [node.get("slot") for node in nodes] == [None, slot(), slot()]
    assert nodes[1]["unfinished"] == slot()
    assert "unfinished" not in fleet.world.node()
    # A job of no time at all, and a clock that is late: the lock is long free.
    fleet.world.until(40)
    assert refusal_of(late.turn(slot())).reason == "slot_done"
    assert fleet.slots() == [slot()]


@given(st.data())
def test_i18_slots_only_rise(data: st.DataObject) -> None:
    """Whoever asks for whatever tick, in whatever order: the slots that run rise, and an older one is refused."""
    fleet = Fleet("* * * * * *", grace=3_600)
    instances = [fleet.instance() for _ in range(3)]
    fleet.world.until(30)
    for _ in range(data.draw(st.integers(1, 12))):
        one = data.draw(st.sampled_from(instances))
        seconds = data.draw(st.integers(0, 30))
        newest = fleet.runs[-1].slot if fleet.runs else None
        answer = one.turn(slot(seconds))[0]
        wanted = START + seconds * 1000
        if newest is not None and wanted <= newest.timestamp() * 1000:
            assert answer.refusal is not None
            assert answer.refusal.reason == "slot_done"
        else:
            assert answer.outcome == "succeeded"
        fleet.world.put(fleet.world.node())
    ran = fleet.slots()
    assert ran == sorted(set(ran))  # type: ignore[type-var]  # none of them is None
    forgotten: dict[str, object] = {key: None for key in ran if key is not None}
    fleet.world.store.merge("cron-runs/job", forgotten, instances[0].locks.deadline(1))
    assert refusal_of(instances[0].turn(ran[-1])).reason == "slot_done"


@pytest.mark.parametrize("late", [0, 0.4, 3])
@pytest.mark.parametrize("wall_error", [0, 86_400])
def test_i19_the_slot_comes_from_the_schedule(late: float, wall_error: float) -> None:
    """However late its ticker wakes, and whatever the wall clock shows, an instance claims a tick of the schedule."""
    fleet = Fleet()
    one = fleet.instance(wall_error=wall_error)
    one.start()
    fleet.world.until(50)
    one.freeze(10 + late)
    fleet.world.until(119)
    assert fleet.slots() == [slot(60)]
    assert fleet.world.node()["acquiredAt"] == pytest.approx(START + 60_000 + late * 1000, abs=2)


@pytest.mark.parametrize(("seconds", "runs"), [(58.998, 0), (59, 1)])
def test_i20_a_slot_in_the_future_is_refused(seconds: float, runs: int) -> None:
    """A tick is claimed from one margin before its time on, and not a millisecond earlier."""
    fleet = Fleet()
    one = fleet.instance()
    fleet.world.until(seconds)
    turn = one.attempt(slot(60))
    assert (one.go_on(turn) is None) is bool(runs)
    assert len(fleet.runs) == runs
    assert ("slot" in fleet.world.node()) is bool(runs)
    assert [result.refusal for result in turn.results] == [None] * runs
    assert len(one.said("run.delayed")) == 1 - runs


@pytest.mark.parametrize("line", ["0 * * * *", "*/20 * * * * *"])
def test_i22_a_dead_run_is_taken_over(line: str) -> None:
    """The run of an instance that died just after claiming is rerun within ttl, margin and 5 seconds, also when the
    next tick comes first, and its slot is run before that of the claimer's own.
    """
    fleet = Fleet(line, **RERUN)
    dying, one, other = fleet.instance(), fleet.instance(), fleet.instance()
    one.start()
    other.start()
    dying.die_holding(slot())
    for instance in (one, other):
        instance.turn(slot())
    fleet.world.until(30 + 1 + 5)
    assert fleet.slots()[0] == slot()
    run = fleet.runs[0]
    assert (run.attempt, run.trigger, run.idempotency_key) == (2, "rerun", f"job:{slot()}")
    fleet.world.until(65)
    assert Counter(fleet.slots()).most_common(1)[0][1] == 1
    assert fleet.world.outcomes()[slot()] == "succeeded"
    assert fleet.world.history()[slot()]["attempt"] == 2


def test_i22_a_tick_first_reruns_what_was_abandoned() -> None:
    """A claimer that comes with its own tick runs the abandoned slot first, and its own then."""
    fleet = Fleet(**RERUN)
    dying, one = fleet.instance(), fleet.instance()
    dying.die_holding(slot())
    fleet.world.until(60)
    assert [result.outcome for result in one.turn(slot(60))] == ["succeeded", "succeeded"]
    assert [(run.attempt, run.trigger) for run in fleet.runs] == [(2, "rerun"), (1, "schedule")]
    assert fleet.slots() == [slot(), slot(60)]
    assert "unfinished" not in fleet.world.node()


def test_i22_a_slot_has_three_claims() -> None:
    """A slot whose runs die is claimed three times, and then written down as abandoned by the next claim."""
    fleet = Fleet("0 * * * *", **RERUN)
    for number in range(3):
        fleet.world.until(100 * number)
        dying = fleet.instance()
        dying.die_holding(slot() if number == 0 else None)
        assert fleet.world.node()["attempt"] == number + 1
    one = fleet.instance()
    fleet.world.until(300)
    assert refusal_of(one.turn(None)).reason == "slot_done"
    assert fleet.world.outcomes() == {}
    fleet.world.until(3_600)
    one.turn(slot(3_600))
    fleet.world.advance(0)
    assert fleet.slots() == [slot(3_600)]
    assert fleet.world.outcomes() == {slot(): "abandoned", slot(3_600): "succeeded"}
    assert fleet.world.history()[slot()]["attempt"] == 3


def test_i22_without_rerun_it_shows_as_abandoned() -> None:
    """With on_abandoned="skip" the next claimer writes the dead run down and drops it from the record."""
    fleet = Fleet()
    fleet.instance().die_holding(slot())
    one = fleet.instance()
    fleet.world.until(60)
    one.turn(slot(60))
    fleet.world.advance(0)
    assert fleet.slots() == [slot(60)]
    assert fleet.world.outcomes() == {slot(): "abandoned", slot(60): "succeeded"}
    assert "unfinished" not in fleet.world.node()
    assert [event.fields["slot"] for event in one.said("run.abandoned")] == [slot()]


def test_i22_a_scan_finds_what_nobody_saw() -> None:
    """An instance that starts later, and has seen nothing of the dead run, reruns it at its first look around."""
    fleet = Fleet("0 0 * * *", **RERUN)
    fleet.instance().die_holding(slot())
    fleet.world.until(100)
    fleet.instance().start()
    assert [run.attempt for run in fleet.runs] == [2]
    # And one that has been there all the time, within the interval of its rounds.
    fleet = Fleet("0 0 * * *", **RERUN)
    fleet.instance(recovery_interval=300).start()
    fleet.world.at(10, lambda: fleet.instance().die_holding(slot()))
    fleet.world.until(299)
    assert fleet.runs == []
    fleet.world.until(331)
    assert [run.attempt for run in fleet.runs] == [2]


@pytest.mark.parametrize("overlap", ["queue", "skip"])
def test_i23_a_queued_tick_survives_the_death_of_the_holder(overlap: str) -> None:
    """A holder that dies just before the next tick costs that tick with "skip", and not with "queue"."""
    fleet = Fleet(overlap=overlap)
    dying, one = fleet.instance(), fleet.instance()
    dying.hold(slot())
    fleet.world.at(59.9, dying.crash)
    fleet.world.until(60)
    one.turn(slot(60))
    assert fleet.slots() == ([slot(60)] if overlap == "queue" else [])


@pytest.mark.parametrize("dies", [False, True])
def test_i26_a_manual_run_consumes_no_slot(dies: bool) -> None:
    """A run by hand leaves slot, unfinished and attempt as they were, and its crash reruns nothing."""
    fleet = Fleet(**RERUN)
    one, other = fleet.instance(), fleet.instance()
    one.turn(slot())
    before = fleet.world.node()
    fleet.world.until(20)

    def body(run: Run) -> None:
        if dies:
            other.network.is_down = True
            fleet.world.advance(40)

    fleet.body = body
    other.crons.registry.trigger(NAME)
    node = fleet.world.node()
    assert {key: node.get(key) for key in ("slot", "unfinished", "attempt")} == {
        key: before.get(key) for key in ("slot", "unfinished", "attempt")
    }
    assert node["fence"] > before["fence"]  # type: ignore[operator]  # numbers
    fleet.body = lambda run: None
    fleet.world.until(120)
    one.turn(slot(120))
    assert fleet.slots() == [slot(), None, slot(120)]
    assert [run.attempt for run in fleet.runs] == [1, 1, 1]


def test_i26_a_manual_run_may_be_followed_by_its_tick() -> None:
    """A run by hand in the very second of a tick leaves the tick to its schedule."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    one.crons.registry.trigger(NAME)
    assert other.turn(slot())[0].outcome == "succeeded"
    assert fleet.slots() == [None, slot()]


def jump(fleet: Fleet, one: Instance, seconds: float) -> None:
    """RTDB's clock, as this instance is told it, jumps: the next samples say so."""
    fleet.world.server_error = seconds
    one.timing.step_wall(seconds)


@pytest.mark.parametrize(("seconds", "expected"), [(3_600, [60, 3_660 + 60]), (-3_600, [60])])
def test_i27_a_clock_jump_gives_no_burst_and_no_second_run(seconds: float, expected: list[int]) -> None:
    """The time jumps by an hour: forward one tick at the most is tried of those in between, backward none again."""
    fleet = Fleet()
    one = fleet.instance()
    one.start()
    fleet.world.until(90)
    jump(fleet, one, seconds)
    fleet.world.until(125)
    assert fleet.slots() == [slot(second) for second in expected] or len(fleet.slots()) <= 2
    assert len(fleet.slots()) == len(set(fleet.slots()))
    fleet.world.until(600)
    assert len(fleet.slots()) == len(set(fleet.slots()))
    if seconds < 0:
        assert fleet.slots() == [slot(60)]


@pytest.mark.parametrize("frozen", [100, 7_000])
def test_i27_a_frozen_process_coalesces(frozen: float) -> None:
    """A process that was frozen over many ticks tries the newest alone, and says once what to do about freezing."""
    fleet = Fleet("*/5 * * * * *", grace=20)
    one = fleet.instance()
    one.start()
    fleet.world.until(12)
    assert fleet.slots() == [slot(0), slot(5), slot(10)][-len(fleet.slots()) :]
    began = len(fleet.runs)
    one.freeze(frozen)
    fleet.world.until(12 + frozen)
    newest = (12 + frozen) // 5 * 5
    assert fleet.slots()[began:] == [slot(newest)]
    (event,) = one.said("ticker.stalled")
    assert "--no-cpu-throttling" in event.message
    one.freeze(100)
    fleet.world.advance(150)
    assert len(one.said("ticker.stalled")) == 1


def test_i27_a_frozen_run_checks_again() -> None:
    """A body that was frozen past its lease finds at its next check that it is lost, whatever its threads did."""
    fleet = Fleet()
    one = fleet.instance()

    def body(run: Run) -> None:
        one.freeze(100)
        fleet.world.advance(60)
        assert run.lost

    fleet.body = body
    (result,) = one.turn(slot())
    assert result.outcome == "lost"


def two_revisions() -> tuple[Fleet, Instance, Instance]:
    fleet = Fleet("*/10 * * * *")
    return fleet, fleet.instance(), fleet.instance("5-59/10 * * * *")


def test_i28_two_schedules_share_a_name() -> None:
    """Each revision runs its own ticks once, says once that another's are not on its schedule, and keeps its data."""
    fleet, one, other = two_revisions()
    for instance in (one, other):
        instance.start()
    fleet.world.until(3_000)
    assert fleet.slots() == [slot(seconds) for seconds in range(300, 3_001, 300)]
    for instance in (one, other):
        (event,) = instance.said("job.schedule_differs")
        assert event.name == NAME
    assert fleet.world.outcomes() == dict.fromkeys(fleet.slots(), "succeeded")


def test_i28_a_slot_far_ahead_is_not_obeyed() -> None:
    """A slot that an operator's hand put more than a day ahead blocks with an error instead of in silence."""
    fleet = Fleet()
    one = fleet.instance()
    one.turn(slot())
    fleet.world.edit(slot=to_text(START + DAY + 120_000))
    fleet.world.until(60)
    assert refusal_of(one.turn(slot(60))).reason == "malformed"


Event = Callable[[Fleet, list[Instance]], None]
