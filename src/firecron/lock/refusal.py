"""A refusal: why a lock was not acquired, as a value, and as a sentence for the log.

Where the original for NestJS has a sentence for it ("held by another instance, skipping"), firecron uses the same one.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from firecron.base.instants import to_datetime, to_text
from firecron.errors import FirecronError, StoreError
from firecron.lock.instances import Roster, how_to_free, silence
from firecron.lock.pauses import pause_in
from firecron.lock.record import IDLE, LockRecord, Reason, Refused
from firecron.lock.request import Request

LEVELS: dict[Reason, int] = {
    "held": logging.INFO,
    "slot_done": logging.DEBUG,
    "slot_early": logging.WARNING,
    "paused": logging.INFO,
    "malformed": logging.ERROR,
    "unavailable": logging.ERROR,
    "denied": logging.ERROR,
}


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why the lock was not acquired. A refusal is false, so that `if not lease:` reads well.

    With the reasons `unavailable`, `denied` and `malformed` nothing is known of the record: its fields are None.

    Args:
        name: The lock's name.
        reason: `held`, `slot_done`, `slot_early`, `paused`, `malformed`, `unavailable` or `denied`.
        message: The sentence for the log.
        holder: The holder's token in the record.
        instance_id: The revision of the holder, as far as the record tells.
        instance: The instance of the holder, as far as the record tells.
        until: When the record expires.
        slot: The tick that the record is about.
        unfinished: The tick whose run has not ended.
        fence: The fence in the record.
        error: The store's error, with `unavailable` and `denied`.
        problem: What an operator should look at, if anything.
    """

    name: str
    reason: Reason
    message: str
    holder: str | None = None
    instance_id: str | None = None
    instance: str | None = None
    until: datetime | None = None
    slot: str | None = None
    unfinished: str | None = None
    fence: int | None = None
    error: Exception | None = field(default=None, compare=False)
    problem: str | None = None

    def __bool__(self) -> Literal[False]:
        return False

    @property
    def is_strange(self) -> bool:
        """Whether an operator should look at the lock."""
        return self.problem is not None


def not_known(name: str, reason: Literal["unavailable", "denied"], error: StoreError) -> Refusal:
    """Return the refusal for a lock whose holder can't be known, so that nothing runs."""
    return Refusal(
        name, reason, f'{error.what} - lock "{name}" could not be acquired. Job will NOT run. {error}', error=error
    )


def refusal_of(name: str, refused: Refused, request: Request, roster: Roster) -> Refusal:
    """Return the refusal that says what stands in the way, by the lock's record and the roster of instances."""
    record = refused.current if isinstance(refused.current, LockRecord) else None
    problem = _problem(refused, record, request, roster)
    message = _message(name, refused, record, request, problem)
    if record is None or refused.reason == "malformed":
        return Refusal(name, refused.reason, message, problem=problem)
    return Refusal(
        name,
        refused.reason,
        message,
        holder=record.holder,
        instance_id=record.instanceId,
        instance=record.instance,
        until=to_datetime(int(record.expiresAt)),
        slot=record.slot,
        unfinished=record.unfinished,
        fence=None if record.fence is None else int(record.fence),
        problem=problem,
    )


def _problem(refused: Refused, record: LockRecord | None, request: Request, roster: Roster) -> str | None:
    if refused.is_stuck:
        return "it expires later than any lease can"
    if refused.reason == "paused" and (pause := pause_in(refused.current.kept)) is not None:
        return pause.problem
    if refused.reason != "held" or record is None:
        return None
    seen = roster.silent_since(record, request.ttl)
    return None if seen is None else silence(seen)


def _message(name: str, refused: Refused, record: LockRecord | None, request: Request, problem: str | None) -> str:
    match refused.reason, record:
        case "held", LockRecord():
            until = to_text(int(record.expiresAt))
            is_own = (record.instanceId, record.instance) == (request.instance_id, request.instance)
            who = "this instance" if is_own else "another instance"
            held = f'Lock "{name}" held by {who}, skipping ({record.owner}, until {until})'
            if not refused.is_stuck:
                return held if problem is None else f"{held}; {problem}. If you can't wait, {how_to_free(name)}"
            return f"{held}. No lease is that long: `expiresAt` was set by hand. Free it with `firecron unlock {name}`"
        case "slot_done", LockRecord():
            done = f"{record.slot} by {record.owner}"
            return f'Lock "{name}": the tick, or a later one, is claimed already, skipping ({done})'
        case "slot_done", _:
            return f'Lock "{name}": there is nothing left to claim'
        case "slot_early", _:
            return f'Lock "{name}": the tick is still to come by RTDB\'s clock, not running it early'
        case "paused", _:
            return (
                f'Lock "{name}" is {pause_in(refused.current.kept)}, skipping; resume it with `firecron resume {name}`'
            )
        case "malformed", _ if refused.current is not IDLE:
            return f'Lock "{name}" is not for this: {refused.detail}. Nothing runs'
        case _:
            return (
                f'Lock "{name}" can\'t be read: {refused.detail}. Job will NOT run. '
                "Mend the node in the Firebase console; deleting it frees the lock, and forgets its last slot and fence"
            )


class NotAcquired(FirecronError):
    """The lock was not acquired, so the block under it did not run. `refusal` says why.

    Args:
        refusal: Why the lock was not acquired.
    """

    def __init__(self, refusal: Refusal) -> None:
        super().__init__(refusal.message)
        self.refusal = refusal
