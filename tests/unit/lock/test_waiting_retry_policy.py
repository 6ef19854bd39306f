"""When a waiter asks next, by what it has heard and by the answer to its last ask: a table of cases, without time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from firecron.base.clocks import Moment
from firecron.lock.refusal import Refusal
from firecron.lock.waiting import RetryPolicy, Update

MARGIN = 1_000
# RTDB's clock is ahead of the monotonic one by this much.
AHEAD = 1_794_992_400_000
EXPIRES = 60_000

FREE = [
    None,
    {"expiresAt": 0, "holder": "a"},
    {"expiresAt": AHEAD, "releasedAt": AHEAD, "holder": "a"},
    {"fence": 3, "expiresAt": AHEAD - 5_000, "holder": "a"},
    {"paused": True},
    {"paused": True, "pausedUntil": AHEAD + 9, "expiresAt": AHEAD + EXPIRES, "holder": "a"},
    {"paused": True, "expiresAt": AHEAD + EXPIRES, "holder": "a"},
    {"holder": 7},
    "odd",
]


class Waiter:
    """A waiter that was refused at zero, and what it hears. All times are milliseconds after that."""

    def __init__(self, chance: float = 1.0, holder: str = "a") -> None:
        self.draws: list[float] = []
        self.policy = RetryPolicy(MARGIN, lambda: self.draws.pop(0) if self.draws else chance)
        self.now = 0.0
        self.ahead = 0
        self.update: Update | None = None
        self.refuse(holder)

    def refuse(self, holder: str = "a", reason: str = "held", free_in: float = EXPIRES + MARGIN) -> None:
        free_at = datetime.fromtimestamp((AHEAD + self.now + free_in) / 1000, UTC)
        refusal = Refusal("job", reason, "", holder=holder, free_at=free_at)  # type: ignore[arg-type]  # a parameter
        self.policy.refused(refusal, self.update, self.now)

    def hear(self, node: object) -> None:
        self.update = Update(1 if self.update is None else self.update.number + 1, node)

    @property
    def pause(self) -> float:
        return self.policy.seconds(self.update, Moment(AHEAD + int(self.now), self.now), self.now, self.ahead) * 1000

    def ask_in_vain(self, holder: str = "a") -> float:
        """Hear that the lock is free, ask when that is due, and be refused. Return how long it paused before."""
        self.hear(None)
        pause = self.pause
        self.now += pause
        assert self.pause == 0
        self.refuse(holder)
        return pause


def held(ends: float = EXPIRES) -> dict[str, object]:
    return {"expiresAt": AHEAD + ends, "holder": "a"}


@pytest.mark.parametrize("node", FREE, ids=str)
def test_what_may_have_another_answer_is_asked_after_a_short_pause(node: object) -> None:
    """A lock that is free, paused or malformed is asked for within 5 ms."""
    waiter = Waiter()
    waiter.hear(held())
    assert waiter.pause > 5
    waiter.hear(node)
    assert waiter.pause == pytest.approx(5)
    waiter.now += 5
    assert waiter.pause == 0


def test_the_pause_is_random() -> None:
    """Each waiter draws its own pause, so they don't ask all at once."""
    waiter = Waiter(chance=0.2)
    waiter.hear(None)
    assert waiter.pause == pytest.approx(1)


def test_in_a_crowd_few_ask_at_once() -> None:
    """After four asks in vain one waiter of 16 asks within 5 ms, two after half of the longest pause, the rest last."""
    pauses = []
    for drawn in range(16):
        waiter = Waiter()
        for number in range(3):
            waiter.ask_in_vain(f"holder {number}")
        waiter.draws = [drawn / 16, 0.5]
        waiter.ask_in_vain("holder 3")
        waiter.hear(None)
        pauses.append(waiter.pause)
    assert pauses == pytest.approx([2.5, 40, 40, *[77.5] * 13])


def test_each_place_in_the_line_of_a_process_waits_for_the_one_before() -> None:
    """A waiter that has others of its process ahead of it asks 80 ms later for each, but for at most a second."""
    waiter = Waiter()
    waiter.hear(None)
    pauses = []
    for waiter.ahead in (0, 1, 2, 12, 13, 200):
        pauses.append(waiter.pause)
    assert pauses == pytest.approx([5, 85, 165, 965, 1_005, 1_005])


def test_a_newcomer_asks_when_its_turn_comes_or_after_two_seconds() -> None:
    """At the end of a line nobody asks first: by what is heard, but after 2 s at the latest, it asks once."""
    waiter = Waiter()
    waiter.policy = RetryPolicy(MARGIN, lambda: 1.0)
    waiter.ahead = 2
    waiter.hear(held())
    waiter.policy.joined(waiter.now)
    assert waiter.pause == pytest.approx(2_000)
    waiter.now = 1_000
    waiter.hear(None)
    assert waiter.pause == pytest.approx(165)
    waiter.hear(held())
    assert waiter.pause == pytest.approx(1_000)
    waiter.refuse()
    assert waiter.pause == pytest.approx(30_000)


def test_a_held_lock_is_asked_for_when_it_expires() -> None:
    """A lock that is heard to be held until then is asked for a margin later; a minimum hold without the margin."""
    waiter = Waiter()
    waiter.hear(held(20_000))
    assert waiter.pause == pytest.approx(20_000 + MARGIN + 5)
    waiter.hear({**held(20_000), "releasedAt": AHEAD})
    assert waiter.pause == pytest.approx(20_000 + 5)
    waiter.now = 20_003
    assert waiter.pause == pytest.approx(2), "the pause counts from the end of the hold"
    waiter.now = 20_005
    assert waiter.pause == 0


