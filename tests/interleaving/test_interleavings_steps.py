"""The steps of a tick, with everything that may come between: no order of it breaks a promise, and each is needed."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from tests.interleaving.checks import Violation
from tests.interleaving.steps import StepModel, StepScenario, explore_steps

from firecron.steps import protocol
from firecron.steps import protocol as step_protocol
from firecron.steps.protocol import StepRecord, evaluate_intent, evaluate_result

MISFORTUNES: tuple[dict[str, int], ...] = (
    {},
    {"crash": 1},
    {"lose": 1},
    {"fail": 1},
    {"crash": 1, "lose": 1},
    {"crash": 2},
    {"unlock": 1},
)


def cases() -> Iterator[tuple[str, StepScenario]]:
    for at_most_once in (False, True):
        for has_rules in (False, True):
            for budget in MISFORTUNES:
                name = "-".join(
                    [
                        "intent" if at_most_once else "step",
                        *(["rules"] if has_rules else []),
                        *(f"{key}{number}" for key, number in budget.items()),
                    ]
                )
                tries = 2 if "fail" in budget else 1
                yield name, StepScenario(2, at_most_once, has_rules, tries, budget)
        for has_rules in (False, True):
            yield f"three-{at_most_once}-{has_rules}", StepScenario(3, at_most_once, has_rules, budget={"crash": 1})
    if "INTERLEAVINGS" in os.environ:
        for at_most_once in (False, True):
            for has_rules in (False, True):
                budget = {"crash": 1, "lose": 1, "fail": 1}
                yield f"large-{at_most_once}-{has_rules}", StepScenario(3, at_most_once, has_rules, 2, budget)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(("name", "scenario"), [pytest.param(*case, id=case[0]) for case in cases()])
def test_no_order_breaks_a_promise_of_steps(name: str, scenario: StepScenario) -> None:
    """A recorded step is not called again (46), no zombie writes over its successor (47), no intent is lost (48)."""
    explored = explore_steps(scenario)
    print(f"{name}: {explored.interleavings} interleavings, {explored.states} states, {explored.runs} runs")
    assert explored.interleavings >= explored.runs > 1


Break = Callable[[pytest.MonkeyPatch], None]


def etags_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(StepModel, "matches", lambda self, swap: True)  # the model is the tests' own, and is broken here


def results_ignore_the_fence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(step_protocol, "evaluate_result", lambda found, own: "write")


def own_results_are_not_known(patch: pytest.MonkeyPatch) -> None:
    def broken(found: StepRecord | None, own: StepRecord) -> str:
        verdict = evaluate_result(found, own)
        return "write" if verdict == "found" else verdict

    patch.setattr(step_protocol, "evaluate_result", broken)


def intents_are_taken_for_nothing(patch: pytest.MonkeyPatch) -> None:
    def broken(found: StepRecord | None, own: StepRecord, allowed: StepRecord | None) -> str:
        verdict = evaluate_intent(found, own, allowed)
        return "write" if verdict == "in_doubt" else verdict

    patch.setattr(step_protocol, "evaluate_intent", broken)


def doubts_are_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(protocol.Step, "in_doubt", property(lambda self: False))


def records_are_not_read(patch: pytest.MonkeyPatch) -> None:
    stepping = protocol.stepping

    def broken(step: Any, *arguments: Any, **more: Any) -> Any:
        step.record, step.known = None, None
        return stepping(step, *arguments, **more)

    patch.setattr(protocol, "stepping", broken)


BREAKS: dict[str, tuple[Break, StepScenario, str]] = {
    "etags_are_ignored": (etags_are_ignored, StepScenario(), "47"),
    "results_ignore_the_fence": (results_ignore_the_fence, StepScenario(budget={"unlock": 1}), "47"),
    "own_results_are_not_known": (
        own_results_are_not_known,
        StepScenario(1, budget={"lose": 1}),
        "replaces its own result",
    ),
    "intents_are_taken_for_nothing": (
        intents_are_taken_for_nothing,
        StepScenario(at_most_once=True, budget={"unlock": 1}),
        "48",
    ),
    "doubts_are_ignored": (doubts_are_ignored, StepScenario(1, at_most_once=True, tries=2, budget={"fail": 1}), "48"),
    "records_are_not_read": (records_are_not_read, StepScenario(), "46"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_broken_promise_of_steps_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a comparison of the steps broken, the checker finds what it prevents, and says after which events."""
    breaks, scenario, harm = BREAKS[name]
    explore_steps(scenario)
    breaks(monkeypatch)
    with pytest.raises(Violation, match=harm) as found:
        explore_steps(scenario)
    assert "1 calls" in str(found.value)
