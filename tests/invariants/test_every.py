"""The invariant of `every`: its slots depend on nothing but `every` and `starting`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.simulation.fleet import Fleet
from tests.simulation.world import START, slot

from firecron import Schedule

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
NOW = datetime.fromtimestamp(START / 1000, UTC)
SECOND = timedelta(seconds=1)
ENDS = 600


def slots_of(every: int, starting: datetime, first: float, last: float) -> list[str]:
    """What is written: `starting + k * every` for k >= 0, in the seconds after `first` up to `last` of the world."""
    offset = round((starting - NOW) / SECOND)
    seconds = range(offset if offset > 0 else offset % every, int(last) + 1, every)
    return [slot(second) for second in seconds if first < second <= last]


@settings(max_examples=200)
@given(
    every=st.integers(1, 366 * 86_400),
    starting=st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001  # each gets the zone that is drawn
    hours=st.integers(-12, 14),
    asked=st.datetimes(datetime(1990, 1, 1), datetime(2035, 1, 1)),  # noqa: DTZ001  # as above
)
def test_i52_from_wherever_it_is_asked_the_slots_are_the_same(
    every: int, starting: datetime, hours: int, asked: datetime
) -> None:
    """The tick after any instant is the smallest `starting + k * every` behind it, whoever asks, and never sooner."""
    starting = starting.replace(microsecond=0, tzinfo=timezone(timedelta(hours=hours)))
    asked = asked.replace(tzinfo=UTC)
    tick = Schedule(every=every, starting=starting).after(asked)
    assert tick > asked
    assert (tick - starting) % timedelta(seconds=every) == timedelta(0)
    assert tick >= starting
    assert tick == starting or tick - timedelta(seconds=every) <= asked


@pytest.mark.parametrize(("frozen", "ran"), [(100, [90, 180]), (300, [90, 360])])
def test_i52_a_freeze_moves_no_slot(frozen: int, ran: list[int]) -> None:
    """An instance that sleeps through ticks goes on with the newest one, in the same rhythm."""
    fleet = Fleet(None, every=90, starting=NOW, grace=80)
    one = fleet.instance()
    fleet.world.until(1)
    one.start()
    fleet.world.until(100)
    one.freeze(frozen)
    fleet.world.until(100 + frozen + 2)
    assert fleet.slots() == [slot(second) for second in ran]
    fleet.world.until(460)
    assert fleet.slots()[-1] == slot(450)


@pytest.mark.parametrize("catch_up", ["skip", "once", "all"])
@pytest.mark.parametrize("hold", [0, 5])
def test_i52_even_distances_are_treated_as_a_line_is(catch_up: str, hold: int) -> None:
    """Through a crash, missed ticks and catching up, a job each 60 seconds runs and records what a cron line's does."""
    fleets = [Fleet("* * * * *", catch_up=catch_up, hold_at_least=hold)]
    fleets.append(Fleet(None, every=60, starting=NOW, catch_up=catch_up, hold_at_least=hold))
    for fleet in fleets:
        first = fleet.instance()
        fleet.world.until(1)
        first.start()
        fleet.world.until(100)
        first.crash()
        fleet.world.until(260.5)
        fleet.instance().start()
        fleet.world.until(430)
    line, even = fleets
    assert even.slots() == line.slots()
    whose = {"holder", "instance", "instanceId"}
    one, other = (
        {key: node[key] for key in node if key not in whose} for node in (line.world.node(), even.world.node())
    )
    assert one == other
    assert {slot(60), slot(240), slot(420)} <= {*even.slots()}


@settings(max_examples=25)
@given(
    every=st.integers(20, 200),
    offset=st.none() | st.integers(-100_000, 300),
    starts=st.lists(st.integers(0, 500), min_size=1, max_size=3),
    hours=st.integers(-12, 14),
)
def test_i52_every_instance_has_the_slots_that_are_written(
    every: int, offset: int | None, starts: list[int], hours: int
) -> None:
    """Whenever instances start, with whatever zone and wall clock: each slot that is written runs once, no other."""
    zone = timezone(timedelta(hours=hours))
    starting = None if offset is None else (NOW + offset * SECOND).astimezone(zone)
    fleet = Fleet(None, every=every, starting=starting)
    for start in sorted(starts):
        fleet.world.until(start + 0.5)
        fleet.instance(wall_error=start * 7.0).start()
    fleet.world.until(ENDS)
    assert fleet.slots() == slots_of(every, starting or EPOCH, min(starts) + 0.5, ENDS)
