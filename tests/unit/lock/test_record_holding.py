"""What a holder may do with its record: lengthen it, give it back, or learn that it is lost."""

from __future__ import annotations

from typing import Any

import pytest
from tests.unit.lock.records import DAY, EXPIRES, MARGIN, NOW, TTL, at, node, slot

from firecron.base.clocks import Moment
from firecron.base.instants import to_text
from firecron.lock.record import LockRecord, Lost, Take, Trust, cancelled, check_holding, released, renewed

AROUND = (-1, 0, 1)
UNKNOWN = {"note": {"by": "an operator"}}
WHOLE = node(
    holder="mine", attempt=2, fence=9, outcome="left over", paused=True, slot=slot(), unfinished=slot(), **UNKNOWN
)
# A lease that is far from its end, so that the record alone decides.
LONG = Trust(NOW + DAY, Moment(NOW, 0.0))


def left_by(current: object, **given: Any) -> LockRecord:
    """The record that a release leaves."""
    record = released(current, "mine", NOW, **given)
    assert isinstance(record, LockRecord)
    return record


def held(current: object) -> LockRecord:
    """The record as its holder sees it."""
    record = check_holding(current, "mine", NOW)
    assert isinstance(record, LockRecord)
    return record


OVER: dict[str, tuple[object, str]] = {
    "deleted": (None, "deleted"),
    "deleted but for a pause": ({"paused": True}, "deleted"),
    "another's": (node(), "rev-2/i2 holds it now"),
    "nobody's": (node(holder=None), "holds it now"),
    "released": (node(holder="mine", releasedAt=NOW), "released"),
    "malformed": (node(holder="mine", attempt="x"), "can't be read any more: its field attempt"),
    "no object": ("gone", "can't be read any more"),
    "blocked by a slot far ahead": (node(holder="mine", slot=slot(2 * 86_400)), "can't be read any more"),
}


@pytest.mark.parametrize(("current", "why"), OVER.values(), ids=OVER.keys())
def test_what_ends_a_lease(current: object, why: str) -> None:
    """Anything but the holder's own unreleased record ends the lease, for a renewal and for a release."""
    for answer in (
        check_holding(current, "mine", NOW),
        renewed(current, "mine", TTL, at(), LONG, MARGIN, None),
        released(current, "mine", NOW, hold_at_least=TTL),
        cancelled(current, "mine", 9, NOW),
    ):
        assert isinstance(answer, Lost)
        assert why in answer.why


def test_a_renewal_moves_the_expiry_and_nothing_else() -> None:
    """A renewed record has a whole ttl from now; all other fields are as they were read."""
    now = at(NOW, mono=77.0)
    answer = renewed(WHOLE, "mine", TTL, now, LONG, MARGIN, None)
    assert isinstance(answer, Take)
    assert answer.record.to_json() == {**WHOLE, "expiresAt": NOW + TTL, "expires": to_text(NOW + TTL)}
    assert answer.trust == Trust(NOW + TTL, now)


@pytest.mark.parametrize("off", AROUND)
def test_a_record_is_renewed_until_the_margin_before_its_expiry(off: int) -> None:
    """The record's own expiry counts, whatever the lease says."""
    answer = renewed(WHOLE, "mine", TTL, at(EXPIRES - MARGIN + off), LONG, MARGIN, None)
    assert isinstance(answer, Take if off < 0 else Lost)


@pytest.mark.parametrize("off", AROUND)
def test_a_lease_is_renewed_until_its_trust_ends(off: int) -> None:
    """The lease's own age counts, whatever the record says."""
    trust = Trust(NOW + TTL, Moment(NOW, 500.0))
    answer = renewed(WHOLE, "mine", TTL, at(NOW, mono=500.0 + TTL - MARGIN + off), trust, MARGIN, None)
    assert isinstance(answer, Take if off < 0 else Lost)


def test_an_unlocked_record_is_not_renewed() -> None:
    """`expiresAt = 0`, as an operator types it, ends the lease."""
    answer = renewed({**WHOLE, "expiresAt": 0}, "mine", TTL, at(), LONG, MARGIN, None)
    assert isinstance(answer, Lost)
    assert "unlocked" in answer.why


PLAIN = node(holder="mine")
RELEASED = {"releasedAt": NOW, "expiresAt": NOW, "expires": to_text(NOW)}
KEPT = {
    "a slot": {"slot": slot(-60)},
    "a fence": {"fence": 1},
    "a pause": {"paused": True},
    "a pause that is off": {"paused": False},
    "an unfinished slot": {"unfinished": slot(-60)},
    "unknown fields": UNKNOWN,
}


@pytest.mark.parametrize("fields", KEPT.values(), ids=KEPT.keys())
def test_a_record_with_something_to_remember_is_kept(fields: dict[str, object]) -> None:
    """What the next holder has to know outlives the release."""
    answer = left_by({**PLAIN, **fields})
    assert answer.to_json() == {**PLAIN, **fields, **RELEASED}


