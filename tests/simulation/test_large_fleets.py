"""Large fleets of whole instances: what a tick costs them, and when it starts, also just after most of them have died.

`make simulate ARGS="--rows 1000"` plays larger ones (`fleets/rows.py`), and prints the table of
docs/explanation/large-fleets.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import ModuleType

import pytest
from tests.simulation.loading import Engine

SIZE = 30
# A tick begins in its wave, and then a claim takes its round trips.
CLAIM = 0.5
SURVIVOR = 45 + CLAIM


@pytest.fixture(scope="module")
def world() -> Iterator[ModuleType]:
    """The simulated world, with the engine as it is."""
    with Engine().at_work() as world:
        yield world


def ticks_of(world: ModuleType, row: object, seed: int = 1) -> list[tuple[int, float]]:
    """The askers and the lag of each tick; it is a failure if one is missed, or begins twice, or breaks a rule."""
    played, ticks = world.play_row(row, seed)
    assert played.violations == ()
    assert [tick.begun for tick in ticks] == [1] * len(ticks)
    return [(tick.askers, tick.lag) for tick in ticks]


@pytest.mark.parametrize(("size", "most"), [(2, 2), (12, 12), (SIZE, 15), (60, 15)])
def test_a_ticks_cost_does_not_grow_with_the_fleet(world: ModuleType, size: int, most: int) -> None:
    """About a dozen ask for it, however many there are, and it starts at once."""
    for askers, lag in ticks_of(world, world.Row(size, ticks=3)):
        assert min(size, 9) <= askers <= most
        assert lag <= CLAIM


def test_all_ask_where_the_setting_says_so(world: ModuleType) -> None:
    """With contenders=0 every instance asks for every tick, as without tickets."""
    assert {askers for askers, _ in ticks_of(world, world.Row(SIZE, contenders=0, ticks=2))} == {SIZE}


@pytest.mark.parametrize("left", [1, 3, 12])
def test_the_last_ones_run_the_tick(world: ModuleType, left: int) -> None:
    """If most die just before a tick, one that is left runs it within one and a half heartbeats, and soon at once."""
    (askers, lag), (_, next_lag), (_, last_lag) = ticks_of(world, world.Row(SIZE, die=SIZE - left, ticks=3))
    assert askers == left
    assert lag <= SURVIVOR
    assert next_lag <= SURVIVOR / 3
    assert last_lag <= CLAIM


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_third_and_less_that_die_delay_a_tick_by_waves_only(world: ModuleType, seed: int) -> None:
    """Those that are left ask in their waves: the tick starts within four seconds."""
    ((_, lag),) = ticks_of(world, world.Row(SIZE, die=SIZE // 3, ticks=1), seed)
    assert min(lag - wave for wave in (0, 1, 4) if lag >= wave) <= CLAIM


def test_instances_that_have_just_come_ask(world: ModuleType) -> None:
    """A scale-out costs one round of asking by all that are new; the next ticks cost a dozen again."""
    first, *_, last = ticks_of(world, world.Row(10, come=20, ticks=4))
    assert first[0] >= 20
    assert last[0] <= 15
    assert max(first[1], last[1]) <= CLAIM


def test_two_sets_of_jobs_are_two_groups(world: ModuleType) -> None:
    """While revisions with different jobs replace each other, no tick is missed, and in the end a dozen ask again."""
    ticks = ticks_of(world, world.Row(SIZE, follow=SIZE, ticks=5))
    assert max(lag for _, lag in ticks) <= CLAIM
    assert ticks[-1][0] <= 15


def test_a_half_that_freezes_costs_no_tick(world: ModuleType) -> None:
    """Instances that stop for a while are as if dead, and when they go on they ask until they know who is there."""
    assert all(lag <= SURVIVOR for _, lag in ticks_of(world, world.Row(SIZE, freeze=SIZE // 2, ticks=4)))


def test_fleets_that_were_frozen_together_do_not_stay_in_step(world: ModuleType) -> None:
    """A host's pause delays all beats. Some minutes later a dozen ask for a tick again."""
    played, ticks = world.play_row(world.Row(20, freeze=20, ticks=7), 1)
    assert played.violations == ()
    assert [tick.askers <= 15 for tick in ticks[-2:]] == [True, True]


def test_newcomers_run_the_first_tick_of_a_job_whose_machines_have_died(world: ModuleType) -> None:
    """Their beats hide from those that are left that nearly all are new. The tick was there before, so they ask."""
    assert all(lag <= 2 for _, lag in ticks_of(world, world.Row(SIZE, die=28, follow_at_once=28, is_new=1, ticks=1), 2))


def test_instances_without_a_free_worker_are_not_counted_on(world: ModuleType) -> None:
    """They take no tickets, so a tick doesn't wait for them: it starts within half a minute, and soon at once."""
    (_, first), *later = ticks_of(world, world.Row(SIZE, busy=SIZE - 5, ticks=3))
    assert first <= 30
    assert all(lag <= 4 + CLAIM for _, lag in later)


@pytest.mark.parametrize("beats", [10**9, 0, "many", None])
def test_a_counter_that_somebody_sets_costs_no_tick(world: ModuleType, beats: object) -> None:
    """Set too high it misleads nobody; set back, deleted or damaged, all ask until they know more."""
    ticks = ticks_of(world, world.Row(SIZE, beats=(beats,), ticks=4))
    assert all(lag <= CLAIM for _, lag in ticks)
    assert ticks[-1][0] <= 15


@pytest.mark.parametrize("overruns", [61.5, 63])
def test_a_later_wave_skips_a_tick_that_was_held_when_it_came(world: ModuleType, overruns: float) -> None:
    """If the run before ends between two waves, the tick is skipped as it would have been at once, and not run late."""
    played, ticks = world.play_row(world.Row(SIZE, overruns=overruns, ticks=2), 1)
    assert played.violations == ()
    assert [(tick.begun, tick.outcome) for tick in ticks] == [(0, "skipped"), (1, "succeeded")]
