"""Acquiring, step by step: what is asked of the store, in which order, and what each answer leads to."""

from __future__ import annotations

from typing import TypeVar

import pytest
from tests.unit.lock.dialogues import ABSENT, DONE, DOWN, NO, THEIRS, acquire, clock, refusal, swaps, wins
from tests.unit.lock.records import EXPIRES, MARGIN, NOW, TTL, at, node, released_node, request, taken

from firecron.base.clocks import Moment
from firecron.errors import Denied, Unavailable
from firecron.lock.protocol import BackOff, Held, Now, Read, Swap, Swapped, acquiring
from firecron.lock.record import Number, Refused, Request, Trust
from firecron.store import NULL_ETAG, Snapshot

T = TypeVar("T")


def test_a_free_lock_is_one_request() -> None:
    """Nothing known: the record is written where nothing is, without a look first."""
    held, steps = wins(clock(), (Swap, DONE))
    assert swaps(steps) == [Swap(NULL_ETAG, taken(None))]
    assert held.snapshot == Snapshot("new", taken(None))
    assert held.trust == Trust(NOW + TTL, at())


def test_what_is_known_saves_the_look() -> None:
    """A node that was seen before is replaced under its ETag, with what it has to remember."""
    known = Snapshot("known", released_node(fence=7))
    _, steps = wins(clock(), (Swap, DONE), known=known)
    assert swaps(steps) == [Swap("known", taken(known.node))]


def test_what_is_known_forbids_nothing() -> None:
    """A hint that says no is looked at anew, and what is there now decides."""
    _, steps = wins(clock(), (Read, ABSENT), clock(5), (Swap, DONE), known=THEIRS)
    assert swaps(steps)[0].etag == NULL_ETAG
    assert refusal(clock(), (Read, THEIRS), clock(5), known=THEIRS) == "held"


@pytest.mark.parametrize(("instance", "is_read"), [("i2", True), ("i1", False)])
def test_what_another_instance_has_held_is_read_before_it_is_written(instance: str, is_read: bool) -> None:
    """It has released it since, so a write under the old ETag would be in vain. What it holds itself is no news."""
    over = Snapshot("over", node(expiresAt=NOW - 5_000, instance=instance))
    look = [(Read, ABSENT), clock(5)] if is_read else []
    _, steps = wins(clock(), *look, (Swap, DONE), known=over)
    assert swaps(steps)[0].etag == (NULL_ETAG if is_read else "over")


def test_a_refusal_is_one_request() -> None:
    """Who loses the swap gets the state with it, and is refused by that."""
    assert refusal(clock(), (Swap, THEIRS), clock()) == "held"


def test_each_decision_has_a_reading_of_its_own() -> None:
    """The lease that is written counts from the reading just before it, not from an earlier one."""
    held, _ = wins(clock(), (Swap, Snapshot("free", released_node())), clock(700), (Swap, DONE))
    assert held.trust == Trust(NOW + 700 + TTL, at(NOW + 700))


def test_contention_is_met_with_a_pause() -> None:
    """A first lost race is tried again at once, from the second on after a pause that knows how many there were."""
    free = [Snapshot(str(number), released_node(fence=number)) for number in range(3)]
    lost = (
        clock(),
        (Swap, free[0]),
        clock(),
        (Swap, free[1]),
        (BackOff, None),
        clock(),
        (Swap, free[2]),
        (BackOff, None),
    )
    _, steps = wins(*lost, clock(), (Swap, DONE))
    assert [swap.etag for swap in swaps(steps)] == [NULL_ETAG, "0", "1", "2"]
    assert [step.tries for step in steps if isinstance(step, BackOff)] == [2, 3]


def test_a_write_whose_reply_was_lost_is_a_win() -> None:
    """The read-back shows my token: the lock is held, with the lease of that write."""
    written: dict[Number, Trust] = {}
    held, steps = wins(
        clock(), (Swap, DOWN), (BackOff, None), (Read, Snapshot("e", taken(None))), clock(900), written=written
    )
    assert held.trust == Trust(NOW + TTL, at())
    assert held.snapshot.etag == "e"
    assert len(swaps(steps)) == 1
    assert written == {NOW + TTL: held.trust}


def test_a_write_whose_reply_was_lost_is_no_win_after_its_lease() -> None:
    """Found when its lease is over, my own record is a dead holder's."""
    assert (
        refusal(clock(), (Swap, DOWN), (BackOff, None), (Read, Snapshot("e", taken(None))), clock(TTL - MARGIN))
        == "held"
    )


@pytest.mark.parametrize(
    ("found", "etag"), [(ABSENT, NULL_ETAG), (Snapshot("old", released_node()), "old")], ids=["absent", "released"]
)
def test_a_write_that_did_not_land_is_decided_anew(found: Snapshot, etag: str) -> None:
    """What the node says after the failure decides, under its own ETag."""
    held, steps = wins(clock(), (Swap, DOWN), (BackOff, None), (Read, found), clock(30), (Swap, DONE))
    assert swaps(steps)[1].etag == etag
    assert held.trust == Trust(NOW + 30 + TTL, at(NOW + 30))


