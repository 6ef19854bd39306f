"""The invariants of ticks that nobody ran: what is caught up, and what is said and written of the rest."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.network import failing
from tests.simulation.world import NAME, START, slot

from firecron import Run
from firecron.base.events import Event
from firecron.base.instants import to_datetime, to_milliseconds, to_text
from firecron.errors import Unavailable
from firecron.ops.holds import Holds
from firecron.runs.claimer import Claimed
from firecron.runs.entry import PAUSED, unrun


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"catch_up": "skip"}, [0, 600]),
        ({"catch_up": "once"}, [0, 540, 600]),
        ({"catch_up": "all"}, [*range(0, 601, 60)]),
        ({"catch_up": "all", "catch_up_window": 260}, [0, 360, 420, 480, 540, 600]),
        ({"catch_up": "once", "catch_up_window": 50}, [0, 600]),
    ],
)
def test_i24_what_was_missed_is_caught_up(options: dict[str, Any], expected: list[int]) -> None:
    """After ten minutes without an instance: nothing, the newest, or all that was missed in the window, oldest first,
    and the tick itself last; all is recorded once.
    """
    fleet = Fleet(**options)
    one = fleet.instance()
    one.turn(slot())
    fleet.world.until(600)
    two = fleet.instance()
    two.turn(slot(600))
    fleet.world.advance(0)
    assert fleet.slots() == [slot(seconds) for seconds in expected]
    outcomes = fleet.world.outcomes()
    ran = {slot(seconds) for seconds in expected}
    assert {key: value for key, value in outcomes.items() if key not in ran} == {
        slot(seconds): "missed" for seconds in range(60, 600, 60) if seconds not in expected
    }
    assert outcomes.keys() >= ran
    triggers = [run.trigger for run in fleet.runs]
    assert triggers == ["schedule", *["catch_up"] * (len(expected) - 2), "schedule"]


def test_i24_a_hundred_at_the_most() -> None:
    """A day of missed every-second ticks is caught up with the newest hundred of them."""
    fleet = Fleet("* * * * * *", catch_up="all")
    one = fleet.instance()
    one.turn(slot())
    fleet.world.until(80_000)
    one.turn(slot(80_000))
    assert len(fleet.runs) == 1 + 100 + 1
    ticks = [to_milliseconds(str(tick)) for tick in fleet.slots()]
    assert ticks[1:-1] == [START + (80_000 - number) * 1000 for number in range(100, 0, -1)]


@pytest.mark.parametrize("ends_by", ["resume", "until", "unhold", "pause"])
@pytest.mark.parametrize("catch_up", ["skip", "all"])
def test_what_a_pause_held_back_is_not_missed(ends_by: str, catch_up: str) -> None:
    """It is recorded as skipped, because the job was paused, and no alarm is raised for it; only the ticks before and
    after are missed. What catches up runs all of them.
    """
    fleet = Fleet(catch_up=catch_up)
    one = fleet.instance()
    heard: list[Event] = []
    one.crons.locks.events.subscribe(heard.append)
    one.turn(slot())
    registry, holds = one.crons.registry, Holds(one.crons.locks.database)
    fleet.world.until(150)
    until = to_datetime(slot(330))
    if ends_by == "unhold":
        fleet.world.store.set(f"cron-jobs/{NAME}", {"line": "* * * * *", "timezone": "UTC"})
        held = holds.hold(to_datetime(slot(900)), "migrating")
        assert held.held == (NAME,)
    else:
        registry.pause(NAME, everywhere=True, until=until if ends_by == "until" else None)
    if ends_by == "pause":
        fleet.world.until(200)
        registry.pause(NAME, everywhere=True, until=until)
    fleet.world.until(330)
    if ends_by == "unhold":
        holds.unhold(held.hold.name)
    elif ends_by == "resume":
        registry.resume(NAME, everywhere=True)
    fleet.world.until(480)
    one.turn(slot(480))
    fleet.world.advance(0)
    expected = {slot(60): "missed", slot(120): "missed", slot(360): "missed", slot(420): "missed"}
    paused = {slot(seconds): "skipped" for seconds in (180, 240, 300)}
    if catch_up == "all":
        assert set(fleet.world.outcomes().values()) == {"succeeded"}
        return
    assert {key: outcome for key, outcome in fleet.world.outcomes().items() if outcome != "succeeded"} == {
        **expected,
        **paused,
    }
    entries = fleet.world.store.get(f"cron-runs/{NAME}")
    assert isinstance(entries, dict)
    assert {entries[key]["error"] for key in paused} == {PAUSED}
    said = [(event.slug, event.fields["slot"]) for event in heard if event.slug.startswith("books.")]
    assert sorted(said) == [("books.missed", key) for key in expected] + [("books.skipped", key) for key in paused]


def test_i24_several_instances_share_it() -> None:
    """What one claimer leaves of the missed ticks is found by the next, in its place, and nothing is run twice."""
    fleet = Fleet(catch_up="all")
    one, other = fleet.instance(), fleet.instance()
    one.turn(slot())
    fleet.world.until(600)
    lease = one.hold(slot(600))
    assert fleet.world.node()["slot"] == slot(60)
    lease.release(finished=slot(60))
    other.turn(slot(600))
    assert fleet.slots() == [slot(), *(slot(seconds) for seconds in range(120, 601, 60))]


def test_i24_what_overlap_skipped_is_not_missed() -> None:
    """Ticks that came while the job ran are skipped for good: catching up leaves them alone."""
    fleet = Fleet(catch_up="all")
    one = fleet.instance()
    one.start()

    def body(run: Run) -> None:
        if len(fleet.runs) == 1:
            fleet.world.until(330)

    fleet.body = body
    fleet.world.until(500)
    assert fleet.slots() == [slot(60), slot(360), slot(420), slot(480)]
    assert fleet.world.outcomes() == {
        **{slot(seconds): "succeeded" for seconds in (60, 360, 420, 480)},
        **{slot(seconds): "skipped" for seconds in range(120, 301, 60)},
    }


def test_i24_no_record_no_catch_up() -> None:
    """A job that has never run has missed nothing."""
    fleet = Fleet(catch_up="all")
    fleet.instance().turn(slot())
    assert fleet.slots() == [slot()]


def test_i24_a_run_by_hand_forgets_nothing() -> None:
    """What was missed before a manual run is caught up after it."""
    fleet = Fleet(catch_up="all")
    one = fleet.instance()
    one.turn(slot())
    fleet.world.until(250)
    one.crons.registry.trigger(NAME)
    fleet.world.until(300)
    one.turn(slot(300))
    assert fleet.slots() == [slot(), None, slot(60), slot(120), slot(180), slot(240), slot(300)]


def fill(fleet: Fleet) -> None:
    """A run over three ticks, and some minutes of nobody."""

    def body(run: Run) -> None:
        if len(fleet.runs) == 1:
            fleet.world.until(200)

    fleet.body = body


@pytest.mark.parametrize("number", [1, 3])
def test_i25_a_skip_is_said_by_each_and_recorded_once(number: int) -> None:
    """Each instance says once of each skipped tick that it skips it; the history has it once, from the bookkeeper."""
    fleet = Fleet()
    instances = [fleet.instance() for _ in range(number)]
    fill(fleet)
    for one in instances:
        one.start()
    fleet.world.until(250)
    assert fleet.slots() == [slot(60), slot(240)]
    for one in instances:
        refused = [event for event in one.said("lock.refused") if event.fields["reason"] == "held"]
        said = len(one.said("run.skipped")) + len(refused)
        assert said == 2, "120 and 180"
    history = fleet.world.history()
    assert {key: entry["outcome"] for key, entry in history.items()} == {
        slot(60): "succeeded",
        slot(120): "skipped",
        slot(180): "skipped",
        slot(240): "succeeded",
    }
    assert [entry.get("recordedBy") for entry in history.values()] == [None, "bookkeeper", "bookkeeper", None]
    wrote = [one.network.requests(f"cron-runs/job/{slot(120)}") for one in instances]
    assert sum(map(len, wrote)) == 1
    assert sum(len(one.said("books.skipped")) for one in instances) == 2


@pytest.mark.parametrize("number", [1, 3])
def test_i25_a_missed_tick_is_said_by_each_and_recorded_once(number: int) -> None:
    """A tick that nobody could start within its grace is missed: each instance says so, and one writes it down."""
    fleet = Fleet()
    instances = [fleet.instance() for _ in range(number)]
    for one in instances:
        one.start()
    fleet.world.until(70)
    for one in instances:
        one.network.is_down = True
    fleet.world.until(190)
    for one in instances:
        one.network.is_down = False
    fleet.world.until(310)
    for one in instances:
        said = [event.fields["slot"] for event in one.said("run.missed") + one.said("run.skipped")]
        assert Counter(said)[slot(120)] == 1
        assert len(one.said("lock.unavailable")) >= 1
    assert fleet.world.outcomes()[slot(120)] == "missed"
    assert all(count == 1 for count in Counter(fleet.slots()).values())
    assert set(fleet.world.outcomes()) == {slot(seconds) for seconds in range(60, 301, 60)}
    assert sum(len(one.network.requests(f"cron-runs/job/{slot(120)}")) for one in instances) >= 1


@pytest.mark.parametrize("between", ["manual", "rerun"])
def test_i25_what_was_missed_stays_so_behind_another_run(between: str) -> None:
    """A run by hand, or a rerun, between two ticks' claims makes of no missed tick a skipped one, nor the reverse."""
    fleet = Fleet(on_abandoned="rerun" if between == "rerun" else "skip")
    first, one = fleet.instance(), fleet.instance()
    if between == "rerun":
        first.die_holding(slot())
    else:
        first.turn(slot())
    fleet.world.until(250)
    fleet.body = lambda run: fleet.world.until(310) if fleet.world.mono() < 310_000 else None
    if between == "rerun":
        assert one.turn(None)[0].outcome == "succeeded"
    else:
        assert one.crons.registry.trigger(NAME).outcome == "succeeded"
    assert fleet.world.node()["slot"] == slot()
    fleet.world.until(420)
    one.turn(slot(420))
    fleet.world.advance(0)
    assert "missedAfter" not in fleet.world.node()
    ticks = {key: outcome for key, outcome in fleet.world.outcomes().items() if "manual" not in key}
    assert ticks == {
        **{slot(seconds): "missed" for seconds in (60, 120, 180, 240, 360)},
        slot(300): "skipped",
        **{slot(seconds): "succeeded" for seconds in (0, 420)},
    }


