"""Acquire, renew, release, cancel, edit: the exchanges with the store, action by action.

Each exchange is a generator. It yields the next action (`Now`, `Read`, `Swap`, `BackOff`), and receives the answer to
it. So the order of the actions is written once, for the threads that block (`Database.run`) and for the tests, which
interleave the actions of several holders in every order, lose replies, and stop clocks.

All exchanges keep these rules:

1. A write is conditional on the ETag of the node that was read. A contender that loses gets the present node with the
   answer, and decides again.
2. A write that may have been applied (no reply, a 5xx) is not sent again. The next read of the node decides, by the
   holder in it. A contender that may not read it is not denied: it may hold the lock, so it doesn't know.
3. After a 401 to a write, one read settles the matter: the rules may have refused a loser before RTDB compared the
   ETag. A refused write was not applied. A contender may be refused again although the node is free. If the node
   has changed in the meantime, the contender has lost to another one. But another contender may also have acquired and
   released a plain lock, which leaves no trace. So the contender deletes the absent node: the answer says whether the
   rules let this user write at all.
4. Between tries there is a random pause, with one exception: the first write that finds the node changed is sent again
   at once. No exchange goes on past the deadline.
5. Each request has a deadline of its own: the earliest of the exchange's deadline, the timeout of one request and, if a
   lease is at stake, a third of the time left of the lease. So one slow request can't use up the lease.
6. The node of a stored schedule is read before a claim writes it, because a claim may not create it; and each write of
   it sets anew when to look at it (`look` has what decides that).
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias, TypeVar

from firecron.base.clocks import Moment
from firecron.errors import Denied, Malformed, StoreError, Unavailable
from firecron.lock.record import (
    IDLE,
    Choose,
    Current,
    LockRecord,
    Lost,
    Mine,
    Number,
    Refused,
    Request,
    Trust,
    cancelled,
    check_holding,
    decide,
    parse,
    released,
    renewed,
)
from firecron.lock.stored import LookOptions, finished
from firecron.store import NULL_ETAG, Snapshot

ABSENT = Snapshot(NULL_ETAG, None)


@dataclass(frozen=True, slots=True)
class Now:
    """Asks for a clock reading (a `Moment`)."""


@dataclass(frozen=True, slots=True)
class Read:
    """Asks for the node (a `Snapshot`)."""


@dataclass(frozen=True, slots=True)
class Swap:
    """Asks to write the node (None: delete it) if it still has the ETag.

    The answer is `Swapped`, or a `Snapshot` of the node if its ETag is another one.
    """

    etag: str
    node: dict[str, object] | None


@dataclass(frozen=True, slots=True)
class Swapped:
    """The write was applied. `etag` is the node's new ETag, `mono` the monotonic clock when the reply came."""

    etag: str
    mono: float


@dataclass(frozen=True, slots=True)
class BackOff:
    """Asks to wait before the next try, because the `tries`-th try failed with the `error`.

    Without time for another try, `first` is raised: what went wrong first says more than what the lack of time does.
    """

    tries: int
    error: StoreError
    first: StoreError | None = None


NOW = Now()
Action: TypeAlias = Now | Read | Swap | BackOff
Answer: TypeAlias = Moment | Snapshot | Swapped | None
T = TypeVar("T")
Exchange: TypeAlias = Generator[Action, Answer, T]


@dataclass(frozen=True, slots=True)
class Held:
    """An acquired lock: its record, its trust, the node as it was written or found, and what the one before it said."""

    record: LockRecord
    trust: Trust
    snapshot: Snapshot
    replaced: Current = IDLE


@dataclass(frozen=True, slots=True, kw_only=True)
class Bid(Request):
    """A request for the lock of this name, over all its tries: a value, but for what its own writes have been.

    The tries share the token. So a later try recognises an earlier write of the bid, even if the reply to it was lost.
    `look` is given for the entry of a stored schedule, and for no other lock.
    """

    name: str
    hold_at_least: int
    choose: Choose | None = None
    max_runtime: int | None = None
    look: LookOptions | None = None
    written: dict[Number, Trust] = field(default_factory=dict)
    replaced: dict[Number, Current] = field(default_factory=dict)


# --- the exchanges

OVERTAKEN = (
    "The node changed before each write arrived: other clients keep writing it, "
    "or a proxy in between weakens ETags (W/…), so that they never match"
)


