"""The arithmetic of tickets: who asks for a tick, when, and what an instance doesn't know."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firecron.base.tickets import (
    Tickets,
    TickWave,
    group_of,
    is_long_enough,
    odds_of_pruning,
    odds_of_round,
    place_of_tick,
    place_of_ticket,
)

HEARTBEAT = 30_000.0
SLOTS = st.integers(0, 10**6).map(lambda number: f"slot {number}")


def after(*beats: tuple[int | None, float]) -> Tickets:
    """Tickets after beats, each a number and its seconds."""
    tickets = Tickets(HEARTBEAT)
    for number, seconds in beats:
        tickets = tickets.take(number, seconds * 1000)
    return tickets


def size_after(*beats: tuple[int | None, float]) -> float | None:
    """The size right after the last of these beats."""
    return after(*beats).size(beats[-1][1] * 1000)


def wave(rank: float, contenders: int = 3) -> float | None:
    """When an instance of this rank asks, in milliseconds after the tick came."""
    return TickWave(came=0, distance=rank / 1000, size=1000).asks_at(1000, contenders)


# --- the size


def test_two_tickets_tell_the_size() -> None:
    """The size is the difference of the last two tickets, over the time between them in heartbeats."""
    assert size_after((100, 0), (300, 30)) == 200
    assert size_after((100, 0), (200, 15)) == 200
    assert size_after((100, 0), (150, 7.5)) == 200
    assert size_after((100, 0), (400, 45)) == 200


def test_the_smaller_of_the_last_two_sizes_counts() -> None:
    """A counter that is set too high misleads nobody, and a group that shrinks is seen at once."""
    assert size_after((0, 0), (200, 30), (10**9, 60)) == 200
    assert size_after((0, 0), (200, 30), (10**9, 60), (10**9 + 200, 90)) == 200
    assert size_after((0, 0), (200, 30), (210, 60)) == 10
    assert size_after((0, 0), (10, 30), (210, 60), (410, 90)) == 200


def test_only_a_group_larger_than_its_contenders_leaves_ticks() -> None:
    """With no more instances than contenders each asks at once, wherever it is; so does each while no size is known."""
    for size, leave in ((2, False), (3, False), (4, True)):
        assert after((0, 0), (size, 30)).leave_ticks(3) is leave
        assert (TickWave(0, 0.999, size).asks_at(size, 3) == 0) is not leave
    assert not after((0, 0), (200, 30), (203, 60)).leave_ticks(3)
    assert not after((200, 0)).leave_ticks(3)


@given(st.integers(2, 2_000), st.floats(7.5, 45), st.floats(0, 1, exclude_max=True))
def test_an_only_size_that_is_too_large_delays_a_tick_until_the_next_beat(
    size: int, until: float, distance: float
) -> None:
    """Somebody has set the counter too high between an instance's first two tickets. With the third its size falls."""
    leapt = 10**9
    tickets = after((1, 0), (leapt, 30))
    known = tickets.size(30_000)
    assert known is not None
    wave = TickWave(31_000, distance, known)
    now = 30_000 + until * 1000
    third = tickets.take(leapt + max(1, round(size * until / 30)), now)
    assert wave.asks_at(third.size(now), 3) == 31_000


def test_no_group_is_smaller_than_the_instance_itself() -> None:
    """An instance alone, whose beats come a little late, is one."""
    assert size_after((1, 0), (2, 31)) == 1


@pytest.mark.parametrize(
    "beats",
    [
        pytest.param([(1, 0.0)], id="no second ticket yet"),
        pytest.param([(1, 0.0), (9, 30.0), (None, 60.0)], id="a beat without a number"),
        pytest.param([(1, 0.0), (9, 30.0), (None, 60.0), (20, 90.0)], id="the first one after it"),
        pytest.param([(1, 0.0), (9, 45.001)], id="more than one and a half heartbeats apart"),
        pytest.param([(9, 0.0), (9, 30.0)], id="the counter stands still"),
        pytest.param([(9, 0.0), (90, 30.0), (1, 60.0)], id="the counter was deleted"),
        pytest.param([(9, 0.0), (10, 7.499)], id="less than a quarter of a heartbeat apart"),
    ],
)
def test_the_size_is_not_known(beats: list[tuple[int | None, float]]) -> None:
    """Where two tickets don't follow each other as they should, there is no size."""
    assert size_after(*beats) is None


def test_a_ticket_grows_old() -> None:
    """One and a half heartbeats after the last ticket nobody knows how large the group is."""
    tickets = after((0, 0), (200, 30))
    assert tickets.size(75_000) == 200
    assert tickets.size(75_001) is None
    assert tickets.stale_at == 75_000


@given(st.lists(st.tuples(st.none() | st.integers(0, 2**53), st.floats(0, 10**6)), max_size=8))
def test_a_size_is_at_least_one(beats: list[tuple[int | None, float]]) -> None:
    """Whatever the numbers and the times are, a size is a number from one on, or not known."""
    tickets = Tickets(HEARTBEAT)
    for number, now in beats:
        tickets = tickets.take(number, now)
        size = tickets.size(now)
        assert size is None or size >= 1


# --- the place


