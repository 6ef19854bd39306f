"""Invariants of a leader of a large fleet: what a handover costs, how long it takes, and who asks after an outage."""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

import pytest
from tests.simulation.followers import HEARTBEAT, MARGIN, PATH, TTL, Fleet, How, Instance

SIZE = 101
# Milliseconds that the ways of an event and of two requests take at most, and a pause before asking.
WAYS = 110
PERIOD = 10 * (TTL + MARGIN)
BOUND: dict[How, float] = {"stop": 1_000, "kill": TTL + MARGIN + 1_000}


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    """100 followers that know the size of their group, and a leader."""
    fleet = known(SIZE)
    yield fleet
    fleet.end()


def known(size: int) -> Fleet:
    fleet = Fleet(size, 1)
    fleet.pass_by(65)
    assert fleet.leader is not None
    assert 9 <= fleet.near <= 14
    assert all(one.size() == pytest.approx(size) for one in fleet.alive)
    return fleet


def has_wave(fleet: Fleet, how: How, one: Instance, most: float) -> bool:
    """Whether an instance is to ask by then: of those who are near, or for the release that there is."""
    turnout = one.candidate.turnout
    released = fleet.store.get(f"{PATH}/releasedAt")
    wave = turnout.death_wave(fleet.timing.now()) if how == "kill" else turnout.release_wave(released)
    return wave is not None and wave <= most


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_i42_a_handover_costs_three_asks_as_a_rule_and_twelve_at_most(how: How) -> None:
    """Of 200 followers a dozen may ask, and the winner's write ends the others' wait."""
    fleet, taken = known(201), []
    for _ in range(12):
        taken.append(fleet.hand_over(how))
        fleet.pass_by(7)
    assert median(one.asks for one in taken) <= 3
    assert max(one.asks for one in taken) <= 12
    assert max(one.requests for one in taken) <= 24
    assert max(one.leaderless for one in taken) <= BOUND[how]
    fleet.end()


@pytest.mark.parametrize("how", ["stop", "kill"])
@pytest.mark.parametrize(("wave", "more"), [(0, 1_000), (1_000, 4_000), (4_000, 2 * HEARTBEAT)])
def test_i42_where_a_wave_has_died_the_next_one_asks(fleet: Fleet, how: How, wave: float, more: float) -> None:
    """A second later, or four; if the whole dozen has died with the leader, within two heartbeats."""
    taken = fleet.hand_over(how, also=lambda one: has_wave(fleet, how, one, wave))
    assert len(fleet.alive) <= SIZE - 2
    assert taken.asks <= 12
    assert taken.late <= more + WAYS


def test_i42_where_the_dozen_has_died_others_ask_although_the_size_has_not_fallen(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their newest tickets let them: three at a time, and others after each beat."""
    monkeypatch.setattr(Instance, "size", lambda one: float(SIZE))
    fleet.pass_by((PERIOD - fleet.timing.now() % PERIOD) / 1000 + 10)
    taken = fleet.hand_over("kill", also=lambda one: has_wave(fleet, "kill", one, 4_000))
    assert taken.late <= 2 * HEARTBEAT


def test_i42_leaders_that_die_one_after_another_do_not_use_up_the_dozen(fleet: Fleet) -> None:
    """Each is followed within a second of its expiry, although each was one of the dozen, and none is replaced."""
    assert max(fleet.hand_over("kill").late for _ in range(20)) <= 1_000
    assert fleet.near > 0


def test_i42_stops_do_not_use_up_the_dozen(fleet: Fleet) -> None:
    """A deployment that replaces the leader again and again is followed at once each time."""
    for _ in range(30):
        assert fleet.hand_over("stop").late <= WAYS
        fleet.join()
        fleet.pass_by(1)


def test_i42_while_the_size_is_not_known_all_ask_at_once() -> None:
    """An instance in doubt asks: a fleet that has just come has a leader within a second of a stop."""
    fleet = Fleet(30, 1)
    fleet.pass_by(30)
    assert fleet.near == 29
    taken = fleet.hand_over("stop")
    assert taken.late <= WAYS
    assert taken.asks > 12
    fleet.end()


@pytest.mark.parametrize("away", [2.0, 29.0, 120.0])
def test_i43_a_follower_whose_stream_died_in_silence_asks_again(fleet: Fleet, away: float) -> None:
    """Within 30 s of the database's return each has asked, also if it was away for less than a keep-alive takes."""
    cut = [one for one in fleet.alive if not one.is_near][::3] + [one for one in fleet.alive if one.is_near][:4]
    for one in cut:
        one.ear.cut()
    fleet.pass_by(away)
    fleet.asks.clear()
    for one in cut:
        one.ear.is_cut = False
    fleet.pass_by(30)
    assert {ask.by for ask in fleet.asks if ask.by in cut} == set(cut)


def test_i43_who_is_not_cut_off_does_not_ask_for_it(fleet: Fleet) -> None:
    """An idle hour costs as many asks as the docs say: keep-alives show that nothing is missed."""
    fleet.reset()
    fleet.pass_by(180)
    assert sum(ask.requests for ask in fleet.asks) * 20 <= 3_000
    assert fleet.opened * 20 <= 1_000
