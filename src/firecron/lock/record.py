"""The lock's record and every rule about it: pure values and decisions, without I/O and without a clock.

`decide` says what a contender may do with the node that it read. `renewed` and `released` say what the holder may do.
The shell (`protocol`) reads the node, asks here, and writes under the ETag of that read. So two contenders that read
the same state never both write.

The margin is how far apart two instances' ideas of RTDB's time may be. It counts on both sides:

    holder     |<-- trusts its lease ------------------>|   stops at expiresAt - margin
    record     acquiredAt                                   expiresAt
    contender  |<-- takes it for held --------------------------------->|   waits for expiresAt + margin

So two instances never both trust a lease of the lock, as long as each estimate of the time is right to within the
margin, and the holder ages its lease on a monotonic clock from the reading that made `expiresAt` (`lease_term`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, ValidationError

from firecron.base.clocks import Moment
from firecron.base.instants import to_milliseconds, to_text
from firecron.errors import Malformed
from firecron.lock.failures import after_claim, after_release
from firecron.lock.fields import Count, Exact, Instant, Spans
from firecron.lock.kinds import misfit
from firecron.lock.lease_term import LeaseTerm
from firecron.lock.pauses import is_paused
from firecron.lock.request import NONE_MISSED, Request

Reason: TypeAlias = Literal["held", "slot_done", "slot_early", "paused", "malformed", "unavailable", "denied"]

DAY = 86_400_000
_OUT_OF_RANGE = frozenset({"greater_than", "greater_than_equal", "less_than"})
# No ttl is longer than a day. The minute allows for clocks that differ.
_FURTHEST = DAY + 60_000

Number: TypeAlias = int | float


class LockRecord(BaseModel):
    """The content of a lock node. Fields that firecron doesn't know are kept as they are."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", allow_inf_nan=False)

    acquired: object = None  # for people, like `expires`; firecron never reads them back
    acquiredAt: Exact | None = None
    attempt: Count | None = None
    cancel: object = None  # the fence of the acquisition whose holder is asked to stop
    cancelWhy: object = None
    expires: object = None
    failures: object = None  # see `failures`
    expiresAt: Number  # without a bound, so that a stuck lock can still be read and unlocked
    fence: Exact | None = None
    holder: str | None = None
    instance: str | None = None
    instanceId: str | None = None
    missedAfter: Instant | None = None  # `missing` explains this and the next two fields
    missedMore: Spans | None = None
    missedUntil: Instant | None = None
    outcome: str | None = None
    releasedAt: Exact | None = None
    renews: object = None  # False: the holder does not renew, so it would never meet a `cancel`
    slot: Instant | None = None
    succeededSlot: Instant | None = None
    unfinished: Instant | None = None

    def to_json(self) -> dict[str, object]:
        """Return the record as it is stored, without the fields that are None."""
        fields = {**self.__dict__, **(self.model_extra or {})}
        return {key: value for key, value in fields.items() if value is not None}

    @property
    def kept(self) -> Mapping[str, object]:
        """The fields that don't belong to the lock, such as a pause: every write carries them over."""
        return self.model_extra or {}

    @property
    def owner(self) -> str:
        """The holder's instance, for people."""
        return "/".join(part for part in (self.instanceId, self.instance) if part) or "an unknown instance"

    @property
    def is_cancelled(self) -> bool:
        """Whether this acquisition is cancelled. To one with a higher fence, `cancel` means nothing."""
        return type(self.cancel) in (int, float) and self.cancel == self.fence

    @property
    def open_slot(self) -> str | None:
        """The unfinished slot, unless its run is cancelled: that is never run again."""
        return None if self.is_cancelled else self.unfinished

    def newest_success(self, also: str | None = None) -> str | None:
        """Return the newest tick that has succeeded, if `also` has. One later than `slot` was never claimed."""
        return max((slot for slot in (self.succeededSlot, also) if slot and slot <= (self.slot or "")), default=None)

    def is_live(self, now: int, margin: int) -> bool:
        """Return whether the lock counts as held: to a margin after its expiry, or to the end of a minimum hold."""
        return now < self.expiresAt + (margin if self.releasedAt is None else 0)

    def is_stuck(self, now: int) -> bool:
        """Return whether it expires later than any lease or minimum hold can, so that only an unlock frees its name."""
        return self.expiresAt > now + _FURTHEST


LOCK_FIELDS = frozenset(LockRecord.model_fields) - {"cancel", "cancelWhy", "failures"}


@dataclass(frozen=True, slots=True)
class Idle:
    """A node without a lock: absent, or with only a pause and fields that firecron doesn't know."""

    kept: Mapping[str, object]


IDLE = Idle({})

