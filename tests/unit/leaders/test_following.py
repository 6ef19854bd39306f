"""When a follower asks next, in which waves, and what a death changes."""

from __future__ import annotations

from math import inf

import pytest
from tests.unit.lock.records import EXPIRES, MARGIN, NOW, at, node, released_node

from firecron.base.clocks import Moment
from firecron.base.instants import to_datetime
from firecron.errors import Unavailable
from firecron.leaders.following import FAR, LONGEST, Following, NoTickets, Turnout
from firecron.lock.refusal import Refusal
from firecron.lock.waiting import Update

HELD = Refusal("feed", "held", "", holder="theirs", free_at=to_datetime(EXPIRES + MARGIN))
FREE_AT = EXPIRES - NOW + MARGIN
HANDICAP = 8_000


class Fixed(Turnout):
    """The standing that a test sets: waves in milliseconds."""

    def __init__(self, near: float | None = 0.0, released: float | None = 0.0, *, comes_next: bool = False) -> None:
        super().__init__("feed", 1)
        self.waves = near, released
        self.comes_next = comes_next
        self.noted: list[object] = []

    def death_wave(self, server: float | None) -> float | None:
        return self.waves[0]

    def release_wave(self, at: object) -> float | None:
        return self.waves[1]

    def is_next(self) -> bool:
        return self.comes_next

    def observe(self, node: object) -> None:
        self.noted.append(node)


def following(
    turnout: Turnout, update: Update | None = None, chance: float = 0.0, refusal: Refusal = HELD
) -> Following:
    """A follower that was refused at nine."""
    made = Following(MARGIN, turnout, lambda: chance)
    made.refused(refusal, update, 0.0)
    return made


def now(mono: float = 0.0) -> Moment:
    return at(NOW + int(mono), mono)


def due(one: Following, update: Update | None, mono: float = 0.0, *, is_node: bool) -> float:
    return one.due(update, now(mono), mono, is_node=is_node)


@pytest.mark.parametrize(("wave", "is_near"), [(0.0, True), (4_000.0, True), (None, False)])
def test_those_who_are_near_follow_the_node(wave: float | None, is_near: bool) -> None:
    """The others follow the instant of its release alone."""
    assert following(Fixed(wave)).needs_node(now()) is is_near


@pytest.mark.parametrize("wave", [0, 1_000, 4_000])
def test_those_who_are_near_ask_after_the_expiry_in_waves(wave: int) -> None:
    """A margin after the expiry that was heard last, and the wave's time."""
    late = node(expiresAt=EXPIRES + 5_000)
    standing = Fixed(wave)
    one = following(standing)
    assert due(one, Update(1, late), 10, is_node=True) == min(FREE_AT + 5_000, 30_000) + wave
    due(one, Update(1, late), 20, is_node=True)
    assert standing.noted == [late], "each value is noted once"


@pytest.mark.parametrize("near", [0.0, None])
@pytest.mark.parametrize(("asked", "pause"), [(0.1, None), (45.0, 45.0), (86_400.0, 300.0)])
def test_a_database_that_asks_for_a_pause_gets_it(near: float | None, asked: float, pause: float | None) -> None:
    """From candidates, too, near and far: up to five minutes, for nobody may lead meanwhile."""
    refusal = Refusal("feed", "unavailable", "", error=Unavailable("later", retry_after=asked))
    one = following(Fixed(near), chance=1.0, refusal=refusal)
    usual = FAR if near is None else LONGEST
    assert due(one, None, is_node=True) == 1000 * (usual if pause is None else pause)


def test_a_dozen_ask_for_a_release_whether_they_are_near_or_far() -> None:
    """The release's own waves count; the winner's write ends the others' wait."""
    near, far = following(Fixed(4_000, 0)), following(Fixed(None, 1_000))
    assert due(near, Update(2, released_node()), 100, is_node=True) == 100
    assert due(far, Update(2, NOW + 90), 100, is_node=False) == 1_100
    taken = node(holder="another", expiresAt=NOW + 15_000)
    assert due(near, Update(3, taken), 200, is_node=True) == 16_000 + 4_000
    assert due(far, Update(3, None), 200, is_node=False) == inf


def test_a_wave_counts_from_the_release_however_long_ago_the_last_ask_was() -> None:
    """A follower that has not asked for an hour leaves the others their time like any other."""
    hour = 3_600_000.0
    for is_node, heard in ((True, released_node()), (False, NOW + int(hour))):
        one = following(Fixed(0, 4_000))
        assert due(one, Update(2, heard), hour, is_node=is_node) == hour + 4_000


def test_who_is_not_of_a_releases_dozen_leaves_it_to_them() -> None:
    """If the node stays free, those who are near ask 8 s later, and those who are far if they come next."""
    near, far = following(Fixed(1_000, None)), following(Fixed(None, None))
    assert due(near, Update(2, released_node()), 100, is_node=True) == 100 + HANDICAP + 1_000
    assert due(far, Update(2, NOW + 90), 100, is_node=False) == inf
    far = following(Fixed(None, None, comes_next=True))
    assert due(far, Update(2, NOW + 90), 100, is_node=False) == 100 + HANDICAP


