"""An ask, its takers, ticks and asks beside it, in every order: it begins once at most, and nothing is taken that does
not run without a reason.

With INTERLEAVINGS in the environment larger cases are played too, which takes some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import pytest
from tests.interleaving.asks import AskModel, AskScenario, explore_asks
from tests.interleaving.checks import Violation

from firecron.lock import asks as lock_asks
from firecron.lock.asks import Asks, Taking

TWO = ("take one", "take two")

CASES = {
    "two takers": AskScenario(TWO),
    "two takers, one is killed": AskScenario(TWO, {"kill": 1}),
    "a lost reply": AskScenario(("take one",), {"lose": 2}),
    "two takers, a minute passes": AskScenario(TWO, {"minute": 1}),
    "two takers without a lease": AskScenario(TWO, lease=False),
    "a tick beside it": AskScenario(("take one", "tick"), {"minute": 1, "kill": 1}),
    "two takers of a tick": AskScenario(TWO, slot=True),
    "two takers of a tick, one is killed": AskScenario(TWO, {"kill": 1}, slot=True),
    "two takers of a tick without a lease": AskScenario(TWO, slot=True, lease=False),
    "it is over": AskScenario(("take one", "ask bob"), {"five": 1}),
    "two that ask": AskScenario(("ask ann", "ask bob", "take one"), is_asked=False),
    "two that ask, a lost reply": AskScenario(("ask ann", "ask bob"), {"lose": 1}, is_asked=False),
}


if "INTERLEAVINGS" in os.environ:
    CASES |= {
        "two takers, a lost reply": AskScenario(TWO, {"lose": 1}),
        "two takers without a lease, a lost reply": AskScenario(TWO, {"lose": 1}, lease=False),
        "two takers, one is killed, a minute passes": AskScenario(TWO, {"kill": 1, "minute": 1}),
        "two takers of a tick, a lost reply": AskScenario(TWO, {"lose": 1}, slot=True),
        "two takers of a tick, one is killed, a minute passes": AskScenario(TWO, {"kill": 1, "minute": 1}, slot=True),
        "two takers of what has no reply": AskScenario(("ask ann", *TWO), {"lose": 1}, is_asked=False),
        "two takers and a tick": AskScenario((*TWO, "tick"), {"minute": 1}),
        "two takers and one that asks": AskScenario((*TWO, "ask bob"), {"five": 1, "kill": 1}),
    }


@pytest.mark.timeout(900)
@pytest.mark.parametrize("name", CASES)
def test_no_order_breaks_a_promise_of_asks(name: str) -> None:
    """It begins once at most, under a lease that is trusted, and not once it is long over; what is gone was run, or
    said not to be.
    """
    explored = explore_asks(CASES[name])
    print(f"{name}: {explored.interleavings} interleavings, {explored.states} states, {explored.runs} runs")
    assert explored.interleavings >= explored.runs >= 1


Break = Callable[[pytest.MonkeyPatch], None]


def etags_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(AskModel, "matches", lambda self, path, etag: True)  # the model is the tests' own, broken here


def a_taken_ask_is_taken_again(patch: pytest.MonkeyPatch) -> None:
    taken = lock_asks.taken

    def broken(node: object, now: int, ask: Any, token: str) -> Any:
        free = {key: value for key, value in node.items() if key != "takenBy"} if isinstance(node, dict) else node
        return taken(free, now, ask, token)

    patch.setattr(lock_asks, "taken", broken)


def any_token_is_its_own(patch: pytest.MonkeyPatch) -> None:
    taken = lock_asks.taken
    patch.setattr(lock_asks, "taken", lambda *args: "mine" if (found := taken(*args)) == "taken" else found)


def the_time_is_not_looked_at(patch: pytest.MonkeyPatch) -> None:
    taken = lock_asks.taken
    patch.setattr(lock_asks, "taken", lambda node, now, ask, token: taken(node, ask.at, ask, token))
    patch.setattr(Taking, "take", lambda self, ends: Asks(self._database).take(self.ask, self._token, None) is None)


def a_late_reply_counts(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Taking, "take", lambda self, ends: Asks(self._database).take(self.ask, self._token, ends) is None)


def a_frozen_taker_says_nothing(patch: pytest.MonkeyPatch) -> None:
    def lapse(self: Asks, ask: Any, why: str) -> None:
        """Say nothing."""

    patch.setattr(Asks, "lapse", lapse)


def it_is_removed_first(patch: pytest.MonkeyPatch) -> None:
    take = Asks.take

    def broken(self: Asks, ask: Any, token: str, ends: float | None) -> Any:
        why = take(self, ask, token, ends)
        if why is None:
            self.remove(ask)
        return why

    patch.setattr(Asks, "take", broken)


def an_ask_replaces_another(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lock_asks, "asked", lambda node, now, ask: ask.to_node())


def a_claimed_tick_is_declined(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(lock_asks, "may_be_claimed_for", lambda *args: False)


BREAKS: dict[str, tuple[Break, AskScenario, str]] = {
    "etags_are_ignored": (etags_are_ignored, CASES["two takers without a lease"], "another one has begun"),
    "a_taken_ask_is_taken_again": (
        a_taken_ask_is_taken_again,
        CASES["two takers without a lease"],
        "another one has begun",
    ),
    "any_token_is_its_own": (any_token_is_its_own, CASES["two takers without a lease"], "another one has begun"),
    "the_time_is_not_looked_at": (the_time_is_not_looked_at, CASES["it is over"], "its lease is over|long over"),
    "a_late_reply_counts": (a_late_reply_counts, CASES["two takers, a minute passes"], "its lease is over"),
    "a_frozen_taker_says_nothing": (
        a_frozen_taker_says_nothing,
        CASES["two takers, a minute passes"],
        "neither run nor said",
    ),
    "a_claimed_tick_is_declined": (
        a_claimed_tick_is_declined,
        CASES["two takers of a tick"],
        "which was not run",
    ),
    "a_claimed_tick_is_declined without a lease": (
        a_claimed_tick_is_declined,
        CASES["two takers of a tick without a lease"],
        "which was not run",
    ),
    "it_is_removed_first": (it_is_removed_first, CASES["two takers, a minute passes"], "neither run nor said"),
    "an_ask_replaces_another": (
        an_ask_replaces_another,
        CASES["two that ask"],
        "neither run nor said|replaced the first|is their own",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_promise_of_asks_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a rule of the asks broken, the checker finds what it prevents, and says after which events."""
    breaks, scenario, harm = BREAKS[name]
    breaks(monkeypatch)
    with pytest.raises(Violation, match=harm) as found:
        explore_asks(scenario)
    assert " cron-asks" in str(found.value)
