"""What people were told of a job, and what comes next: who claims a message, who sends it again, what is not said."""

from __future__ import annotations

from collections.abc import Mapping
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.lock.records import NOW
from tests.unit.ops.declared import JOB, job

from firecron.ops.health import JobVerdict, VerdictWord
from firecron.ops.mutes import Mute
from firecron.ops.told import CLAIM, SELDOM, Silence, Told, ToldWord, observe, put_off, read_told, taken, word_of

MINUTE, HOUR = 60_000, 3_600_000
PATIENCE = 150_000
Node = Mapping[str, object] | None


class Room:
    """A node, and two instances that look at it: `me` and `you`. Each gets a message, sends it and notes that."""

    def __init__(self) -> None:
        self.now = NOW
        self.node: Node = None
        self.claims = 0
        self.sent: list[tuple[ToldWord, int]] = []

    def pass_by(self, milliseconds: int) -> None:
        self.now += milliseconds

    def observe(self, word: ToldWord, patience: int = 0) -> str | None:
        """Look. Return the token if the message is to be sent now."""
        self.claims += 1
        token = f"claim-{self.claims}"
        found = observe(self.node, word, None, self.now, token, patience)
        if isinstance(found, Silence):
            return None
        self.node = found.to_node()
        return token if found.token == token and found.sent_at is None else None

    def note(self, word: ToldWord, token: str, *channels: str, by_all: bool = True) -> None:
        found = taken(self.node, word, self.now, token, channels or ("slack",), by_all=by_all)
        if isinstance(found, Told):
            self.node = found.to_node()

    def put_off(self, token: str) -> None:
        found = put_off(self.node, self.now, token)
        if isinstance(found, Told):
            self.node = found.to_node()

    def tell(self, word: ToldWord, patience: int = 0) -> bool:
        """Look, send and note. Return whether anything was sent."""
        token = self.observe(word, patience)
        if token is not None:
            self.sent.append((word, self.now))
            self.note(word, token)
        return token is not None

    @property
    def told(self) -> Told:
        found = read_told(self.node)
        assert found is not None
        return found


@pytest.fixture
def room() -> Room:
    return Room()


def test_a_job_that_was_always_well_has_no_node(room: Room) -> None:
    """Nobody is told that nothing has happened, and nothing is written."""
    assert not room.tell("ok")
    assert room.node is None


def test_a_turn_is_told_once_and_so_is_the_turn_back(room: Room) -> None:
    """However often it is found again."""
    assert [room.tell("failing") for _ in range(3)] == [True, False, False]
    room.pass_by(MINUTE)
    assert [room.tell("ok") for _ in range(3)] == [True, False, False]
    assert room.told.changes == 0


def test_of_two_instances_one_sends(room: Room) -> None:
    """Who finds the token of another leaves the message to it."""
    assert room.observe("failing") is not None
    assert room.observe("failing") is None


def test_the_own_claim_is_recognised(room: Room) -> None:
    """After a lost reply the node is read again, and has the own token: the message is claimed."""
    found = observe(None, "failing", NOW - 5, NOW, "mine", 0)
    assert isinstance(found, Told)
    assert (found.token, found.since, found.again_at) == ("mine", NOW - 5, NOW + CLAIM)
    assert observe(found.to_node(), "failing", NOW - 5, NOW + 1, "mine", 0) == found


def test_what_was_claimed_and_never_sent_is_claimed_again_after_a_minute(room: Room) -> None:
    """An instance that died between its claim and its message loses nothing, and is waited for."""
    room.observe("failing")
    room.pass_by(CLAIM - 1)
    assert not room.tell("failing", PATIENCE)
    room.pass_by(1)
    assert room.tell("failing", PATIENCE)
    assert not room.tell("failing")


def test_a_look_is_believed_once_another_finds_the_same(room: Room) -> None:
    """What the first look finds is written, and said by any later look after the patience."""
    assert not room.tell("late", PATIENCE)
    room.pass_by(PATIENCE - 1)
    assert not room.tell("late", PATIENCE)
    room.pass_by(1)
    assert room.tell("late", PATIENCE)


