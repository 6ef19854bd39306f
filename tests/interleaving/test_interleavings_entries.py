"""A stored schedule that is put, removed, claimed, renewed, released, looked at and put again, in every order.

Removed is removed, and no tick of an entry begins twice. With INTERLEAVINGS in the environment larger cases are played
too, which takes some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Generator, Iterator
from typing import Any

import pytest
from tests.interleaving.checks import Violation
from tests.interleaving.entries import (
    EACH_MINUTE,
    Actor,
    EntryModel,
    EntryScenario,
    explore_entries,
    walk_entries,
)

from firecron.lock import protocol, stored
from firecron.lock.protocol import Swap
from firecron.lock.record import Current, LockRecord
from firecron.lock.stored import LookOptions, Node, WantedSchedule
from firecron.runs import look as looks


def cases() -> Iterator[tuple[str, EntryScenario]]:
    is_large = "INTERLEAVINGS" in os.environ
    yield "remove-claim-put", EntryScenario(("remove", "claim briefly", "put then"))
    yield "put-claim-crash", EntryScenario(("put other", "claim briefly"), instants=3, budget={"crash": 1})
    yield "two claims", EntryScenario(("claim briefly", "claim briefly"))
    yield "claim-look", EntryScenario(("claim", "look"), instants=3, budget={"crash": 1})
    yield "delete-put", EntryScenario(("remove", "look", "put"), instants=2, is_there=False)
    yield "remove-look-put", EntryScenario(("remove", "look then", "put"), instants=1)
    yield "lost", EntryScenario(("remove", "claim briefly"), instants=1, budget={"lose": 1})
    yield "put-lost", EntryScenario(("put", "claim briefly"), is_there=False, budget={"lose": 1})
    if is_large:
        for reruns in (False, True):
            everything = ("remove", "put then", "claim", "claim", "look")
            yield f"everything-{reruns}", EntryScenario(everything, instants=3, reruns=reruns)
            yield f"everything-lost-{reruns}", EntryScenario(everything[:4], reruns=reruns, budget={"lose": 1})
            yield (
                f"everything-crash-{reruns}",
                EntryScenario(("put other", *everything[2:]), instants=4, reruns=reruns, budget={"crash": 1}),
            )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "scenario"), [pytest.param(*case, id=case[0]) for case in cases()])
def test_no_order_breaks_a_promise_of_stored_schedules(name: str, scenario: EntryScenario) -> None:
    """Nothing begins after a removal, no tick twice, and each write leaves the right time of the next look."""
    explored = explore_entries(scenario)
    print(f"{name}: {explored.interleavings} interleavings, {explored.states} states, {explored.runs} runs")
    assert explored.interleavings >= explored.runs >= 1


@pytest.mark.timeout(900)
def test_no_walk_breaks_a_promise_of_stored_schedules() -> None:
    """Up to seven puts, removals, claims and looks, with lost replies and a death, on random ways."""
    for seed in range(int(os.environ.get("INTERLEAVINGS", "250"))):
        walk_entries(seed)


Break = Callable[[pytest.MonkeyPatch], None]


def etags_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(EntryModel, "matches", lambda self, etag, asked: True)  # the model is the tests' own, broken here


def a_claim_creates_the_entry(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(looks, "closed_to_claims", lambda current: None)
    patch.setattr(looks, "read_schedule", lambda fields: EACH_MINUTE)


def a_claim_takes_what_is_closed(patch: pytest.MonkeyPatch) -> None:
    refuses = stored.closed_to_claims
    patch.setattr(looks, "closed_to_claims", lambda found: None if stored.is_closed(found.kept) else refuses(found))
    patch.setattr(looks, "read_schedule", lambda fields: EACH_MINUTE)


def a_claim_takes_ticks_from_before_the_put(patch: pytest.MonkeyPatch) -> None:
    def broken(current: Current) -> LockRecord:
        found = stored.as_of_since(current)
        return current if isinstance(current, LockRecord) else found.changed(slot="2026-11-18T00:00:00Z")

    patch.setattr(looks, "as_of_since", broken)


def a_put_after_a_removal_leaves_since(patch: pytest.MonkeyPatch) -> None:
    put = stored.put

    def broken(node: object, wanted: WantedSchedule, options: LookOptions, now: int) -> Any:
        after = put(node, wanted, options, now)
        if not isinstance(node, dict) or "since" not in node or not isinstance(after, dict):
            return after
        return stored.finished({**after, "since": node["since"]}, options, now)

    patch.setattr(stored, "put", broken)


def a_first_put_counts_from_its_own_time(patch: pytest.MonkeyPatch) -> None:
    put = stored.put

    def broken(node: object, wanted: WantedSchedule, options: LookOptions, now: int) -> Any:
        after = put(node, wanted, options, now)
        if node is not None or not isinstance(after, dict):
            return after
        return stored.finished({**after, "since": 0}, options, now)

    patch.setattr(stored, "put", broken)


def a_put_moves_the_look_at_an_unfinished_run(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored, "is_busy", lambda *state: False)
    patch.setattr(stored, "next_at", lambda node, options, now: now + 120_000)


def a_removal_deletes(patch: pytest.MonkeyPatch) -> None:
    def broken(self: EntryModel, actor: Actor) -> Generator[Any, Any, None]:
        snapshot = yield from protocol.reading()
        yield Swap(snapshot.etag, None)

    patch.setattr(EntryModel, "do_remove", broken)


def a_removal_forgets_the_slot(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(stored, "DROPPED", (*stored.DROPPED, "slot", "unfinished"))  # the list is what is broken here


def a_look_deletes_what_a_run_holds(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(looks, "evaluate", lambda node, *rest: looks.Deleted() if node and node.get("closed") else rest[-1])


def a_look_deletes_what_is_open(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(looks, "evaluate", lambda *rest: looks.Deleted())


def a_claim_leaves_the_next_look(patch: pytest.MonkeyPatch) -> None:
    _leave_out(patch, lambda record: record.releasedAt is None and record.acquired == record.acquired)


def a_release_leaves_the_next_look(patch: pytest.MonkeyPatch) -> None:
    _leave_out(patch, lambda record: record.releasedAt is not None)


def _leave_out(patch: pytest.MonkeyPatch, of: Callable[[LockRecord], bool]) -> None:
    written = protocol.to_node  # what each write of the lock ends with is broken here
    patch.setattr(protocol, "to_node", lambda record, *rest: record.to_json() if of(record) else written(record, *rest))


def an_edit_leaves_the_next_look(patch: pytest.MonkeyPatch) -> None:
    finished = stored.finished

    def broken(node: Node, options: LookOptions, now: int) -> Node:
        after = finished(node, options, now)
        return {**after, "nextAt": node["nextAt"]} if "nextAt" in node else after

    patch.setattr(stored, "finished", broken)


BREAKS: list[Break] = [
    etags_are_ignored,
    a_claim_creates_the_entry,
    a_claim_takes_what_is_closed,
    a_claim_takes_ticks_from_before_the_put,
    a_put_after_a_removal_leaves_since,
    a_first_put_counts_from_its_own_time,
    a_put_moves_the_look_at_an_unfinished_run,
    a_removal_deletes,
    a_removal_forgets_the_slot,
    a_look_deletes_what_a_run_holds,
    a_look_deletes_what_is_open,
    a_claim_leaves_the_next_look,
    a_release_leaves_the_next_look,
    an_edit_leaves_the_next_look,
]


@pytest.mark.parametrize("broken", BREAKS, ids=lambda one: one.__name__)
def test_a_break_is_found(broken: Break, monkeypatch: pytest.MonkeyPatch) -> None:
    """What would start a tick twice, or after a removal, or look at it too late, does so on some way."""
    broken(monkeypatch)
    with pytest.raises(Violation):
        any(map(walk_entries, range(1_000)))
