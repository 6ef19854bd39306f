"""Looks for dead runs: what a loser looks at later, and when a look that failed is made again."""

from __future__ import annotations

from itertools import pairwise

import pytest
from tests.simulation.fleet import Fleet, refusal_of
from tests.simulation.network import failing
from tests.simulation.world import NAME, START, slot
from tests.unit.runs.outages import busy, up

from firecron import Unavailable


@pytest.mark.parametrize("on_abandoned", ["skip", "rerun"])
def test_a_loser_looks_again_when_the_lock_expires(on_abandoned: str) -> None:
    """Who was refused looks once when the lock that it saw expires, for a job that wants it, whatever the refusal."""
    fleet = Fleet(on_abandoned=on_abandoned)
    one, other = fleet.instance(), fleet.instance()
    one.start()
    other.die_holding(slot())
    assert refusal_of(one.turn(slot())).reason == "slot_done"
    one.network.requests()
    fleet.world.until(30.999)
    assert one.network.requests("cron-locks/") == []
    fleet.world.until(31)
    assert len(fleet.runs) == bool(one.network.requests("cron-locks/")) == (on_abandoned == "rerun")


@pytest.mark.parametrize("looks_at", ["a refusal", "a round"])
def test_a_minimum_hold_is_looked_at_when_it_ends(fleet: Fleet, looks_at: str) -> None:
    """A run that was interrupted leaves no lease: who saw its minimum hold looks when that ends, without a margin."""
    fleet = Fleet("0 * * * *", on_abandoned="rerun")
    one = fleet.instance(recovery_interval=80_000)
    interrupted = {"slot": slot(), "unfinished": slot(), "outcome": "interrupted", "attempt": 1, "fence": START}
    kept = {**interrupted, "holder": "x", "expiresAt": START + 20_000, "releasedAt": START - 1_000}
    if looks_at == "a round":
        fleet.world.put(kept)
        one.start()
    else:
        one.start()
        fleet.world.put(kept)
        assert refusal_of(one.turn(slot())).reason == "slot_done"
    fleet.world.until(19.999)
    assert fleet.slots() == []
    fleet.world.until(20)
    assert fleet.slots() == [slot()]


def test_a_loser_follows_a_lock_that_is_renewed() -> None:
    """A lock that was renewed when the loser looks is looked at again at its new expiry: a late death is found too."""
    fleet = Fleet("0 * * * *", on_abandoned="rerun")
    one, other = fleet.instance(recovery_interval=80_000), fleet.instance()
    one.start()
    other.hold(slot())
    one.turn(slot())
    fleet.world.at(1_000, other.crash)
    fleet.world.until(1_000 + 30 + 1 + 5)
    assert fleet.slots() == [slot()]
    assert fleet.runs[0].attempt == 2
    assert len(one.said("lock.refused")) < 1_000 / 20


def test_a_clean_release_is_not_looked_at() -> None:
    """A loser that finds the run ended has nothing to look at later."""
    fleet = Fleet("0 * * * *", on_abandoned="rerun")
    one, other = fleet.instance(recovery_interval=80_000), fleet.instance()
    one.start()
    other.turn(slot())
    one.turn(slot())
    one.network.requests()
    fleet.world.until(200)
    assert one.network.requests("cron-locks/") == []
    said = one.slugs("lock")
    one.turn(None)
    assert one.slugs("lock") == said, "a look that finds nothing is nothing to tell"


def test_a_run_by_hand_is_not_looked_at() -> None:
    """A lock that leaves no tick unfinished leaves nothing to run again, so its expiry is not waited for."""
    fleet = Fleet("0 * * * *", on_abandoned="rerun")
    one, other = fleet.instance(recovery_interval=80_000), fleet.instance()
    one.start()
    other.acquire(NAME, 30)
    assert refusal_of(one.turn(slot())).reason == "held"
    one.network.requests()
    fleet.world.until(200)
    assert one.network.requests("cron-locks/") == []


def test_looking_again_ends(fleet: Fleet) -> None:
    """A run that died for the last time, or whose job is paused, is not looked at for ever."""
    fleet = Fleet("0 * * * *", on_abandoned="rerun")
    one, other = fleet.instance(recovery_interval=80_000), fleet.instance()
    one.start()
    other.die_holding(slot())
    fleet.world.edit(attempt=3)
    one.turn(slot())
    one.network.requests()
    fleet.world.until(100)
    assert len(one.network.requests("cron-locks/")) == 1
    fleet.world.edit(paused=True, attempt=1, expiresAt=START + 200_000)
    one.turn(None)
    one.network.requests()
    fleet.world.until(300)
    assert len(one.network.requests("cron-locks/")) == 1
    assert fleet.runs == []