@pytest.mark.parametrize("fields", [{}, {"attempt": 1, "outcome": "x"}], ids=["plain", "run fields without a slot"])
def test_a_record_with_nothing_to_remember_is_deleted(fields: dict[str, object]) -> None:
    """A plain lock leaves no node."""
    assert released({**PLAIN, **fields}, "mine", NOW, outcome="succeeded") is None


@pytest.mark.parametrize("off", AROUND)
def test_a_minimum_hold_outlives_the_release(off: int) -> None:
    """A release before the end of the minimum hold leaves the rest of it; at its end there is nothing to keep."""
    hold = 30_000
    acquired = NOW - hold - off
    answer = released({**PLAIN, "acquiredAt": acquired}, "mine", NOW, hold_at_least=hold)
    if off >= 0:
        assert answer is None
    else:
        assert isinstance(answer, LockRecord)
        assert (answer.releasedAt, answer.expiresAt) == (NOW, acquired + hold)
        assert answer.expires == to_text(acquired + hold)


def test_a_minimum_hold_in_the_past_does_not_backdate_the_release() -> None:
    """What is kept anyway expires now, not when its minimum hold ended."""
    answer = left_by({**PLAIN, "fence": 1, "acquiredAt": NOW - 90_000}, hold_at_least=5_000)
    assert answer.expiresAt == NOW


def test_a_release_after_the_expiry_is_still_a_release() -> None:
    """While nobody has taken it, an expired record is its holder's to release."""
    answer = left_by({**WHOLE, "expiresAt": NOW - DAY}, outcome="succeeded")
    assert answer.releasedAt == answer.expiresAt == NOW


@pytest.mark.parametrize(
    ("finished", "unfinished"),
    [(None, slot()), (slot(), None), (slot(-60), slot())],
    ids=["no run has ended", "its run has ended", "another slot's run has ended"],
)
def test_only_the_slot_that_has_ended_is_finished(finished: str | None, unfinished: str | None) -> None:
    """A release takes `unfinished` away only when it names the run that ended; the outcome is written as told."""
    answer = left_by(WHOLE, outcome="succeeded", finished=finished)
    newest = {} if finished is None else {"succeededSlot": finished}
    expected = {**WHOLE, **RELEASED, **newest, "outcome": "succeeded", "unfinished": unfinished}
    assert answer.to_json() == {name: value for name, value in expected.items() if value is not None}


@pytest.mark.parametrize(
    ("before", "finished", "outcome", "after"),
    [
        (None, slot(), "succeeded", slot()),
        (slot(-60), slot(), "succeeded", slot()),
        (slot(-60), slot(-120), "succeeded", slot(-60)),
        (slot(-60), slot(), "failed", slot(-60)),
        (slot(-60), slot(), None, slot(-60)),
        (slot(-60), None, "succeeded", slot(-60)),
        (slot(60), slot(-60), "succeeded", slot(-60)),
        (slot(60), slot(), "failed", slot(60)),
        (slot(60), None, "succeeded", slot(60)),
        (None, slot(60), "succeeded", None),
    ],
    ids=[
        "the first",
        "a newer one",
        "an older one, resumed",
        "a failure",
        "no outcome",
        "a run by hand",
        "what was typed by hand is mended",
        "what was typed by hand stays at a failure",
        "what was typed by hand stays at a success by hand",
        "a tick that nobody has claimed",
    ],
)
def test_the_newest_tick_that_succeeded_is_remembered(
    before: str | None, finished: str | None, outcome: str | None, after: str | None
) -> None:
    """A release with success writes its tick, never one that is older than what is there, or newer than `slot`."""
    held = {key: value for key, value in {**WHOLE, "succeededSlot": before}.items() if value is not None}
    answer = left_by(held, outcome=outcome, finished=finished)
    assert answer.succeededSlot == after


@pytest.mark.parametrize(
    ("fields", "newest"),
    [
        ({"slot": slot()}, None),
        ({"slot": slot(), "succeededSlot": slot()}, slot()),
        ({"slot": slot(), "succeededSlot": slot(-60)}, slot(-60)),
        ({"slot": slot(), "succeededSlot": slot(1)}, None),
        ({"succeededSlot": slot()}, None),
    ],
)
def test_only_a_tick_that_was_claimed_has_succeeded(fields: dict[str, object], newest: str | None) -> None:
    """What is later than the last claim was typed by hand, and counts as none."""
    record = held(node(holder="mine", **fields))
    assert record.newest_success() == newest


def test_a_lock_without_ticks_remembers_no_success() -> None:
    """The record of a job without `once_per_tick` has no slot: it is deleted after a success, as before."""
    assert released(node(holder="mine"), "mine", NOW, outcome="succeeded", finished=slot()) is None


def test_a_release_without_an_outcome_leaves_none() -> None:
    """An outcome that was left over is not taken for this run's."""
    answer = left_by(WHOLE)
    assert "outcome" not in answer.to_json()


def test_a_record_without_acquired_at_is_released_at_once() -> None:
    """A minimum hold counts from `acquiredAt`; somebody who edits that away ends it."""
    assert released({**PLAIN, "acquiredAt": None}, "mine", NOW, hold_at_least=TTL) is None


