"""A standing: how early an instance asks, among those who follow a leader. Pure decisions.

Of a large group a dozen ask, in three waves, whatever happens. `base/tickets` says which: those whose tickets come
first after a place on the circle. Each question has a place of its own:

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

from typing import Protocol

from firecron.base.tickets import wave_of

# How many leaders can die, one after another, before the place of those who are near moves on.
_DEATHS = 10


class Ranks(Protocol):
    """What the tickets of an instance say."""

    contenders: int

    def size(self) -> float | None:
        """Return the size of the group; None if it is not known."""

    def distance(self, name: str, what: str) -> float:
        """Return how far the newest ticket is after the place of this, for the leader of this name."""


class Nobody:
    """The ranks where there are no tickets."""

    contenders = 0

    def size(self) -> float | None:
        return None

    def distance(self, name: str, what: str) -> float:
        return 0.0


class Standing:
    """The standing of one instance for one leader. `lasting` is how long a leader that has died keeps its node (ms).

    A wave is the milliseconds that this instance leaves to others; None: it leaves the matter to them.
    """

    def __init__(self, name: str, lasting: int) -> None:
        self._name = name
        self._period = _DEATHS * lasting
        # Set before the first question, where there are tickets.
        self.ranks: Ranks = Nobody()
        self._drawn: dict[str, tuple[object, float]] = {}
        self._since: int | None = None
        self._deaths = 0
        self._fence: object = None
        self._was_released = False

    def near(self, server: float | None) -> float | None:
        """Return the wave at a leader's death. `server` is RTDB's time; None if it is not known now."""
        since = self._since if server is None else int(server // self._period)
        if since != self._since:
            self._since, self._deaths, self._fence = since, 0, None
        return self._wave("near", since, self._deaths)

    def released(self, at: object) -> float | None:
        """Return the wave for the release that the node tells of by this `releasedAt`."""
        return self._wave("released", at)

    def is_next(self) -> bool:
        """Return whether this instance asks if nobody else does: until its next ticket, it comes first."""
        size = self.ranks.size()
        return size is None or size * self.ranks.distance(self._name, "next") < self.ranks.contenders

    def note(self, node: object) -> None:
        """Take the whole node, as it was heard: the leader may have changed without a release."""
        if not isinstance(node, dict):
            return
        fence = node.get("fence")
        if self._fence is not None and fence != self._fence and not self._was_released:
            self._deaths += 1
        self._fence, self._was_released = fence, node.get("releasedAt") is not None

    def _wave(self, what: str, of: object, fewer: int = 0) -> float | None:
        size = self.ranks.size()
        if size is None:
            return 0.0
        drawn = self._drawn.get(what)
        if drawn is None or drawn[0] != of:
            drawn = self._drawn[what] = of, self.ranks.distance(self._name, f"{what} {of}")
        return wave_of(size * drawn[1] - fewer, self.ranks.contenders)
