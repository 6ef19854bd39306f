"""The checker of the interleavings can fail: with a rule of the lock broken, it finds what the rule prevents."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

import pytest
from tests.interleaving.checks import Violation
from tests.interleaving.clocks import MARGIN, START
from tests.interleaving.holder import Op
from tests.interleaving.model import Model
from tests.interleaving.scenarios import ACQUIRE, CANCEL, RELEASE, RENEW, SLOT, Scenario, explore

from firecron.base.clocks import Moment
from firecron.base.instants import to_text
from firecron.lock import protocol, record
from firecron.lock.protocol import Answer, Exchange, Held, Now, Swapped
from firecron.lock.record import (
    IDLE,
    LockRecord,
    Lost,
    Mine,
    Number,
    Refused,
    Request,
    Take,
    Trust,
    after_claim,
    after_release,
)
from firecron.store import Snapshot

Node: TypeAlias = Any  # as the rules take it: whatever is stored
Decision: TypeAlias = Take | Mine | Refused
Written: TypeAlias = dict[Number, Trust]
Break: TypeAlias = Callable[[pytest.MonkeyPatch], None]

acquiring = protocol.acquiring
cancelled = record.cancelled
decide = record.decide
released = record.released
renewed = record.renewed


def _decide_by(change: Callable[[Node, Request, Moment, Written], Decision]) -> Break:
    return lambda patch: patch.setattr(
        protocol, "decide", lambda node, request, now, written, choose: change(node, request, now, written)
    )


def _without(node: Node, *keys: str) -> Node:
    return node and {key: value for key, value in node.items() if key not in keys}


def contenders_ignore_the_margin(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockRecord, "is_live", lambda self, now, margin: now < self.expiresAt)


def contenders_wait_too_long(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockRecord, "is_live", lambda self, now, margin: now < self.expiresAt + 4 * margin)


def holders_ignore_the_margin(patch: pytest.MonkeyPatch) -> None:
    ends = Trust.ends
    patch.setattr(Trust, "is_trusted", lambda self, mono, margin: mono < ends(self, 0))


def etags_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Model, "_matches", lambda self, step: True)  # the model is the tests' own, and is broken here


def leases_age_from_the_reply(patch: pytest.MonkeyPatch) -> None:
    def broken(request: Request, known: Snapshot | None, written: Written) -> Exchange[Held | Refused]:
        held = yield from acquiring(request, known, written)
        if isinstance(held, Refused):
            return held
        now = yield Now()
        assert isinstance(now, Moment)
        return replace(held, trust=replace(held.trust, reading=replace(held.trust.reading, mono=now.mono)))

    patch.setattr(protocol, "acquiring", broken)


def late_replies_are_wins(patch: pytest.MonkeyPatch) -> None:
    def broken(request: Request, known: Snapshot | None, written: Written) -> Exchange[Held | Refused]:
        talk = acquiring(request, known, written)
        answer: Answer = None
        try:
            while True:
                step = talk.send(answer)
                answer = yield step
                if isinstance(answer, Swapped):
                    answer = replace(answer, mono=0.0)
        except StopIteration as done:
            result: Held | Refused = done.value
            return result

    patch.setattr(protocol, "acquiring", broken)


def _mine_with_a_new_term(node: Node, request: Request, now: Moment, written: Written) -> Decision:
    decision = decide(node, request, now, written)
    if isinstance(decision, Mine):
        return Mine(decision.record, Trust(now.server + request.ttl, now))
    return decision


mine_gets_a_new_term = _decide_by(_mine_with_a_new_term)


def _fence_by(fence: Callable[[LockRecord | None, Moment], int]) -> Break:
    def broken(node: Node, request: Request, now: Moment, written: Written) -> Decision:
        decision = decide(node, request, now, written)
        if isinstance(decision, Take):
            before = LockRecord.of(node) if node else None
            return replace(decision, record=decision.record.changed(fence=fence(before, now)))
        return decision

    return _decide_by(broken)


def releases_compare_no_holder(patch: pytest.MonkeyPatch) -> None:
    def broken(node: Node, holder: str, now: int, **how: Any) -> LockRecord | Lost | None:
        return released(node and {**node, "holder": holder}, holder, now, **how)

    patch.setattr(protocol, "released", broken)


def releases_forget(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol, "released", lambda node, holder, now, **how: None)


def renewals_ignore_the_expiry(patch: pytest.MonkeyPatch) -> None:
    def broken(node: Node, holder: str, ttl: int, now: Moment, trust: Trust, margin: int, kind: object) -> Take | Lost:
        later = Trust(now.server + ttl, now)
        return renewed(node and {**node, "expiresAt": later.expires_at}, holder, ttl, now, later, margin, kind)

    patch.setattr(protocol, "renewed", broken)


def renewals_recreate_the_node(patch: pytest.MonkeyPatch) -> None:
    seen: list[Node] = []

    def broken(node: Node, holder: str, ttl: int, now: Moment, trust: Trust, margin: int, kind: object) -> Take | Lost:
        seen.append(node or seen[-1])
        return renewed(seen[-1], holder, ttl, now, trust, margin, kind)

    patch.setattr(protocol, "renewed", broken)


def renewals_compare_no_holder(patch: pytest.MonkeyPatch) -> None:
    def broken(node: Node, holder: str, ttl: int, now: Moment, trust: Trust, margin: int, kind: object) -> Take | Lost:
        if node["holder"] != holder:
            later = Trust(now.server + ttl, now)
            return Take(LockRecord.of({**node, "expiresAt": later.expires_at}), later, IDLE)
        return renewed(node, holder, ttl, now, trust, margin, kind)

    patch.setattr(protocol, "renewed", broken)


fences_are_the_time = _fence_by(lambda before, now: now.server)
fences_are_counted = _fence_by(lambda before, now: int(before.fence or 0) + 1 if before else 1)
reruns_ignore_the_lease = _decide_by(
    lambda node, request, now, written: decide(
        {**node, "expiresAt": 0} if node and request.rerun else node, request, now, written
    )
)
own_writes_are_not_known = _decide_by(lambda node, request, now, written: decide(node, request, now, {}))
spent_slots_are_free = _decide_by(
    lambda node, request, now, written: decide(_without(node, "slot", "unfinished"), request, now, written)
)
successes_are_forgotten = _decide_by(
    lambda node, request, now, written: decide(_without(node, "succeededSlot"), request, now, written)
)


def releases_lower_the_success(patch: pytest.MonkeyPatch) -> None:
    def newest_success(self: LockRecord, also: str | None = None) -> str | None:
        return "2026-01-01T00:00:00Z" if self.succeededSlot else also

    patch.setattr(LockRecord, "newest_success", newest_success)


def lost_runs_count_twice(patch: pytest.MonkeyPatch) -> None:
    def broken(failures: object, open_slot: str | None, released_at: object, outcome: str | None) -> object:
        return after_claim(failures, open_slot, None, outcome)

    patch.setattr(record, "after_claim", broken)


def failures_are_not_counted(patch: pytest.MonkeyPatch) -> None:
    def broken(failures: object, outcome: str | None, *, is_tick: bool) -> object:
        return after_release(failures, outcome, is_tick=False)

    patch.setattr(record, "after_release", broken)


def cancelled_slots_are_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(LockRecord, "open_slot", property(lambda self: self.unfinished))


def cancels_compare_no_holder(patch: pytest.MonkeyPatch) -> None:
    def cancel(node: Node, holder: str, fence: int, now: int, why: str | None = None) -> LockRecord | Lost:
        found = node or {}
        return cancelled(node, found.get("holder", holder), found.get("fence", fence), now, why)

    patch.setattr(protocol, "cancelled", cancel)


pauses_are_ignored = _decide_by(
    lambda node, request, now, written: decide(_without(node, "paused") or None, request, now, written)
)


def _ends_early(node: Node) -> Node:
    return {**node, "pausedUntil": node["pausedUntil"] - 1} if node and "pausedUntil" in node else node


pauses_end_early = _decide_by(lambda node, request, now, written: decide(_ends_early(node), request, now, written))

ONCE = (ACQUIRE,)
NEXT = (Op("acquire", slot=to_text(START + 1000)), RELEASE)
CLAIM = (Op("acquire", slot=SLOT), RELEASE)
LOSE = (Op("acquire", slot=SLOT), Op("release", finishes=False))
LATE_EARLY = ((-MARGIN, 1.0), (MARGIN, 1.0))
EARLY_LATE = ((MARGIN, 1.0), (-MARGIN, 1.0))
TWO = Scenario((ONCE, ONCE), LATE_EARLY, {"jump": 1})
LATE_RELEASE = Scenario(((ACQUIRE, RELEASE), ONCE), LATE_EARLY, {"jump": 1})
RENEWED = ((ACQUIRE, RENEW),)

BREAKS: dict[str, tuple[Break, Scenario, str]] = {
    "contenders_ignore_the_margin": (contenders_ignore_the_margin, TWO, "two trust themselves"),
    "contenders_wait_too_long": (contenders_wait_too_long, Scenario((ONCE,)), "the lock is not free"),
    "holders_ignore_the_margin": (holders_ignore_the_margin, TWO, "two trust themselves"),
    "etags_are_ignored": (etags_are_ignored, TWO, "two trust themselves|the fence did not rise"),
    "leases_age_from_the_reply": (leases_age_from_the_reply, TWO, "the lease is longer"),
    "late_replies_are_wins": (late_replies_are_wins, TWO, "a reply after the end"),
    "mine_gets_a_new_term": (
        mine_gets_a_new_term,
        Scenario((ONCE,), budget={"give_up": 1, "jump": 1}),
        "no write of this holder",
    ),
    "own_writes_are_not_known": (
        own_writes_are_not_known,
        Scenario((ONCE,), budget={"give_up": 1}),
        "refused because of its own",
    ),
    "fences_are_the_time": (
        fences_are_the_time,
        Scenario(((ACQUIRE, RELEASE),) * 2, EARLY_LATE, {"jump": 1}),
        "the fence did not rise while",
    ),
    "fences_are_counted": (
        fences_are_counted,
        Scenario((ONCE, ONCE), budget={"jump": 1, "delete": 1}),
        "the fence did not rise after",
    ),
    "reruns_ignore_the_lease": (
        reruns_ignore_the_lease,
        Scenario((CLAIM, (Op("acquire", slot=SLOT, rerun=True),))),
        "a slot was rerun while",
    ),
    "spent_slots_are_free": (spent_slots_are_free, Scenario((CLAIM, CLAIM)), "a slot that was spent"),
    "successes_are_forgotten": (
        successes_are_forgotten,
        Scenario((CLAIM, ONCE)),
        "an acquire changed the newest success",
    ),
    "releases_lower_the_success": (releases_lower_the_success, Scenario((CLAIM, NEXT)), "the newest success fell"),
    "lost_runs_count_twice": (lost_runs_count_twice, Scenario((LOSE, ONCE)), "an acquire miscounted"),
    "failures_are_not_counted": (failures_are_not_counted, Scenario((LOSE,)), "a release miscounted"),
    "pauses_are_ignored": (pauses_are_ignored, Scenario((ONCE,), budget={"pause": 1}), "a paused lock"),
    "pauses_end_early": (pauses_end_early, Scenario((ONCE,), budget={"pause_until": 1, "jump": 1}), "a paused lock"),
    "cancelled_slots_are_rerun": (
        cancelled_slots_are_open,
        Scenario((CLAIM[:1], (Op("acquire", slot=SLOT, rerun=True),)), budget={"jump": 1, "cancel": 1}),
        "a cancelled slot was rerun",
    ),
    "cancelled_slots_are_kept": (
        cancelled_slots_are_open,
        Scenario((CLAIM[:1], ONCE), budget={"jump": 1, "cancel": 1}),
        "a cancelled slot stayed unfinished",
    ),
    "cancels_compare_no_holder": (
        cancels_compare_no_holder,
        Scenario((CLAIM, (CANCEL,), ONCE)),
        "a late cancel changed a successor",
    ),
    "releases_compare_no_holder": (releases_compare_no_holder, LATE_RELEASE, "a late release changed"),
    "releases_forget": (releases_forget, Scenario(((ACQUIRE, RELEASE),)), "a release forgot"),
    "renewals_ignore_the_expiry": (
        renewals_ignore_the_expiry,
        Scenario(RENEWED, budget={"jump": 1}),
        "a renewal revived",
    ),
    "renewals_ignore_an_unlock": (
        renewals_ignore_the_expiry,
        Scenario(RENEWED, budget={"unlock": 1}),
        "a renewal revived",
    ),
    "renewals_recreate_the_node": (
        renewals_recreate_the_node,
        Scenario(RENEWED, budget={"delete": 1}),
        "a renew recreated",
    ),
    "renewals_compare_no_holder": (
        renewals_compare_no_holder,
        Scenario((RENEWED[0], ONCE), budget={"unlock": 1}),
        "a late renew changed",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_rule_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What goes wrong without the rule is found, and the report says what and after which events."""
    breaks, scenario, harm = BREAKS[name]
    explore(scenario)
    breaks(monkeypatch)
    with pytest.raises(Violation, match=harm) as found:
        explore(scenario)
    assert "begins to acquire" in str(found.value)