def test_those_who_are_far_ask_for_no_expiry_unless_they_come_next() -> None:
    """If all who are near have died with the leader, others ask: 8 s after those would have, by their last answer."""
    standing = Fixed(None)
    one = following(standing, Update(1, None))
    assert due(one, Update(1, None), is_node=False) == inf
    standing.comes_next = True
    assert due(one, Update(1, None), is_node=False) == FREE_AT + HANDICAP
    assert due(one, Update(2, None), 10, is_node=False) == FREE_AT + HANDICAP


def test_who_is_far_pauses_longer_if_releases_are_invented() -> None:
    """A watch that tells of releases that are none is soon believed as little as one of the whole node."""
    one = following(Fixed(None, 0), chance=1.0)
    pauses = []
    for number in range(2, 24):
        mono = 1_000.0 * number
        asks_at = due(one, Update(number, NOW + number), mono, is_node=False)
        pauses.append(asks_at - mono)
        one.refused(HELD, Update(number, NOW + number), mono)
    assert pauses[0] == 5
    assert pauses[-1] == 5_000
    assert pauses == sorted(pauses)


def test_an_old_release_is_no_news() -> None:
    """What was heard before the last ask was answered by it."""
    one = following(Fixed(None, 0), Update(7, NOW - 5))
    assert due(one, Update(7, NOW - 5), is_node=False) == inf
    assert due(one, Update(8, NOW + 5), 10, is_node=False) == 10


@pytest.mark.parametrize(("near", "least", "most"), [(0.0, 2.5, LONGEST), (None, 15.0, FAR)])
def test_without_a_stream_they_poll(near: float | None, least: float, most: float) -> None:
    """Who hears nothing asks within 5 s if it is near, and within 30 s if it is far."""
    away = Refusal("feed", "unavailable", "")
    for refusal in (HELD, away):
        assert due(following(Fixed(near), chance=0.0, refusal=refusal), None, is_node=True) == least * 1000
        assert due(following(Fixed(near), chance=1.0, refusal=refusal), None, is_node=True) == most * 1000


def test_who_follows_another_part_waits_for_its_stream() -> None:
    """It polls as if it had just asked: the stream tells sooner what there is."""
    one = following(Fixed(0.0))
    one.turns(50_000)
    assert due(one, None, 50_000, is_node=True) == 52_500
    one.refused(Refusal("feed", "held", "", free_at=to_datetime(NOW + 60_500 + MARGIN)), None, 60_000)
    assert due(one, None, 60_000, is_node=True) == 61_550


def test_polling_asks_just_after_the_expiry() -> None:
    """A poll comes as soon as the record may be taken, if that is before the next poll."""
    soon = Refusal("feed", "held", "", free_at=to_datetime(NOW + 500 + MARGIN))
    assert due(following(Fixed(), refusal=soon), None, is_node=True) == 1_550


@pytest.mark.parametrize(("chance", "spread"), [(0.0, 0), (1.0, 5_000)])
def test_the_end_of_a_pause_is_known_before(chance: float, spread: int) -> None:
    """All ask within 5 s after it, and every 30 s while it is far."""
    one = following(Fixed(None), refusal=Refusal("feed", "paused", ""), chance=chance)
    assert due(one, Update(1, {"paused": True, "pausedUntil": NOW + 7_000}), 10, is_node=True) == 7_000 + spread
    assert due(one, Update(2, {"paused": True, "pausedUntil": NOW - 7_000}), 10, is_node=True) == spread
    assert due(one, Update(3, {"paused": True, "pausedUntil": NOW + 70_000}), 10, is_node=True) == 30_000
    assert due(one, Update(4, {"paused": True, "pausedUntil": "soon"}), 10, is_node=True) == 30_000
    assert one.due(Update(5, {"paused": True, "pausedUntil": NOW + 7_000}), None, 10, is_node=True) == 30_000


def test_a_paused_name_is_watched() -> None:
    """All follow the whole node of a paused name, and ask when it is resumed; else every 30 s."""
    one = following(Fixed(None), refusal=Refusal("feed", "paused", ""))
    assert one.needs_node(now())
    assert due(one, Update(1, {"paused": True}), is_node=True) == 30_000
    assert due(one, Update(2, {"note": 1}), 2_000, is_node=True) == 0


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
    for seen in (led(1), led(1, expiresAt=2), led(2), None, led(3)):
        turnout.observe(seen)
        waves.append(turnout.death_wave(0))
    assert waves == [1_000, 1_000, 1_000, 1_000, 0]


def test_a_handover_after_a_release_is_no_death(ranks: Ranks, turnout: Turnout) -> None:
    """Who leads then was any of the group."""
    ranks.places["near 0"] = 0.035
    for seen in (led(1), led(1, releasedAt=5), led(2)):
        turnout.observe(seen)
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
