"""Following: when a candidate that was refused asks again, and which part of the node it follows meanwhile. Decisions.

A renewal changes the node every third of the ttl, and each change goes to all who follow the node. So of a large group
only a dozen follow the whole node: they see the expiry move, and ask just after it, in waves. The others follow its
child `releasedAt`, which a renewal doesn't change.

    near    follows the node. Asks a margin after its expiry: at once, after 1 s, or after 4 s; and every 30 s
    far     follows `releasedAt`

All hear of a release, and a dozen ask, in waves: others than those who are near. The winner's write is heard, too, and
ends the others' wait. `standing` says who is near, and who asks for which release. If nobody has asked 8 s after his
wave, because the dozen died with the leader, others do, by their newest tickets.

Where nothing is heard (no stream, or a store without), those who are near ask every 5 s at the latest, the others
within 30 s. What is heard is a hint: it only makes somebody ask, and the compare-and-swap decides (`hearing`).
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from math import inf

from firecron.base.clocks import Moment
from firecron.base.instants import exact_milliseconds
from firecron.lock.hearing import Heard, Hearing
from firecron.lock.pauses import pause_in
from firecron.lock.refusal import Refusal
from firecron.lock.standing import Standing

# Seconds between two asks at the most, and at the least, and at the most for those who are far.
LONGEST, SHORTEST, FAR = 5.0, 0.05, 30.0
# Milliseconds that others leave to the dozen.
_HANDICAP = 8_000.0
# In milliseconds: a lock that is held for as long as this is not free soon.
_AGES = 1_000_000_000
# Seconds after which a follower looks at its standing again.
LOOK = 5.0
# A body that raises stands again after a pause: a second, doubled for each further failure up to a minute.
_FIRST_PAUSE, _LONGEST_PAUSE = 1.0, 60.0
# A term that lasted for as long as this, in milliseconds, was good: the pauses after failures begin anew.
GOOD_TERM = 60_000


class Following:
    """The state of one follower. Times are milliseconds on the monotonic clock; `chance` (0 to 1) is random."""

    def __init__(self, margin: int, standing: Standing, chance: Callable[[], float]) -> None:
        self._margin = margin
        self._standing = standing
        self._chance = chance
        self._hearing = Hearing(margin, chance)
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
        return self._near(moment) is not None or (self._refusal is not None and self._refusal.reason == "paused")

    def turns(self, mono: float) -> None:
        """It follows another part of the node from now on, and has not heard of that yet."""
        self._turned = mono

    def refused(self, refusal: Refusal, heard: Heard | None, mono: float) -> None:
        """Take the answer to an ask that was made at `mono`, when `heard` was the last that was heard."""
        self._refusal, self._asked, self._luck = refusal, mono, self._chance()
        self._number = 0 if heard is None else heard.number
        self._hearing.refused(refusal, heard, mono)

    def due(self, heard: Heard | None, moment: Moment | None, mono: float, *, is_node: bool) -> float:
        """Return when to ask next, by what is heard now: of the whole node, if it `is_node`, or of `releasedAt`."""
        refusal, near = self._refusal, self._near(moment)
        if refusal is None:
            return mono
        if heard is None or refusal.reason not in ("held", "paused"):
            return max(self._asked, self._turned) + 1000 * self._poll(refusal, moment, near)
        if heard.number != self._seen[0]:
            self._seen = heard.number, mono
            if is_node:
                self._standing.note(heard.node)
        if refusal.reason == "paused":
            return self._due_after_pause(heard.node, moment)
        if is_node:
            return self._due_nearby(heard, moment, mono, near or 0.0)
        return self._due_afar(heard, refusal, moment, mono)

    def _due_after_pause(self, node: object, moment: Moment | None) -> float:
        """Return when a follower of a paused node asks: spread over some seconds after the end of the pause."""
        pause, spread = pause_in(node) if isinstance(node, dict) else None, 1000 * LONGEST * self._luck
        if pause is None:
            return self._asked + spread
        latest = self._asked + 1000 * FAR
        if pause.until is None or moment is None:
            return latest
        return min(latest, max(self._asked, moment.mono + pause.until - moment.server) + spread)

    def _due_nearby(self, heard: Heard, moment: Moment | None, mono: float, near: float) -> float:
        """Return when a follower of the node asks: for a release in this release's waves, else in those of the near."""
        due = self._hearing.due(heard, moment, mono)
        released = heard.node.get("releasedAt") if isinstance(heard.node, dict) else None
        if released is None:
            return due + near
        wave = self._standing.released(released)
        return max(due, self._seen[1]) + (_HANDICAP + near if wave is None else wave)

    def _due_afar(self, heard: Heard, refusal: Refusal, moment: Moment | None, mono: float) -> float:
        """Return when a follower of `releasedAt` asks: for a release in its waves, and if nobody else seems to."""
        if moment is None:
            return inf
        free_at = _mono_of(refusal.until, moment, self._margin)
        if heard.number > self._number:
            is_free = heard.node is not None
            told = None if is_free else {"holder": "", "expiresAt": moment.server + _AGES}
            due = self._hearing.due(Heard(heard.number, told), moment, mono)
            if is_free and (wave := self._standing.released(heard.node)) is not None:
                return max(due, self._seen[1]) + wave
            if is_free:
                free_at = self._seen[1]
        return max(free_at, self._asked) + _HANDICAP if self._standing.is_next() else inf

    def _poll(self, refusal: Refusal, moment: Moment | None, near: float | None) -> float:
        """Return the seconds from the last ask to the next one if nothing is heard."""
        if near is None:
            return FAR * (0.5 + 0.5 * self._luck)
        patience = LONGEST * (0.5 + 0.5 * self._luck)
        if refusal.until is None or refusal.reason != "held" or moment is None or self._turned > self._asked:
            return patience
        free = (_mono_of(refusal.until, moment, self._margin) + near - self._asked) / 1000
        return min(patience, max(free + SHORTEST * (1 + self._luck), SHORTEST))

    def _near(self, moment: Moment | None) -> float | None:
        return self._standing.near(None if moment is None else moment.server)


def pause_after(failures: int, chance: float) -> float:
    """Return the seconds before a candidate stands again whose body has raised so many times in a row."""
    longest = min(_LONGEST_PAUSE, _FIRST_PAUSE * 2.0 ** min(failures - 1, 10))
    return max(_FIRST_PAUSE, longest * (0.5 + 0.5 * chance))


def _mono_of(until: datetime | None, moment: Moment, margin: int) -> float:
    return inf if until is None else moment.mono + exact_milliseconds(until) + margin - moment.server
