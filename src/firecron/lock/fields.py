"""The fields of a lock's node: what a value has to be, and what the fields beside the lock mean. Pure, for any node.

The types at the top are those of a record's own fields: a value that is none of them makes the node malformed.

**A kind** is what the node's name belongs to. A node with `kind: "leader"` belongs to the terms of a leader, one with
`kind: "once"` to work that is done once. A node without a kind belongs to a job, if it has a slot or the outcome of a
run, or to a plain lock. One name is one thing: a leader that took a job's node would end its ticks, and a job that took
a leader's node would lead. So each refuses the other's node as malformed, whether or not it is held. A node that has
both a kind and a slot, or a kind that is none of the two, belongs to nothing: nobody acquires or renews its lock until
an operator removes what is wrong. The node of a job that has only been run by hand has no slot, so its outcome shows
it. Until its first run is released, it is the node of a fenced lock, which a leader may take over once it expires.

**A pause** keeps everybody from acquiring the lock:

    paused         anything but false: nobody acquires the lock
    pausedUntil    from this instant on the pause is over, in milliseconds of RTDB's clock
    pausedBy, pausedAt, pausedWhy     who paused it, when and why; for people
    resumedAt      when a pause was last ended by hand

`paused` may be set in the console, without the others. If `pausedUntil` is no number, or far in the past as an instant
in seconds is, the pause has no end: what was typed wrongly keeps the lock paused. Every write to the node keeps these
fields as they are, also those of a pause that is over. Only `resume` removes them. Versions that don't know
`pausedUntil` stay paused until then.

**What firecron doesn't know** is carried: every write keeps it, so there is a bound. An operator may leave something
beside a lock, such as a link to the runbook, and a later version may have fields of its own. But each claim, renewal
and release writes the whole node, and each contender reads it. More than `MOST_FIELDS` such fields, or
`MOST_CHARACTERS` in all, are carried with a WARNING that names them. From `TOO_MANY` characters on the node counts as
malformed: nobody acquires its lock. A holder of the lock at that time goes on, and releases it. Nothing is ever left
out of a write: what an operator has written is the operator's to remove.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, Field

from firecron.base.instants import check_instant, check_spans, number, to_text
from firecron.base.texts import plain, redacted

Instant = Annotated[str, AfterValidator(check_instant)]
Spans = Annotated[str, AfterValidator(check_spans)]
# Doubles are exact up to 2^53 - 1. The limit is exclusive, because the next fence has to be exact too.
_TOO_HIGH = 2**53 - 1
Exact: TypeAlias = (
    Annotated[int, Field(gt=-_TOO_HIGH, lt=_TOO_HIGH)] | Annotated[float, Field(gt=-_TOO_HIGH, lt=_TOO_HIGH)]
)
Count: TypeAlias = Annotated[int, Field(ge=0, lt=_TOO_HIGH)] | Annotated[float, Field(ge=0, lt=_TOO_HIGH)]


# --- the kind

LEADER = "leader"
ONCE = "once"


def disorder(kind: object, slot: object) -> str | None:
    """Return why a node with these fields belongs to nothing; None if it may belong to something."""
    if kind is None:
        return None
    if kind not in (LEADER, ONCE):
        return f"its `kind` is {kind!r:.40}, which is neither {LEADER!r} nor {ONCE!r}: remove it"
    if slot is not None:
        return f"it has the `kind` {kind!r} and the `slot` {slot!r:.40}, which exclude each other: remove the wrong one"
    return None


def misfit(kind: object, wanted: str | None, slot: str | None = None, outcome: str | None = None) -> str | None:
    """Return why a node with these fields can't be taken by a request of the kind `wanted`; None if it can."""
    if kind is not None and kind != wanted:
        return f"its `kind` is {kind!r:.40}, so the name belongs to something else: rename one of the two"
    if wanted is not None and slot is not None:
        return f"it has the slot {slot}, so the name belongs to a job: rename one of the two"
    if wanted is not None and kind is None and outcome is not None:
        return "it has an `outcome` and no `kind`, so the name belongs to a job: rename one of the two"
    return None


# --- the pause

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


# --- what is carried

MOST_FIELDS = 20
MOST_CHARACTERS = 10_000
TOO_MANY = 250_000

_KNOWN = frozenset({*PAUSE_FIELDS, "resumedAt", "kind"})
# A field that firecron knows counts as well if it is longer than what firecron writes there.
_LONG = 2_000
_MOST_NAMED = 10


def much(kept: Mapping[str, object]) -> str | None:
    """Return what is to be said of the fields that a node carries beside the lock's own; None if there is nothing."""
    found = _strange(kept)
    characters = sum(found.values())
    if len(found) <= MOST_FIELDS and characters <= MOST_CHARACTERS:
        return None
    return f"it carries {_named(found)}, {characters:,} characters, which each claim, renewal and release writes again"


def too_much(kept: Mapping[str, object]) -> str | None:
    """Return why nobody may acquire the lock of a node that carries these fields; None if they may."""
    found = _strange(kept)
    characters = sum(found.values())
    if characters < TOO_MANY:
        return None
    return f"it carries {_named(found)}, {characters:,} characters, more than a claim may write again: remove them"


def _strange(kept: Mapping[str, object]) -> dict[str, int]:
    """Return how many characters each of the fields has that firecron has not written."""
    sizes = {name: len(name) + len(json.dumps(value, ensure_ascii=False)) for name, value in kept.items()}
    return {name: size for name, size in sizes.items() if name not in _KNOWN or size > _LONG}


def _named(found: Mapping[str, int]) -> str:
    """Return the fields by name, the longest first."""
    names = sorted(found, key=lambda name: (-found[name], name))
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    fields = "field" if len(names) == 1 else "fields"
    return f"{len(names)} {fields} ({', '.join(plain(name)[:40] for name in names[:_MOST_NAMED])}{more})"


# --- what people say

# Characters, as the security rules count them: one beyond the first 65,536 of Unicode counts as two.
LONGEST_WHY = 500


def reason(why: str | None) -> str | None:
    """Return a reason as it is stored: without what looks like a secret. None if there is none."""
    return None if why is None else cut(redacted(why), LONGEST_WHY) or None


def cut(text: str, longest: int) -> str:
    """Return the beginning of a text, of so many characters at most."""
    # RTDB takes no lone surrogates, which come from file names that are not UTF-8.
    whole = text.encode("utf-8", "replace").decode().encode("utf-16-le")
    return whole[: 2 * longest].decode("utf-16-le", "ignore")
