"""Renewing, releasing and cancelling, step by step: what is asked of the store, and what each answer leads to."""

from __future__ import annotations

import pytest
from tests.unit.lock.dialogues import ABSENT, DONE, DOWN, NO, THEIRS, clock, converse, swaps, wins
from tests.unit.lock.records import EXPIRES, MARGIN, NOW, TTL, at, node, slot

from firecron.base.clocks import Moment
from firecron.errors import Denied, StoreError
from firecron.lock.protocol import (
    Action,
    Answer,
    BackOff,
    Held,
    Read,
    Swap,
    Swapped,
    cancelling,
    editing,
    releasing,
    renewing,
)
from firecron.lock.record import Lost, Trust
from firecron.store import NULL_ETAG, Snapshot

MINE = Snapshot("mine", node(holder="mine", slot=slot(), unfinished=slot(), fence=7))


def in_hand(snapshot: Snapshot = MINE) -> Held:
    trust = Trust(EXPIRES, Moment(EXPIRES - TTL, EXPIRES - TTL - NOW))
    return wins(clock(), (Read, snapshot), clock(), known=snapshot, written={EXPIRES: trust})[0]


def renew(*dialogue: tuple[type[Action], Answer | StoreError]) -> tuple[Held | Lost, list[Action]]:
    return converse(renewing(in_hand(), TTL, MARGIN), *dialogue)


def test_a_renewal_is_one_request() -> None:
    """The record as it was last seen gets a later expiry, under its ETag."""
    held, steps = renew(clock(5_000), (Swap, DONE))
    assert isinstance(held, Held)
    [swap] = swaps(steps)
    assert swap.etag == "mine"
    assert swap.node is not None
    assert swap.node["expiresAt"] == NOW + 5_000 + TTL
    assert held.snapshot == Snapshot("new", swap.node)
    assert held.trust == Trust(NOW + 5_000 + TTL, at(NOW + 5_000))


def test_a_renewal_keeps_what_others_changed() -> None:
    """A field that an operator added meanwhile is in the renewed record."""
    edited = Snapshot("edited", {**node(holder="mine"), "paused": True, "note": "x"})
    held, steps = renew(clock(), (Swap, edited), clock(10), (Swap, DONE))
    assert isinstance(held, Held)
    again = swaps(steps)[1]
    assert again.etag == "edited"
    assert again.node is not None
    assert (again.node["paused"], again.node["note"]) == (True, "x")


@pytest.mark.parametrize(
    "found",
    [
        ABSENT,
        THEIRS,
        Snapshot("r", node(holder="mine", releasedAt=NOW)),
        Snapshot("u", node(holder="mine", expiresAt=0)),
    ],
    ids=["deleted", "taken", "released", "unlocked"],
)
@pytest.mark.parametrize("after_failure", [False, True])
def test_a_renewal_that_finds_the_lock_gone_writes_nothing(found: Snapshot, after_failure: bool) -> None:
    """Deleted, taken, released or unlocked: the lease is lost, and nothing is put back."""
    before = [clock(), (Swap, DOWN), (BackOff, None), (Read, found)] if after_failure else [clock(), (Swap, found)]
    lost, steps = renew(*before, clock())
    assert isinstance(lost, Lost)
    assert len(swaps(steps)) == 1


@pytest.mark.parametrize("error", [DOWN, NO])
def test_a_renewal_that_may_have_landed_is_read_back_and_written_anew(error: StoreError) -> None:
    """My own record with the later expiry is renewed again, from a new reading."""
    landed = Snapshot("landed", {**node(holder="mine"), "expiresAt": NOW + TTL})
    held, steps = renew(clock(), (Swap, error), (BackOff, None), (Read, landed), clock(40), (Swap, DONE))
    assert isinstance(held, Held)
    assert swaps(steps)[1].etag == "landed"
    assert held.trust == Trust(NOW + 40 + TTL, at(NOW + 40))


