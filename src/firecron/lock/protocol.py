"""Acquire, renew, release: the exchanges with the store, action by action.

Each exchange is a generator. It yields the action that it wants next (`Now`, `Read`, `Swap`, `Pause`), and is sent
the action's answer. So the order of the actions is written once: for the threads that block (`run`), and for the
tests, which interleave the actions of several holders in every order, lose replies, and stop clocks.

All exchanges keep these rules:

1. A write is conditional on the ETag of what was read. A loser gets the current state with the refusal, and decides
   again.
2. A write that may have been applied (no reply, a 5xx) is not sent again: the next look at the node decides, by
   its holder.
3. A 401 to a write is settled by one read: the rules may have refused a loser before the ETag was compared. What was
   refused was not applied. Whoever is refused a second time, where the node is free, has lost again if the node was
   changed meanwhile. A plain lock that came and went leaves no trace of that: there a deletion of what is not there
   tells whether the rules let this user write at all.
4. Between tries there is a pause with jitter, but for the first write that found the node changed: it is sent again
   at once. Nothing goes on past the deadline.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from typing import TypeAlias, TypeVar

from firecron.base.clocks import Moment
from firecron.errors import Denied, StoreError, Unavailable
from firecron.lock.lease_term import LeaseTerm
from firecron.lock.record import (
    LockRecord,
    Lost,
    Mine,
    Number,
    Refused,
    Request,
    check_holding,
    decide,
    released,
    renewed,
)
from firecron.store import NULL_ETAG, Snapshot

OVERTAKEN = (
    "The node was changed before each write arrived: others keep writing it, "
    "or a proxy in between weakens ETags (W/…), so that none of them ever fits"
)


ABSENT = Snapshot(NULL_ETAG, None)


@dataclass(frozen=True, slots=True)
class Now:
    """Give me a clock reading (a `Moment`)."""


@dataclass(frozen=True, slots=True)
class Read:
    """Give me the node (a `Snapshot`)."""


@dataclass(frozen=True, slots=True)
class Swap:
    """Write this (None: delete), if the node still has the ETag; give me `Swapped`, or the `Snapshot` that is there
    instead.
    """

    etag: str
    node: dict[str, object] | None


@dataclass(frozen=True, slots=True)
class Swapped:
    """It was written; the node's ETag is this now, and the reply came when the monotonic clock showed `mono`."""

    etag: str
    mono: float


@dataclass(frozen=True, slots=True)
class Pause:
    """Wait before the next try, because the `tries`-th one failed: `why`. The server may have asked for `at_least` so
    many seconds.
    """

    tries: int
    why: str
    at_least: float = 0.0
    error: StoreError | None = field(default=None, compare=False)


Action: TypeAlias = Now | Read | Swap | Pause
Answer: TypeAlias = Moment | Snapshot | Swapped | None
T = TypeVar("T")
Exchange: TypeAlias = Generator[Action, Answer, T]


@dataclass(frozen=True, slots=True)
class Held:
    """A lock in hand: its record, its lease, the node as it was written or found, and the one that it replaced."""

    record: LockRecord
    term: LeaseTerm
    snapshot: Snapshot
    replaced: object = None


# What to ask for of a node that was just read, at that time; or why nothing is to be asked for.
Choose: TypeAlias = Callable[[Request, object, int], Request | Refused]


def acquiring(
    request: Request,
    known: Snapshot | None,
    written: dict[Number, LeaseTerm],
    replaced: dict[Number, object] | None = None,
    choose: Choose | None = None,
) -> Exchange[Held | Refused]:
    """Acquire, or find out why not. Raises Unavailable where that can't be known, and Denied.

    `known` is the node as it was last seen: a hint to write by, never believed for an answer. `written` are the terms
    of the writes that this request has sent, by their `expiresAt`; a later try with the same request needs them, to
    know its own write when it sees it; so it does with `replaced`, the nodes that those writes were to replace.
    `choose` makes the claim fit each record that is read on the way.
    """
    replaced = {} if replaced is None else replaced
    snapshot = known or ABSENT
    is_fresh = False
    was_denied = False
    tries = 0
    while True:
        now = yield from _now()
        decision = decide(snapshot.node, request, now, written)
        if choose is not None and not isinstance(decision, Mine):
            asked = choose(request, snapshot.node, now.server)
            decision = asked if isinstance(asked, Refused) else decide(snapshot.node, asked, now, written)
        if isinstance(decision, Mine | Refused) and not is_fresh:
            snapshot, is_fresh = (yield from _read()), True
            continue
        if isinstance(decision, Mine):
            return Held(decision.record, decision.term, snapshot, replaced.get(decision.record.expiresAt))
        if isinstance(decision, Refused):
            return decision
        written.setdefault(decision.term.expires_at, decision.term)
        replaced.setdefault(decision.term.expires_at, snapshot.node)
        node = decision.record.to_json()
        try:
            answer = yield Swap(snapshot.etag, node)
        except Unavailable as error:
            tries += 1
            yield _pause(tries, error)
            snapshot, is_fresh = (yield from _read()), True
            continue
        except Denied as error:
            refused = snapshot if was_denied else None
            if refused == ABSENT:
                yield Swap(NULL_ETAG, None)
            snapshot, is_fresh, was_denied = (yield from _read()), True, True
            if snapshot != ABSENT and snapshot == refused:
                raise
            if refused is not None:
                tries += 1
                yield _pause(tries, error)
            continue
        if isinstance(answer, Swapped):
            if not request.momentary and not decision.term.is_trusted(answer.mono, request.margin):
                raise Unavailable(
                    "The lock was acquired, but the reply came after its lease was over: it expires by itself"
                )
            return Held(decision.record, decision.term, Snapshot(answer.etag, node), snapshot.node)
        snapshot, is_fresh = _expect(answer, Snapshot), True
        tries += 1
        yield from _overtaken(tries)