def test_i25_a_long_gap_is_one_entry() -> None:
    """More than fifty missed ticks are one entry, with their number."""
    fleet = Fleet("* * * * * *")
    one = fleet.instance()
    one.turn(slot())
    fleet.world.until(200)
    one.turn(slot(200))
    fleet.world.advance(0)
    history = fleet.world.history()
    assert list(history) == [slot(), slot(199), slot(200)]
    assert (history[slot(199)]["outcome"], history[slot(199)]["count"]) == ("missed", 199)


@settings(max_examples=20)
@given(st.data())
def test_i25_every_slot_has_one_outcome(data: st.DataObject) -> None:
    """Instances come, die, freeze and lose the network: each tick up to the last claim has one outcome, and is begun
    at most as often as it was claimed.
    """
    catch_up = data.draw(st.sampled_from(["skip", "once", "all"]))
    on_abandoned = data.draw(st.sampled_from(["skip", "rerun"]))
    fleet = Fleet("*/10 * * * * *", catch_up=catch_up, on_abandoned=on_abandoned, grace=15)
    instances = [fleet.instance(recovery_interval=50) for _ in range(3)]
    for one in instances:
        one.start()
    for number in range(data.draw(st.integers(1, 6))):
        one = data.draw(st.sampled_from(instances))
        when = 7 + 35 * number + data.draw(st.integers(0, 20))
        happens = data.draw(st.sampled_from(["die", "freeze", "long"]))
        if happens == "die":
            substitute = fleet.instance()
            fleet.world.at(when, partial(_die, substitute))
        elif happens == "freeze":
            fleet.world.at(when, partial(one.freeze, 40))
        else:
            fleet.world.at(when, lambda: setattr(fleet, "body", lambda run: _once(fleet, 25)))
    fleet.world.until(400)
    claimed = Counter((run.slot, run.attempt) for run in fleet.runs)
    assert max(claimed.values()) == 1, "a claim was run twice"
    history = fleet.world.history()
    last = max(slot for slot in fleet.slots() if slot is not None)
    counts = {key: int(str(entry.get("count", 1))) for key, entry in history.items() if key <= last}
    first = min(slot for slot in history)
    ticks = (to_milliseconds(last) - to_milliseconds(first)) // 10_000 + 1
    assert len(counts) == ticks == sum(counts.values())


