"""When a waiter asks for its lock: by what it hears of the node, and by the answer to its last ask. A pure decision.

What is heard is a hint. It makes a waiter ask sooner, and the answer to the ask decides.

    nothing is heard                    it asks again and again, with growing pauses of up to 2 s
    it hears that the lock is held      it asks a margin after the lock expires, and 30 s after its last ask
    it hears that the lock is free      it asks after a pause of up to 5 ms

A pause is random, so that the waiters don't ask all at once. Each ask that was in vain although the lock was heard to
be free doubles the longest pause: up to 80 ms if another holder was faster, up to 5 s if the record is as before. So a
watch that tells nonsense is soon as slow as none. Each time that another holder is heard to be faster before the pause
is over takes a tenth off again, unless the last ask has shown the watch to be wrong: the last waiters of a crowd don't
pause as if all were still there.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from firecron.base.backoff import backoff
from firecron.base.clocks import Moment
from firecron.base.instants import to_milliseconds
from firecron.errors import Malformed
from firecron.lock.pauses import is_paused
from firecron.lock.record import LockRecord, parse
from firecron.lock.refusal import Refusal

# All in milliseconds.
_FIRST_PAUSE = 5.0
_LONGEST_AMONG_MANY = 80.0
_LONGEST_AFTER_LIES = 5_000.0
_LEAST_OFTEN = 30_000.0
_LESS = 0.9


@dataclass(frozen=True, slots=True)
class Heard:
    """The value of a node that a watch told last. Each value has a higher number than all before it in its process."""

    number: int
    node: object


class Hearing:
    """The state of one waiter. `refused` takes the answer to each ask, `seconds` says when to ask next.

    Times are in milliseconds on the monotonic clock. `chance` (0 to 1) is random.
    """

    def __init__(self, margin: int, chance: Callable[[], float]) -> None:
        self._margin = margin
        self._chance = chance
        self._tries = 0
        self._asked = 0.0
        self._number = 0
        self._refusal: Refusal | None = None
        self._longest = _FIRST_PAUSE
        self._pause = 0.0
        self._seen = 0
        self._seen_at = 0.0
        self._free_since: float | None = None
        self._was_misled = False
        self._polls_at: float | None = None

    def refused(self, refusal: Refusal, heard: Heard | None, mono: float) -> None:
        """Take the answer to an ask that was made at `mono`, when `heard` was the last that was heard."""
        before = self._refusal
        if self._free_since is not None and before is not None and refusal.reason == "held":
            self._was_misled = refusal.holder == before.holder
            most = _LONGEST_AFTER_LIES if self._was_misled else _LONGEST_AMONG_MANY
            self._longest = min(2 * self._longest, most)
        self._tries += 1
        self._asked = mono
        self._number = 0 if heard is None else heard.number
        self._refusal = refusal
        self._pause = self._longest * self._chance()
        self._free_since = self._polls_at = None

    def seconds(self, heard: Heard | None, moment: Moment | None, mono: float) -> float:
        """Return the seconds until the next ask, by what is heard now. `moment` is RTDB's time, if it is known."""
        return max(0.0, self.due(heard, moment, mono) - mono) / 1000

    def due(self, heard: Heard | None, moment: Moment | None, mono: float) -> float:
        """Return when to ask next, on the monotonic clock."""
        refusal = self._refusal
        if heard is None or moment is None or refusal is None or refusal.reason != "held":
            self._free_since = None
            if self._polls_at is None:
                self._polls_at = mono + backoff(self._tries + 2, self._chance()) * 1000
            return self._polls_at
        self._polls_at = None
        if heard.number != self._seen:
            self._seen, self._seen_at = heard.number, mono
        is_news = heard.number > self._number
        free_at = _free_at(heard.node, moment.server, self._margin) if is_news else _expiry(refusal, self._margin)
        due = moment.mono + free_at - moment.server
        if not is_news or due > mono:
            if self._free_since is not None and not self._was_misled:
                self._longest = max(_FIRST_PAUSE, _LESS * self._longest)
                self._pause = self._longest * self._chance()
            self._free_since = None
        elif self._free_since is None:
            self._free_since = max(due, self._seen_at)  # the same value once more puts nothing off
        free_since = due if self._free_since is None else self._free_since
        return min(free_since + self._pause, self._asked + _LEAST_OFTEN)


def _free_at(node: object, now: int, margin: int) -> float:
    """Return the instant of RTDB's clock from which the node says that an ask may have another answer; 0: it does."""
    try:
        current = parse(node, now)
    except Malformed:
        return 0  # the answer to the ask says so
    if not isinstance(current, LockRecord) or is_paused(current.kept, now):
        return 0
    return float(current.expiresAt) + (margin if current.releasedAt is None else 0)


def _expiry(refusal: Refusal, margin: int) -> float:
    return inf if refusal.until is None else to_milliseconds(refusal.until) + margin
