"""The conversations, step by step: what is asked of the store, in which order, and what each answer leads to."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import pytest
from tests.unit.records import EXPIRES, MARGIN, NOW, TTL, at, node, released_node, request, slot, taken

from firecron.conversation import (
    NULL_ETAG,
    Answer,
    Conversation,
    Held,
    Now,
    Pause,
    Read,
    Snapshot,
    Step,
    Swap,
    Swapped,
    acquiring,
    releasing,
    renewing,
    run,
)
from firecron.errors import Denied, StoreError, Unavailable
from firecron.record import Lost, Moment, Number, Refused, Request, Term

T = TypeVar("T")

ABSENT = Snapshot(NULL_ETAG, None)
THEIRS = Snapshot("theirs", node())
DONE = Swapped("new", 0.0)
DOWN = Unavailable("down")
NO = Denied("no")


def converse(conversation: Conversation[T], *dialogue: tuple[type[Step], Answer | StoreError]) -> tuple[T, list[Step]]:
    """Answer the steps as they are expected to come; gives the outcome, and the steps as they were."""
    steps: list[Step] = []
    expected = iter(dialogue)
    try:
        step = next(conversation)
        while True:
            steps.append(step)
            kind, answer = next(expected, (None, None))
            assert type(step) is kind, f"{step} after {steps[:-1]}"
            step = conversation.throw(answer) if isinstance(answer, StoreError) else conversation.send(answer)
    except StopIteration as done:
        assert next(expected, None) is None, "the conversation ended early"
        outcome: T = done.value
        return outcome, steps


def acquire(
    *dialogue: tuple[type[Step], Answer | StoreError],
    wanted: Request | None = None,
    known: Snapshot | None = None,
    written: dict[Number, Term] | None = None,
) -> tuple[Held | Refused, list[Step]]:
    return converse(acquiring(wanted or request(), known, {} if written is None else written), *dialogue)


def clock(milliseconds: int = 0) -> tuple[type[Step], Answer]:
    return Now, at(NOW + milliseconds)


def swaps(steps: list[Step]) -> list[Swap]:
    return [step for step in steps if isinstance(step, Swap)]


def test_a_free_lock_is_one_request() -> None:
    """Nothing known: the record is written where nothing is, without a look first."""
    held, steps = acquire(clock(), (Swap, DONE))
    assert isinstance(held, Held)
    assert swaps(steps) == [Swap(NULL_ETAG, taken(None))]
    assert held.snapshot == Snapshot("new", taken(None))
    assert held.term == Term(NOW + TTL, at())


def test_what_is_known_saves_the_look() -> None:
    """A node that was seen before is replaced under its ETag, with what it has to remember."""
    known = Snapshot("known", released_node(fence=7))
    held, steps = acquire(clock(), (Swap, DONE), known=known)
    assert isinstance(held, Held)
    assert swaps(steps) == [Swap("known", taken(known.node))]


def test_what_is_known_forbids_nothing() -> None:
    """A hint that says no is looked at anew, and what is there now decides."""
    held, steps = acquire(clock(), (Read, ABSENT), clock(5), (Swap, DONE), known=THEIRS)
    assert isinstance(held, Held)
    assert swaps(steps)[0].etag == NULL_ETAG
    refused, _ = acquire(clock(), (Read, THEIRS), clock(5), known=THEIRS)
    assert isinstance(refused, Refused)


def test_a_refusal_is_one_request() -> None:
    """Who loses the swap gets the state with it, and is refused by that."""
    refused, _ = acquire(clock(), (Swap, THEIRS), clock())
    assert isinstance(refused, Refused)
    assert refused.reason == "held"


def test_each_decision_has_a_reading_of_its_own() -> None:
    """The lease that is written counts from the reading just before it, not from an earlier one."""
    held, _ = acquire(clock(), (Swap, Snapshot("free", released_node())), clock(700), (Swap, DONE))
    assert isinstance(held, Held)
    assert held.term == Term(NOW + 700 + TTL, at(NOW + 700))


def test_contention_is_met_with_a_pause() -> None:
    """A first lost race is tried again at once, from the second on after a pause that knows how many there were."""
    free = [Snapshot(str(number), released_node(fence=number)) for number in range(3)]
    held, steps = acquire(
        clock(),
        (Swap, free[0]),
        clock(),
        (Swap, free[1]),
        (Pause, None),
        clock(),
        (Swap, free[2]),
        (Pause, None),
        clock(),
        (Swap, DONE),
    )
    assert isinstance(held, Held)
    assert [swap.etag for swap in swaps(steps)] == [NULL_ETAG, "0", "1", "2"]
    assert [step.tries for step in steps if isinstance(step, Pause)] == [2, 3]


def test_a_write_whose_reply_was_lost_is_a_win() -> None:
    """The read-back shows my token: the lock is held, with the lease of that write."""
    written: dict[Number, Term] = {}
    held, steps = acquire(
        clock(), (Swap, DOWN), (Pause, None), (Read, Snapshot("e", taken(None))), clock(900), written=written
    )
    assert isinstance(held, Held)
    assert held.term == Term(NOW + TTL, at())
    assert held.snapshot.etag == "e"
    assert len(swaps(steps)) == 1
    assert written == {NOW + TTL: held.term}


def test_a_write_whose_reply_was_lost_is_no_win_after_its_lease() -> None:
    """Found when its lease is over, my own record is a dead holder's."""
    refused, _ = acquire(
        clock(), (Swap, DOWN), (Pause, None), (Read, Snapshot("e", taken(None))), clock(TTL - MARGIN)
    )
    assert isinstance(refused, Refused)
    assert refused.reason == "held"