Current: TypeAlias = LockRecord | Idle


def parse(node: object, now: int) -> Current:
    """Return what a node says. Raise Malformed for a node that can't be understood: its lock may not be taken."""
    if node is None:
        return IDLE
    if not isinstance(node, dict):
        raise Malformed(f"it holds {type(node).__name__} {node!r:.40} instead of a lock record")
    if not LOCK_FIELDS & node.keys():
        return Idle(node)
    try:
        record = LockRecord.model_validate(node)
    except ValidationError as error:
        problems = error.errors()
        first, name = problems[0], problems[0]["loc"][0]
        if any(problem["loc"][0] == name and problem["type"] in _OUT_OF_RANGE for problem in problems):
            example = 1 if name == "attempt" else now
            raise Malformed(
                f"its field {name} is {first['input']!r:.40}, beyond what is counted exactly: set it to {example}"
            ) from None
        raise Malformed(f"its field {name} is wrong: {first['msg']}") from None
    if record.slot is not None and to_milliseconds(record.slot) > now + DAY:
        raise Malformed(f"its slot {record.slot} is more than a day ahead, and would block every tick until then")
    return record


@dataclass(frozen=True, slots=True)
class Take:
    """Write this record, under the ETag of the node that was read."""

    record: LockRecord
    term: LeaseTerm


@dataclass(frozen=True, slots=True)
class Mine:
    """The lock is acquired already: an earlier write of this request was applied. This is its lease."""

    record: LockRecord
    term: LeaseTerm


@dataclass(frozen=True, slots=True)
class Refused:
    """The lock is refused; `current` is what stands in the way. If it `is_stuck`, only an unlock frees the lock."""

    reason: Reason
    current: Current = IDLE
    detail: str = ""
    is_stuck: bool = False


def decide(node: object, request: Request, now: Moment, written: Mapping[Number, LeaseTerm]) -> Take | Mine | Refused:
    """Return what a contender may do with a node that was just read.

    `written` has the terms of this request's own writes, by their `expiresAt`.
    """
    # 1., 2. What does the node say?
    try:
        current = parse(node, now.server)
    except Malformed as error:
        return Refused("malformed", detail=str(error))
    record = current if isinstance(current, LockRecord) else None
    if why := misfit(current.kept.get("kind"), request.kind, *((record.slot, record.outcome) if record else ())):
        return Refused("malformed", current, detail=why)

    # 3. Is the record this request's own? It counts only with the term of the write that made it, never with a new one.
    if record is not None and record.holder == request.holder and (record.releasedAt is None or request.momentary):
        term = written.get(record.expiresAt)
        if term is not None and (request.momentary or term.is_trusted(now.mono, request.margin)):
            return Mine(record, term)

    # 4. Has an operator paused the lock, and is that not over?
    if is_paused(current.kept, now.server):
        return Refused("paused", current)

    # 5. Is the tick claimed already? A rerun may claim it again if its run never ended and the lock is not held.
    live = record is not None and record.is_live(now.server, request.margin)
    if record is not None and request.slot is not None and record.slot is not None and request.slot <= record.slot:
        rerun = request.rerun and request.slot == record.open_slot and not live
        if not rerun:
            return Refused("slot_done", current)

    # 6. Is the lock held?
    if live:
        return Refused("held", current, is_stuck=record is not None and record.is_stuck(now.server))

    # 7. Is this instance early?
    if request.slot is not None and to_milliseconds(request.slot) > now.server + request.margin:
        return Refused("slot_early", current)

    # 8. The lock is free.
    return _taken(current, request, now)


def _taken(current: Current, request: Request, now: Moment) -> Take:
    record = current if isinstance(current, LockRecord) else None
    term = LeaseTerm(now.server if request.momentary else now.server + request.ttl, now)
    fields: dict[str, object] = {
        **current.kept,
        "acquired": to_text(now.server),
        "acquiredAt": now.server,
        "cancel": None,  # it was meant for the acquisition before
        "cancelWhy": None,
        "expires": to_text(term.expires_at),
        "expiresAt": term.expires_at,
        "failures": record and after_claim(record.failures, record.open_slot, record.releasedAt, record.outcome),
        "holder": request.holder,
        "instance": request.instance,
        "instanceId": request.instance_id,
        "kind": request.kind,
        "renews": False if request.fenced and not request.renews else None,
        "succeededSlot": record.succeededSlot if record else None,
        **_claim(record, request),
    }
    if request.momentary:
        # No lease watches the run that begins now, so it may not count as unfinished.
        fields |= {"releasedAt": now.server}
        if request.slot is not None:
            fields["unfinished"] = None
    if request.fenced:
        fields["fence"] = max(int(record.fence or 0) + 1 if record else 0, now.server)
    elif record is not None:
        fields["fence"] = record.fence
    return Take(LockRecord.model_validate({key: value for key, value in fields.items() if value is not None}), term)