def test_a_renewal_and_a_release_that_are_overtaken_pause() -> None:
    """A first write that finds the node changed is sent again at once, each later one after a longer pause."""
    edited = [Snapshot(str(number), node(holder="mine", note=number)) for number in range(3)]
    overtaken = clock(), (Swap, edited[0]), clock(1), (Swap, edited[1]), (BackOff, None), clock(2), (Swap, edited[2])
    held, renewal = renew(*overtaken, (BackOff, None), clock(3), (Swap, DONE))
    assert isinstance(held, Held)
    assert held.trust == Trust(NOW + 3 + TTL, at(NOW + 3))
    left, release_ = release(*overtaken, (BackOff, None), clock(3), (Swap, DONE))
    assert isinstance(left, Snapshot)
    for steps in (renewal, release_):
        assert [step.tries for step in steps if isinstance(step, BackOff)] == [2, 3]
        assert [swap.etag for swap in swaps(steps)] == ["mine", "0", "1", "2"]


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_a_renewal_whose_reply_comes_after_the_old_lease_is_a_loss(late: int) -> None:
    """Until the reply the old lease counts; it may have been over in between."""
    answer, _ = renew(clock(), (Swap, Swapped("new", float(EXPIRES - NOW - MARGIN + late))))
    assert isinstance(answer, Held if late < 0 else Lost)


def release(
    *dialogue: tuple[type[Action], Answer | StoreError], held: Held | None = None
) -> tuple[Snapshot | Lost, list[Action]]:
    return converse(releasing(held or in_hand(), outcome="succeeded", finished=slot()), *dialogue)


def plain() -> Held:
    return in_hand(Snapshot("plain", node(holder="mine")))


def test_a_release_is_one_request() -> None:
    """A record that remembers is written back, a plain one is deleted, each under its ETag."""
    left, steps = release(clock(), (Swap, DONE))
    [swap] = swaps(steps)
    assert swap.etag == "mine"
    assert swap.node is not None
    assert (swap.node["releasedAt"], swap.node["outcome"]) == (NOW, "succeeded")
    assert "unfinished" not in swap.node
    assert left == Snapshot("new", swap.node)
    left, steps = release(clock(), (Swap, Swapped(NULL_ETAG, 0.0)), held=plain())
    assert swaps(steps) == [Swap("plain", None)]
    assert left == ABSENT


@pytest.mark.parametrize("found", [ABSENT, THEIRS, Snapshot("broken", {"expiresAt": "x"})], ids=str)
def test_a_release_that_finds_the_lock_gone_writes_nothing(found: Snapshot) -> None:
    """A node that an operator deleted isn't recreated, and a successor's isn't touched."""
    lost, steps = release(clock(), (Swap, found), clock())
    assert isinstance(lost, Lost)
    assert len(swaps(steps)) == 1


@pytest.mark.parametrize(
    "found",
    [ABSENT, Snapshot("released", node(holder="mine", releasedAt=NOW, expiresAt=NOW))],
    ids=["deleted", "written back"],
)
def test_a_release_whose_reply_was_lost_is_a_release(found: Snapshot) -> None:
    """The read-back shows that it was applied; one that was denied was not, and somebody else did it."""
    for later in (0, TTL):
        left, steps = release(clock(), (Swap, DOWN), (BackOff, None), (Read, found), clock(later))
        assert left == found
        assert len(swaps(steps)) == 1
    lost, _ = release(clock(), (Swap, NO), (BackOff, None), (Read, found), clock())
    assert isinstance(lost, Lost)


def test_a_release_that_did_not_land_is_sent_again() -> None:
    """While the record is still this holder's, it is given back."""
    edited = Snapshot("edited", node(holder="mine", note="x"))
    left, steps = release(clock(), (Swap, DOWN), (BackOff, None), (Read, edited), clock(9), (Swap, DONE))
    assert isinstance(left, Snapshot)
    again = swaps(steps)[1]
    assert again.etag == "edited"
    assert again.node is not None
    assert (again.node["note"], again.node["releasedAt"]) == ("x", NOW + 9)


