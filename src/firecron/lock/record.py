"""The lock's record and every rule about it: pure values and decisions, without I/O and without a clock.

`parse` says what a node means. `decide` says what a contender may do with the node that it read. `renewed` and
`released` say what the holder may do. The shell (`protocol`) reads the node, asks here, and writes under the ETag of
that read. So two contenders that read the same state never both write.

The margin is how far apart two instances' ideas of RTDB's time may be. It counts on both sides:

    holder     |<-- trusts its lease ------------------>|   stops at expiresAt - margin
    record     acquiredAt                                   expiresAt
    contender  |<-- takes it for held --------------------------------->|   waits for expiresAt + margin

So two instances never both trust a lease of the lock, as long as each estimate of the time is right to within the
margin, and the holder ages its lease on a monotonic clock from the reading that made `expiresAt` (`Trust`).

Beside the lock, the record counts in `failures` how many runs of ticks have failed in a row:

    one more    a release after a run of a tick that failed, or that lost its lease and still has the record
    one more    an acquisition that replaces the record of a run that died: neither ended nor released
    none        a release after a success, also of a run by hand; an acquisition after a success beside which an older
                version, which doesn't count, has left the number
    as before   any other write: of a run that was interrupted or cancelled, of a run by hand that failed, a renewal

Each count is part of a write that is made anyway, under its ETag. So a run is counted once, whatever interleaves:

    a lost run, and the next claim          if the claim comes first, it counts the run as died, and the release
                                            writes nothing; if the release comes first, the claim finds it released
    a release or a claim without a reply    it is decided again by the node that is read then: a write that was
                                            applied is recognised, and not made again

No lock depends on the count. What somebody has typed there in place of a number counts as none.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil
from typing import Literal, Self, TypeAlias, TypedDict, get_args

from firecron.base.clocks import Moment
from firecron.base.instants import to_milliseconds, to_text
from firecron.errors import Malformed
from firecron.lock.fields import (
    BEYOND,
    NOT_OF_ITS_TYPE,
    TOO_HIGH,
    disorder,
    is_paused,
    misfit,
    too_much,
    wrong_count,
    wrong_exact,
    wrong_instant,
    wrong_number,
    wrong_spans,
    wrong_text,
)
from firecron.store import Snapshot

DAY = 86_400_000
# How often a tick may be claimed: its first run, and its reruns.
MOST_CLAIMS = 3
# No ttl is longer than a day. The minute allows for clocks that differ.
_FURTHEST = DAY + 60_000

Number: TypeAlias = int | float

CutShort: TypeAlias = Literal["interrupted", "lost"]
# The outcomes of runs that have ended, but have not finished their slot.
_CUT_SHORT: tuple[CutShort, ...] = get_args(CutShort)


# Without slots: `of` and `changed` fill `__dict__` at once, which takes a third of the time.
@dataclass(frozen=True, kw_only=True)
class LockRecord:
    """The content of a lock node. Fields that firecron doesn't know are `kept` as they are.

    It is read as strictly as a model of pydantic's would, and in the same words. The model itself would make each start
    of a program longer by a tenth.
    """

    acquired: object = None  # for people, like `expires`; firecron never reads them back
    acquiredAt: Number | None = None
    attempt: Number | None = None
    cancel: object = None  # the fence of the acquisition whose holder is asked to stop
    cancelWhy: object = None
    expires: object = None
    failures: object = None  # how many runs of ticks have failed in a row
    expiresAt: Number  # without a bound, so that a stuck lock can still be read and unlocked
    fence: Number | None = None
    holder: str | None = None
    instance: str | None = None
    instanceId: str | None = None
    missedAfter: str | None = None  # `Missed` has this and the next two fields
    missedMore: str | None = None
    missedUntil: str | None = None
    outcome: str | None = None
    releasedAt: Number | None = None
    renews: object = None  # False: the holder does not renew, so it would never meet a `cancel`
    slot: str | None = None
    succeededSlot: str | None = None
    unfinished: str | None = None
    # What doesn't belong to the lock, such as a pause: every write carries it over.
    kept: Mapping[str, object] = field(default_factory=dict)

    @classmethod
    def read(cls, node: Mapping[str, object], now: int) -> Self:
        """Return the record that a node holds. Raise Malformed, which names the first field that is wrong."""
        for name, wrong in _CHECKS.items():
            value = node.get(name)
            if value is None:
                if name == "expiresAt":
                    raise Malformed("its field expiresAt is wrong: Field required")
            elif (problem := wrong(value)) is not None:
                if problem is BEYOND:
                    raise Malformed(_beyond(name, value, now))
                shown = f", and is {value!r:.40}" if problem in NOT_OF_ITS_TYPE else ""
                raise Malformed(f"its field {name} is wrong: {problem}{shown}")
        return cls.of(node)

    @classmethod
    def of(cls, values: Mapping[str, object]) -> Self:
        """Return the record with these values, which are right. A field that is None is not there."""
        fields: dict[str, object] = dict(_NOTHING)
        kept: dict[str, object] = {}
        for name, value in values.items():
            if name in _NOTHING:
                fields[name] = value
            elif value is not None:
                kept[name] = value
        record = object.__new__(cls)
        vars(record).update(fields, kept=kept)
        return record

    def changed(self, **changes: object) -> Self:
        """Return the record with other values of some of its fields."""
        record = object.__new__(type(self))
        vars(record).update(vars(self), **changes)
        return record

    def to_json(self) -> dict[str, object]:
        """Return the record as it is stored, without the fields that are None."""
        fields = {name: value for name, value in vars(self).items() if value is not None and name != "kept"}
        return {**fields, **self.kept}

    @property
    def owner(self) -> str:
        """The holder's instance, for people."""
        return "/".join(part for part in (self.instanceId, self.instance) if part) or "an unknown instance"

    @property
    def is_cancelled(self) -> bool:
        """Whether this acquisition is cancelled. To one with a higher fence, `cancel` means nothing."""
        return type(self.cancel) in (int, float) and self.cancel == self.fence

    @property
    def hears_cancel(self) -> bool:
        """Whether its holder meets a `cancel`: it has taken a fence, and not only kept an old one, and renews."""
        return self.fence is not None and self.fence >= (self.acquiredAt or 0) and self.renews is not False

    @property
    def ended_as(self) -> CutShort | None:
        """How the run of the unfinished slot was cut short, if its holder has released the lock and said so."""
        return next((word for word in _CUT_SHORT if self.releasedAt is not None and self.outcome == word), None)

    @property
    def open_slot(self) -> str | None:
        """The unfinished slot that was claimed, unless its run is cancelled: that is never run again."""
        if (self.unfinished or "") > (self.slot or ""):
            return None
        return None if self.is_cancelled else self.unfinished

    def newest_success(self, also: str | None = None) -> str | None:
        """Return the newest tick that has succeeded, if `also` has. One later than `slot` was never claimed."""
        return max((slot for slot in (self.succeededSlot, also) if slot and slot <= (self.slot or "")), default=None)

    def free_at(self, margin: int) -> int:
        """Return from when on another holder may take the lock: a margin after it expires, which is for two instances'
        ideas of the time. Nobody trusts a lease of a lock that was released, so a minimum hold ends without a margin.
        """
        return ceil(self.expiresAt) + (margin if self.releasedAt is None else 0)

    def is_live(self, now: int, margin: int) -> bool:
        """Return whether the lock counts as held."""
        return now < self.free_at(margin)

    def is_stuck(self, now: int) -> bool:
        """Return whether it expires later than any lease or minimum hold can, so that only an unlock frees its name."""
        return self.expiresAt > now + _FURTHEST