def _claim(record: LockRecord | None, request: Request) -> dict[str, object]:
    """Return the fields that say which tick is claimed, and whether its run has ended."""
    if request.slot is None:
        # No tick is claimed, so what the node knows of the last tick stays, also the number of its claims.
        if record is None:
            return {}
        kept = {key: getattr(record, key) for key in ("slot", "attempt", *NONE_MISSED.to_json())}
        return {**kept, "unfinished": record.open_slot, **(request.missed.to_json() if request.missed else {})}
    claim = {"slot": request.slot, "unfinished": request.slot, **(request.missed or NONE_MISSED).to_json()}
    if record is None or request.slot != record.open_slot:
        return {**claim, "attempt": 1}
    # This is a rerun: `slot` stays the newest tick that was claimed.
    return {**claim, "slot": max(record.slot or "", request.slot), "attempt": int(record.attempt or 1) + 1}


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is over for its holder, whatever the holder does; `why` is for people."""

    why: str


def check_holding(node: object, holder: str, now: int) -> LockRecord | Lost:
    """Return the record if this holder has it and has not released it; otherwise why not."""
    try:
        record = parse(node, now)
    except Malformed as error:
        return Lost(f"the node can't be read any more: {error}")
    if isinstance(record, Idle):
        return Lost("the node was deleted")
    if record.holder != holder:
        return Lost(f"{record.owner} holds it now")
    if record.releasedAt is not None:
        return Lost("it was released")
    return record


def renewed(node: object, holder: str, ttl: int, now: Moment, term: LeaseTerm, margin: int) -> Take | Lost:
    """Return the record with a later expiry; Lost if by the record or the holder's own clock the lease is over."""
    record = check_holding(node, holder, now.server)
    if isinstance(record, Lost):
        return record
    if not now.server < record.expiresAt - margin:
        # `firecron unlock` writes 0, and so does an operator in the console.
        is_unlocked = record.expiresAt == 0
        return Lost("an operator unlocked it" if is_unlocked else f"it expired at {to_text(int(record.expiresAt))}")
    if not term.is_trusted(now.mono, margin):
        return Lost("its lease ran out before it could be renewed")
    later = LeaseTerm(now.server + ttl, now)
    expiry = {"expiresAt": later.expires_at, "expires": to_text(later.expires_at)}
    return Take(record.model_copy(update=expiry), later)


def released(
    node: object,
    holder: str,
    now: int,
    *,
    hold_at_least: int = 0,
    outcome: str | None = None,
    finished: str | None = None,
    tick: str | None = None,
) -> LockRecord | Lost | None:
    """Return the record after the release; None to delete the node, because it has nothing to remember.

    `finished` is the slot whose run ends with this release: unfinished no more, and remembered if it succeeded. `tick`
    is the slot that the holder has run, ended or not: None of a plain lock, and of a run by hand that resumes none. A
    slot that is left unfinished and is not this one was another run's, so a cancel was not meant for it, and goes.
    """
    record = check_holding(node, holder, now)
    if isinstance(record, Lost):
        return record
    # The `acquiredAt` of this holder's record is a number, unless it was removed by hand.
    expires_at = max(now, int(record.acquiredAt or 0) + hold_at_least)
    unfinished = None if finished is not None and record.unfinished == finished else record.unfinished
    is_anothers = unfinished is not None and unfinished != tick
    remembers = (record.slot, record.fence, unfinished)
    if all(item is None for item in remembers) and not record.model_extra and expires_at == now:
        return None
    return record.model_copy(
        update={
            "releasedAt": now,
            "expiresAt": expires_at,
            "expires": to_text(expires_at),
            "failures": after_release(record.failures, outcome, is_tick=record.slot is not None and tick is not None),
            "outcome": outcome,
            "unfinished": unfinished,
            **({"succeededSlot": record.newest_success(finished)} if finished and outcome == "succeeded" else {}),
            **({"cancel": None, "cancelWhy": None} if is_anothers else {}),
        }
    )


def cancelled(node: object, holder: str, fence: int, now: int, why: str | None = None) -> LockRecord | Lost:
    """Return the record that asks the holder of one acquisition to stop; Lost if that acquisition is over."""
    record = check_holding(node, holder, now)
    if isinstance(record, Lost):
        return record
    if record.fence != fence:
        return Lost(f"{record.owner} has acquired it again")
    return record.model_copy(update={"cancel": fence, "cancelWhy": why})
