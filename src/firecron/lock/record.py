"""The lock's record and every rule about it: pure values and decisions, no I/O, no clock of its own.

`decide` says what a contender may do with what it read, `renewed` and `released` what the holder may. The shell
around them (`protocol`) reads, asks here, and writes under the ETag of what it read, so that two contenders who
saw the same state never both write.

The margin is how far two instances' ideas of RTDB's time may be apart. It cuts both ways:

    holder     |<-- trusts its lease ------------------>|   stops at expiresAt - margin
    record     acquiredAt                                   expiresAt
    contender  |<-- takes it for held --------------------------------->|   waits for expiresAt + margin

So two of them never both believe that the lock is theirs, as long as each one's estimate is right to within the
margin and the holder ages its lease on a monotonic clock from the very reading that made `expiresAt` (`lease_term`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from firecron.base.clocks import Moment
from firecron.base.instants import check_instant, check_spans, to_milliseconds, to_text
from firecron.errors import Malformed
from firecron.lock.lease_term import LeaseTerm

Reason: TypeAlias = Literal["held", "slot_done", "slot_early", "paused", "malformed", "unavailable", "denied"]

DAY = 86_400_000
_OUT_OF_RANGE = frozenset({"greater_than", "greater_than_equal", "less_than"})
# No ttl is longer than a day; the minute is for clocks that differ.
_FURTHEST = DAY + 60_000

Instant = Annotated[str, AfterValidator(check_instant)]
Spans = Annotated[str, AfterValidator(check_spans)]
Number: TypeAlias = int | float
# Doubles count exactly to 2^53 - 1, and the next fence has to be exact too.
_TOO_HIGH = 2**53 - 1
Exact: TypeAlias = (
    Annotated[int, Field(gt=-_TOO_HIGH, lt=_TOO_HIGH)] | Annotated[float, Field(gt=-_TOO_HIGH, lt=_TOO_HIGH)]
)
Count: TypeAlias = Annotated[int, Field(ge=0, lt=_TOO_HIGH)] | Annotated[float, Field(ge=0, lt=_TOO_HIGH)]


class LockRecord(BaseModel):
    """What a lock node holds, as far as firecron understands it. Fields that it doesn't know are kept as they are."""

    model_config = ConfigDict(strict=True, frozen=True, extra="allow", allow_inf_nan=False)

    acquired: object = None  # for people, as is `expires`: never read back
    acquiredAt: Exact | None = None
    attempt: Count | None = None
    expires: object = None
    expiresAt: Number  # however far off: what is stuck can be unlocked
    fence: Exact | None = None
    holder: str | None = None
    instance: str | None = None
    instanceId: str | None = None
    missedAfter: Instant | None = None  # what these three mean says `missing`
    missedMore: Spans | None = None
    missedUntil: Instant | None = None
    outcome: str | None = None
    paused: object = None
    releasedAt: Exact | None = None
    slot: Instant | None = None
    unfinished: Instant | None = None

    def to_json(self) -> dict[str, object]:
        """The record as it is stored: fields that are None are not there."""
        return {key: value for key, value in self if value is not None}

    @property
    def owner(self) -> str:
        """Who holds it, for people."""
        return "/".join(part for part in (self.instanceId, self.instance) if part) or "somebody unknown"

    def is_live(self, now: int, margin: int) -> bool:
        """Whether a contender must take it for held: past its expiry by the margin, or past the end of a minimum
        hold.
        """
        return now < self.expiresAt + (margin if self.releasedAt is None else 0)

    def is_stuck(self, now: int) -> bool:
        """Whether it expires later than any lease or minimum hold can: it blocks its name until it is unlocked."""
        return self.expiresAt > now + _FURTHEST


LOCK_FIELDS = frozenset(LockRecord.model_fields) - {"paused"}


@dataclass(frozen=True, slots=True)
class Idle:
    """A node without a lock in it: absent, or only `paused` and fields that firecron doesn't know."""

    kept: Mapping[str, object]

    @property
    def paused(self) -> object:
        return self.kept.get("paused")


IDLE = Idle({})

Current: TypeAlias = LockRecord | Idle


def parse(node: object, now: int) -> Current:
    """What a node says. Malformed for anything that isn't understood: nobody may take such a lock."""
    if node is None:
        return IDLE
    if not isinstance(node, dict):
        raise Malformed(f"it holds {type(node).__name__} {node!r:.40}, where a lock record should be")
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
class Missed:
    """What a record remembers of ticks that nobody ran: the values of `missedAfter`, `missedUntil`, `missedMore`."""

    after: str | None = None
    until: str | None = None
    more: str | None = None

    def to_json(self) -> dict[str, object]:
        return {"missedAfter": self.after, "missedUntil": self.until, "missedMore": self.more}


NONE_MISSED = Missed()


@dataclass(frozen=True, slots=True)
class Request:
    """What a contender wants: a lock, or (`momentary`) a slot claimed and let go in one write. `holder` is its random
    token; `slot` claims a tick in the same write, `rerun` an unfinished one. `missed` is what the record is to remember
    of ticks that nobody ran; None leaves what it remembers.
    """

    holder: str
    ttl: int
    instance_id: str
    instance: str
    margin: int
    fenced: bool = False
    slot: str | None = None
    rerun: bool = False
    momentary: bool = False
    missed: Missed | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """Write this record, under the ETag of what was read."""

    record: LockRecord
    term: LeaseTerm


@dataclass(frozen=True, slots=True)
class Mine:
    """It is acquired already: an earlier write of this very request landed, and this is its lease."""

    record: LockRecord
    term: LeaseTerm


@dataclass(frozen=True, slots=True)
class Refused:
    """Not now; `current` is what stands in the way. If it `is_stuck`, it will do so until an operator unlocks it."""

    reason: Reason
    current: Current = IDLE
    detail: str = ""
    is_stuck: bool = False