def renewing(held: Held, ttl: int, margin: int) -> Exchange[Held | Lost]:
    """Lengthen the lease, or find out that it is lost. Raises StoreError where neither could be done; the lease then
    ends as it was.
    """
    holder = held.record.holder
    assert holder is not None, "what is held has a holder"
    snapshot = held.snapshot
    tries = 0
    while True:
        now = yield from _now()
        decision = renewed(snapshot.node, holder, ttl, now, held.term, margin)
        if isinstance(decision, Lost):
            return decision
        node = decision.record.to_json()
        try:
            answer = yield Swap(snapshot.etag, node)
        except StoreError as error:
            tries += 1
            yield _pause(tries, error)
            snapshot = yield from _read()
            continue
        if isinstance(answer, Swapped):
            if not held.term.is_trusted(answer.mono, margin):
                return Lost("its lease ran out before the reply to its renewal came")
            return Held(decision.record, decision.term, Snapshot(answer.etag, node))
        snapshot = _expect(answer, Snapshot)
        tries += 1
        yield from _overtaken(tries)


def releasing(
    held: Held, *, margin: int = 0, hold_at_least: int = 0, outcome: str | None = None, finished: str | None = None
) -> Exchange[Snapshot | Lost]:
    """Give the lock back, if it is still this holder's, and return the node as it is left. Raises StoreError."""
    holder = held.record.holder
    assert holder is not None, "what is held has a holder"
    snapshot = held.snapshot
    sent = False
    tries = 0
    while True:
        now = yield from _now()
        if sent and (
            _is_released(snapshot.node, holder, now.server)
            # Somebody else's, while nobody but this release could have let them in.
            or (not _is_held_by(snapshot.node, holder, now.server) and held.term.is_trusted(now.mono, margin))
        ):
            return snapshot
        after = released(
            snapshot.node, holder, now.server, hold_at_least=hold_at_least, outcome=outcome, finished=finished
        )
        if isinstance(after, Lost):
            return after
        node = None if after is None else after.to_json()
        try:
            answer = yield Swap(snapshot.etag, node)
        except StoreError as error:
            if isinstance(error, Unavailable):
                sent = True
            tries += 1
            yield _pause(tries, error)
            snapshot = yield from _read()
            continue
        if isinstance(answer, Swapped):
            return Snapshot(answer.etag, node)
        snapshot = _expect(answer, Snapshot)
        tries += 1
        yield from _overtaken(tries)


def run(
    exchange: Exchange[T],
    *,
    now: Callable[[], Moment],
    read: Callable[[], Snapshot],
    swap: Callable[[str, dict[str, object] | None], str | Snapshot],
    pause: Callable[[Pause], None],
    mono: Callable[[], float],
) -> T:
    """Run an exchange on this thread: do each action, and send its answer or raise its failure into the exchange."""
    try:
        action = next(exchange)
        while True:
            answer: Answer
            try:
                match action:
                    case Now():
                        answer = now()
                    case Read():
                        answer = read()
                    case Swap(etag, node):
                        result = swap(etag, node)
                        answer = Swapped(result, mono()) if isinstance(result, str) else result
                    case Pause():
                        pause(action)
                        answer = None
            except StoreError as error:
                action = exchange.throw(error)
            else:
                action = exchange.send(answer)
    except StopIteration as done:
        outcome: T = done.value
        return outcome


def _now() -> Exchange[Moment]:
    return _expect((yield Now()), Moment)


def _read() -> Exchange[Snapshot]:
    """The node, however often it takes; the deadline ends it (in `Pause`)."""
    tries = 0
    while True:
        try:
            return _expect((yield Read()), Snapshot)
        except Unavailable as error:
            tries += 1
            yield _pause(tries, error)


def _overtaken(tries: int) -> Exchange[None]:
    """After a write that found the node changed: the first is sent again at once, later ones after a pause."""
    if tries > 1:
        yield Pause(tries, OVERTAKEN)


def _is_held_by(node: object, holder: str, now: int) -> bool:
    return not isinstance(check_holding(node, holder, now), Lost)


def _is_released(node: object, holder: str, now: int) -> bool:
    """Whether a release that may have been applied was: the node is gone, or this holder's and released."""
    if node is None:
        return True
    record = check_holding(node, holder, now)
    return isinstance(record, Lost) and isinstance(node, dict) and node.get("holder") == holder


def _pause(tries: int, error: StoreError) -> Pause:
    at_least = error.retry_after if isinstance(error, Unavailable) else None
    return Pause(tries, str(error), at_least or 0.0, error)


def _expect(answer: Answer, kind: type[T]) -> T:
    if not isinstance(answer, kind):
        raise TypeError(f"an exchange was answered with {answer!r}, not with a {kind.__name__}")
    return answer