# What a value has to be, in the order in which problems are told. Fields that firecron never reads may hold anything.
_CHECKS: Mapping[str, Callable[[object], str | None]] = {
    "acquiredAt": wrong_exact,
    "attempt": wrong_count,
    "expiresAt": wrong_number,
    "fence": wrong_exact,
    "holder": wrong_text,
    "instance": wrong_text,
    "instanceId": wrong_text,
    "missedAfter": wrong_instant,
    "missedMore": wrong_spans,
    "missedUntil": wrong_instant,
    "outcome": wrong_text,
    "releasedAt": wrong_exact,
    "slot": wrong_instant,
    "succeededSlot": wrong_instant,
    "unfinished": wrong_instant,
}
FIELDS = frozenset(LockRecord.__dataclass_fields__) - {"kept"}
LOCK_FIELDS = FIELDS - {"cancel", "cancelWhy", "failures"}
_NOTHING: Mapping[str, object] = {name: None for name in LockRecord.__dataclass_fields__ if name in FIELDS}


def _beyond(name: str, value: object, now: int) -> str:
    example = 1 if name == "attempt" else now
    return f"its field {name} is {value!r:.40}, beyond what is counted exactly: set it to {example}"


@dataclass(frozen=True, slots=True)
class Idle:
    """A node without a lock: absent, or with only a pause and fields that firecron doesn't know."""

    kept: Mapping[str, object]