def test_after_a_failure_a_live_record_of_another_refuses() -> None:
    """Somebody else was quicker."""
    assert refusal(clock(), (Swap, DOWN), (BackOff, None), (Read, THEIRS), clock()) == "held"


def test_a_denied_write_is_settled_by_one_read() -> None:
    """A readable record decides as usual; a denied read is the answer."""
    assert refusal(clock(), (Swap, NO), (Read, THEIRS), clock()) == "held"
    with pytest.raises(Denied):
        acquire(clock(), (Swap, NO), (Read, NO))
    wins(clock(), (Swap, NO), (Read, ABSENT), clock(), (Swap, DONE))


def test_a_write_without_a_reply_is_not_settled_by_a_denied_read() -> None:
    """It may have been applied, so the answer is not known: the next try with the same request finds the lock."""
    written: dict[Number, Trust] = {}
    with pytest.raises(Unavailable, match=r"down; and the read .* is refused: no"):
        acquire(clock(), (Swap, DOWN), (BackOff, None), (Read, NO), written=written)
    held, _ = wins(clock(500), (Swap, Snapshot("e", taken(None))), clock(500), written=written)
    assert held.trust == Trust(NOW + TTL, at())


def test_a_free_lock_that_may_not_be_written_is_denied() -> None:
    """Refused where nothing is, and refused to delete it; or refused while a released record stays as it is."""
    twice = clock(), (Swap, NO), (Read, ABSENT), clock(), (Swap, NO)
    with pytest.raises(Denied):
        acquire(*twice, (Swap, NO))
    free = Snapshot("free", released_node())
    with pytest.raises(Denied):
        acquire(clock(), (Swap, NO), (Read, free), clock(), (Swap, NO), (Read, free))


def test_who_is_too_late_twice_is_not_denied() -> None:
    """Others who took a free lock and gave it back are seen by its ETag, or by what may be written where nothing is."""
    twice = clock(), (Swap, NO), (Read, ABSENT), clock(), (Swap, NO)
    refused, steps = acquire(*twice, (Swap, DONE), (Read, THEIRS), (BackOff, None), clock())
    assert isinstance(refused, Refused)
    assert refused.reason == "held"
    assert swaps(steps)[2] == Swap(NULL_ETAG, None)
    wins(*twice, (Swap, THEIRS), (Read, ABSENT), (BackOff, None), clock(), (Swap, DONE))
    one, other = Snapshot("one", released_node(fence=1)), Snapshot("other", released_node(fence=2))
    begun = clock(), (Swap, NO), (Read, one), clock(), (Swap, NO), (Read, other), (BackOff, None), clock()
    wins(*begun, (Swap, DONE))
    _, steps = wins(*begun, (Swap, NO), (Read, one), (BackOff, None), clock(), (Swap, DONE))
    assert [step.tries for step in steps if isinstance(step, BackOff)] == [1, 2]


def test_reading_is_repeated_with_pauses() -> None:
    """A read that fails is tried again, each pause knowing how many failed, and the failure."""
    failed = (Read, Unavailable("one")), (BackOff, None), (Read, Unavailable("two")), (BackOff, None)
    _, steps = acquire(clock(), *failed, (Read, THEIRS), clock(), known=THEIRS)
    pauses = [(step.tries, str(step.error)) for step in steps if isinstance(step, BackOff)]
    assert pauses == [(1, "one"), (2, "two")]


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_a_reply_after_the_lease_is_no_acquisition(late: int) -> None:
    """The reply counts when it came: at the end of the trust it is too late."""
    reply = Swapped("new", float(TTL - MARGIN + late))
    if late < 0:
        wins(clock(), (Swap, reply))
    else:
        with pytest.raises(Unavailable, match="the reply came after its lease was over"):
            acquire(clock(), (Swap, reply))


def test_an_answer_of_the_wrong_kind_is_a_bug() -> None:
    """A driver that mixes up the answers is told so."""
    with pytest.raises(TypeError, match="instead of a Moment"):
        acquire((Now, THEIRS))


def test_a_hint_that_says_mine_is_not_believed() -> None:
    """A node last seen as this request's own is read again: it may have been deleted and taken by somebody since."""
    trust = Trust(EXPIRES, Moment(EXPIRES - TTL, EXPIRES - TTL - NOW))
    mine = Snapshot("mine", node(holder="mine"))
    assert refusal(clock(), (Read, THEIRS), clock(), known=mine, written={EXPIRES: trust}) == "held"


def test_a_write_that_landed_is_mine_whatever_there_is_to_choose() -> None:
    """A claim whose reply was lost is won when it is found, also if nothing would be left to claim by then."""
    offers: list[Request | Refused] = [request(), Refused("slot_done")]
    exchange = acquiring(request(), None, {}, choose=lambda wanted, seen, now: offers.pop(0))
    clock_step = next(exchange)
    assert clock_step == Now()
    swap = exchange.send(at(NOW))
    assert isinstance(swap, Swap)
    assert isinstance(exchange.throw(DOWN), BackOff)
    assert exchange.send(None) == Read()
    assert exchange.send(Snapshot("mine", swap.node)) == Now()
    with pytest.raises(StopIteration) as done:
        exchange.send(at(NOW + 10))
    assert isinstance(done.value.value, Held)