def acquiring(
    request: Request,
    known: Snapshot | None,
    written: dict[Number, Trust],
    replaced: dict[Number, Current] | None = None,
    choose: Choose | None = None,
    look: LookOptions | None = None,
) -> Exchange[Held | Refused]:
    """Acquire the lock, or return why not. Raise Unavailable if that can't be known, or Denied.

    `known` is the node as it was last seen: a write may be based on it, an answer never. `written` has the trust of the
    writes that this request has sent, by their `expiresAt`. A later try with the same request needs them to recognise
    its own write. It also needs `replaced`, what the nodes said that those writes were to replace. `choose` fits the
    claim to each record that is read on the way.
    """
    replaced = {} if replaced is None else replaced
    snapshot, is_fresh = (known or ABSENT, False) if look is None else ((yield from reading()), True)
    was_denied = False
    tries = 0
    while True:
        now = yield from _now()
        decision = decide(snapshot.node, request, now, written, choose)
        if not is_fresh and (isinstance(decision, Mine | Refused) or is_outdated(snapshot, request)):
            snapshot, is_fresh = (yield from reading()), True
            continue
        if isinstance(decision, Mine):
            return Held(decision.record, decision.trust, snapshot, replaced.get(decision.record.expiresAt, IDLE))
        if isinstance(decision, Refused):
            return replace(decision, seen=snapshot)
        written.setdefault(decision.trust.expires_at, decision.trust)
        replaced.setdefault(decision.trust.expires_at, decision.before)
        node = to_node(decision.record, look, now)
        try:
            answer = yield Swap(snapshot.etag, node)
        except Unavailable as error:
            tries += 1
            yield BackOff(tries, error)
            try:
                snapshot, is_fresh = (yield from reading()), True
            except Denied as denied:
                # It is still not known whether the lock is acquired. A later try with this request may find it out.
                raise Unavailable(f"{error}; and the read that was to settle it is refused: {denied}") from denied
            continue
        except Denied as error:
            refused = snapshot if was_denied else None
            if refused == ABSENT:
                yield Swap(NULL_ETAG, None)
            snapshot, is_fresh, was_denied = (yield from reading()), True, True
            if snapshot != ABSENT and snapshot == refused:
                raise
            if refused is not None:
                tries += 1
                yield BackOff(tries, error)
            continue
        if isinstance(answer, Swapped):
            if not request.momentary and not decision.trust.is_trusted(answer.mono, request.margin):
                raise Unavailable(
                    "The lock was acquired, but the reply came after its lease was over: it expires by itself"
                )
            return Held(decision.record, decision.trust, Snapshot(answer.etag, node), decision.before)
        snapshot, is_fresh = expect(answer, Snapshot), True
        tries += 1
        yield from overtaken(tries)


def is_outdated(known: Snapshot | None, request: Request) -> bool:
    """Return whether the node was last seen in the hands of another instance, which has released it since, or will."""
    node = None if known is None else known.node
    return isinstance(node, dict) and node.get("releasedAt") is None and node.get("instance") != request.instance


def renewing(held: Held, ttl: int, margin: int, look: LookOptions | None = None) -> Exchange[Held | Lost]:
    """Renew the lease, or return why it is lost.

    Raise StoreError if neither is possible. The end of the lease then stays as it is.
    """
    holder = held.record.holder
    assert holder is not None, "what is held has a holder"
    snapshot = held.snapshot
    tries = 0
    while True:
        now = yield from _now()
        decision = renewed(snapshot.node, holder, ttl, now, held.trust, margin, held.record.kept.get("kind"))
        if isinstance(decision, Lost):
            return decision
        node = to_node(decision.record, look, now)
        try:
            answer = yield Swap(snapshot.etag, node)
        except StoreError as error:
            tries += 1
            yield BackOff(tries, error)
            snapshot = yield from reading()
            continue
        if isinstance(answer, Swapped):
            if not held.trust.is_trusted(answer.mono, margin):
                return Lost("its lease ran out before the reply to its renewal came")
            return Held(decision.record, decision.trust, Snapshot(answer.etag, node))
        snapshot = expect(answer, Snapshot)
        tries += 1
        yield from overtaken(tries)


def releasing(
    held: Held,
    *,
    margin: int = 0,
    hold_at_least: int = 0,
    outcome: str | None = None,
    finished: str | None = None,
    tick: str | None = None,
    before: LockRecord | None = None,
    look: LookOptions | None = None,
) -> Exchange[Snapshot | Lost]:
    """Release the lock if this holder still has it, and return the node after that. Raise StoreError if it fails."""
    holder = held.record.holder
    assert holder is not None, "what is held has a holder"
    snapshot = held.snapshot
    sent = False
    tries = 0
    while True:
        now = yield from _now()
        if sent and (
            _is_released(snapshot.node, holder, now.server)
            # Another holder has it already, and only this release can have freed the lock.
            or (not _is_held_by(snapshot.node, holder, now.server) and held.trust.is_trusted(now.mono, margin))
        ):
            return snapshot
        after = released(
            snapshot.node,
            holder,
            now.server,
            hold_at_least=hold_at_least,
            outcome=outcome,
            finished=finished,
            tick=tick,
            before=before,
        )
        if isinstance(after, Lost):
            return after
        node = None if after is None else to_node(after, look, now)
        try:
            answer = yield Swap(snapshot.etag, node)
        except StoreError as error:
            if isinstance(error, Unavailable):
                sent = True
            tries += 1
            yield BackOff(tries, error)
            snapshot = yield from reading()
            continue
        if isinstance(answer, Swapped):
            return Snapshot(answer.etag, node)
        snapshot = expect(answer, Snapshot)
        tries += 1
        yield from overtaken(tries)