def test_what_lasts_for_a_moment_is_not_said(room: Room) -> None:
    """A word that is gone at the next look, as in a deployment, is nobody's business."""
    room.tell("unattended", PATIENCE)
    room.pass_by(PATIENCE)
    assert not room.tell("ok", PATIENCE)
    room.pass_by(SELDOM)
    assert not room.tell("ok", PATIENCE)
    assert room.sent == []


def test_a_run_says_what_a_look_has_only_noted(room: Room) -> None:
    """A release that has made its job fail needs no second look."""
    room.tell("failing", PATIENCE)
    assert room.tell("failing")


def test_a_word_is_told_once_an_hour_and_then_with_the_number_of_changes(room: Room) -> None:
    """A job that goes back and forth is told of twice, and once more after the hour."""
    words: list[ToldWord] = ["failing", "ok", "failing", "ok", "failing"]
    for number, word in enumerate(words):
        assert room.tell(word) == (number < 2)
        room.pass_by(MINUTE)
    room.pass_by(SELDOM - 6 * MINUTE)
    assert not room.tell("failing", PATIENCE)
    room.pass_by(MINUTE)
    assert room.told.changes == 3
    assert room.tell("failing", PATIENCE)
    assert room.told.changes == 0


def test_another_word_of_the_same_hour_is_told(room: Room) -> None:
    """The hour is that of a word: a job that is late after it has failed is news."""
    assert [room.tell(word) for word in get_args(ToldWord)] == [True] * 5


def test_a_message_under_way_makes_the_turn_back_a_message(room: Room) -> None:
    """Whether it arrives is not known, so that the job is well again is told in any case."""
    token = room.observe("failing")
    assert token is not None
    assert room.tell("ok")
    room.note("failing", token)
    assert room.told.at["failing"] == NOW
    assert not room.tell("ok")
    assert not room.tell("failing")  # it was told this hour


def test_a_note_after_the_word_has_changed_says_what_was_told(room: Room) -> None:
    """A message that arrives while the word waits counts as the last one: the word is told once it may be."""
    assert room.tell("ok") is False
    room.tell("failing")
    room.tell("ok")
    room.pass_by(SELDOM)
    token = room.observe("failing")
    assert token is not None
    room.pass_by(-MINUTE)  # as if `ok` had been told a minute ago
    room.node = {**(room.node or {}), "okAt": room.now}
    assert not room.tell("ok")
    room.note("failing", token)
    assert (room.told.verdict, room.told.last, room.told.sent_at) == ("ok", "failing", None)
    room.pass_by(SELDOM)
    assert room.tell("ok", PATIENCE)


def test_the_channels_that_lack_a_message_get_it_at_the_next_claim(room: Room) -> None:
    """Those that have taken it are named, and are not told twice; nor does the hour hold the others back."""
    token = room.observe("failing")
    assert token is not None
    room.note("failing", token, "slack", by_all=False)
    assert (set(room.told.sent_to), room.told.sent_at) == ({"slack"}, None)
    room.pass_by(CLAIM)
    again = room.observe("failing", PATIENCE)
    assert again is not None
    assert room.told.sent_to == {"slack"}
    room.note("failing", again, "slack", "webhook")
    assert not room.tell("failing", PATIENCE)


