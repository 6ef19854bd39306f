"""Following: who hears of what, and who asks when, by rank."""

from __future__ import annotations

from math import inf

import pytest
from tests.unit.lock.records import EXPIRES, MARGIN, NOW, at, node, released_node

from firecron.base.clocks import Moment
from firecron.base.instants import to_datetime
from firecron.lock.following import FAR, LONGEST, Following, Rank, pause_after
from firecron.lock.hearing import Heard
from firecron.lock.refusal import Refusal

HELD = Refusal("feed", "held", "", holder="theirs", until=to_datetime(EXPIRES))
FREE_AT = EXPIRES - NOW + MARGIN


class Ranks:
    """The rank that a test sets."""

    contenders = 3

    def __init__(self, rank: float | None = None, size: float = 200) -> None:
        self.value = None if rank is None else Rank(rank, size)

    def rank(self, name: str) -> Rank | None:
        return self.value


def following(ranks: Ranks, heard: Heard | None = None, chance: float = 0.0, refusal: Refusal = HELD) -> Following:
    """A follower that was refused at nine."""
    made = Following("feed", MARGIN, ranks, lambda: chance)
    made.refused(refusal, heard, 0.0)
    return made


def now(mono: float = 0.0) -> Moment:
    return at(NOW + int(mono), mono)


@pytest.mark.parametrize(("rank", "is_near"), [(None, True), (0.0, True), (11.9, True), (12.0, False), (199.0, False)])
def test_a_dozen_follow_the_node(rank: float | None, is_near: bool) -> None:
    """Those of the first three waves follow the whole node, and all do while the size of the group isn't known."""
    assert following(Ranks(rank)).needs_node is is_near


@pytest.mark.parametrize(("rank", "wave"), [(None, 0), (2.9, 0), (3.0, 1_000), (6.0, 4_000)])
def test_those_who_are_near_ask_after_the_expiry_in_waves(rank: float | None, wave: int) -> None:
    """A margin after the expiry that was heard last, and the wave's time."""
    late = node(expiresAt=EXPIRES + 5_000)
    one = following(Ranks(rank))
    assert one.due(Heard(1, late), now(10), 10) == min(FREE_AT + 5_000, 30_000) + wave


def test_those_who_are_near_ask_after_a_release_in_waves() -> None:
    """A release is news: the first wave asks at once, and the winner's write ends the others' wait."""
    first, second = following(Ranks(1.0)), following(Ranks(4.0))
    assert first.due(Heard(2, released_node()), now(100), 100) == 100
    assert second.due(Heard(2, released_node()), now(100), 100) == 1_100
    taken = Heard(3, node(holder="another", expiresAt=NOW + 15_000))
    assert second.due(taken, now(200), 200) == 16_000 + 1_000


def test_those_who_are_far_ask_nobody() -> None:
    """They wait for their rank, whatever the stream says."""
    one = following(Ranks(50.0))
    assert one.due(Heard(1, None), now(), 0) == inf
    assert one.due(Heard(2, NOW + 5), now(10), 10) == inf


def test_those_who_are_far_ask_while_their_newest_rank_is_low() -> None:
    """If all who are near have died, a new ticket lets others ask: for a release, and for a leader that died."""
    ranks = Ranks(50.0)
    one = following(ranks)
    assert one.due(Heard(1, None), now(), 0) == inf
    ranks.value = Rank(4.0, 190)
    assert not one.needs_node
    assert one.due(Heard(1, None), now(), 0) == FREE_AT + 9_000
    assert one.due(Heard(2, NOW + 5), now(3_000), 3_000) == 12_000


@pytest.mark.parametrize("size", [130, 310])
def test_the_rank_is_drawn_again_when_a_third_has_gone_or_come(size: float) -> None:
    """Else the dozen would shrink or grow with the group."""
    ranks = Ranks(50.0)
    one = following(ranks)
    seen = [one.needs_node]
    for newest in (Rank(1.0, 200), Rank(1.0, size)):
        ranks.value = newest
        seen.append(one.needs_node)
    assert seen == [False, False, True]


def test_an_unknown_size_makes_all_near_again() -> None:
    """An instance in doubt follows and asks."""
    ranks = Ranks(50.0)
    one = following(ranks)
    seen = [one.needs_node]
    for newest in (None, Rank(60.0, 200)):
        ranks.value = newest
        seen.append(one.needs_node)
    assert seen == [False, True, False]


@pytest.mark.parametrize(("rank", "least", "most"), [(None, 2.5, LONGEST), (50.0, 15.0, FAR)])
def test_without_a_stream_they_poll(rank: float | None, least: float, most: float) -> None:
    """Who hears nothing asks within 5 s if it is near, and within 30 s if it is far."""
    away = Refusal("feed", "unavailable", "")
    for refusal in (HELD, away):
        assert following(Ranks(rank), chance=0.0, refusal=refusal).due(None, now(), 0) == least * 1000
        assert following(Ranks(rank), chance=1.0, refusal=refusal).due(None, now(), 0) == most * 1000


def test_polling_asks_just_after_the_expiry() -> None:
    """A poll comes as soon as the record may be taken, if that is before the next poll."""
    soon = Refusal("feed", "held", "", until=to_datetime(NOW + 500))
    assert following(Ranks(None), refusal=soon).due(None, now(), 0) == 1_550


@pytest.mark.parametrize(("chance", "spread"), [(0.0, 0), (1.0, 5_000)])
def test_the_end_of_a_pause_is_known_before(chance: float, spread: int) -> None:
    """All ask within 5 s after it, and every 30 s while it is far."""
    one = following(Ranks(50.0), refusal=Refusal("feed", "paused", ""), chance=chance)
    assert one.due(Heard(1, {"paused": True, "pausedUntil": NOW + 7_000}), now(10), 10) == 7_000 + spread
    assert one.due(Heard(2, {"paused": True, "pausedUntil": NOW - 7_000}), now(10), 10) == spread
    assert one.due(Heard(3, {"paused": True, "pausedUntil": NOW + 70_000}), now(10), 10) == 30_000
    assert one.due(Heard(4, {"paused": True, "pausedUntil": "soon"}), now(10), 10) == 30_000
    assert one.due(Heard(5, {"paused": True, "pausedUntil": NOW + 7_000}), None, 10) == 30_000


def test_a_paused_name_is_watched() -> None:
    """All follow the whole node of a paused name, and ask when it is resumed; else every 30 s."""
    one = following(Ranks(50.0), refusal=Refusal("feed", "paused", ""))
    assert one.needs_node
    assert one.due(Heard(1, {"paused": True}), now(), 0) == 30_000
    assert one.due(Heard(2, {"note": 1}), now(2_000), 2_000) == 0


@pytest.mark.parametrize(("chance", "failures", "least", "most"), [(0, 1, 1, 1), (1, 3, 4, 4), (0, 30, 30, 30)])
def test_the_pause_after_failures(chance: float, failures: int, least: float, most: float) -> None:
    """It is doubled for each failure, from a second to a minute; chance takes up to half of it."""
    assert least <= pause_after(failures, chance) <= most
