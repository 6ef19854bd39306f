"""Following: when a candidate that was refused asks again, and which part of the node it follows meanwhile. Decisions.

    Following    when to ask next, by what is heard now
    Turnout      how early an instance asks, among those who follow a leader

A renewal changes the node every third of the ttl, and each change goes to all who follow the node. So of a large group
only a dozen follow the whole node: they see the expiry move, and ask just after it, in waves. The others follow its
child `releasedAt`, which a renewal doesn't change.

    near    follows the node. Asks a margin after its expiry: at once, after 1 s, or after 4 s; and every 30 s
    far     follows `releasedAt`

All hear of a release, and a dozen ask, in waves: others than those who are near. The winner's write is heard, too, and
ends the others' wait. If nobody has asked 8 s after his wave, because the dozen died with the leader, others do, by
their newest tickets.

Where nothing is heard (no stream, or a store without), those who are near ask every 5 s at the latest, the others
within 30 s, or after the pause that the database asks for. What is heard is a hint: it only makes somebody ask, and the
compare-and-swap decides (`lock/waiting`).

`base/tickets` says who the dozen are: those whose tickets come first after a place on the circle. Each question has a
place of its own:

    near        who follows the whole node, and asks when the leader has died? The place moves on after a while
    released    who asks for this release? The place is a hash of the instant that the node says, which all hear
    is_next     who asks if none of the dozen does? The place stays, and each beat brings new tickets, so others do

For the first two the distance is that of the newest ticket when the place came. The size of the group is looked at each
time: if a third of it dies, the others' ranks fall. While the size is not known, everybody asks at once.

The place of those who are near can't stay for good: a leader that dies is mostly one of them, and so the dozen would be
gone after a dozen deaths. Nor can it move at each beat: 24 of 200 instances would open another stream every 30 s. A
term that ends by a death takes a ttl and a margin at least. So the place stays for ten times as long, and ten die in
between at the most. Each that is heard of takes one off the others' ranks: the first wave is never empty.
"""

from __future__ import annotations

from collections.abc import Callable
from math import inf
from typing import Protocol

from firecron.base.clocks import Moment, heeding
from firecron.base.instants import exact_milliseconds
from firecron.base.tickets import wave_of
from firecron.lock.fields import pause_in
from firecron.lock.refusal import Refusal
from firecron.lock.waiting import RetryPolicy, Update

# Seconds between two asks at the most, and at the least, and at the most for those who are far.
LONGEST, SHORTEST, FAR = 5.0, 0.05, 30.0
# Milliseconds that others leave to the dozen.
_HANDICAP = 8_000.0
# In milliseconds: a lock that is held for as long as this is not free soon.
_AGES = 1_000_000_000
# Seconds after which a follower looks at its turnout again.
LOOK = 5.0


class Following:
    """The state of one follower. Times are milliseconds on the monotonic clock; `chance` (0 to 1) is random."""

    def __init__(self, margin: int, turnout: Turnout, chance: Callable[[], float]) -> None:
        self._turnout = turnout
        self._chance = chance
        self._policy = RetryPolicy(margin, chance)
        self._refusal: Refusal | None = None
        self._asked = 0.0
        self._turned = 0.0
        self._number = 0
        self._seen = 0, 0.0
        self._luck = 0.0

    def needs_node(self, moment: Moment | None) -> bool:
        """Return whether it follows the whole node: it is near, or the name is paused, when the node does not change.

        `moment` is RTDB's time, if it is known.
        """
        return self._death_wave(moment) is not None or (self._refusal is not None and self._refusal.reason == "paused")

    def turns(self, mono: float) -> None:
        """It follows another part of the node from now on, and has not heard of that yet."""
        self._turned = mono

    def refused(self, refusal: Refusal, update: Update | None, mono: float) -> None:
        """Take the refusal of an ask at `mono`. `update` is the last change that was heard before it."""
        self._refusal, self._asked, self._luck = refusal, mono, self._chance()
        self._number = 0 if update is None else update.number
        self._policy.refused(refusal, update, mono)

    def due(self, update: Update | None, moment: Moment | None, mono: float, *, is_node: bool) -> float:
        """Return when to ask next, by what is heard now: of the whole node, if it `is_node`, or of `releasedAt`."""
        refusal, near = self._refusal, self._death_wave(moment)
        if refusal is None:
            return mono
        if update is None or refusal.reason not in ("held", "paused"):
            return max(self._asked, self._turned) + 1000 * self._poll(refusal, moment, near)
        if update.number != self._seen[0]:
            self._seen = update.number, mono
            if is_node:
                self._turnout.observe(update.node)
        if refusal.reason == "paused":
            return self._due_after_pause(update.node, moment)
        if is_node:
            return self._due_by_node(update, moment, mono, near or 0.0)
        return self._due_by_release(update, refusal, moment, mono)

    def _due_after_pause(self, node: object, moment: Moment | None) -> float:
        """Return when a follower of a paused node asks: spread over some seconds after the end of the pause."""
        pause, spread = pause_in(node) if isinstance(node, dict) else None, 1000 * LONGEST * self._luck
        if pause is None:
            return self._asked + spread
        latest = self._asked + 1000 * FAR
        if pause.until is None or moment is None:
            return latest
        return min(latest, max(self._asked, moment.mono + pause.until - moment.server) + spread)

    def _due_by_node(self, update: Update, moment: Moment | None, mono: float, near: float) -> float:
        """Return when a follower of the node asks: for a release in this release's waves, else in those of the near."""
        due = self._policy.due(update, moment, mono)
        released = update.node.get("releasedAt") if isinstance(update.node, dict) else None
        if released is None:
            return due + near
        wave = self._turnout.release_wave(released)
        return max(due, self._seen[1]) + (_HANDICAP + near if wave is None else wave)

    def _due_by_release(self, update: Update, refusal: Refusal, moment: Moment | None, mono: float) -> float:
        """Return when a follower of `releasedAt` asks: for a release in its waves, and if nobody else seems to."""
        if moment is None:
            return inf
        free_at = _free_at(refusal, moment)
        if update.number > self._number:
            is_free = update.node is not None
            told = None if is_free else {"holder": "", "expiresAt": moment.server + _AGES}
            due = self._policy.due(Update(update.number, told), moment, mono)
            if is_free and (wave := self._turnout.release_wave(update.node)) is not None:
                return max(due, self._seen[1]) + wave
            if is_free:
                free_at = self._seen[1]
        return max(free_at, self._asked) + _HANDICAP if self._turnout.is_next() else inf

    def _poll(self, refusal: Refusal, moment: Moment | None, near: float | None) -> float:
        """Return the seconds from the last ask to the next one if nothing is heard."""
        patience = heeding((FAR if near is None else LONGEST) * (0.5 + 0.5 * self._luck), refusal.error)
        if near is None:
            return patience
        if refusal.free_at is None or refusal.reason != "held" or moment is None or self._turned > self._asked:
            return patience
        free = (_free_at(refusal, moment) + near - self._asked) / 1000
        return min(patience, max(free + SHORTEST * (1 + self._luck), SHORTEST))

    def _death_wave(self, moment: Moment | None) -> float | None:
        return self._turnout.death_wave(None if moment is None else moment.server)