def test_a_channel_without_a_reply_waits_twice_as_long_each_time_under_one_id(room: Room) -> None:
    """From a minute to an hour; the next word begins anew, with an id of its own."""
    first, pauses, ids = room.observe("failing"), [], set()
    token = first
    for _ in range(9):
        assert token is not None
        ids.add(room.told.id)
        room.put_off(token)
        pauses.append((room.told.again_at - room.now) // MINUTE)
        room.pass_by(room.told.again_at - room.now - 1)
        assert room.observe("failing", PATIENCE) is None
        room.pass_by(1)
        token = room.observe("failing", PATIENCE)
    assert pauses == [1, 2, 4, 8, 16, 32, 60, 60, 60]
    assert ids == {first}
    second = room.observe("ok")
    assert (room.told.id, room.told.unanswered) == (second, 0)


def test_only_who_sends_a_message_puts_it_off(room: Room) -> None:
    """Not who was overtaken, nor once every channel has taken it."""
    first = room.observe("failing")
    assert first is not None
    room.pass_by(CLAIM)
    second = room.observe("failing")
    assert second is not None
    assert isinstance(put_off(room.node, room.now, first), Silence)
    room.note("failing", second)
    assert isinstance(put_off(room.node, room.now, second), Silence)
    assert isinstance(put_off(None, room.now, second), Silence)


def test_a_note_about_a_forgotten_job_writes_nothing() -> None:
    """Its node went with its entry."""
    assert isinstance(taken(None, "failing", NOW, "mine", ["slack"], by_all=True), Silence)


def test_a_node_is_read_as_it_was_written() -> None:
    """Every field goes there and back."""
    told = Told(
        "late", 1, "t", 2, 3, frozenset({"slack", "teams"}), "i", 9, "ok", 4, {"late": 5, "ok": 6, "failing": 7}
    )
    assert read_told(told.to_node()) == told


@pytest.mark.parametrize(
    "node", [None, 7, "late", {}, {"verdict": "fine"}, {"verdict": 7}, {"verdict": "late", "token": 7, "last": "x"}]
)
def test_nonsense_counts_as_nothing(node: object) -> None:
    """What somebody has typed never keeps an alarm from being told."""
    assert isinstance(observe(node, "failing", None, NOW, "mine", 0), Told)


@pytest.mark.parametrize("word", get_args(VerdictWord))
def test_what_is_told_of_each_verdict(word: VerdictWord) -> None:
    """Nothing of a job that is paused, taken out or can't be judged; and a job that runs is as it was."""
    expected = {"running": "ok"} | dict.fromkeys(("paused", "retired", "unknown", "undeclared"))
    assert word_of(JobVerdict("job", word), JOB, None) == expected.get(word, word)
    assert word_of(JobVerdict("job", word, mute=Mute(NOW, "ann", None)), JOB, None) is None


def test_a_job_that_fails_and_runs_is_failing() -> None:
    """By its last runs: how the present one ends is not known yet."""
    running, twice = JobVerdict("job", "running"), job(alert_after=2)
    assert [word_of(running, twice, {"failures": count}) for count in (1, 2)] == ["ok", "failing"]
    assert word_of(running, job(once_per_tick=False), {"failures": 2}) == "ok"


STEPS = st.lists(
    st.tuples(
        st.sampled_from(get_args(ToldWord)),
        st.sampled_from([0, 1, CLAIM, PATIENCE, SELDOM // 2, SELDOM]),
        st.sampled_from([0, PATIENCE]),
        # Where the instance that looks dies: not at all, with its claim, before or after its message.
        st.sampled_from(["lives", "lives", "dies before", "dies after", "is not taken", "has no reply"]),
    ),
    max_size=12,
)


@given(STEPS)
def test_nothing_is_lost_and_nothing_is_said_too_often(steps: list[tuple[ToldWord, int, int, str]]) -> None:
    """Whatever dies: in the end people have heard of the state the job is in, and no word came twice within an hour but
    after a death, or without a reply.
    """
    room, heard = Room(), list[tuple[ToldWord, int]]()
    doubled = set[ToldWord]()
    word: ToldWord = "ok"
    for word, after, patience, fate in steps:
        room.pass_by(after)
        token = room.observe(word, patience)
        if token is None or fate in ("dies before", "is not taken"):
            continue
        assert word in doubled or all(one != word or room.now - at >= SELDOM for one, at in heard)
        heard.append((word, room.now))
        if fate in ("dies after", "has no reply"):
            doubled.add(word)
            if fate == "has no reply":
                room.put_off(token)
        else:
            room.note(word, token)
    for _ in range(3):
        room.pass_by(SELDOM)
        if room.tell(word, PATIENCE):
            heard.append((word, room.now))
    assert (heard[-1][0] if heard else "ok") == word
    assert not room.tell(word)