def test_a_release_that_may_have_landed_leaves_a_successor_alone() -> None:
    """Whoever has it now keeps it; while the lease would still be good, only the release can have let them in."""
    left, steps = release(clock(), (Swap, DOWN), (BackOff, None), (Read, THEIRS), clock())
    assert left == THEIRS
    assert len(swaps(steps)) == 1
    lost, steps = release(clock(), (Swap, DOWN), (BackOff, None), (Read, THEIRS), clock(TTL))
    assert isinstance(lost, Lost)
    assert len(swaps(steps)) == 1


def test_a_deleted_node_without_a_release_sent_is_a_loss() -> None:
    """Only after a release of its own does a holder take an absent node for released."""
    lost, _ = release(clock(), (Swap, ABSENT), clock())
    assert isinstance(lost, Lost)
    assert "deleted" in lost.why


CANCELLED = Snapshot("cancelled", {**node(holder="mine", slot=slot(), unfinished=slot(), fence=7), "cancel": 7})


def cancel(*dialogue: tuple[type[Action], Answer | StoreError]) -> tuple[Snapshot | Lost, list[Action]]:
    return converse(cancelling("mine", 7), *dialogue)


def test_a_cancel_is_a_read_and_a_write() -> None:
    """The record that was read gets the fence as its `cancel`, under its ETag."""
    left, steps = cancel((Read, MINE), clock(), (Swap, DONE))
    assert swaps(steps) == [Swap("mine", CANCELLED.node)]  # type: ignore[arg-type]  # it is an object
    assert left == Snapshot("new", CANCELLED.node)


def test_a_cancel_follows_the_acquisition_through_renewals() -> None:
    """A holder that renews between read and write is asked in its new record: at once, then after a pause."""
    renewals = [Snapshot(str(number), node(holder="mine", fence=7, expiresAt=EXPIRES + number)) for number in range(2)]
    left, steps = cancel(
        (Read, MINE), clock(), (Swap, renewals[0]), clock(), (Swap, renewals[1]), (BackOff, None), clock(), (Swap, DONE)
    )
    assert isinstance(left, Snapshot)
    assert left.node == {**node(holder="mine", fence=7, expiresAt=EXPIRES + 1), "cancel": 7}
    assert [swap.etag for swap in swaps(steps)] == ["mine", "0", "1"]


@pytest.mark.parametrize(
    "found",
    [
        ABSENT,
        THEIRS,
        Snapshot("r", node(holder="mine", fence=7, releasedAt=NOW)),
        Snapshot("a", node(holder="mine", fence=8)),
        Snapshot("x", node(holder="mine", fence=8, cancel=8)),
        Snapshot("y", node(holder="theirs", fence=7, cancel=7)),
        Snapshot("broken", {"expiresAt": "x"}),
    ],
    ids=["deleted", "taken", "released", "acquired again", "a later cancel", "another's", "malformed"],
)
@pytest.mark.parametrize("is_late", [False, True])
def test_a_cancel_touches_no_other_acquisition(found: Snapshot, is_late: bool) -> None:
    """Whatever replaced the acquisition is left alone, also if it came between the read and the write."""
    before = [(Read, MINE), clock(), (Swap, found)] if is_late else [(Read, found)]
    lost, steps = cancel(*before, clock())
    assert isinstance(lost, Lost)
    assert len(swaps(steps)) == is_late


@pytest.mark.parametrize("later", [{}, {"releasedAt": NOW, "expiresAt": NOW}], ids=["held", "released"])
def test_a_cancel_that_is_there_is_not_written_again(later: dict[str, object]) -> None:
    """A write whose reply was lost, or another operator's, is a success, even if the run has ended since."""
    assert CANCELLED.node == {**node(holder="mine", slot=slot(), unfinished=slot(), fence=7), "cancel": 7}
    there = Snapshot("there", node(holder="mine", fence=7, cancel=7, **later))
    left, steps = cancel((Read, MINE), clock(), (Swap, DOWN), (BackOff, None), (Read, there), clock())
    assert left == there
    assert len(swaps(steps)) == 1
    left, steps = cancel((Read, there), clock())
    assert (left, swaps(steps)) == (there, [])