def decide(node: object, request: Request, now: Moment, written: Mapping[Number, LeaseTerm]) -> Take | Mine | Refused:
    """What may be done with a node that was just read. `written` are the terms of this request's own writes, by
    `expiresAt`.
    """
    # 1., 2. What does the node say?
    try:
        current = parse(node, now.server)
    except Malformed as error:
        return Refused("malformed", detail=str(error))
    record = current if isinstance(current, LockRecord) else None

    # 3. Mine already? Only with the lease of the write that put it there, never with a new one.
    if record is not None and record.holder == request.holder and (record.releasedAt is None or request.momentary):
        term = written.get(record.expiresAt)
        if term is not None and (request.momentary or term.is_trusted(now.mono, request.margin)):
            return Mine(record, term)

    # 4. Does an operator keep everybody out?
    if current.paused is not None and current.paused is not False:
        return Refused("paused", current)

    # 5. Is the tick spent? Its rerun is not, if the tick was never finished and the lock is not held.
    live = record is not None and record.is_live(now.server, request.margin)
    if record is not None and request.slot is not None and record.slot is not None and request.slot <= record.slot:
        rerun = request.rerun and request.slot == record.unfinished and not live
        if not rerun:
            return Refused("slot_done", current)

    # 6. Does somebody hold it?
    if live:
        return Refused("held", current, is_stuck=record is not None and record.is_stuck(now.server))

    # 7. Is this instance early?
    if request.slot is not None and to_milliseconds(request.slot) > now.server + request.margin:
        return Refused("slot_early", current)

    # 8. It is free.
    return _taken(current, request, now)


def _taken(current: Current, request: Request, now: Moment) -> Take:
    record = current if isinstance(current, LockRecord) else None
    term = LeaseTerm(now.server if request.momentary else now.server + request.ttl, now)
    kept = dict(current.kept) if isinstance(current, Idle) else dict(record.model_extra or {}) if record else {}
    fields: dict[str, object] = {
        **kept,
        "acquired": to_text(now.server),
        "acquiredAt": now.server,
        "expires": to_text(term.expires_at),
        "expiresAt": term.expires_at,
        "holder": request.holder,
        "instance": request.instance,
        "instanceId": request.instance_id,
        "paused": current.paused,
        **_claim(record, request),
    }
    if request.momentary:
        # Nobody watches the run that begins now, so it can't be left unfinished.
        fields |= {"releasedAt": now.server}
        if request.slot is not None:
            fields["unfinished"] = None
    if request.fenced:
        fields["fence"] = max(int(record.fence or 0) + 1 if record else 0, now.server)
    elif record is not None:
        fields["fence"] = record.fence
    return Take(LockRecord.model_validate({key: value for key, value in fields.items() if value is not None}), term)


def _claim(record: LockRecord | None, request: Request) -> dict[str, object]:
    """The fields that say which tick was claimed, and whether its run has ended."""
    if request.slot is None:
        # Nobody's tick is touched: what the node knew of the last one stays, with the number of its claims.
        if record is None:
            return {}
        kept = {key: getattr(record, key) for key in ("slot", "unfinished", "attempt", *NONE_MISSED.to_json())}
        return kept if request.missed is None else {**kept, **request.missed.to_json()}
    claim = {"slot": request.slot, "unfinished": request.slot, **(request.missed or NONE_MISSED).to_json()}
    if record is None or request.slot != record.unfinished:
        return {**claim, "attempt": 1}
    # A rerun: the newest tick claimed stays the newest.
    return {**claim, "slot": max(record.slot or "", request.slot), "attempt": int(record.attempt or 1) + 1}


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is over for its holder, whatever it does; `why` is for people."""

    why: str


def check_holding(node: object, holder: str, now: int) -> LockRecord | Lost:
    """The record, if it is this holder's and not released; why not, otherwise."""
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
    """The record with a later expiry, if the lease is still trusted: by the record and by the holder's own clock."""
    record = check_holding(node, holder, now.server)
    if isinstance(record, Lost):
        return record
    if not now.server < record.expiresAt - margin:
        # What `firecron unlock` writes, and an operator in the console.
        is_unlocked = record.expiresAt == 0
        return Lost("an operator unlocked it" if is_unlocked else f"it expired at {to_text(int(record.expiresAt))}")
    if not term.is_trusted(now.mono, margin):
        return Lost("its lease ran out before it could be renewed")
    later = LeaseTerm(now.server + ttl, now)
    return Take(
        record.model_copy(update={"expiresAt": later.expires_at, "expires": to_text(later.expires_at)}),
        later,
    )


def released(
    node: object,
    holder: str,
    now: int,
    *,
    hold_at_least: int = 0,
    outcome: str | None = None,
    finished: str | None = None,
) -> LockRecord | Lost | None:
    """What the node shall be after the release: a record that remembers, or None: deleted, because there is nothing
    to remember.

    `finished` is the slot whose run has ended with this release; it is unfinished no more.
    """
    record = check_holding(node, holder, now)
    if isinstance(record, Lost):
        return record
    # The `acquiredAt` of a record that is mine is a number, unless somebody edited it away.
    expires_at = max(now, int(record.acquiredAt or 0) + hold_at_least)
    unfinished = None if finished is not None and record.unfinished == finished else record.unfinished
    remembers = (record.slot, record.fence, record.paused, unfinished)
    if all(item is None for item in remembers) and not record.model_extra and expires_at == now:
        return None
    return record.model_copy(
        update={
            "releasedAt": now,
            "expiresAt": expires_at,
            "expires": to_text(expires_at),
            "outcome": outcome,
            "unfinished": unfinished,
        }
    )
