"""The fields of a lock's node: what a value has to be, and what the fields beside the lock mean. Pure, for any node.

At the top is what a record's own fields may hold: a value that is wrong there makes the node malformed.

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
    pausedWith     the hold that has paused it with many others (`lock/holds`)
    pausedOver     what that pause covers: other pauses that are not over, as JSON
    resumedAt      when a pause was last ended by hand
    pausedBefore   the pauses that have ended since the last tick was claimed, as pairs of instants with a slash

`paused` may be set in the console, without the others. If `pausedUntil` is no number, or far in the past as an instant
in seconds is, the pause has no end: what was typed wrongly keeps the lock paused. Every write to the node keeps these
fields as they are, also those of a pause that is over. Only `resume` removes them. Versions that don't know
`pausedUntil` stay paused until then.

A pause is that of a hold only if `pausedWith` vouches for its `pausedBy` and `pausedAt`: the name of a hold is a digest
of both. So what somebody has paused since, in the console or by a version that knows no holds, is theirs, although it
has left `pausedWith` where it was. The node shows this by itself, whatever has become of the hold's own node.

A tick that a pause has held back is no missed tick, and only the next claim writes what became of it. So each write
that ends or replaces a pause notes in `pausedBefore` from when to when it was (`past_pauses`): of a pause without a
`pausedAt`, from when the lock was free. Nobody notes a pause that is ended in the console, or by an older version: its
ticks are missed.

**What firecron doesn't know** is carried: every write keeps it, so there is a bound. An operator may leave something
beside a lock, such as a link to the runbook, and a later version may have fields of its own. But each claim, renewal
and release writes the whole node, and each contender reads it. More than `MOST_FIELDS` such fields, or
`MOST_CHARACTERS` in all, are carried with a WARNING that names them. From `TOO_MANY` characters on the node counts as
malformed: nobody acquires its lock. A holder of the lock at that time goes on, and releases it. Nothing is ever left
out of a write: what an operator has written is the operator's to remove.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite

from firecron.base.instants import check_instant, check_spans, nearest, number, to_milliseconds, to_text
from firecron.base.texts import cut, plain, redacted

# Doubles are exact up to 2^53 - 1. The limit is exclusive, because the next fence has to be exact too.
TOO_HIGH = 2**53 - 1
# What is wrong with a value.
BEYOND = "beyond what is counted exactly"
_NO_NUMBER = "Input should be a valid integer"
_NO_TEXT = "Input should be a valid string"
NOT_OF_ITS_TYPE = (_NO_NUMBER, _NO_TEXT)


def wrong_number(value: object) -> str | None:
    """Return why a value is no number; None if it is one. Those below do the same for theirs."""
    # The type itself, because True is an `int`. JSON has no other types of numbers.
    return None if type(value) is int or (type(value) is float and isfinite(value)) else _NO_NUMBER


def wrong_exact(value: object, least: int = 1 - TOO_HIGH) -> str | None:
    if type(value) is int or (type(value) is float and isfinite(value)):
        return None if least <= value < TOO_HIGH else BEYOND
    return _NO_NUMBER


def wrong_count(value: object) -> str | None:
    return wrong_exact(value, 0)


def wrong_text(value: object) -> str | None:
    return None if isinstance(value, str) else _NO_TEXT


def wrong_instant(value: object, check: Callable[[str], object] = check_instant) -> str | None:
    if not isinstance(value, str):
        return _NO_TEXT
    try:
        check(value)
    except ValueError as error:
        return f"Value error, {error}"
    return None


def wrong_spans(value: object) -> str | None:
    return wrong_instant(value, check_spans)


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
PAUSE_FIELDS = ("paused", "pausedBy", "pausedAt", "pausedWhy", "pausedUntil", "pausedWith", "pausedOver")
# The year 2000. No pause ends before it, but an instant in seconds would.
_EARLIEST = 946_684_800_000


@dataclass(frozen=True, slots=True)
class Pause:
    """A pause, which may be over. `value` is what `paused` holds. `problem` is what is odd about it.

    `hold` is the name of the hold that has written it, None if somebody has paused this lock by itself.
    """

    value: object
    by: str | None
    at: int | None
    why: str | None
    until: int | None
    problem: str | None = None
    hold: str | None = None

    def holds(self, now: int) -> bool:
        """Return whether the lock is paused at this instant of RTDB's clock."""
        return self.until is None or now < self.until

    def __str__(self) -> str:
        """Say whose pause it is, until when, and why."""
        until = "" if self.until is None else f" until {to_text(self.until)}"
        hold = "" if self.hold is None else f" with hold {self.hold}"
        return plain(f"paused{hold} by {self.by or 'an operator'}{until}{'' if self.why is None else f' ({self.why})'}")


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
    by, why, at = _text(fields.get("pausedBy")), _text(fields.get("pausedWhy")), number(fields.get("pausedAt"))
    hold = fields.get("pausedWith")
    return Pause(value, by, at, why, until, problem, hold if isinstance(hold, str) and vouches(hold, by, at) else None)