def test_a_cancel_that_did_not_land_is_sent_again() -> None:
    """While the record is as before, the cancel is written anew."""
    left, steps = cancel((Read, MINE), clock(), (Swap, DOWN), (BackOff, None), (Read, MINE), clock(9), (Swap, DONE))
    assert isinstance(left, Snapshot)
    assert len(swaps(steps)) == 2


def test_a_denied_cancel_is_settled_by_a_read() -> None:
    """A node that is as before shows that the rules refuse the write; one that has changed is judged anew."""
    with pytest.raises(Denied):
        cancel((Read, MINE), clock(), (Swap, NO), (Read, MINE))
    lost, _ = cancel((Read, MINE), clock(), (Swap, NO), (Read, THEIRS), clock())
    assert isinstance(lost, Lost)
    changed = Snapshot("renewed", node(holder="mine", fence=7))
    left, _ = cancel((Read, MINE), clock(), (Swap, NO), (Read, changed), clock(), (Swap, DONE))
    assert isinstance(left, Snapshot)


def edit(
    *dialogue: tuple[type[Action], Answer | StoreError], known: Snapshot | None = None
) -> tuple[tuple[Snapshot, str | None], list[Action]]:
    """Have `mark` be 1 in a node, unless it is there."""

    def decide(node: object, now: int) -> dict[str, object] | str:
        fields = node if isinstance(node, dict) else {}
        return "it is there" if "mark" in fields else {**fields, "mark": 1}

    return converse(editing(decide, known), *dialogue)


def test_an_edit_may_rest_on_what_was_seen_and_an_answer_not() -> None:
    """A node that was seen is written at once; what says that nothing is to be written is read first."""
    (left, said), steps = edit(clock(), (Swap, DONE), known=ABSENT)
    assert (left, said, swaps(steps)) == (Snapshot("new", {"mark": 1}), None, [Swap(ABSENT.etag, {"mark": 1})])
    seen = Snapshot("seen", {"mark": 1})
    (left, said), _ = edit(clock(), (Read, seen), clock(), known=seen)
    assert (left, said) == (seen, "it is there")
    (left, said), steps = edit(clock(), (Read, ABSENT), clock(), (Swap, DONE), known=seen)
    assert (said, len(swaps(steps))) == (None, 1)


@pytest.mark.parametrize("first", [(Swap, Snapshot("x", {"mark": 1})), (Swap, NO)], ids=["overtaken", "denied"])
def test_an_edit_that_was_made_meanwhile_is_not_made_again(first: tuple[type[Action], Answer | StoreError]) -> None:
    """What the node says by then is fresh, so it is the answer."""
    there = Snapshot("x", {"mark": 1})
    reads = [] if isinstance(first[1], Snapshot) else [(Read, there)]
    (left, said), _ = edit(clock(), first, *reads, clock(), known=ABSENT)
    assert (left, said) == (there, "it is there")


def test_an_edit_that_is_read_as_it_was_sent_was_made() -> None:
    """After a lost reply, also when it lands late and overtakes the second try; a node with more in it was edited."""
    there, more = Snapshot("x", {"mark": 1}), Snapshot("y", {"mark": 1, "other": 2})
    lost = (clock(), (Swap, DOWN), (BackOff, None))
    assert edit(*lost, (Read, there), known=ABSENT)[0] == (there, None)
    assert edit(*lost, (Read, ABSENT), clock(), (Swap, there), (BackOff, None), known=ABSENT)[0] == (there, None)
    assert edit(*lost, (Read, more), clock(), known=ABSENT)[0] == (more, "it is there")