IDLE = Idle({})

Current: TypeAlias = LockRecord | Idle


def parse(node: object, now: int, *, is_mine: bool = False) -> Current:
    """Return what a node says. Raise Malformed for a node that can't be understood: its lock may not be taken.

    To its holder (`is_mine`), what the node carries beside the lock is not too much.
    """
    if node is None:
        return IDLE
    if not isinstance(node, dict):
        raise Malformed(f"it holds {type(node).__name__} {node!r:.40} instead of a lock record")
    if why := disorder(node.get("kind"), node.get("slot")):
        raise Malformed(why)
    if not LOCK_FIELDS & node.keys():
        return _bounded(Idle(node))
    record = LockRecord.read(node, now)
    if record.slot is not None and to_milliseconds(record.slot) > now + DAY:
        raise Malformed(f"its slot {record.slot} is more than a day ahead, and would block every tick until then")
    return record if is_mine else _bounded(record)


def _bounded(current: Current) -> Current:
    if why := too_much(current.kept):
        raise Malformed(why)
    return current


# --- the trust in a lease, as its holder counts it. The record says when others may take the lock.


@dataclass(frozen=True, slots=True)
class Trust:
    """A lease as its holder sees it: the `expiresAt` that was written, and the clock reading behind it."""

    expires_at: int
    reading: Moment

    def ends(self, margin: int) -> float:
        """Return when the holder stops trusting the lease, on the monotonic clock.

        That is a margin before the lease expires. It is sooner only if the holder's clock may be wrong by more than the
        margin at that time, as at the end of a lease of hours that was never renewed.
        """
        span = self.expires_at - self.reading.server
        wrong = self.reading.uncertainty + self.reading.drift * span
        return self.reading.mono + span - max(margin, wrong)

    def is_trusted(self, mono: float, margin: int) -> bool:
        return mono < self.ends(margin)


# --- an acquisition

Reason: TypeAlias = Literal[
    "held", "slot_done", "slot_early", "paused", "removed", "malformed", "unavailable", "denied"
]


class Missed(TypedDict):
    """What a record remembers of ticks that did not run, by its fields."""

    missedAfter: str | None
    missedUntil: str | None
    missedMore: str | None


NONE_MISSED = Missed(missedAfter=None, missedUntil=None, missedMore=None)