def hold_name(salt: str, by: str, at: int) -> str:
    """Return the name of a hold, which vouches for who paused and when. `salt` are four random hexadecimal digits."""
    return salt + hashlib.blake2b(f"{salt} {at} {by}".encode("utf-8", "replace"), digest_size=4).hexdigest()


def vouches(hold: str, by: str | None, at: int | None) -> bool:
    """Return whether this is the name of a hold, and this hold has written this `pausedBy` and `pausedAt`."""
    return by is not None and at is not None and hold == hold_name(hold[:4], by, at)


def is_paused(fields: Mapping[str, object], now: int) -> bool:
    """Return whether the fields of a node pause its lock at this instant of RTDB's clock."""
    pause = pause_in(fields)
    return pause is not None and pause.holds(now)


def resumed_at(fields: Mapping[str, object], now: int) -> int | None:
    """Return when the last pause ended, by hand or by its `pausedUntil`; None if that is not known.

    Who says that it will end by hand is wrong, and hides nothing.
    """
    pause = pause_in(fields)
    ended = None if pause is None else pause.until
    by_hand = number(fields.get("resumedAt"))
    return max((instant for instant in (ended, by_hand) if instant is not None and instant <= now), default=None)


# What the security rules let pass.
MOST_PAST = 10
_SECOND = 1_000


def past_pauses(fields: Mapping[str, object], now: int) -> list[tuple[int, int]]:
    """Return when the lock was paused before now, as far as its node tells, oldest first: the ticks from the first
    second to the last one of each pair were held back.
    """
    text = fields.get("pausedBefore")
    try:
        found = [pair.split("/") for pair in check_spans(text).split(" ")] if isinstance(text, str) else []
    except ValueError:
        found = []  # typed by hand
    spans = [(to_milliseconds(start), min(to_milliseconds(end), now)) for start, end in found]
    pause = pause_in(fields)
    if pause is not None:
        start = _free_since(fields) if pause.at is None else pause.at
        # The first and the last tick that can have come in it.
        first, last = -(-start // _SECOND), (min(now, inf if pause.until is None else pause.until) - 1) // _SECOND
        spans.append((nearest(int(first) * _SECOND), nearest(int(last) * _SECOND)))
    joined: list[tuple[int, int]] = []
    for start, end in sorted(span for span in spans if span[0] <= span[1]):
        if joined and start <= joined[-1][1] + _SECOND:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((start, end))
    return joined


def noted_pauses(fields: Mapping[str, object], now: int) -> str | None:
    """Return the `pausedBefore` of a node whose pause ends or is replaced now; None if there is nothing to note.

    What was before the last tick that was claimed counts no more.
    """
    slot = fields.get("slot")
    if not isinstance(slot, str):
        return None  # the first claim has passed over nothing
    spans = [(to_text(start), to_text(end)) for start, end in past_pauses(fields, now)]
    return " ".join([f"{start}/{end}" for start, end in spans if end > slot][-MOST_PAST:]) or None


def _free_since(fields: Mapping[str, object]) -> int:
    return max(number(fields.get(name)) or 0 for name in ("acquiredAt", "expiresAt", "releasedAt"))


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None


# --- what is carried

MOST_FIELDS = 20
MOST_CHARACTERS = 10_000
TOO_MANY = 250_000

# The fields of a stored schedule (`lock/stored`), which its record carries.
_STORED = ("line", "timezone", "every", "starting", "at", "until", "args", "by")
_LOOKS = ("nextAt", "since", "passed", "closed", "closedAt", "closedWhy")
_KNOWN = frozenset({*PAUSE_FIELDS, *_STORED, *_LOOKS, "pausedBefore", "resumedAt", "kind"})
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

# Characters, as the security rules count them.
LONGEST_WHY = 500


def reason(why: str | None) -> str | None:
    """Return a reason as it is stored: without what looks like a secret. None if there is none."""
    return None if why is None else cut(redacted(why), LONGEST_WHY) or None
