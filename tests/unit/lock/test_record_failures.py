"""How many runs of ticks have failed in a row: who counts one, who ends the count, and who leaves it alone."""

from __future__ import annotations

import pytest
from tests.unit.lock.records import MARGIN, NOW, node, request, slot, taken

from firecron.lock.record import Idle, LockRecord, Request, parse, released

RUN: dict[str, object] = {"attempt": 1, "fence": 9, "slot": slot(-60), "unfinished": slot(-60)}
HELD = node(holder="mine", **RUN)
DIED = {**HELD, "expiresAt": NOW - MARGIN, "holder": "theirs"}
LET_GO: dict[str, object] = {"releasedAt": NOW - 9_000, "expiresAt": NOW - 9_000}


def after(current: dict[str, object], outcome: str | None, tick: str | None = slot(-60)) -> object:
    """The count after a release."""
    record = released(current, "mine", NOW, outcome=outcome, tick=tick)
    assert isinstance(record, LockRecord)
    return record.to_json().get("failures")


@pytest.mark.parametrize("outcome", ["failed", "lost"])
def test_a_failed_run_counts_one_more(outcome: str) -> None:
    """Also one that lost its lease and still has the record."""
    assert after(HELD, outcome) == 1
    assert after({**HELD, "failures": 2}, outcome) == 3


@pytest.mark.parametrize("outcome", ["interrupted", "cancelled", None])
def test_another_end_leaves_the_count(outcome: str | None) -> None:
    """Neither a deployment nor an operator says anything of the job."""
    assert after(HELD, outcome) is None
    assert after({**HELD, "failures": 2}, outcome) == 2


@pytest.mark.parametrize("tick", [slot(), None])
def test_a_success_ends_the_count(tick: str | None) -> None:
    """Also that of a run by hand, which claims no tick."""
    assert after({**HELD, "failures": 2}, "succeeded", tick=tick) is None


def test_a_run_by_hand_counts_nothing() -> None:
    """It failed in the hands of whoever began it; and a leader's term is no run of a tick."""
    assert after({**HELD, "failures": 2}, "failed", tick=None) == 2
    assert after(node(holder="mine", fence=9, kind="leader"), "failed") is None


@pytest.mark.parametrize("wanted", [request(slot=slot(), fenced=True), request(fenced=True), request()])
def test_who_takes_over_from_a_run_that_died_counts_it(wanted: Request) -> None:
    """The next tick, a run by hand or a plain lock: nobody else would."""
    assert taken({**DIED, "failures": 2}, wanted)["failures"] == 3
    assert taken(DIED, wanted)["failures"] == 1


@pytest.mark.parametrize(
    "before",
    [{**DIED, **LET_GO}, {name: value for name, value in DIED.items() if name != "unfinished"}, {**DIED, "cancel": 9}],
    ids=["it was released: counted, or interrupted", "it has ended", "it was cancelled"],
)
def test_other_claims_leave_the_count(before: dict[str, object]) -> None:
    """A lost run that was released is not counted twice."""
    wanted = request(slot=slot(), fenced=True)
    assert taken({**before, "failures": 2}, wanted)["failures"] == 2
    assert "failures" not in taken(before, wanted)


@pytest.mark.parametrize("wanted", [request(slot=slot(), fenced=True), request(fenced=True), request()])
def test_a_success_that_an_older_version_did_not_count_ends_the_count(wanted: Request) -> None:
    """It has left the number in the node. The next claim drops it, so the failures after it are counted from one."""
    before = {**DIED, **LET_GO, "failures": 2, "outcome": "succeeded"}
    del before["unfinished"]
    assert "failures" not in taken(before, wanted)


@pytest.mark.parametrize(("typed", "then"), [("many", 1), (-1, 1), (True, 1), ({"by": "Ann"}, 1), (0, 1), (1.5, 2.5)])
def test_what_somebody_has_typed_blocks_nothing(typed: object, then: float) -> None:
    """What is no count counts as none, and is carried over until a run is counted."""
    strange = {**HELD, "failures": typed}
    assert isinstance(parse(strange, NOW), LockRecord)
    assert after(strange, "interrupted") == typed
    counted = after(strange, "failed")
    assert (counted, type(counted)) == (then, type(then))


def test_a_count_alone_is_no_record() -> None:
    """Whoever deletes all else has a free lock, and its next run has no count."""
    assert isinstance(parse({"failures": 3}, NOW), Idle)
    assert "failures" not in taken({"failures": 3}, request(slot=slot()))