def test_a_cancel_asks_one_acquisition_and_changes_nothing_else() -> None:
    """The record names the fence that is asked to stop; a holder that acquired again with its token is not asked."""
    answer = cancelled(WHOLE, "mine", 9, NOW)
    assert isinstance(answer, LockRecord)
    assert answer.to_json() == {**WHOLE, "cancel": 9}
    reasoned = cancelled(WHOLE, "mine", 9, NOW, "a deployment")
    assert isinstance(reasoned, LockRecord)
    assert reasoned.to_json() == {**WHOLE, "cancel": 9, "cancelWhy": "a deployment"}
    for fence in (8, 10):
        again = cancelled(WHOLE, "mine", fence, NOW)
        assert isinstance(again, Lost)
        assert "rev-2/i2 has acquired it again" in again.why


@pytest.mark.parametrize(
    ("cancel", "is_cancelled"),
    [(9, True), (9.0, True), (8, False), (10, False), (True, False), ("9", False), (None, False), ({"by": 9}, False)],
)
def test_a_record_is_cancelled_by_its_own_fence_only(cancel: object, is_cancelled: bool) -> None:
    """Anything else in `cancel` means nothing, and breaks nothing: an operator may have typed it."""
    for fence in (9, 1):
        record = held({**WHOLE, "fence": fence, "cancel": cancel})
        assert record.is_cancelled is (is_cancelled and fence == 9)
        assert record.open_slot == (None if record.is_cancelled else slot())


def test_without_a_fence_nothing_is_cancelled() -> None:
    """A record without a fence and without a cancel is not cancelled: nothing equals nothing."""
    record = held(node(holder="mine"))
    assert not record.is_cancelled


def test_renewal_and_release_keep_a_cancel() -> None:
    """A cancelled record is renewed as any other, and its release leaves the cancel for the next acquisition."""
    asked = {**WHOLE, "cancel": 9}
    renewal = renewed(asked, "mine", TTL, at(), LONG, MARGIN, None)
    assert isinstance(renewal, Take)
    assert renewal.record.is_cancelled
    left = left_by(asked, finished=slot(), tick=slot())
    assert left.is_cancelled


def test_a_holder_without_a_slot_takes_its_cancel_with_it() -> None:
    """What is unfinished in its record was another run's, which nobody has cancelled."""
    left = left_by({**WHOLE, "cancel": 9, "cancelWhy": "x"})
    assert (left.is_cancelled, left.cancelWhy, left.open_slot) == (False, None, slot())


@pytest.mark.parametrize(
    ("kind", "found", "why"),
    [
        ("leader", {"kind": "leader", "slot": slot()}, "it has the `kind` 'leader' and the `slot` "),
        ("once", {"kind": "once", "slot": slot()}, "it has the `kind` 'once' and the `slot` "),
        (None, {"kind": "leader"}, "its `kind` was None and is 'leader'"),
        ("leader", {"kind": "once"}, "its `kind` was 'leader' and is 'once'"),
        ("leader", {}, "its `kind` was 'leader' and is None"),
        (None, {"kind": "junk"}, "its `kind` is 'junk', which is neither 'leader' nor 'once': remove it"),
    ],
)
def test_a_renewal_that_meets_another_kinds_field_is_lost(kind: str | None, found: dict[str, object], why: str) -> None:
    """A holder goes on only while the name belongs to what it was acquired for, and is told why not."""
    answer = renewed(node(holder="mine", fence=9, **found), "mine", TTL, at(), LONG, MARGIN, kind)
    assert isinstance(answer, Lost)
    assert why in answer.why


@pytest.mark.parametrize("kind", [None, "leader", "once"])
def test_a_renewal_keeps_its_kind(kind: str | None) -> None:
    """The holder of a node whose kind is what it was is renewed."""
    answer = renewed(node(holder="mine", fence=9, kind=kind), "mine", TTL, at(), LONG, MARGIN, kind)
    assert isinstance(answer, Take)
    assert answer.record.kept.get("kind") == kind


@pytest.mark.parametrize(
    ("outcome", "tick", "is_released", "ended"),
    [
        ("interrupted", slot(), True, "interrupted"),
        ("lost", slot(), True, "lost"),
        ("failed", slot(), True, None),
        ("interrupted", None, True, None),
        ("lost", slot(-60), True, None),
        ("interrupted", slot(), False, None),
    ],
)
def test_a_released_record_says_how_the_run_of_its_unfinished_slot_was_cut_short(
    outcome: str, tick: str | None, is_released: bool, ended: str | None
) -> None:
    """It was cut short in order, or with its lease; of another run's end the record says nothing beside that slot."""
    held = node(holder="mine", slot=slot(), unfinished=slot(), releasedAt=None, outcome=outcome)
    after = left_by(held, outcome=outcome, tick=tick) if is_released else LockRecord.of(held)
    assert after.unfinished == slot()
    assert after.ended_as == ended
