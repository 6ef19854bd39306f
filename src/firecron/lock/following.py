"""Following: when a candidate that was refused asks again, and which part of the node it follows meanwhile. Decisions.

A renewal changes the node every third of the ttl, and each change goes to all who follow the node. So of a large group
only a dozen follow the whole node: they see the expiry move, and ask just after it, in waves. The others follow its
child `releasedAt`, which a renewal doesn't change.

    near    follows the node. Asks when it is free, or a margin after its expiry: at once, after 1 s, or after 4 s
    far     follows `releasedAt`, and asks nobody

An instance's rank says which it is (`base/tickets`): the place of a leader on the circle is a hash of its name. The
rank is drawn when the size of the group becomes known, and again when a third of the group has gone or come. Until then
everybody is near. Each beat brings a new ticket, and so a new rank, which only lets a far follower ask while it is low:
if all who are near have died with the leader, others ask after a beat, 8 s later than those would have. `rank` is None
where there are no tickets: in a loop without a FireCron, or with FIRECRON_CONTENDERS=0.

Where nothing is heard (no stream, or a store without), those who are near ask every 5 s at the latest, the others
within 30 s. What is heard is a hint: it only makes somebody ask, and the compare-and-swap decides (`hearing`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from math import inf
from typing import Protocol

from firecron.base.clocks import Moment
from firecron.base.instants import exact_milliseconds
from firecron.base.tickets import has_fallen, wave_of
from firecron.lock.hearing import Heard, Hearing
from firecron.lock.pauses import pause_in
from firecron.lock.refusal import Refusal

# Seconds between two asks at the most, and at the least, and at the most for those who are far.
LONGEST, SHORTEST, FAR = 5.0, 0.05, 30.0
# Milliseconds that a far follower leaves to those who are near.
_HANDICAP = 8_000.0
# Seconds after which a follower looks at its rank again.
LOOK = 5.0
# A body that raises stands again after a pause: a second, doubled for each further failure up to a minute.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
# A term that lasted for as long as this, in milliseconds, was good: the pauses after failures begin anew.
GOOD_TERM = 60_000


@dataclass(frozen=True, slots=True)
class Rank:
    """How many instances come before this one, in a group of this size."""

    rank: float
    size: float


class Ranks(Protocol):
    """Says how many instances come before this one for a leader."""

    contenders: int

    def rank(self, name: str) -> Rank | None:
        """Return the rank by the newest ticket; None if the size of the group is not known."""


class Nobody:
    """The ranks where there are no tickets."""

    contenders = 0

    def rank(self, name: str) -> Rank | None:
        return None


class Following:
    """The state of one follower. Times are milliseconds on the monotonic clock; `chance` (0 to 1) is random."""

    def __init__(self, name: str, margin: int, ranks: Ranks, chance: Callable[[], float]) -> None:
        self._name = name
        self._margin = margin
        self._ranks = ranks
        self._chance = chance
        self._drawn: Rank | None = None
        self._hearing = Hearing(margin, chance)
        self._refusal: Refusal | None = None
        self._asked = 0.0
        self._number = 0
        self._seen = 0, 0.0
        self._luck = 0.0

    @property
    def needs_node(self) -> bool:
        """Whether it follows the whole node: it is near, or the name is paused, when the node does not change."""
        return self._wave() is not None or (self._refusal is not None and self._refusal.reason == "paused")

    def refused(self, refusal: Refusal, heard: Heard | None, mono: float) -> None:
        """Take the answer to an ask that was made at `mono`, when `heard` was the last that was heard."""
        self._refusal, self._asked, self._luck = refusal, mono, self._chance()
        self._number = 0 if heard is None else heard.number
        self._hearing.refused(refusal, heard if self.needs_node else None, mono)

    def due(self, heard: Heard | None, moment: Moment | None, mono: float) -> float:
        """Return when to ask next, by what is heard now. `moment` is RTDB's time, if it is known."""
        refusal, wave = self._refusal, self._wave()
        if refusal is None:
            return mono
        if heard is None or refusal.reason not in ("held", "paused"):
            return self._asked + 1000 * self._poll(refusal, moment, wave)
        if heard.number != self._seen[0]:
            self._seen = heard.number, mono
        if refusal.reason == "paused":
            return self._due_after_pause(heard.node, moment)
        if wave is not None:
            return self._hearing.due(heard, moment, mono) + wave
        return self._due_afar(heard, refusal, moment)

    def _due_after_pause(self, node: object, moment: Moment | None) -> float:
        """Return when a follower of a paused node asks: spread over some seconds after the end of the pause."""
        pause, spread = pause_in(node) if isinstance(node, dict) else None, 1000 * LONGEST * self._luck
        if pause is None:
            return self._asked + spread
        latest = self._asked + 1000 * FAR
        if pause.until is None or moment is None:
            return latest
        return min(latest, max(self._asked, moment.mono + pause.until - moment.server) + spread)

    def _due_afar(self, heard: Heard, refusal: Refusal, moment: Moment | None) -> float:
        """Return when a follower of `releasedAt` asks: while its newest rank is low, and the node seems free."""
        newest = self._ranks.rank(self._name)
        wave = None if newest is None else wave_of(newest.rank, self._ranks.contenders)
        if wave is None or moment is None:
            return inf
        is_news = heard.number > self._number and heard.node is not None
        free_at = self._seen[1] if is_news else _mono_of(refusal.until, moment, self._margin)
        return max(free_at, self._asked) + _HANDICAP + wave

    def _poll(self, refusal: Refusal, moment: Moment | None, wave: float | None) -> float:
        """Return the seconds from the last ask to the next one if nothing is heard."""
        if wave is None:
            return FAR * (0.5 + 0.5 * self._luck)
        patience = LONGEST * (0.5 + 0.5 * self._luck)
        if refusal.until is None or refusal.reason != "held" or moment is None:
            return patience
        free = (_mono_of(refusal.until, moment, self._margin) + wave - self._asked) / 1000
        return min(patience, max(free + SHORTEST * (1 + self._luck), SHORTEST))

    def _wave(self) -> float | None:
        """Return how long after the others this follower asks, in milliseconds; None if it is far."""
        newest = self._ranks.rank(self._name)
        if newest is None:
            self._drawn = None
            return 0.0
        drawn = self._drawn
        if drawn is None or has_fallen(drawn.size, newest.size) or has_fallen(newest.size, drawn.size):
            drawn = self._drawn = newest
        return wave_of(drawn.rank, self._ranks.contenders)


def pause_after(failures: int, chance: float) -> float:
    """Return the seconds before a candidate stands again whose body has raised so many times in a row."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
    return max(_FIRST_PAUSE, longest * (0.5 + 0.5 * chance))


def _mono_of(until: datetime | None, moment: Moment, margin: int) -> float:
    return inf if until is None else moment.mono + exact_milliseconds(until) + margin - moment.server
