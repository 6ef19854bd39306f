"""Large fleets: what a tick costs them, and when it starts, also just after most of them have died."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from tests.simulation.large import Large, Tick
from tests.simulation.world import START, slot

from firecron import Run, distributed_cron
from firecron.base.instants import to_milliseconds

SIZE = 30


@pytest.mark.parametrize(("size", "most"), [(2, 2), (12, 12), (SIZE, 15)])
def test_a_ticks_cost_does_not_grow_with_the_fleet(size: int, most: int) -> None:
    """About a dozen ask for it, however many there are, and it starts at once."""
    fleet = Large(size)
    for seconds in (180, 240, 300):
        tick = fleet.tick(seconds)
        assert min(size, 9) <= tick.askers <= most
        assert tick.lag == 0


def test_all_ask_where_the_setting_says_so() -> None:
    """With contenders=0 every instance asks for every tick, as without tickets."""
    fleet = Large(SIZE, contenders=0)
    assert [fleet.tick(seconds) for seconds in (180, 240)] == [Tick(SIZE, 0)] * 2


@pytest.mark.parametrize("left", [1, 3, 12])
def test_the_last_ones_run_the_tick(left: int) -> None:
    """If most die just before a tick, one that is left runs it within one and a half heartbeats, and soon at once."""
    fleet = Large(SIZE)
    fleet.world.at(239.9, lambda: fleet.kill(SIZE - left))
    tick = fleet.tick(240)
    assert tick.lag is not None
    assert tick.lag <= 45
    assert tick.askers == left
    tick = fleet.tick(300)
    assert tick.lag is not None
    assert tick.lag <= 15
    assert fleet.tick(360).lag == 0


def test_a_third_and_less_that_die_delay_a_tick_by_waves_only() -> None:
    """Those that are left ask in their waves: the tick starts within four seconds."""
    for seed in (1, 2):
        fleet = Large(SIZE, seed)
        fleet.world.at(239.9, lambda fleet=fleet: fleet.kill(SIZE // 3))  # type: ignore[misc]
        tick = fleet.tick(240)
        assert tick.lag in (0, 1, 4)


def test_instances_that_have_just_come_ask() -> None:
    """A scale-out costs one round of asking by all that are new; the next ticks cost a dozen again."""
    fleet = Large(10)
    fleet.world.at(235, lambda: fleet.start(20, spread=1))
    tick = fleet.tick(240)
    assert tick.askers >= 20
    assert tick.lag == 0
    fleet.world.until(359)
    tick = fleet.tick(360)
    assert tick.askers <= 15
    assert tick.lag == 0


def test_two_sets_of_jobs_are_two_groups() -> None:
    """In a rolling deployment that brings a job, a dozen of each revision ask, and each tick starts at once."""

    @distributed_cron("new", "0 0 * * *")
    def new() -> None: ...

    fleet = Large(15)
    fleet.start(15, new)
    fleet.world.until(299)
    for seconds in (300, 360):
        tick = fleet.tick(seconds)
        assert 15 <= tick.askers <= 30
        assert tick.lag == 0
    assert len(fleet.world.store.keys("cron-groups", fleet.instances[0].locks.deadline(1))) == 2


def test_a_half_that_freezes_costs_no_tick() -> None:
    """Instances that stop for a minute are as if dead, and when they go on they ask until they know who is there."""
    fleet = Large(SIZE)
    frozen = fleet.some(SIZE // 2)

    def freeze() -> None:
        for one in frozen:
            one.freeze(60)

    fleet.world.at(239, freeze)
    for seconds in (240, 300, 360, 420):
        tick = fleet.tick(seconds)
        assert tick.lag is not None
        assert tick.lag <= 45


def test_instances_without_a_free_worker_are_not_counted_on() -> None:
    """They take no tickets, so a tick doesn't wait for them: it starts within half a minute, and soon at once."""
    fleet = Large(SIZE)
    fleet.world.at(210, lambda: fleet.occupy(SIZE - 5))
    for seconds, most in ((240, 30), (300, 4), (360, 4)):
        tick = fleet.tick(seconds)
        assert tick.lag is not None
        assert tick.lag <= most


@pytest.mark.parametrize("beats", [10**9, 0, "many", None])
def test_a_counter_that_somebody_sets_costs_no_tick(beats: object) -> None:
    """Set too high it misleads nobody; set back, deleted or damaged, all ask until they know more."""
    fleet = Large(SIZE)

    def harm() -> None:
        (name,) = fleet.world.store.keys("cron-groups", fleet.instances[0].locks.deadline(1))
        fleet.world.store.set(f"cron-groups/{name}/beats", beats)

    fleet.world.at(235, harm)
    assert fleet.tick(240).lag == 0
    assert fleet.tick(300).lag == 0
    fleet.world.until(419)
    tick = fleet.tick(420)
    assert tick.askers <= 15
    assert tick.lag == 0


@pytest.mark.parametrize("ends", [241.5, 243])
def test_a_later_wave_skips_a_tick_that_was_held_when_it_came(ends: float) -> None:
    """If the run before ends between two waves, the tick is skipped as it would have been at once, and not run late."""
    fleet = Large(SIZE)
    body: Callable[[Run], object] = fleet.body

    def overrun(run: Run) -> None:
        body(run)
        if run.slot is not None and to_milliseconds(run.slot) == START + 180_000:
            fleet.world.advance(ends - fleet.world.mono() / 1000)

    fleet.body = overrun
    assert fleet.tick(180, until=230).lag == 0
    assert fleet.tick(240).lag is None
    assert fleet.tick(300).lag == 0
    assert fleet.world.outcomes()[slot(240)] == "skipped"
