"""A job that is held, resumed, paused and declared, in every order: nobody's pause is lost, and no hold stays.

With INTERLEAVINGS in the environment larger cases are played too, which takes some minutes.
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Callable, Collection, Iterable, Iterator
from functools import partial
from typing import Any

import pytest
from tests.interleaving import holds as model
from tests.interleaving.checks import Violation
from tests.interleaving.holds import DEEDS, HoldModel, HoldScenario, by_hand, explore_holds, walk_holds

from firecron.lock import fields
from firecron.lock import holds as lock_holds
from firecron.lock.database import Database
from firecron.lock.holds import Edits, JobHold, Stays
from firecron.ops import holds as ops_holds
from firecron.ops.holds import Holds

HELD_BACK = ("hold short", "unhold short")
DECLARED = ("hold short", "declare")
# These show what the others show as well.
SOME = ("pause for an hour by an older version", "resume by an older version")


@pytest.fixture(autouse=True)
def same_salts(monkeypatch: pytest.MonkeyPatch) -> None:
    """The names of the holds are those of the run before: a run is played again from its beginning."""
    monkeypatch.setattr(secrets, "token_hex", lambda size=16: "0" * 2 * size)


def cases() -> Iterator[tuple[str, HoldScenario]]:
    is_large = "INTERLEAVINGS" in os.environ
    for misfortune in ("lose", "crash") if is_large else ("crash",):
        yield f"unhold-{misfortune}", HoldScenario(HELD_BACK, budget={misfortune: 1})
        yield f"declare-{misfortune}", HoldScenario(DECLARED, is_declared=False, budget={misfortune: 1})
    for deed in DEEDS:
        yield f"declare, {deed}", HoldScenario(DECLARED, (deed,), is_declared=False)
    for deed in DEEDS if is_large else SOME:
        if is_large:
            yield f"unhold, {deed}", HoldScenario(HELD_BACK, (deed,))
        yield f"unhold of a paused job, {deed}", HoldScenario(HELD_BACK, (deed,), by_hand(1))
    yield "a pause without an end", HoldScenario(HELD_BACK, before=by_hand(None))
    yield "two-holds", HoldScenario(("hold short", "hold long"), before=by_hand(1))
    yield "claim", HoldScenario(("hold short", "claim"), before=by_hand(1))
    if is_large:
        for before in (None, by_hand(1)):
            yield f"claim-unhold-{before is None}", HoldScenario((*HELD_BACK, "claim"), before=before)
            yield f"two-unhold-{before is None}", HoldScenario((*HELD_BACK, "hold long"), before=before)
        for has_rules in (False, True):
            yield (
                f"declare-unhold-{has_rules}",
                HoldScenario((*HELD_BACK, "declare"), is_declared=False, has_rules=has_rules),
            )


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "scenario"), [pytest.param(*case, id=case[0]) for case in cases()])
def test_no_order_breaks_a_promise_of_holds(name: str, scenario: HoldScenario) -> None:
    """Who was paused before or since stays paused, unhold resumes its own alone, and what it leaves is named."""
    explored = explore_holds(scenario)
    print(f"{name}: {explored.interleavings} interleavings, {explored.states} states, {explored.runs} runs")
    assert explored.interleavings >= explored.runs >= 1


@pytest.mark.timeout(900)
def test_no_walk_breaks_a_promise_of_holds() -> None:
    """Two holds that are taken back or not, a declaration, a claim, and an operator's deeds, on random ways."""
    for seed in range(int(os.environ.get("INTERLEAVINGS", "60"))):
        walk_holds(seed)


Break = Callable[[pytest.MonkeyPatch], None]


def etags_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(HoldModel, "matches", lambda self, path, etag: True)  # the model is the tests' own, broken here


def the_hold_is_written_after_the_catalogue_is_read(patch: pytest.MonkeyPatch) -> None:
    covered, found = ops_holds.covered, list[str]()

    def broken(hold: JobHold, *others: Any) -> list[str]:
        # The first call is before the hold is written: it has no name yet.
        found[:] = found if hold.name else covered(hold, *others)
        return found

    patch.setattr(ops_holds, "covered", broken)


def the_holds_are_read_before_the_declaration(patch: pytest.MonkeyPatch) -> None:
    def broken(database: Database) -> None:
        holds = lock_holds.standing_holds(database)
        database.store.merge(model.JOBS, {"job": model.ENTRY}, database.deadline())
        Edits(database).make({"job": partial(lock_holds.held_when_declared, holds=holds)})

    patch.setattr(model, "declare", broken)