def test_a_refusal_says_when_to_ask() -> None:
    """Who has heard nothing since asks when the lock may be taken, as the refusal says: it knows of a minimum hold."""
    waiter = Waiter()
    waiter.hear({**held(20_000), "releasedAt": AHEAD})
    waiter.refuse(free_in=20_000)
    assert waiter.pause == pytest.approx(20_000 + 5)


def test_a_pause_that_is_over_doesnt_make_a_held_lock_free() -> None:
    """A lock whose node still tells of a pause is asked for when it expires, once the pause is over."""
    waiter = Waiter()
    waiter.hear({**held(20_000), "paused": True, "pausedUntil": AHEAD})
    assert waiter.pause == pytest.approx(20_000 + MARGIN + 5)


def test_who_hears_nothing_new_asks_every_thirty_seconds() -> None:
    """A stream that stays silent doesn't keep a waiter from asking, 30 s after its last ask at the latest."""
    waiter = Waiter()
    waiter.hear(held(3_600_000))
    waiter.refuse()
    assert waiter.pause == pytest.approx(30_000)
    waiter.now = 30_000
    assert waiter.pause == 0
    waiter.refuse()
    assert waiter.pause == pytest.approx(30_000)


def test_the_answer_to_an_ask_is_newer_than_what_was_heard_before() -> None:
    """What was heard before the last ask began makes nobody ask again: the refusal says until when it is held."""
    waiter = Waiter()
    waiter.ask_in_vain()
    assert waiter.pause == pytest.approx(30_000)


def test_what_was_heard_during_an_ask_counts_afterwards() -> None:
    """A release that is told while the waiter asks isn't missed, although the answer says that the lock is held."""
    waiter = Waiter()
    waiter.hear(held())
    before = waiter.update
    waiter.hear(None)
    waiter.update, now = before, waiter.update
    waiter.refuse()
    waiter.update = now
    assert waiter.pause <= 5


def test_each_ask_in_vain_doubles_the_pause() -> None:
    """If other holders are faster, the pause grows to 80 ms. If the record is as before, it grows to 5 s."""
    many = Waiter()
    assert [many.ask_in_vain(f"holder {number}") for number in range(7)] == pytest.approx([5, 10, 20, 40, 80, 80, 80])
    liar = Waiter()
    pauses = [liar.ask_in_vain() for _ in range(13)]
    assert pauses == pytest.approx([5 * 2.0**number for number in range(10)] + [5_000] * 3)
    assert liar.ask_in_vain("another") == pytest.approx(5_000)
    assert liar.ask_in_vain() == pytest.approx(80), "another holder was faster, so it was no lie"


def test_who_lets_others_go_first_pauses_for_less_time() -> None:
    """When another holder is heard to be faster before the pause is over, the next pause is shorter by 2 %."""
    waiter = Waiter()
    for number in range(4):
        waiter.ask_in_vain(f"holder {number}")
    pauses = []
    for _ in range(40):
        waiter.hear(None)
        pauses.append(waiter.pause)
        waiter.hear(held())
        assert waiter.pause > 1_000
    assert pauses[:3] == pytest.approx([80, 78.4, 76.832])
    assert pauses[-1] == pytest.approx(80 * 0.98**39)


def test_a_watch_that_was_wrong_gets_no_shorter_pauses() -> None:
    """A watch that tells of holders who are none doesn't undo what its lies have cost it."""
    waiter = Waiter()
    for _ in range(6):
        waiter.ask_in_vain()
    for _ in range(40):
        waiter.hear(None)
        assert waiter.pause == pytest.approx(320)
        waiter.hear(held())
        assert waiter.pause > 1_000


def test_the_same_news_again_and_again_puts_nothing_off() -> None:
    """A flood of events counts as the first of them."""
    waiter = Waiter()
    for _ in range(5):
        waiter.hear(None)
        assert waiter.pause == pytest.approx(5 - waiter.now)
        waiter.now += 1
    assert waiter.pause == 0


def test_without_a_stream_it_polls() -> None:
    """Who hears nothing asks with growing pauses of up to 2 s; a stream that is lost begins with such a pause."""
    waiter = Waiter()
    pauses = []
    for _ in range(8):
        pauses.append(waiter.pause)
        waiter.now += pauses[-1]
        assert waiter.pause == 0
        waiter.refuse()
    assert pauses == pytest.approx([100, 200, 400, 800, 1600, 2000, 2000, 2000])
    waiter.hear(held(3_600_000))
    waiter.now += 10_000
    assert waiter.pause > 10_000
    waiter.update = None
    assert waiter.pause == pytest.approx(2_000)


def test_what_is_heard_does_not_hurry_who_can_not_ask() -> None:
    """After an ask that the database didn't answer, or without its time, the pauses are those of polling."""
    waiter = Waiter()
    waiter.hear(None)
    waiter.now += waiter.pause
    assert waiter.pause == 0
    waiter.refuse(reason="unavailable")
    waiter.hear(None)
    assert waiter.pause >= 100
    waiter.refuse()
    waiter.hear(None)
    assert waiter.pause == pytest.approx(5), "no other holder was faster, and the watch was not wrong"
    other = Waiter()
    other.hear(None)
    assert other.policy.seconds(other.update, None, 0) >= 0.1
