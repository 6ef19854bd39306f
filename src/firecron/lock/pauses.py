"""A pause: what a lock's node says of it, and whether it holds now. Pure, and for any node.

    paused         anything but false: nobody acquires the lock
    pausedUntil    from this instant on the pause is over, in milliseconds of RTDB's clock
    pausedBy, pausedAt, pausedWhy     who paused it, when and why; for people
    resumedAt      when a pause was last ended by hand

`paused` may be set in the console, without the others. If `pausedUntil` is no number, or far in the past as an instant
in seconds is, the pause has no end: what was typed wrongly keeps the lock paused. These
fields are not the lock's: every write to the node keeps them as they are, also those of a pause that is over. Only
`resume` removes them. Versions that don't know `pausedUntil` stay paused until then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from firecron.base.exact import number
from firecron.base.instants import to_text
from firecron.base.plain import plain

# What a pause writes, and a resume removes.
PAUSE_FIELDS = ("paused", "pausedBy", "pausedAt", "pausedWhy", "pausedUntil")
# The year 2000. No pause ends before it, but an instant in seconds would.
_EARLIEST = 946_684_800_000


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause, which may be over. `value` is what `paused` holds. `problem` is what is odd about it."""

    value: object
    by: str | None
    at: int | None
    why: str | None
    until: int | None
    problem: str | None

    def holds(self, now: int) -> bool:
        """Return whether the lock is paused at this instant of RTDB's clock."""
        return self.until is None or now < self.until

    def __str__(self) -> str:
        """Say whose pause it is, until when, and why."""
        until = "" if self.until is None else f" until {to_text(self.until)}"
        return plain(f"paused by {self.by or 'an operator'}{until}{'' if self.why is None else f' ({self.why})'}")


def pause_in(fields: Mapping[str, object]) -> Pause | None:
    """Return the pause that the fields of a node describe; None if there is none."""
    value = fields.get("paused")
    if value is None or value is False:
        return None
    until = number(fields.get("pausedUntil"))
    problem = None if value is True else "its `paused` is not `true`"
    if until is not None and until < _EARLIEST:
        until = None
    if until is None and "pausedUntil" in fields:
        problem = "its `pausedUntil` is no instant in milliseconds, so the pause has no end"
    by, why = _text(fields.get("pausedBy")), _text(fields.get("pausedWhy"))
    return Pause(value, by, number(fields.get("pausedAt")), why, until, problem)


def is_paused(fields: Mapping[str, object], now: int) -> bool:
    """Return whether the fields of a node pause its lock at this instant of RTDB's clock."""
    pause = pause_in(fields)
    return pause is not None and pause.holds(now)


def resumed_at(fields: Mapping[str, object], now: int) -> int | None:
    """Return when the last pause ended, by hand or by its `pausedUntil`; None if that is not known.

    Who says that it will end by hand is wrong, and hides nothing.
    """
    pause = pause_in(fields)
    ended = None if pause is None or pause.holds(now) else pause.until
    by_hand = number(fields.get("resumedAt"))
    return max((instant for instant in (ended, by_hand) if instant is not None and instant <= now), default=None)


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