def _die(dying: Instance) -> None:
    """Claim the newest tick, if it is still to be had, and be killed in the run."""
    now = dying.world.now()
    claimed = dying.claim(to_text(now // 10_000 * 10_000))
    if isinstance(claimed, Claimed) and claimed.claim is not None:
        dying.crons.history.record_passed_over(dying.job(), claimed.held, claimed.claim)
    dying.world.at((now - START + 1) / 1000, dying.crash)


def _once(fleet: Fleet, seconds: float) -> None:
    fleet.body = lambda run: None
    fleet.world.advance(seconds)


@pytest.mark.parametrize("ended", [True, False])
def test_i30_what_a_run_says_of_itself_is_not_overwritten(ended: bool) -> None:
    """A run that was lost is not called abandoned by the claim after a run by hand, which raised the fence; one that
    nobody recorded is.
    """
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        fleet.body = lambda run: None
        fleet.world.edit(expiresAt=0)
        fleet.world.advance(11)
        run.check()

    fleet.body = body
    if ended:
        one.turn(slot())
    else:
        one.die_holding(slot())
        fleet.world.edit(expiresAt=0)
    fleet.world.until(30)
    other.crons.registry.trigger(NAME)
    fleet.world.until(60)
    other.turn(slot(60))
    fleet.world.advance(1)
    assert fleet.world.outcomes()[slot()] == ("lost" if ended else "abandoned")


def _stopped(run: Run) -> None:
    run.stopping.set()
    run.check()


@pytest.mark.parametrize("by_hand", [None, "succeeds", "is stopped"])
@pytest.mark.parametrize("end", ["is stopped", "is unlocked", "dies"])
def test_i30_no_end_of_a_run_is_told_twice(end: str, by_hand: str | None) -> None:
    """A run that its instance has ended has told so itself: `run.abandoned` and its entry are for those that died, also
    where a run by hand has come in between.
    """
    fleet = Fleet(on_abandoned="skip")
    one, hand, other = fleet.instance(), fleet.instance(), fleet.instance()

    def unlocked(run: Run) -> None:
        fleet.world.edit(expiresAt=0)
        fleet.world.advance(11)
        run.check()

    if end == "dies":
        one.die_holding(slot())
        fleet.world.edit(expiresAt=0)
    else:
        fleet.body = _stopped if end == "is stopped" else unlocked
        one.turn(slot())
    fleet.world.until(30)
    if by_hand is not None:
        fleet.body = _stopped if by_hand == "is stopped" else lambda run: None
        hand.crons.registry.trigger(NAME)
        assert fleet.world.node()["unfinished"] == slot()
    fleet.body = lambda run: None
    fleet.world.until(60)
    other.turn(slot(60))
    fleet.world.advance(1)
    outcome = {"is stopped": "interrupted", "is unlocked": "lost", "dies": "abandoned"}[end]
    assert fleet.world.outcomes()[slot()] == outcome
    assert "unfinished" not in fleet.world.node()
    told = [event.fields["slot"] for event in other.said("run.abandoned")]
    assert told == [slot()] * (end == "dies")
    assert [event.slug for event in one.events if event.slug == f"run.{outcome}"] == [f"run.{outcome}"] * (
        end != "dies"
    )


@pytest.mark.parametrize("comes_late", [False, True])
def test_i30_the_end_is_in_the_history_although_the_run_could_not_write_it(comes_late: bool) -> None:
    """The next claim writes what the node says of the run's end, and the run's own entry replaces that."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    fleet.body = _stopped

    def go_on() -> None:
        fleet.body = lambda run: None
        fleet.world.until(60)
        other.turn(slot(60))

    def write(method: str, path: str) -> None:
        if path.startswith("cron-runs"):
            if not comes_late:
                raise Unavailable("away")
            one.network.before = lambda method, path: None
            go_on()

    one.network.before = write
    one.turn(slot())
    if not comes_late:
        assert fleet.world.outcomes() == {}
        go_on()
    fleet.world.advance(1)
    entry = fleet.world.history()[slot()]
    assert (entry["outcome"], "recordedBy" in entry) == ("interrupted", not comes_late)
    assert other.said("run.abandoned") == []


def test_i30_a_run_whose_release_failed_is_not_called_abandoned() -> None:
    """The run has succeeded, and its entry says so: only its lock was left to expire."""
    fleet = Fleet()
    one, other = fleet.instance(), fleet.instance()
    fleet.body = lambda run: one.network.next("swap", before=failing(Unavailable("away")), times=50)
    one.turn(slot())
    assert fleet.world.node()["unfinished"] == slot()
    one.network.mend()
    one.crons.history.record(NAME, replace(unrun(slot(), "succeeded", 1, fleet.runs[0].fence), recorded_by=None))
    fleet.body = lambda run: None
    fleet.world.until(60)
    other.turn(slot(60))
    fleet.world.advance(1)
    assert fleet.world.outcomes()[slot()] == "succeeded"
    assert other.said("run.abandoned") == []


def test_i30_a_rerun_that_dies_is_abandoned() -> None:
    """What the first attempt said of itself gives way to what is found of the last."""
    fleet = Fleet(on_abandoned="rerun")
    one, dying, other = fleet.instance(), fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        fleet.body = lambda run: None
        fleet.world.edit(expiresAt=0)
        fleet.world.advance(11)
        run.check()

    fleet.body = body
    one.turn(slot())
    assert fleet.world.outcomes()[slot()] == "lost"
    for _ in range(2):
        dying.hold(slot(60))
        fleet.world.edit(expiresAt=0)
    fleet.world.until(60)
    other.turn(slot(60))
    fleet.world.advance(1)
    assert fleet.world.outcomes()[slot()] == "abandoned"
    assert fleet.world.history()[slot()]["attempt"] == 3


def test_i30_a_late_run_says_itself_what_came_of_it() -> None:
    """A run that lost its lease and ends after a run by hand, and after the next tick's claim, has its own entry."""
    fleet = Fleet("*/20 * * * * *", lock_ttl=6)
    one, other = fleet.instance(), fleet.instance()

    def body(run: Run) -> None:
        fleet.body = lambda run: None
        one.network.is_down = True
        fleet.world.advance(10)
        one.network.is_down = False
        other.crons.registry.trigger(NAME)
        fleet.world.until(20)
        other.turn(slot(20))
        fleet.world.advance(1)
        assert fleet.world.outcomes()[slot()] == "abandoned"
        run.check()

    fleet.body = body
    one.turn(slot())
    assert fleet.world.outcomes()[slot()] == "lost"


@pytest.mark.parametrize("overlap", ["skip", "queue"])
def test_i25_what_a_lock_without_end_costs_is_missed(overlap: str) -> None:
    """Ticks that meet a lock held until the year 2100 are missed: each instance says so, and after the unlock the
    history does.
    """
    fleet = Fleet(overlap=overlap)
    one = fleet.instance()
    one.turn(slot())
    fleet.world.edit(expiresAt=4_102_444_800_000, releasedAt=None)
    one.start()
    fleet.world.until(200)
    assert [event.fields["slot"] for event in one.said("run.missed")][:2] == [slot(60), slot(120)]
    assert one.said("run.skipped") == []
    fleet.world.edit(expiresAt=0)
    fleet.world.until(250)
    outcomes = fleet.world.outcomes()
    assert (outcomes[slot(60)], outcomes[slot(120)]) == ("missed", "missed")
    assert fleet.slots()[-1] in (slot(180), slot(240))
