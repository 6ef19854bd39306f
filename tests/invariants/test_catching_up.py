"""The invariants of catching up, with bodies and requests that take their time: whole fleets, judged by what the
database was told.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.fleet import Fleet
from tests.simulation.instance import Instance
from tests.simulation.world import NAME, START, slot

from firecron import Run
from firecron.base.events import Event
from firecron.base.instants import to_datetime, to_milliseconds
from firecron.cron.schedule import Schedule
from firecron.runs.claimer import Claimed

LATENCY = 0.01


@dataclass(frozen=True)
class Held:
    """One acquisition, as the node showed it: from when to when others were kept out, in milliseconds."""

    start: int
    end: int


class Ledger:
    """What happened to one job's lock, read off its node after each write."""

    def __init__(self, fleet: Fleet) -> None:
        self._fleet = fleet
        self._holds: dict[str, Held] = {}
        self.claimed: set[str] = set()
        self.unwritten: set[object] = set()
        store = fleet.world.store
        swap = store.swap

        def watched(path: str, *rest: Any) -> Any:
            answer = swap(path, *rest)
            if path == f"cron-locks/{NAME}":
                self._look()
            return answer

        store.swap = watched  # type: ignore[method-assign, assignment]  # the fleet's only way to write a lock

    def _look(self) -> None:
        node: dict[str, Any] = self._fleet.world.node()
        self.claimed.add(node.get("unfinished", ""))
        self._holds[node["holder"]] = Held(node["acquiredAt"], max(node["expiresAt"], node.get("releasedAt", 0)))

    def note(self, event: Event) -> None:
        """Note the ticks whose entry is said not to have been written."""
        if event.slug == "history.failed":
            self.unwritten.add(event.fields.get("key"))

    def was_held(self, tick: str) -> bool:
        """Whether somebody held the lock at this tick."""
        at = to_milliseconds(tick)
        return any(held.start <= at <= held.end for held in self._holds.values())


def fleet_of(number: int, line: str, *, body: float, **options: object) -> tuple[Fleet, list[Instance], Ledger]:
    """A fleet whose job takes so many seconds, started a second after nine, with a network that takes its time."""
    fleet = Fleet(line, **{"lock_ttl": 6, **options})
    fleet.body = lambda run: fleet.world.advance(body)
    ledger = Ledger(fleet)
    instances = [fleet.instance(recovery_interval=60) for _ in range(number)]
    fleet.world.until(1)
    for one in instances:
        one.network.latency = LATENCY
        one.crons.events.subscribe(ledger.note)
        one.start()
    return fleet, instances, ledger


def outage(fleet: Fleet, instances: list[Instance], start: float, end: float) -> None:
    for one in instances:
        fleet.world.at(start, partial(setattr, one.network, "is_down", True))
        fleet.world.at(end, partial(setattr, one.network, "is_down", False))


def lag(run: Run, history: dict[str, dict[str, object]]) -> float:
    """How many seconds after its slot a run has begun."""
    assert run.slot is not None
    entry: Any = history[f"{run.slot:%FT%TZ}"]
    return float(entry["startedAt"] - run.slot.timestamp() * 1000) / 1000


def is_on_time(fleet: Fleet, number: int = 3) -> bool:
    """Whether the last runs are of the schedule's ticks, at their time."""
    history = fleet.world.history()
    return all(run.trigger == "schedule" and lag(run, history) < 1 for run in fleet.runs[-number - 1 : -1])


def check(fleet: Fleet, ledger: Ledger, line: str, catch_up: str) -> None:
    """Each tick from the first run to the last was run once, or its entry says why not, or the log that the entry could
    not be written; with "all", every one at which nobody held the lock was run.
    """
    outcomes = fleet.world.outcomes()
    claims = [(run.slot, run.attempt) for run in fleet.runs if run.slot is not None]
    assert len(claims) == len(set(claims)), "a claim was run twice"
    ran = sorted({instant for instant, _ in claims})
    for tick in Schedule(line).between(ran[0], ran[-1]):
        text = f"{tick:%FT%TZ}"
        if text in ledger.claimed:
            assert outcomes.get(text) not in ("missed", "skipped"), text
        else:
            if text in outcomes or text not in ledger.unwritten:
                assert outcomes.get(text) == ("skipped" if ledger.was_held(text) else "missed"), text
            assert catch_up != "all" or ledger.was_held(text), f"{text} was missed, and not caught up"