@pytest.mark.parametrize(
    ("found", "etag"), [(ABSENT, NULL_ETAG), (Snapshot("old", released_node()), "old")], ids=["absent", "released"]
)
def test_a_write_that_did_not_land_is_decided_anew(found: Snapshot, etag: str) -> None:
    """What the node says after the failure decides, under its own ETag."""
    held, steps = acquire(clock(), (Swap, DOWN), (Pause, None), (Read, found), clock(30), (Swap, DONE))
    assert isinstance(held, Held)
    assert swaps(steps)[1].etag == etag
    assert held.term == Term(NOW + 30 + TTL, at(NOW + 30))


def test_after_a_failure_a_live_record_of_another_refuses() -> None:
    """Somebody else was quicker."""
    refused, _ = acquire(clock(), (Swap, DOWN), (Pause, None), (Read, THEIRS), clock())
    assert isinstance(refused, Refused)
    assert refused.reason == "held"


def test_a_denied_write_is_settled_by_one_read() -> None:
    """A readable record decides as usual; a second denied write, or a denied read, is the answer."""
    refused, _ = acquire(clock(), (Swap, NO), (Read, THEIRS), clock())
    assert isinstance(refused, Refused)
    assert refused.reason == "held"
    with pytest.raises(Denied):
        acquire(clock(), (Swap, NO), (Read, ABSENT), clock(), (Swap, NO))
    with pytest.raises(Denied):
        acquire(clock(), (Swap, NO), (Read, NO))
    held, _ = acquire(clock(), (Swap, NO), (Read, ABSENT), clock(), (Swap, DONE))
    assert isinstance(held, Held)


def test_reading_is_repeated_with_pauses() -> None:
    """A read that fails is tried again, each pause knowing how many failed and what the server asked for."""
    _, steps = acquire(
        clock(),
        (Read, Unavailable("one")),
        (Pause, None),
        (Read, Unavailable("two", retry_after=9)),
        (Pause, None),
        (Read, THEIRS),
        clock(),
        known=THEIRS,
    )
    assert [step for step in steps if isinstance(step, Pause)] == [Pause(1, "one"), Pause(2, "two", 9)]


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_a_reply_after_the_lease_is_no_acquisition(late: int) -> None:
    """The reply counts when it came: at the end of the trust it is too late."""
    reply = Swapped("new", float(TTL - MARGIN + late))
    if late < 0:
        held, _ = acquire(clock(), (Swap, reply))
        assert isinstance(held, Held)
    else:
        with pytest.raises(Unavailable, match="the reply came after its lease was over"):
            acquire(clock(), (Swap, reply))


MINE = Snapshot("mine", node(holder="mine", slot=slot(), unfinished=slot(), fence=7))


def in_hand(snapshot: Snapshot = MINE) -> Held:
    held, _ = acquire(
        clock(), known=snapshot, written={EXPIRES: Term(EXPIRES, Moment(EXPIRES - TTL, EXPIRES - TTL - NOW))}
    )
    assert isinstance(held, Held)
    return held


def renew(*dialogue: tuple[type[Step], Answer | StoreError]) -> tuple[Held | Lost, list[Step]]:
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
    assert held.term == Term(NOW + 5_000 + TTL, at(NOW + 5_000))


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
    [ABSENT, THEIRS, Snapshot("r", node(holder="mine", releasedAt=NOW)), Snapshot("u", node(holder="mine", expiresAt=0))],
    ids=["deleted", "taken", "released", "unlocked"],
)
@pytest.mark.parametrize("after_failure", [False, True])
def test_a_renewal_that_finds_the_lock_gone_writes_nothing(found: Snapshot, after_failure: bool) -> None:
    """Deleted, taken, released or unlocked: the lease is lost, and nothing is put back."""
    before = [clock(), (Swap, DOWN), (Pause, None), (Read, found)] if after_failure else [clock(), (Swap, found)]
    lost, steps = renew(*before, clock())
    assert isinstance(lost, Lost)
    assert len(swaps(steps)) == 1


