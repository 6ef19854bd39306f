"""Writing a step, request by request: what is asked of the store, and what each answer leads to."""

from __future__ import annotations

import pytest
from tests.unit.lock.dialogues import ABSENT, DONE, DOWN, NO, converse, swaps

from firecron.errors import Denied, Malformed, Unavailable
from firecron.lock.protocol import BackOff, Read, Swap
from firecron.lock.record import Lost
from firecron.steps.protocol import Settled, StepRecord, intending, recording
from firecron.store import Snapshot

OWN = StepRecord(20, 1_000, 2, "me", 1_500, "1")
INTENT = StepRecord(20, 1_000, 2, "me")


def there(record: StepRecord, etag: str = "there") -> Snapshot:
    return Snapshot(etag, record.to_node())


def of(fence: int, *, done: bool = True) -> StepRecord:
    return StepRecord(fence, 900, 1, "other", 950 if done else None, "0" if done else None)


def trusted() -> bool:
    return True


def lost() -> bool:
    return False


def test_a_first_record_is_one_request() -> None:
    """What is known to be absent is written at once, under the ETag of nothing."""
    settled, steps = converse(recording(OWN, ABSENT, trusted), (Swap, DONE))
    assert settled == Settled("written", OWN, Snapshot("new", OWN.to_node()))
    assert swaps(steps) == [Swap(ABSENT.etag, OWN.to_node())]


def test_a_successors_record_is_never_touched() -> None:
    """A higher fence is the end: the writer is the zombie."""
    for found in (of(21), of(21, done=False)):
        answer, _ = converse(recording(OWN, ABSENT, trusted), (Swap, there(found)))
        assert isinstance(answer, Lost)
        answer, _ = converse(intending(INTENT, ABSENT, trusted), (Swap, there(found)))
        assert isinstance(answer, Lost)


def test_a_lost_reply_is_read_back() -> None:
    """What the write has brought is found by its fence, and not written again."""
    first = StepRecord(20, 1_000, 2, "me", 1_400, "1")
    settled, steps = converse(recording(OWN, ABSENT, trusted), (Swap, DOWN), (BackOff, None), (Read, there(first)))
    assert settled == Settled("found", first, there(first))
    assert len(swaps(steps)) == 1


def test_a_lost_request_is_sent_again() -> None:
    """If the read finds nothing, the write was not applied; reads are repeated, too."""
    settled, steps = converse(
        recording(OWN, ABSENT, trusted),
        (Swap, DOWN),
        (BackOff, None),
        (Read, DOWN),
        (BackOff, None),
        (Read, ABSENT),
        (Swap, DONE),
    )
    assert isinstance(settled, Settled)
    assert settled.verdict == "written"
    assert [step.tries for step in steps if isinstance(step, BackOff)] == [1, 1]


def test_nothing_is_sent_without_a_trusted_lease() -> None:
    """Neither at first nor again; but what is there already is returned."""
    for exchange in (recording(OWN, ABSENT, lost), intending(INTENT, ABSENT, lost)):
        answer, steps = converse(exchange)
        assert isinstance(answer, Lost)
        assert steps == []
    trusts = iter([True, False])
    answer, steps = converse(
        recording(OWN, ABSENT, lambda: next(trusts)), (Swap, DOWN), (BackOff, None), (Read, ABSENT)
    )
    assert isinstance(answer, Lost)
    assert len(swaps(steps)) == 1
    settled, _ = converse(recording(OWN, there(OWN), lost))
    assert isinstance(settled, Settled)


def test_a_refusal_is_settled_by_a_read() -> None:
    """A 401 may mean that the write has been applied before, or that a successor has written."""
    settled, _ = converse(recording(OWN, ABSENT, trusted), (Swap, NO), (Read, there(OWN)))
    assert isinstance(settled, Settled)
    assert settled.verdict == "found"
    answer, _ = converse(recording(OWN, ABSENT, trusted), (Swap, NO), (Read, there(of(21))))
    assert isinstance(answer, Lost)


def test_a_refusal_that_nothing_explains_is_denied() -> None:
    """The write is sent once more, for a token may have run out; then the refusal is what it says."""
    with pytest.raises(Denied):
        converse(recording(OWN, ABSENT, trusted), (Swap, NO), (Read, ABSENT), (Swap, NO), (Read, ABSENT))
    settled, _ = converse(recording(OWN, ABSENT, trusted), (Swap, NO), (Read, ABSENT), (Swap, DONE))
    assert isinstance(settled, Settled)
    # A node that has changed in between may explain the second refusal as well.
    settled, _ = converse(
        recording(OWN, ABSENT, trusted), (Swap, NO), (Read, ABSENT), (Swap, NO), (Read, there(of(19))), (Swap, DONE)
    )
    assert isinstance(settled, Settled)


def test_a_node_that_changes_all_the_time_is_tried_with_pauses() -> None:
    """The first write that finds the node changed is sent again at once, later ones after a pause."""
    with pytest.raises(Unavailable):
        converse(
            recording(OWN, ABSENT, trusted), (Swap, there(of(18), "a")), (Swap, there(of(19), "b")), (BackOff, DOWN)
        )


def test_a_malformed_node_ends_it() -> None:
    """A step that can't be understood is neither called nor written."""
    for exchange in (recording(OWN, None, trusted), intending(INTENT, None, trusted)):
        with pytest.raises(Malformed):
            converse(exchange, (Read, Snapshot("odd", {"fence": "x"})))


def test_an_intent_is_written_before_the_call() -> None:
    """One request, without a result; a lost reply is read back."""
    settled, steps = converse(intending(INTENT, ABSENT, trusted), (Swap, DONE))
    assert settled == Settled("written", INTENT, Snapshot("new", INTENT.to_node()))
    assert swaps(steps)[0].node == {"fence": 20, "startedAt": 1_000, "attempt": 2, "instance": "me"}
    settled, steps = converse(intending(INTENT, ABSENT, trusted), (Swap, DOWN), (BackOff, None), (Read, there(INTENT)))
    assert settled == Settled("written", INTENT, there(INTENT))
    assert len(swaps(steps)) == 1


@pytest.mark.parametrize(("found", "verdict"), [(of(19), "found"), (of(19, done=False), "in_doubt")])
def test_a_call_that_was_begun_is_not_begun_again(found: StepRecord, verdict: str) -> None:
    """What a zombie has written since the claim looked is seen before the call: its result counts, its intent stops."""
    settled, steps = converse(intending(INTENT, ABSENT, trusted), (Swap, there(found)))
    assert settled == Settled(verdict, found, there(found))  # type: ignore[arg-type]  # it is one of the words
    assert len(swaps(steps)) == 1


def test_an_allowed_intent_is_replaced_under_its_etag() -> None:
    """An intent that was looked into gives way; a result in its place doesn't."""
    allowed = of(19, done=False)
    settled, steps = converse(intending(INTENT, None, trusted, allowed), (Read, there(allowed)), (Swap, DONE))
    assert isinstance(settled, Settled)
    assert settled.verdict == "written"
    assert swaps(steps)[0].etag == "there"
    settled, _ = converse(intending(INTENT, None, trusted, allowed), (Read, there(of(19))))
    assert isinstance(settled, Settled)
    assert settled.verdict == "found"