@pytest.mark.parametrize(
    ("line", "body", "grace", "down", "until", "catch_up"),
    [
        ("*/2 * * * * *", 2.5, 2, 10, 120, "all"),
        ("*/2 * * * * *", 1.9, 2, 10, 200, "all"),
        ("* * * * *", 70, 60, 600, 2_400, "all"),
        ("* * * * *", 20, 60, 600, 1_200, "all"),
        ("*/10 * * * * *", 1, 60, 40, 300, "all"),
        ("*/2 * * * * *", 2.5, 2, 10, 120, "once"),
        ("* * * * *", 70, 60, 600, 1_500, "once"),
    ],
)
def test_i24_after_an_outage_the_schedule_comes_back(
    line: str, body: float, grace: float, down: float, until: float, catch_up: str
) -> None:
    """What an outage left is caught up, and not what came meanwhile: after that, each run is of a tick on time."""
    fleet, instances, ledger = fleet_of(2, line, body=body, grace=grace, catch_up=catch_up)
    outage(fleet, instances, 60.5, 60.5 + down)
    fleet.world.until(until)
    late = [run for run in fleet.runs if run.trigger == "catch_up"]
    schedule = Schedule(line)
    first = schedule.after(to_datetime(START))
    ticks = down / (schedule.after(first) - first).total_seconds()
    assert 1 <= len(late) <= (3 if catch_up == "once" else ticks + 3)
    assert is_on_time(fleet)
    check(fleet, ledger, line, catch_up)


@pytest.mark.parametrize("catch_up", ["once", "all"])
def test_i24_after_a_rerun_the_schedule_comes_back(catch_up: str) -> None:
    """What came while a rerun of 90 seconds held the lock is skipped: the next ticks are run on time."""
    fleet, _, _ = fleet_of(2, "* * * * *", body=90, catch_up=catch_up, on_abandoned="rerun", lock_ttl=30)
    dying = fleet.instance()
    fleet.world.until(59)
    fleet.world.at(60, lambda: dying.die_holding(slot(60)))
    fleet.world.until(700)
    assert [run.trigger for run in fleet.runs[:1]] == ["rerun"]
    assert len([run for run in fleet.runs if run.trigger == "catch_up"]) <= 1
    assert is_on_time(fleet)


@pytest.mark.parametrize("catch_up", ["once", "all"])
@pytest.mark.parametrize("hold", [3, 12])
def test_i24_a_minimum_hold_lets_the_schedule_come_back(catch_up: str, hold: float) -> None:
    """What is to be caught up is run as soon as the hold of the run before it is over, and not one of it a tick."""
    line = "*/10 * * * * *"
    # The jitter is for a claim after its tick: else no turn leaves a free tick behind, which is one more to catch up.
    options = {"grace": 5, "jitter": 0.3, "lock_ttl": 20, "hold_at_least": hold, "catch_up": catch_up}
    fleet, instances, ledger = fleet_of(2, line, body=1, **options)
    outage(fleet, instances, 65.5, 125.6)
    fleet.world.until(500)
    late = [run for run in fleet.runs if run.trigger == "catch_up"]
    assert 1 <= len(late) <= (2 if catch_up == "once" else 8)
    assert len(late) < 6 or lag(late[5], fleet.world.history()) < 61 + 5 * (hold + 1 - 10)
    check(fleet, ledger, line, catch_up)
    if hold < 10:
        assert is_on_time(fleet)
    else:
        # Each run keeps the tick after it out: every other one is run, on time.
        assert all(run.trigger == "schedule" for run in fleet.runs[-4:])


