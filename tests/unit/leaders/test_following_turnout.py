"""A standing: which waves an instance is in, when its places move on, and what a death changes."""

from __future__ import annotations

import pytest

from firecron.leaders.following import NoTickets, Turnout

# A place lasts for ten of these.
LASTING = 16_000
PERIOD = 10 * LASTING


class Ranks:
    """What a test says of the group, and of the places: 0.5 unless it is said."""

    contenders = 3

    def __init__(self, size: float | None = 100.0) -> None:
        self.value = size
        self.places: dict[str, float] = {}
        self.asked: list[str] = []

    def size(self) -> float | None:
        return self.value

    def distance(self, name: str, what: str) -> float:
        assert name == "feed"
        self.asked.append(what)
        return self.places.get(what, 0.5)


@pytest.fixture
def ranks() -> Ranks:
    return Ranks()


@pytest.fixture
def turnout(ranks: Ranks) -> Turnout:
    made = Turnout("feed", LASTING)
    made.tickets = ranks
    return made


def led(fence: int, **fields: object) -> dict[str, object]:
    return {"fence": fence, "expiresAt": 1, **fields}


@pytest.mark.parametrize(("rank", "wave"), [(0, 0), (2.9, 0), (3, 1_000), (5.9, 1_000), (6, 4_000), (11.9, 4_000)])
def test_a_dozen_are_near_in_three_waves(ranks: Ranks, turnout: Turnout, rank: float, wave: int) -> None:
    """The waves are those of ticks: three at once, three after a second, six after four. The others are not near."""
    ranks.places["near 7"] = rank / 100
    assert turnout.death_wave(7 * PERIOD) == wave
    ranks.places["near 8"] = 0.12
    assert turnout.death_wave(8 * PERIOD) is None


def test_the_place_of_those_who_are_near_moves_on_every_ten_terms(ranks: Ranks, turnout: Turnout) -> None:
    """Until then the ticket of its beginning counts; where RTDB's time is not known, the place stays."""
    ranks.places |= {"near 7": 0.0, "near 8": 0.0}
    seen = [turnout.death_wave(7 * PERIOD)]
    ranks.places |= {"near 7": 0.5}
    seen += [turnout.death_wave(8 * PERIOD - 1), turnout.death_wave(None)]
    ranks.places |= {"near 8": 0.04}
    seen += [turnout.death_wave(8 * PERIOD), turnout.death_wave(None)]
    assert seen == [0, 0, 0, 1_000, 1_000]
    assert ranks.asked == ["near 7", "near 8"]


def test_the_size_is_looked_at_each_time(ranks: Ranks, turnout: Turnout) -> None:
    """If most of the group has died, the rank of the others falls; an unknown size makes everybody ask at once."""
    seen = []
    for ranks.value in (100.0, 20.0, 8.0, None, 100.0):
        seen.append((turnout.death_wave(0), turnout.release_wave(1)))
    assert seen == [(None, None), (4_000, 4_000), (1_000, 1_000), (0, 0), (None, None)]


def test_each_release_has_a_dozen_of_its_own(ranks: Ranks, turnout: Turnout) -> None:
    """The instant of the release is the place: other instances ask than for the release before."""
    ranks.places |= {"released 10": 0.0, "released 20": 0.9, "released 30": 0.05}
    assert [turnout.release_wave(at) for at in (10, 20, 30)] == [0, None, 1_000]
    ranks.places["released 30"] = 0.9
    assert turnout.release_wave(30) == 1_000, "the ticket of its beginning counts"


def test_a_death_lowers_the_ranks_of_those_who_are_near(ranks: Ranks, turnout: Turnout) -> None:
    """The fence rises without a release: one of the dozen leads now, and the next one comes forward in its place."""
    ranks.places["near 0"] = 0.045
    waves = []
    for node in (led(1), led(1, expiresAt=2), led(2), None, led(3)):
        turnout.observe(node)
        waves.append(turnout.death_wave(0))
    assert waves == [1_000, 1_000, 1_000, 1_000, 0]


def test_a_handover_after_a_release_is_no_death(ranks: Ranks, turnout: Turnout) -> None:
    """Who leads then was any of the group."""
    ranks.places["near 0"] = 0.035
    for node in (led(1), led(1, releasedAt=5), led(2)):
        turnout.observe(node)
    assert turnout.death_wave(0) == 1_000


def test_deaths_are_counted_for_each_place(ranks: Ranks, turnout: Turnout) -> None:
    """Where the place has moved on, all are there again, and what was heard before says nothing."""
    ranks.places |= {"near 0": 0.035, "near 1": 0.035}
    seen = [turnout.death_wave(0)]
    for fence in (1, 2):
        turnout.observe(led(fence))
    seen += [turnout.death_wave(0), turnout.death_wave(PERIOD)]
    turnout.observe(led(9))
    seen.append(turnout.death_wave(PERIOD))
    assert seen == [1_000, 0, 1_000, 1_000]


@pytest.mark.parametrize(("size", "is_next"), [(None, True), (100.0, False), (6.1, False), (5.9, True)])
def test_those_who_come_first_by_their_newest_ticket_are_next(
    ranks: Ranks, turnout: Turnout, size: float | None, is_next: bool
) -> None:
    """Three at a time, whatever the other places say; and everybody while the size is not known."""
    ranks.value = size
    assert turnout.is_next() is is_next


def test_without_tickets_everybody_asks_at_once() -> None:
    """So it is in a loop without a FireCron."""
    turnout = Turnout("feed", LASTING)
    assert isinstance(turnout.tickets, NoTickets)
    assert (turnout.death_wave(0), turnout.death_wave(None), turnout.release_wave(1), turnout.is_next()) == (
        0,
        0,
        0,
        True,
    )