def test_a_rerun_is_tried_again_after_a_pause(fleet: Fleet, monkeypatch: pytest.MonkeyPatch) -> None:
    """While the database asks for patience, a dead run is looked for as often as it asks for, and not sooner."""
    fleet = Fleet("0 0 * * *", on_abandoned="rerun")
    one = fleet.instance()
    midnight = slot(-9 * 3_600)
    fleet.world.put({"slot": midnight, "unfinished": midnight, "holder": "dead", "expiresAt": START})
    asked: list[float] = []

    def down(method: str, path: str) -> None:
        if path.startswith("cron-locks/"):
            asked.append(fleet.world.mono() / 1000)
            busy(method, path)

    fleet.world.until(40)
    # Rounds read the locks as well, and are not looks.
    monkeypatch.setattr(one.crons.engine.recovery, "make_if_due", lambda latest, begins: False)
    one.network.before = down
    one.crons.engine.lanes.look_again(one.job(), START + 41_000)
    one.is_ticking = True
    fleet.world.until(200)
    tries = sorted({second for second in asked if second > 40})
    assert 4 <= len(tries) <= 6
    assert all(30 <= later - sooner <= 30.1 for sooner, later in pairwise(tries))


def test_a_look_while_the_time_is_not_known_is_made_again(fleet: Fleet) -> None:
    """A look for a dead run that finds neither the database nor RTDB's time is made again once both are there."""
    fleet = Fleet("0 0 * * *", on_abandoned="rerun")
    one = fleet.instance()
    midnight = slot(-9 * 3_600)
    fleet.world.put({"slot": midnight, "unfinished": midnight, "holder": "dead", "expiresAt": START})
    one.start()
    one.timing.step_wall(3_600)
    one.network.is_down = True
    one.go_on(one.attempt(None, insists=True))
    fleet.world.until(20)
    up(one)
    fleet.world.until(60)
    assert fleet.slots() == [midnight]


def test_what_was_asked_for_by_hand_is_not_looked_for_again(fleet: Fleet) -> None:
    """Who asks for a tick while the database is down is told; nothing is tried behind the caller's back."""
    fleet = Fleet("0 0 * * *")
    one = fleet.instance()
    one.start()
    one.network.is_down = True
    result = one.crons.registry.trigger(NAME, slot=one.crons.registry.next_slots(NAME)[0], source="http")
    assert result.refusal is not None
    assert result.refusal.reason == "unavailable"
    up(one)
    one.network.requests()
    fleet.world.until(20)
    assert one.network.requests("cron-locks/") == []


def test_a_refusal_is_noted_though_the_time_is_lost(fleet: Fleet) -> None:
    """A loser whose wall clock was set in the middle of its request is told who holds the lock all the same."""
    fleet = Fleet(on_abandoned="rerun")
    one, other = fleet.instance(), fleet.instance()
    other.hold(slot())
    one.network.before = lambda method, path: one.timing.step_wall(3_600)
    assert refusal_of(one.turn(slot())).reason == "slot_done"


@pytest.mark.parametrize(
    ("asked", "chance", "pause"),
    [(None, 0.0, 2_000), (None, 1.0, 5_000), (4, 0.0, 4_000), (4, 1.0, 5_000), (30, 1.0, 30_000), (900, 1.0, 300_000)],
)
def test_instances_look_again_at_different_times(fleet: Fleet, asked: float | None, chance: float, pause: int) -> None:
    """After a failure a dead run is looked for again two to five seconds later, by chance; later if the database asks
    for that, up to five minutes.
    """
    one = fleet.instance()
    looks: list[int] = []
    one.chance.value = chance
    one.crons.engine.lanes.look_again = lambda job, instant: looks.append(instant)  # type: ignore[method-assign]  # noted, not made
    one.network.before = lambda method, path: failing(Unavailable("later", retry_after=asked))()
    one.go_on(one.attempt(None, insists=True))
    moment = one.locks.clock.peek()
    assert moment is not None
    assert looks == [moment.server + pause]