def test_i24_a_tick_that_comes_during_a_minimum_hold_takes_no_turn_away() -> None:
    """It comes while the run before it is recorded, and is skipped: what was missed is run once the hold is over."""
    fleet = Fleet("*/10 * * * * *", catch_up="all", hold_at_least=15)
    one = fleet.instance()
    before = START - 30_000
    fleet.world.put(
        {"acquiredAt": before, "expiresAt": before, "releasedAt": before, "holder": "theirs", "slot": slot(-30)}
    )
    one.network.before = lambda _, path: fleet.world.advance(1 if path.startswith("cron-runs/") else 0)
    fleet.body = lambda run: fleet.world.advance(9.5)
    fleet.world.at(10, lambda: one.turn(slot(10)))
    one.turn(slot())
    assert fleet.slots() == [slot(-20), slot(-10), slot()]
    assert [event.fields["slot"] for event in one.events if event.slug == "run.skipped"] == [slot(10)]


def test_an_entry_that_an_outage_swallows_is_told() -> None:
    """The database goes away between a claim and the entries of ticks that it has passed over: the log says which."""
    fleet, instances, ledger = fleet_of(1, "*/5 * * * * *", body=5.5, grace=2.5)
    outage(fleet, instances, 35.0195, 40)
    fleet.world.until(100)
    assert (slot(30) in ledger.unwritten, slot(30) in fleet.world.outcomes()) == (True, False)
    assert fleet.world.outcomes()[slot(20)] == "skipped"
    check(fleet, ledger, "*/5 * * * * *", "skip")


@settings(max_examples=8)
@given(st.data())
def test_i24_whatever_was_missed_the_schedule_comes_back(data: st.DataObject) -> None:
    """Outages, deaths and bodies of any length: each tick has its outcome, and in the end the schedule is back."""
    interval = data.draw(st.sampled_from([2, 5, 20]), label="interval")
    line = f"*/{interval} * * * * *"
    catch_up = data.draw(st.sampled_from(["skip", "once", "all"]), label="catch_up")
    ttl = data.draw(st.sampled_from([6, 30]), label="ttl")
    fleet, instances, ledger = fleet_of(
        data.draw(st.integers(1, 3), label="instances"),
        line,
        body=interval * data.draw(st.sampled_from([0.05, 0.5, 0.9, 1.1, 1.6, 2.3]), label="body"),
        grace=interval * data.draw(st.sampled_from([0.5, 1, 3, 10]), label="grace"),
        lock_ttl=ttl,
        hold_at_least=min(ttl, interval * data.draw(st.sampled_from([0, 0.5, 0.9]), label="hold")),
        catch_up=catch_up,
        on_abandoned=data.draw(st.sampled_from(["skip", "rerun"]), label="on_abandoned"),
    )
    now = 5.0 * interval
    for _ in range(data.draw(st.integers(1, 2), label="troubles")):
        now += interval * data.draw(st.floats(0.1, 12), label="pause")
        if data.draw(st.booleans(), label="a death"):
            fleet.world.at(now, partial(_die, fleet.instance(), line))
        else:
            lasts = interval * data.draw(st.floats(0.2, 10), label="outage")
            outage(fleet, instances, now, now + lasts)
            now += lasts
    # Each missed tick may take a whole body, and each such body an interval of the schedule.
    fleet.world.until(now + 70 * interval + 60)
    assert is_on_time(fleet), fleet.runs[-4:]
    check(fleet, ledger, line, catch_up)


def _die(dying: Instance, line: str) -> None:
    """Claim the newest tick, if it is still to be had, and be killed in the run."""
    now = to_datetime(dying.world.now())
    newest = max(Schedule(line).between(now - timedelta(seconds=61), now))
    claimed = dying.claim(f"{newest:%FT%TZ}")
    if isinstance(claimed, Claimed) and claimed.claim is not None:
        dying.crons.history.record_passed_over(dying.job(), claimed.held, claimed.claim)
    dying.world.at((dying.world.now() - START + 1) / 1000, dying.crash)