def cancelling(
    holder: str, fence: int, why: str | None = None, look: LookOptions | None = None
) -> Exchange[Snapshot | Lost]:
    """Ask the holder of one acquisition to stop, and return the node after that; Lost if the acquisition is over.

    Raise StoreError if it is not known whether the holder is asked. Any client may do this, not only a holder.
    """

    def decide(node: object, now: int) -> Mapping[str, object] | Lost | None:
        if _is_cancelled(node, holder, fence, now):
            return None
        after = cancelled(node, holder, fence, now, why)
        return after if isinstance(after, Lost) else after.to_json()

    snapshot, lost = yield from editing(decide, look=look)
    return snapshot if lost is None else lost


def editing(
    decide: Callable[[object, int], Mapping[str, object] | T],
    known: Snapshot | None = None,
    look: LookOptions | None = None,
    *,
    once: bool = False,
) -> Exchange[tuple[Snapshot, T | None]]:
    """Write what `decide` makes of the node at a time of RTDB's clock. Return the node after that, and None.

    If `decide` returns anything else than a node, nothing is written, and it is returned beside the node that was read.
    Raise StoreError if it is not known whether the node was written. `known` is the node as it was last seen: a write
    may be based on it, an answer never. Any client may do this, not only a holder.

    After a lost reply the node may be read as it was sent: then it was written, and `decide` is not asked again. If
    there is no node then, `once` says that it may have been written, and deleted since: that is Unavailable.
    """
    snapshot, is_fresh = (known, False) if known is not None else ((yield from reading()), True)
    tries, unanswered = 0, list[object]()
    first: Unavailable | None = None
    while True:
        if snapshot.node in unanswered:
            return snapshot, None
        now = yield from _now()
        node = decide(snapshot.node, now.server)
        if not isinstance(node, Mapping):
            if is_fresh:
                return snapshot, node
            snapshot, is_fresh = (yield from reading()), True
            continue
        if once and unanswered and snapshot.node is None:
            raise Unavailable("no answer came to a write, and nothing is there: it may have been dealt with already")
        node = dict(node) if look is None else finished(node, look, now.server)
        try:
            answer = yield Swap(snapshot.etag, node)
        except Denied:
            denied, snapshot, is_fresh = snapshot, (yield from reading()), True
            if snapshot == denied:
                raise
            continue
        except Unavailable as error:
            first = first or error
            unanswered.append(node)
            tries += 1
            yield BackOff(tries, error, first)
            snapshot, is_fresh = (yield from reading(first)), True
            continue
        if isinstance(answer, Swapped):
            return Snapshot(answer.etag, node), None
        tries += 1
        snapshot, is_fresh = expect(answer, Snapshot), True
        yield from overtaken(tries)


def to_node(record: LockRecord, look: LookOptions | None, now: Moment) -> dict[str, object]:
    """Return the node for a record; that of a stored schedule says when to look at it."""
    return record.to_json() if look is None else finished(record.to_json(), look, now.server)


def _now() -> Exchange[Moment]:
    return expect((yield NOW), Moment)


def reading(first: StoreError | None = None) -> Exchange[Snapshot]:
    """Read the node. After a failure pause and read again, until the deadline ends the pause.

    Then `first` is raised, if the node is read because of that.
    """
    tries = 0
    while True:
        try:
            return expect((yield Read()), Snapshot)
        except Unavailable as error:
            tries += 1
            yield BackOff(tries, error, first)


def overtaken(tries: int) -> Exchange[None]:
    """Prepare another write after one that found the node changed: the first time at once, later after a pause."""
    if tries > 1:
        yield BackOff(tries, Unavailable(OVERTAKEN))


def _is_held_by(node: object, holder: str, now: int) -> bool:
    return not isinstance(check_holding(node, holder, now), Lost)


def _is_released(node: object, holder: str, now: int) -> bool:
    """Return whether a release that may have been applied was applied.

    It was if the node is gone, or if it has this holder and is released.
    """
    if node is None:
        return True
    record = check_holding(node, holder, now)
    return isinstance(record, Lost) and isinstance(node, dict) and node.get("holder") == holder


def _is_cancelled(node: object, holder: str, fence: int, now: int) -> bool:
    """Return whether this acquisition is cancelled already: by another client, or by a write without a reply.

    It may have been released since.
    """
    try:
        record = parse(node, now)
    except Malformed:
        return False  # the write that would follow is refused, with the reason
    return isinstance(record, LockRecord) and (record.holder, record.fence) == (holder, fence) and record.is_cancelled


def expect(answer: Answer, kind: type[T]) -> T:
    if not isinstance(answer, kind):
        raise TypeError(f"an exchange received {answer!r} instead of a {kind.__name__}")
    return answer