@given(st.integers(1, 2**50), st.integers(5, 400), SLOTS)
def test_consecutive_tickets_lie_evenly_spread(first: int, size: int, slot: str) -> None:
    """No gap between the places of a group is twice as wide as if all were equal, and no two places are the same."""
    places = sorted(
        (place_of_ticket(number) - place_of_tick("job", slot)) % 1.0 for number in range(first, first + size)
    )
    gaps = [later - earlier for earlier, later in zip(places, [*places[1:], places[0] + 1], strict=True)]
    assert max(gaps) * size < 2
    assert min(gaps) > 0


def test_places_are_the_same_everywhere() -> None:
    """All instances of a group have to agree on them, whatever their version of Python."""
    assert place_of_ticket(1) == pytest.approx(0.6180339887, abs=1e-9)
    assert place_of_tick("job", "2026-11-18T09:00:00Z") == pytest.approx(0.5348912470, abs=1e-9)
    assert place_of_tick("job", "2026-11-18T09:01:00Z") != place_of_tick("job", "2026-11-18T09:00:00Z")
    assert place_of_tick("other", "2026-11-18T09:00:00Z") != place_of_tick("job", "2026-11-18T09:00:00Z")


def test_the_distance_goes_forward() -> None:
    """From the tick's place on to the ticket's, around the circle."""
    assert after((1, 0)).distance(0.5) == pytest.approx(0.1180339887)
    assert after((1, 0)).distance(0.7) == pytest.approx(0.9180339887)


# --- the waves


@pytest.mark.parametrize(
    ("rank", "offset"),
    [(0, 0), (2.999, 0), (3, 1_000), (5.999, 1_000), (6, 4_000), (11.999, 4_000), (12, None), (999, None)],
)
def test_the_waves(rank: float, offset: float | None) -> None:
    """A rank below 3 asks at once, below 6 after one second, below 12 after four, and any other not at all."""
    assert wave(rank) == offset


@given(st.integers(1, 2**50), st.integers(1, 2_000), SLOTS)
def test_every_tick_has_askers(first: int, size: int, slot: str) -> None:
    """In a steady group of any size somebody asks for each tick at once, and about 12 ask at all."""
    place = place_of_tick("job", slot)
    ticks = [TickWave(0, Tickets(HEARTBEAT, number).distance(place), size) for number in range(first, first + size)]
    asked = [wave.asks_at(size, 3) for wave in ticks]
    assert 0 in asked
    assert sum(one is not None for one in asked) <= min(size, 15)
    assert sum(one is not None for one in asked) >= min(size, 9)


@pytest.mark.parametrize("size", [None, 666.0, 1.0])
def test_who_is_in_doubt_asks(size: float | None) -> None:
    """An instance of the highest rank asks if the size is not known any more, or has fallen by a third."""
    wave = TickWave(came=500, distance=0.999, size=999)
    assert wave.asks_at(999, 3) is None
    assert wave.asks_at(667, 3) is None
    assert wave.asks_at(size, 3) == 500


@given(st.floats(1, 10_000), st.floats(1, 10_000), st.floats(0, 1))
def test_a_smaller_group_never_asks_later(before: float, size: float, distance: float) -> None:
    """Whoever asks in a group asks no later when it is smaller."""
    wave = TickWave(0, distance, before)
    later, sooner = (wave.asks_at(one, 3) for one in (max(before, size), min(before, size)))
    assert later is None or (sooner is not None and sooner <= later)


def test_which_ticks_are_left_to_tickets() -> None:
    """Those that have time for two heartbeats: a death is noticed within one and a half."""
    assert is_long_enough(60_000, HEARTBEAT)
    assert not is_long_enough(59_999, HEARTBEAT)


# --- groups and rounds


def test_groups() -> None:
    """A group is what its instances run, in any order: name, line and zone, service, heartbeat, contenders."""
    jobs = [("a", "* * * * *", "UTC"), ("b", "0 9 * * *", "UTC")]
    group = group_of(jobs, 30.0, 3, "api")
    assert len(group) == 16
    assert int(group, 16)
    assert group_of(reversed(jobs), 30.0, 3, "api") == group
    others = [
        group_of(jobs[:1], 30.0, 3, "api"),
        group_of([("a", "* * * * *", "Europe/Berlin"), jobs[1]], 30.0, 3, "api"),
        group_of([("a", "*/2 * * * *", "UTC"), jobs[1]], 30.0, 3, "api"),
        group_of([("c", "* * * * *", "UTC"), jobs[1]], 30.0, 3, "api"),
        group_of(jobs, 5.0, 3, "api"),
        group_of(jobs, 30.0, 4, "api"),
        group_of(jobs, 30.0, 3, "web"),
        group_of([], 30.0, 3, "api"),
    ]
    assert len({group, *others}) == len(others) + 1


@given(st.floats(12.001, 10**6), st.floats(1, 3_600), st.floats(1, 86_400))
def test_a_large_group_makes_as_many_rounds_as_twelve(size: float, heartbeat: float, interval: float) -> None:
    """Together, in each interval, as many as twelve instances by the clock; it prunes at most once a heartbeat."""
    odds = odds_of_round(size, heartbeat, interval)
    assert odds is not None
    assert odds * size * interval / heartbeat == pytest.approx(12)
    assert odds_of_pruning(size, heartbeat, interval) * size <= 1 + 1e-9
    assert odds_of_pruning(size, heartbeat, interval) <= heartbeat / interval


@pytest.mark.parametrize("size", [None, 1, 12])
def test_a_small_group_makes_its_rounds_by_the_clock(size: float | None) -> None:
    """So does an instance that doesn't know how large its group is."""
    assert odds_of_round(size, 30, 300) is None