def _free_at(refusal: Refusal, moment: Moment) -> float:
    """Return when the lock may be taken by another holder, on the monotonic clock."""
    return inf if refusal.free_at is None else moment.mono + exact_milliseconds(refusal.free_at) - moment.server


# --- how early an instance asks, among those who follow a leader

# How many leaders can die, one after another, before the place of those who are near moves on.
_DEATHS = 10


class Turnout:
    """When one instance asks for one leader. `lasting` is how long a leader that has died keeps its node (ms).

    A wave is the milliseconds that this instance leaves to others; None: it leaves the matter to them.
    """

    def __init__(self, name: str, lasting: int) -> None:
        self._name = name
        self._period = _DEATHS * lasting
        # Set before the first question, where there are tickets.
        self.tickets: GroupTickets = NoTickets()
        self._drawn: dict[str, tuple[object, float]] = {}
        self._since: int | None = None
        self._deaths = 0
        self._fence: object = None
        self._was_released = False

    def death_wave(self, server: float | None) -> float | None:
        """Return the wave at a leader's death. `server` is RTDB's time; None if it is not known now."""
        since = self._since if server is None else int(server // self._period)
        if since != self._since:
            self._since, self._deaths, self._fence = since, 0, None
        return self._wave("near", since, self._deaths)

    def release_wave(self, at: object) -> float | None:
        """Return the wave for the release that this `releasedAt` of the node shows."""
        return self._wave("released", at)

    def is_next(self) -> bool:
        """Return whether this instance asks if nobody else does: until its next ticket, it comes first."""
        size = self.tickets.size()
        return size is None or size * self.tickets.distance(self._name, "next") < self.tickets.contenders

    def observe(self, node: object) -> None:
        """Take the whole node from the stream: the leader may have changed without a release."""
        if not isinstance(node, dict):
            return
        fence = node.get("fence")
        if self._fence is not None and fence != self._fence and not self._was_released:
            self._deaths += 1
        self._fence, self._was_released = fence, node.get("releasedAt") is not None

    def _wave(self, what: str, of: object, fewer: int = 0) -> float | None:
        size = self.tickets.size()
        if size is None:
            return 0.0
        drawn = self._drawn.get(what)
        if drawn is None or drawn[0] != of:
            drawn = self._drawn[what] = of, self.tickets.distance(self._name, f"{what} {of}")
        return wave_of(size * drawn[1] - fewer, self.tickets.contenders)


class GroupTickets(Protocol):
    """What the tickets of an instance say."""

    contenders: int

    def size(self) -> float | None:
        """Return the size of the group; None if it is not known."""

    def distance(self, name: str, what: str) -> float:
        """Return how far the newest ticket is after the place of this, for the leader of this name."""


class NoTickets:
    """The ranks where there are no tickets."""

    contenders = 0

    def size(self) -> float | None:
        return None

    def distance(self, name: str, what: str) -> float:
        return 0.0
