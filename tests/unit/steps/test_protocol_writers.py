"""The record of a step: what is understood, and who may write over whom."""

from __future__ import annotations

import pytest

from firecron.errors import Malformed
from firecron.steps.protocol import StepRecord, evaluate_intent, evaluate_result, read_step

INTENT = StepRecord(20, 1_000, 2, "00bf4b9c3f2a")
DONE = StepRecord(20, 1_000, 2, "00bf4b9c3f2a", 1_500, "null")


def of(fence: int, *, done: bool) -> StepRecord:
    return StepRecord(fence, 900, 1, "other", 950 if done else None, "1" if done else None)


@pytest.mark.parametrize("record", [INTENT, DONE, StepRecord(1, 2)])
def test_a_record_is_read_as_it_was_written(record: StepRecord) -> None:
    """Each field comes back, and a field that is not known is not written."""
    node = record.to_node()
    assert read_step(node) == record
    assert None not in node.values()
    assert read_step(None) is None


@pytest.mark.parametrize(
    "node",
    [
        5,
        [],
        {},
        {"fence": 1},
        {"startedAt": 1},
        {"fence": "1", "startedAt": 1},
        {"fence": True, "startedAt": 1},
        {"fence": 1, "startedAt": 1, "result": "1"},
        {"fence": 1, "startedAt": 1, "doneAt": 1},
        {"fence": 1, "startedAt": 1, "doneAt": "1", "result": "1"},
        {"fence": 1, "startedAt": 1, "doneAt": 1, "result": 1},
    ],
    ids=repr,
)
def test_what_is_no_record_is_malformed(node: object) -> None:
    """A node that was edited by hand is neither a result nor an intent nor nothing."""
    with pytest.raises(Malformed):
        read_step(node)


def test_fields_for_people_may_be_anything() -> None:
    """An attempt or an instance that can't be read is left out."""
    assert read_step({"fence": 1, "startedAt": 2, "attempt": "x", "instance": 5}) == StepRecord(1, 2)


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (None, "write"),
        (of(19, done=False), "write"),
        (of(19, done=True), "write"),
        (of(20, done=False), "write"),
        (of(20, done=True), "found"),
        (of(21, done=False), "overtaken"),
        (of(21, done=True), "overtaken"),
    ],
)
def test_a_result_replaces_what_earlier_claims_have_written(found: StepRecord | None, verdict: str) -> None:
    """A lower fence is replaced, one's own result stays, and a successor's is never touched."""
    assert evaluate_result(found, DONE) == verdict


@pytest.mark.parametrize(
    ("found", "verdict"),
    [
        (None, "write"),
        (of(19, done=False), "in_doubt"),
        (of(19, done=True), "found"),
        (INTENT, "written"),
        (of(20, done=False), "in_doubt"),
        (of(20, done=True), "found"),
        (of(21, done=False), "overtaken"),
        (of(21, done=True), "overtaken"),
    ],
)
def test_an_intent_gives_way_to_whatever_was_called(found: StepRecord | None, verdict: str) -> None:
    """Nothing that an earlier claim has called is called again: its result is used, its intent is in doubt."""
    assert evaluate_intent(found, INTENT, None) == verdict


def test_an_intent_that_is_allowed_is_replaced() -> None:
    """Only that one: another intent in its place is in doubt as well."""
    allowed = of(19, done=False)
    assert evaluate_intent(allowed, INTENT, allowed) == "write"
    assert evaluate_intent(of(18, done=False), INTENT, allowed) == "in_doubt"
    assert evaluate_intent(of(19, done=True), INTENT, allowed) == "found"
