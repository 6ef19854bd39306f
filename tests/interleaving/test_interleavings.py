"""Every interleaving of two holders' steps on one node, in small cases: no rule of the lock is ever broken.

In each case time jumps so often (0 to 2 times), to any of the instants at which somebody might change its mind, and
one fault or deed of an operator happens at any place or nowhere.

With INTERLEAVINGS in the environment larger cases are played too, which takes some minutes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import product

import pytest
from tests.interleaving.checks import Violation
from tests.interleaving.clocks import MARGIN
from tests.interleaving.holder import Op
from tests.interleaving.scenarios import ACQUIRE, CANCEL, RELEASE, RENEW, SLOT, Scenario, explore

FAULTS = ("crash", "give_up", "deny", "delete", "pause", "pause_until", "unlock", "cancel")
# One clock is late and the other early, both as wrong as they may be.
LATE_EARLY = ((-MARGIN, 1.0), (MARGIN, 1.0))
KINDS = {"plain": Op("acquire", fenced=False), "fenced": ACQUIRE, "slot": Op("acquire", slot=SLOT, rerun=True)}


def cases() -> Iterator[tuple[str, Scenario]]:
    once, cycle = (ACQUIRE,), (ACQUIRE, RENEW, RELEASE)
    yield "acquire", Scenario((once, once), LATE_EARLY, {"jump": 2})
    yield "acquire-each-step", Scenario((once, once), LATE_EARLY, {"jump": 1}, brisk=False)
    for fault in FAULTS:
        yield f"acquire-{fault}", Scenario((once, once), LATE_EARLY, {"jump": 1, fault: 1})
    yield "cycle", Scenario((cycle, cycle), budget={"jump": 1})
    for (kind, acquire), fault in product(KINDS.items(), FAULTS):
        yield f"cycle-{kind}-{fault}", Scenario(((acquire, RENEW, RELEASE),) * 2, budget={fault: 1})
    for fault in ("crash", "deny", "delete", "unlock"):
        yield f"renew-{fault}", Scenario(((ACQUIRE, RENEW), once), LATE_EARLY, {"jump": 1, fault: 1})
    for fault in ("crash", "delete"):
        yield f"release-{fault}", Scenario(((ACQUIRE, RELEASE), once), LATE_EARLY, {"jump": 1, fault: 1})
    again = (Op("acquire", tries=2), RELEASE)
    yield "same-token-again", Scenario((again, once), budget={"give_up": 1})
    claim, rerun = Op("acquire", slot=SLOT), Op("acquire", slot=SLOT, rerun=True)
    yield "rerun", Scenario(((claim, RELEASE), (rerun,)), budget={"jump": 1, "crash": 1})
    died, kept = (claim,), (claim, RENEW, Op("release", finishes=False))
    for kind, successor in {"rerun": rerun, "by-hand": ACQUIRE}.items():
        yield f"cancelled-died-{kind}", Scenario((died, (successor,)), budget={"jump": 1, "cancel": 1})
        yield f"cancelled-kept-{kind}", Scenario((kept, (successor,)), budget={"cancel": 1})
    for fault in ("give_up", "deny", "unlock", "delete", "cancel"):
        yield f"cancel-{fault}", Scenario(((claim, RENEW, RELEASE), (CANCEL,)), budget={fault: 1})
    yield "cancel-rerun", Scenario((kept, (CANCEL,), (rerun,)))
    yield "cancel-successor", Scenario(((claim, RELEASE), (CANCEL,), (ACQUIRE,)))
    if "INTERLEAVINGS" in os.environ:
        yield "same-token-again-later", Scenario((again, once), budget={"jump": 1, "give_up": 1})
        for fault in FAULTS:
            yield f"cycle-acquire-{fault}", Scenario((cycle, once), LATE_EARLY, {"jump": 1, fault: 1})


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "scenario"), [pytest.param(*case, id=case[0]) for case in cases()])
def test_no_interleaving_breaks_a_rule(name: str, scenario: Scenario) -> None:
    """Whatever comes between whatever, and whatever fails once, all that the lock promises holds after each step."""
    explored = explore(scenario)
    print(f"{name}: {explored.interleavings} interleavings, {explored.states} states, {explored.runs} runs")
    assert explored.interleavings >= explored.runs > 1


@pytest.mark.parametrize("clocks", [((-MARGIN - 1, 1.0), (MARGIN, 1.0)), ((-MARGIN, 1.0), (MARGIN + 1, 1.0))])
def test_clocks_beyond_the_margin_are_found_out(clocks: tuple[tuple[float, float], ...]) -> None:
    """If the estimates are wrong by 1 ms more than the margin allows, two holders come to trust themselves at once."""
    with pytest.raises(Violation, match="two trust themselves"):
        explore(Scenario(((ACQUIRE,), (ACQUIRE,)), clocks, {"jump": 1}))


def test_a_clock_too_slow_is_found_out() -> None:
    """A holder whose clock runs at a third of its speed trusts itself when another one has acquired."""
    with pytest.raises(Violation, match="two trust themselves"):
        explore(Scenario(((ACQUIRE,), (ACQUIRE,)), ((0.0, 1 / 3), (0.0, 1.0)), {"jump": 1}))


def test_a_fraction_of_a_millisecond_is_no_overlap() -> None:
    """Clocks wrong by the margin exactly keep two holders apart also where they aren't read at a whole millisecond."""
    explore(Scenario(((ACQUIRE,), (ACQUIRE,)), LATE_EARLY, {"jump": 1}, start=0.25))