@dataclass(frozen=True, slots=True)
class Request:
    """What a contender wants: a lock, or (`momentary`) a slot that is claimed and released in one write.

    `holder` is its random token. `slot` claims a tick in the same write; with `rerun` it may be an unfinished tick.
    `renews` says whether the lease will be renewed by itself. `missed` is what the record shall remember of ticks that
    did not run; None leaves what it remembers. `kind` is what the name belongs to. A run by hand that
    `resumes` the unfinished tick counts as one more claim of it.
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
    renews: bool = True
    missed: Missed | None = None
    kind: str | None = None
    resumes: str | None = None


@dataclass(frozen=True, slots=True)
class Take:
    """Write this record, under the ETag of the node that was read. `before` is what that node says."""

    record: LockRecord
    trust: Trust
    before: Current


@dataclass(frozen=True, slots=True)
class Mine:
    """The lock is acquired already: an earlier write of this request was applied. This is its lease."""

    record: LockRecord
    trust: Trust


@dataclass(frozen=True, slots=True)
class Refused:
    """The lock is refused; `current` is what stands in the way. If it `is_stuck`, only an unlock frees the lock.

    `seen` is the node as it was read for this answer.
    """

    reason: Reason
    current: Current = IDLE
    detail: str = ""
    is_stuck: bool = False
    seen: Snapshot | None = field(default=None, compare=False, repr=False)


# Returns the request that fits what a node says at that time; or the refusal, if none fits.
Choose: TypeAlias = Callable[[Request, Current, int], Request | Refused]


def decide(
    node: object,
    request: Request,
    now: Moment,
    written: Mapping[Number, Trust],
    choose: Choose | None = None,
) -> Take | Mine | Refused:
    """Return what a contender may do with a node that was just read. The node is parsed here, and nowhere after.

    `written` has the trust of this request's own writes, by their `expiresAt`. `choose` fits the request to what the
    node says, unless the record is this request's own.
    """
    # 1., 2. What does the node say?
    try:
        current = parse(node, now.server)
    except Malformed as error:
        return Refused("malformed", detail=str(error))
    record = current if isinstance(current, LockRecord) else None
    why = misfit(current.kept.get("kind"), request.kind, *((record.slot, record.outcome) if record else ()))

    # 3. Is the record this request's own? It counts only with the trust of the write that made it, never a new one.
    if record is not None and record.holder == request.holder and (record.releasedAt is None or request.momentary):
        trust = None if why else written.get(record.expiresAt)
        if trust is not None and (request.momentary or trust.is_trusted(now.mono, request.margin)):
            return Mine(record, trust)

    # It is not, so what is asked for is chosen by what the node says. It may be nothing, whatever the name belongs to.
    if choose is not None:
        chosen = choose(request, current, now.server)
        if isinstance(chosen, Refused):
            return chosen
        request = chosen
    if why:
        return Refused("malformed", current, detail=why)

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


def _taken(current: Current, request: Request, now: Moment) -> Take | Refused:
    record = current if isinstance(current, LockRecord) else None
    trust = Trust(now.server if request.momentary else now.server + request.ttl, now)
    fields: dict[str, object] = {
        **current.kept,
        "acquired": to_text(now.server),
        "acquiredAt": now.server,
        "cancel": None,  # it was meant for the acquisition before
        "cancelWhy": None,
        "expires": to_text(trust.expires_at),
        "expiresAt": trust.expires_at,
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
        fence = max(int(record.fence or 0) + 1 if record else 0, now.server)
        if record and fence >= TOO_HIGH:
            return Refused("malformed", current, detail=_beyond("fence", record.fence, now.server))
        fields["fence"] = fence
    elif record is not None:
        fields["fence"] = record.fence
    return Take(LockRecord.of(fields), trust, current)


def _claim(record: LockRecord | None, request: Request) -> dict[str, object]:
    """Return the fields that say which tick is claimed, and whether its run has ended."""
    if request.slot is None:
        # No tick is claimed, so what the node knows of the last tick stays, also the number of its claims.
        if record is None:
            return {}
        kept = {key: getattr(record, key) for key in ("slot", "attempt", *NONE_MISSED)}
        if request.resumes is not None and request.resumes == record.open_slot:
            kept["attempt"] = 1 + int(record.attempt or 1)
        return {**kept, "unfinished": record.open_slot, **(request.missed or {})}
    claim = {"slot": request.slot, "unfinished": request.slot, **(request.missed or NONE_MISSED)}
    if record is None or request.slot != record.open_slot:
        return {**claim, "attempt": 1}
    # This is a rerun: `slot` stays the newest tick that was claimed.
    return {**claim, "slot": max(record.slot or "", request.slot), "attempt": int(record.attempt or 1) + 1}


# --- what is written to a lock that is held


@dataclass(frozen=True, slots=True)
class Lost:
    """The lease is over for its holder, whatever the holder does; `why` is for people."""

    why: str


def check_holding(node: object, holder: str, now: int) -> LockRecord | Lost:
    """Return the record if this holder has it and has not released it; otherwise why not."""
    try:
        record = parse(node, now, is_mine=True)
    except Malformed as error:
        return Lost(f"the node can't be read any more: {error}")
    if isinstance(record, Idle):
        return Lost("the node was deleted")
    if record.holder != holder:
        return Lost(f"{record.owner} holds it now")
    if record.releasedAt is not None:
        return Lost("it was released")
    return record


def renewed(node: object, holder: str, ttl: int, now: Moment, trust: Trust, margin: int, kind: object) -> Take | Lost:
    """Return the record with a later expiry; Lost if by the record or the holder's own clock the lease is over.

    `kind` is what the name belonged to when it was acquired: under another kind nobody may go on.
    """
    record = check_holding(node, holder, now.server)
    if isinstance(record, Lost):
        return record
    if (found := record.kept.get("kind")) != kind:
        return Lost(f"its `kind` was {kind!r} and is {found!r:.40}, so the name belongs to something else now")
    if not now.server < record.expiresAt - margin:
        # `firecron unlock` writes 0, and so does an operator in the console.
        is_unlocked = record.expiresAt == 0
        return Lost("an operator unlocked it" if is_unlocked else f"it expired at {to_text(int(record.expiresAt))}")
    if not trust.is_trusted(now.mono, margin):
        return Lost("its lease ran out before it could be renewed")
    later = Trust(now.server + ttl, now)
    return Take(record.changed(expiresAt=later.expires_at, expires=to_text(later.expires_at)), later, record)


def released(
    node: object,
    holder: str,
    now: int,
    *,
    hold_at_least: int = 0,
    outcome: str | None = None,
    finished: str | None = None,
    tick: str | None = None,
    before: LockRecord | None = None,
) -> LockRecord | Lost | None:
    """Return the record after the release; None to delete the node, because it has nothing to remember.

    `finished` is the slot whose run ends with this release: unfinished no more, and remembered if it succeeded. `tick`
    is the slot that the holder has run, ended or not: None of a plain lock, and of a run by hand that resumes none. A
    slot that is left unfinished and is not this one was another run's, so a cancel was not meant for it, and goes. For
    the same reason such a holder does not leave `interrupted` or `lost` there: beside an unfinished slot these words
    say how its run ended (`ended_as`). `before` is the record that was acquired by a holder that has run nothing: its
    outcome and its attempt stay, so the claim is not counted.
    """
    record = check_holding(node, holder, now)
    if isinstance(record, Lost):
        return record
    # The `acquiredAt` of this holder's record is a number, unless it was removed by hand.
    expires_at = max(now, int(record.acquiredAt or 0) + hold_at_least)
    unfinished = None if finished is not None and record.unfinished == finished else record.unfinished
    is_anothers = unfinished is not None and unfinished != tick
    remembers = (record.slot, record.fence, unfinished)
    if all(item is None for item in remembers) and not record.kept and expires_at == now:
        return None
    after = record.changed(
        releasedAt=now,
        expiresAt=expires_at,
        expires=to_text(expires_at),
        failures=after_release(record.failures, outcome, is_tick=record.slot is not None and tick is not None),
        outcome=None if is_anothers and outcome in _CUT_SHORT else outcome,
        unfinished=unfinished,
        succeededSlot=(
            record.newest_success(finished) if finished and outcome == "succeeded" else record.succeededSlot
        ),
        cancel=None if is_anothers else record.cancel,
        cancelWhy=None if is_anothers else record.cancelWhy,
    )
    return after if before is None else after.changed(attempt=before.attempt, outcome=before.outcome)


def cancelled(node: object, holder: str, fence: int, now: int, why: str | None = None) -> LockRecord | Lost:
    """Return the record that asks the holder of one acquisition to stop; Lost if that acquisition is over."""
    record = check_holding(node, holder, now)
    if isinstance(record, Lost):
        return record
    if record.fence != fence:
        return Lost(f"{record.owner} has acquired it again")
    return record.changed(cancel=fence, cancelWhy=why)


# --- the count of failures


def after_claim(failures: object, open_slot: str | None, released_at: object, outcome: str | None) -> object:
    """Return the count for an acquisition. A record with an open slot that was not released is that of a died run."""
    so_far = None if outcome == "succeeded" else failures
    return _one_more(so_far) if open_slot is not None and released_at is None else so_far


def after_release(failures: object, outcome: str | None, *, is_tick: bool) -> object:
    """Return the count after a run with this outcome. `is_tick` says that it was the run of a tick."""
    if outcome == "succeeded":
        return None
    return _one_more(failures) if is_tick and outcome in ("failed", "lost") else failures


def _one_more(failures: object) -> int | float:
    if isinstance(failures, bool) or not isinstance(failures, int | float) or failures < 0:
        return 1
    return failures + 1