def a_hold_never_looks_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Holds, "still_stands", lambda self, hold: True)


def a_declaration_never_looks_again(patch: pytest.MonkeyPatch) -> None:
    def broken(database: Database) -> None:
        database.store.merge(model.JOBS, {"job": model.ENTRY}, database.deadline())
        holds = lock_holds.standing_holds(database)
        Edits(database).make({"job": partial(lock_holds.held_when_declared, holds=holds)} if holds else {})

    patch.setattr(model, "declare", broken)


def a_pause_is_that_of_the_hold_that_it_names(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(fields, "vouches", lambda hold, by, at: True)


def a_longer_pause_is_replaced(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lock_holds, "end_of", lambda pause: 0.0 if pause.hold is None else float(pause.until))


def unhold_resumes_all(patch: pytest.MonkeyPatch) -> None:
    taken_back = lock_holds.taken_back

    def broken(node: object, now: int, gone: Collection[str]) -> Any:
        found = taken_back(node, now, gone)
        return found if isinstance(found, Stays) else lock_holds.with_pauses(found, [], now)

    patch.setattr(ops_holds, "taken_back", broken)


def unhold_believes_what_it_read_first(patch: pytest.MonkeyPatch) -> None:
    """As it was once: what did not stand when unhold began was not put back."""

    def gone(self: Holds, names: Collection[str]) -> set[str]:
        return {name for name in names if name not in self._first}  # type: ignore[attr-defined]  # added here

    read = Holds.read

    def first(self: Holds) -> Any:
        found = read(self)
        if not hasattr(self, "_first"):
            self._first = set(found or ())  # type: ignore[attr-defined]  # added here
        return found

    patch.setattr(Holds, "read", first)
    patch.setattr(Holds, "gone_of", gone)


def what_was_resumed_is_held_again(patch: pytest.MonkeyPatch) -> None:
    def broken(node: object, now: int, holds: Iterable[JobHold]) -> Any:
        found: Any = Stays()
        for hold in holds:
            found = lock_holds.held(node, now, hold)
        return found

    patch.setattr(lock_holds, "held_when_declared", broken)


BREAKS: dict[str, tuple[Break, HoldScenario, str]] = {
    "etags_are_ignored": (etags_are_ignored, HoldScenario(("hold short", "claim")), "not its own|changed a pause"),
    "the_hold_is_written_after_the_catalogue_is_read": (
        the_hold_is_written_after_the_catalogue_is_read,
        HoldScenario(DECLARED, is_declared=False),
        "neither the hold nor the declaration",
    ),
    "the_holds_are_read_before_the_declaration": (
        the_holds_are_read_before_the_declaration,
        HoldScenario(DECLARED, is_declared=False),
        "neither the hold nor the declaration",
    ),
    "a_hold_never_looks_again": (a_hold_never_looks_again, HoldScenario(HELD_BACK), "pauses the job still"),
    "a_declaration_never_looks_again": (
        a_declaration_never_looks_again,
        HoldScenario((*HELD_BACK, "declare"), is_declared=False),
        "pauses the job still",
    ),
    "a_pause_is_that_of_the_hold_that_it_names": (
        a_pause_is_that_of_the_hold_that_it_names,
        HoldScenario(HELD_BACK, ("pause by an older version",)),
        "the operator's word",
    ),
    "a_longer_pause_is_replaced": (
        a_longer_pause_is_replaced,
        HoldScenario(("hold short",), before=by_hand(None)),
        "lasts as long",
    ),
    "unhold_resumes_all": (unhold_resumes_all, HoldScenario(HELD_BACK, before=by_hand(1)), "the operator's word"),
    "unhold_believes_what_it_read_first": (
        unhold_believes_what_it_read_first,
        HoldScenario(("hold long", "unhold long", "hold short")),
        "neither the hold nor the declaration",
    ),
    "what_was_resumed_is_held_again": (
        what_was_resumed_is_held_again,
        HoldScenario(DECLARED, ("pause for an hour", "resume"), is_declared=False),
        "resumed since",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_promise_of_holds_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a rule of the holds broken, the checker finds what it prevents, and says after which events."""
    breaks, scenario, harm = BREAKS[name]
    breaks(monkeypatch)
    with pytest.raises(Violation, match=harm) as found:
        explore_holds(scenario)
    assert "hold short writes cron-hold/" in str(found.value)
