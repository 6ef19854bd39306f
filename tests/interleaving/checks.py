"""What must hold, after every event. The checks know what was sent, what landed and what was answered, and reckon for
themselves.
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import TYPE_CHECKING, Any, TypeAlias

from tests.interleaving.clocks import MARGIN, START, TTL

from firecron.base.clocks import Moment
from firecron.lock import protocol
from firecron.lock.fields import PAUSE_FIELDS
from firecron.lock.protocol import Action, Answer, Held, Now, Read, Swap, Swapped
from firecron.lock.record import LockRecord, Refused, Request
from firecron.store import Snapshot

if TYPE_CHECKING:
    from tests.interleaving.holder import Holder
    from tests.interleaving.model import Flight, Model

Node: TypeAlias = dict[str, Any]


class Violation(AssertionError):
    """Something happened that must not."""


def require(holds: bool, what: str) -> None:
    if not holds:
        raise Violation(what)


class Monitor:
    """Sees all that happens in a model."""

    def __init__(self, model: Model) -> None:
        self._model = model
        # By a write's token and expiry: its clock reading; how often an operator had freed the lock, and how often by
        # deleting the node, when it landed.
        self._began: dict[tuple[str, int], float] = {}
        self._landed: dict[tuple[str, int], tuple[int, int]] = {}
        self._deletions = 0
        self._last_write = 0.0
        self._deleted_at: float | None = None
        self._fences = 0
        self._highest = -1  # fence, of all
        self._highest_kept = -1  # since the node was deleted
        self._wins: dict[Hashable, str] = {}

    def state(self) -> Hashable:
        landed, wins = frozenset(self._landed.items()), frozenset(self._wins.items())
        fences = self._fences, self._highest, self._highest_kept
        return landed, wins, fences, self._deletions, self._deleted_at, self._last_write

    def on_send(self, flight: Flight) -> None:
        """A write sets out."""
        assert isinstance(flight.step, Swap), "only writes are watched"
        if flight.step.node is not None and flight.kind in ("acquire", "renew"):
            self._began.setdefault(_key(flight.request.holder, flight.step.node), flight.reading.mono)

    def on_write(self, flight: Flight, before: Node | None, after: Node | None) -> None:
        """A write has landed."""
        self._last_write = self._model.time
        if flight.kind == "acquire":
            if after is None:
                require(before is None, "an acquire deleted a node")
                return
            self._on_take(flight, before or {}, after)
            return
        require(before is not None, f"a {flight.kind} recreated a node that was deleted")
        assert before is not None, "as required"
        require(before.get("holder") == flight.request.holder, f"a late {flight.kind} changed a successor's record")
        require("releasedAt" not in before, f"a {flight.kind} changed what had been released")
        if after is None:
            require(not {"fence", "slot", "paused"} & before.keys(), "a release forgot what had to be remembered")
        elif flight.kind == "release":
            newest = after.get("succeededSlot", "")
            require(
                before.get("succeededSlot", "") <= newest <= after.get("slot", ""), "the newest success fell, or leapt"
            )
            ran_a_tick = flight.request.slot is not None
            counted = before.get("failures", 0) + 1 if ran_a_tick else before.get("failures")
            expected = None if after.get("outcome") == "succeeded" else counted
            require(after.get("failures") == expected, "a release miscounted the runs that failed")
            changed = {"expiresAt", "expires", "failures", "releasedAt", "outcome", "succeededSlot", "unfinished"}
            if "unfinished" in after and after["unfinished"] != flight.request.slot:
                require("cancel" not in after, "a release left a cancel to another run's tick")
                changed.add("cancel")
            require(_without(before, changed) == _without(after, changed), "a release changed what is not its own")
        elif flight.kind == "cancel":
            require(after["cancel"] == before["fence"], "a cancel was written for another acquisition")
            require(_without(before, {"cancel"}) == _without(after, {"cancel"}), "a cancel changed what is not its own")
        else:
            require(flight.reading.server < before["expiresAt"] - MARGIN, "a renewal revived what was over or unlocked")
            changed = {"expiresAt", "expires"}
            require(_without(before, changed) == _without(after, changed), "a renewal changed what is not its own")
            self._landed[_key(flight.request.holder, after)] = self._model.freed, self._deletions

    def _on_take(self, flight: Flight, before: Node, after: Node) -> None:
        request = flight.request
        self._landed[_key(request.holder, after)] = self._model.freed, self._deletions
        is_over = "pausedUntil" in before and flight.reading.server >= before["pausedUntil"]
        require(not before.get("paused") or is_over, "a paused lock was acquired")
        kept = {field: before[field] for field in PAUSE_FIELDS if field in before}
        require(kept == {field: after[field] for field in PAUSE_FIELDS if field in after}, "an acquire changed a pause")
        released = "releasedAt" in before
        is_live = flight.reading.server < before.get("expiresAt", 0) + (0 if released else MARGIN)
        mine = before.get("holder") == request.holder and not released
        require(not (mine and is_live), "an acquire lengthened the lease that its own earlier write had begun")
        require(after.get("succeededSlot") == before.get("succeededSlot"), "an acquire changed the newest success")
        if "slot" in before:
            require(after.get("slot", "") >= before["slot"], "the slot fell")
        if "slot" in before and request.slot is not None and request.slot <= before["slot"]:
            require(request.rerun and before.get("unfinished") == request.slot, "a slot that was spent was claimed")
            require(not is_live, "a slot was rerun while its run was live")
        require("cancel" not in after, "an acquisition was cancelled by what was meant for the one before")
        if "cancel" in before and before["cancel"] == before.get("fence"):
            is_rerun = request.slot is not None and request.slot <= before.get("slot", "")
            require(not is_rerun, "a cancelled slot was rerun")
            is_kept = request.slot is None and "unfinished" in after
            require(not is_kept, "a cancelled slot stayed unfinished")
        is_cancelled = "cancel" in before and before["cancel"] == before.get("fence")
        has_died = not released and "unfinished" in before and not is_cancelled
        counted = before.get("failures", 0) + has_died
        require(after.get("failures", 0) == counted, "an acquire miscounted the runs that died")
        if not request.fenced:
            require(after.get("fence") == before.get("fence"), "an acquire without a fence changed it")
            return
        require(after["fence"] > self._highest_kept, "the fence did not rise while the node was kept")
        # One acquisition after the other in no time raises the fence beyond the clocks, by one each.
        is_known = self._deleted_at is None or flight.read_at >= self._deleted_at + 2 * MARGIN + self._fences
        require(not is_known or after["fence"] > self._highest, "the fence did not rise after a deletion long ago")
        self._fences += 1
        self._highest_kept = after["fence"]
        self._highest = max(self._highest, after["fence"])

    def on_delete(self) -> None:
        """An operator has deleted the node."""
        self._deleted_at = self._model.time
        self._deletions += 1
        self._highest_kept = -1

    def on_held(self, holder: Holder, held: Held, request: Request | None) -> None:
        """A holder was told that the lock is its own; `request` is what it acquired, None if it renewed."""
        key = holder.token, held.trust.expires_at
        require(key in self._landed, "a lease was answered that no write of this holder had begun")
        # Two readings in one millisecond make the same expiry, and may be told apart by less than that.
        ends = self._began[key] + TTL - MARGIN
        require(held.trust.ends(MARGIN) < ends + 1, "the lease is longer than what its own write had begun")
        require(held.trust.is_trusted(holder.clock.mono(), MARGIN), "a reply after the end of its lease was a success")
        if request is not None and request.slot is not None:
            attempt = self._landed[key][1], request.slot, held.record.attempt
            require(self._wins.setdefault(attempt, holder.token) == holder.token, "an attempt at a slot was won twice")

    def on_refused(self, holder: Holder, refused: Refused, reading: Moment) -> None:
        """A holder was told, by what it had read then, that it can't have the lock."""
        record = refused.current
        if isinstance(record, LockRecord) and record.holder == holder.token and record.releasedAt is None:
            began = self._began.get((holder.token, int(record.expiresAt)))
            is_over = began is None or reading.mono >= began + TTL - MARGIN
            require(is_over, "a holder was refused because of its own lock")

    def after_event(self) -> None:
        """One at most believes that the lock is its own, if no operator has taken it away meanwhile."""
        trusting = [holder.name for holder in self._model.holders if holder.trusts() and self._is_current(holder)]
        require(len(trusting) < 2, f"two trust themselves: {' and '.join(trusting)}")

    def at_end(self, known: set[Hashable]) -> None:
        """When nothing moves any more the lock becomes free in time, for clocks as wrong as they may be. What that
        depends on is added to the ends that are `known`, and is asked about only once.
        """
        end = self._model.etag, self._last_write
        if end in known:
            return
        known.add(end)
        node: Node | None = self._model.node
        waits = 2 * MARGIN + 1
        if node is not None and "releasedAt" in node:
            waits += max(0, node["expiresAt"] - node["releasedAt"])
        elif node is not None:
            waits += TTL + MARGIN
        for error in (-MARGIN, 0, MARGIN):
            now = Moment(int(START + self._last_write + waits + error), 0.0)
            answer = _ask(Snapshot("there", _without(node or {}, {"paused"}) or None), now)
            if not isinstance(answer, Held):
                raise Violation(f"the lock is not free {waits} ms after its last write: {answer}")

    def _is_current(self, holder: Holder) -> bool:
        assert holder.held is not None, "who trusts itself has a lease"
        freed, _ = self._landed[holder.token, holder.held.trust.expires_at]
        return freed == self._model.freed


def _ask(snapshot: Snapshot, now: Moment) -> Held | Refused:
    """What somebody new is told, who wants the same kind of lock."""
    kind = snapshot.node.get("kind") if isinstance(snapshot.node, dict) else None
    request = Request("new", TTL, "test", "new", MARGIN, fenced=True, kind=None if kind is None else str(kind))
    exchange = protocol.acquiring(request, snapshot, {})
    answers: dict[type[Action], Answer] = {Now: now, Read: snapshot, Swap: Swapped("written", now.mono)}
    try:
        action = next(exchange)
        while True:
            action = exchange.send(answers[type(action)])
    except StopIteration as done:
        found: Held | Refused = done.value
        return found


def _key(token: str, node: Node) -> tuple[str, int]:
    return token, node["expiresAt"]


def _without(node: Node, keys: set[str]) -> Node:
    return {key: value for key, value in node.items() if key not in keys}