@pytest.mark.parametrize("error", [DOWN, NO])
def test_a_renewal_that_may_have_landed_is_read_back_and_written_anew(error: StoreError) -> None:
    """My own record with the later expiry is renewed again, from a new reading."""
    landed = Snapshot("landed", {**node(holder="mine"), "expiresAt": NOW + TTL})
    held, steps = renew(clock(), (Swap, error), (Pause, None), (Read, landed), clock(40), (Swap, DONE))
    assert isinstance(held, Held)
    assert swaps(steps)[1].etag == "landed"
    assert held.term == Term(NOW + 40 + TTL, at(NOW + 40))


@pytest.mark.parametrize("late", [-1, 0, 1])
def test_a_renewal_whose_reply_comes_after_the_old_lease_is_a_loss(late: int) -> None:
    """Until the reply the old lease counts; it may have been over in between."""
    answer, _ = renew(clock(), (Swap, Swapped("new", float(EXPIRES - NOW - MARGIN + late))))
    assert isinstance(answer, Held if late < 0 else Lost)


def release(
    *dialogue: tuple[type[Step], Answer | StoreError], held: Held | None = None
) -> tuple[Snapshot | Lost, list[Step]]:
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
@pytest.mark.parametrize("error", [DOWN, NO])
def test_a_release_whose_reply_was_lost_is_a_release(found: Snapshot, error: StoreError) -> None:
    """The read-back shows that it was applied."""
    left, steps = release(clock(), (Swap, error), (Pause, None), (Read, found), clock())
    assert left == found
    assert len(swaps(steps)) == 1


def test_a_release_that_did_not_land_is_sent_again() -> None:
    """While the record is still this holder's, it is given back."""
    edited = Snapshot("edited", node(holder="mine", note="x"))
    left, steps = release(clock(), (Swap, DOWN), (Pause, None), (Read, edited), clock(9), (Swap, DONE))
    assert isinstance(left, Snapshot)
    again = swaps(steps)[1]
    assert again.etag == "edited"
    assert again.node is not None
    assert (again.node["note"], again.node["releasedAt"]) == ("x", NOW + 9)


def test_a_release_that_may_have_landed_leaves_a_successor_alone() -> None:
    """Whoever has it now keeps it."""
    lost, steps = release(clock(), (Swap, DOWN), (Pause, None), (Read, THEIRS), clock())
    assert isinstance(lost, Lost)
    assert len(swaps(steps)) == 1


def test_a_deleted_node_without_a_release_sent_is_a_loss() -> None:
    """Only after a release of its own does a holder take an absent node for released."""
    lost, _ = release(clock(), (Swap, ABSENT), clock())
    assert isinstance(lost, Lost)
    assert "deleted" in lost.why


def hold(
    conversation: Conversation[T],
    *,
    swap: Callable[[str, dict[str, object] | None], str | Snapshot],
    read: Callable[[], Snapshot] = lambda: ABSENT,
    paused: list[Pause] | None = None,
) -> T:
    return run(
        conversation,
        now=at,
        read=read,
        swap=swap,
        pause=(paused if paused is not None else []).append,
        mono=lambda: 3.5,
    )


def test_a_thread_holds_a_conversation() -> None:
    """Steps are done in order, failures are told to the conversation, and its outcome is the answer."""
    wrote: list[tuple[str, dict[str, object] | None]] = []
    paused: list[Pause] = []

    def swap(etag: str, record: dict[str, object] | None) -> str | Snapshot:
        wrote.append((etag, record))
        if len(wrote) == 1:
            raise Unavailable("down", retry_after=2)
        return "new"

    held = hold(acquiring(request(), None, {}), swap=swap, paused=paused)
    assert isinstance(held, Held)
    assert paused == [Pause(1, "down", 2)]
    assert wrote == [(NULL_ETAG, taken(None))] * 2
    assert held.snapshot.etag == "new"


def test_what_is_no_failure_of_the_store_ends_the_conversation() -> None:
    """A bug is raised to the caller, not told to the conversation."""

    def swap(etag: str, record: dict[str, object] | None) -> str:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        hold(acquiring(request(), None, {}), swap=swap)


def test_an_answer_of_the_wrong_kind_is_a_bug() -> None:
    """A driver that mixes up the answers is told so."""
    with pytest.raises(TypeError, match="not with a Moment"):
        acquire((Now, THEIRS))
