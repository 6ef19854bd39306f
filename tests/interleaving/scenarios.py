"""Models to play, and playing them: every interleaving of a small one, a random walk through a larger one.

A violation is reported with all events that led to it. That of a walk also names its seed: `REPLAY=<seed>` makes
`tests/interleaving/test_interleavings_walks.py` play this walk alone, and `INTERLEAVINGS=<count>` sets how many it
plays.
"""

from __future__ import annotations

import random
from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field

from tests.interleaving.checks import Violation
from tests.interleaving.choices import Choices, Exhaustive, Explored, Seeded
from tests.interleaving.clocks import MARGIN, START, TTL, MachineClock
from tests.interleaving.holder import Holder, Op
from tests.interleaving.model import Model

from firecron.base.instants import to_text

ACQUIRE = Op("acquire")
RENEW = Op("renew")
RELEASE = Op("release")
CANCEL = Op("cancel")
SLOT = to_text(START)
_MOST_EVENTS = 1000
_LONGEST = 200_000  # a walk, in milliseconds
_DRIFT = 2.0**-13


@dataclass(frozen=True)
class Scenario:
    """A plan and a clock (its error and its rate) for each holder; `budget` is the model's.

    In a `brisk` one two steps are taken at once, for fewer interleavings: a clock is read as soon as that is asked for,
    and what a request finds at the node is told as soon as it is found. Whatever could have come between can still
    come just before the request lands. The walks take every step by itself.
    """

    plans: tuple[tuple[Op, ...], ...]
    clocks: tuple[tuple[float, float], ...] = ((0.0, 1.0),) * 3
    budget: Mapping[str, int] = field(default_factory=dict)
    start: float = 0.0
    restarts: bool = False
    brisk: bool = True

    def build(self) -> Model:
        model = Model(self.budget, self.start, brisk=self.brisk)
        for name, plan, (error, rate) in zip("ABC", self.plans, self.clocks, strict=False):
            clock = MachineClock(lambda: model.time, error, rate)
            model.holders.append(Holder(name, model, clock, plan, restarts=self.restarts))
        return model


def play(scenario: Scenario, choices: Choices, ends: set[Hashable] | None = None) -> list[str]:
    """Play it to its end; returns what happened. An end that is one of these `ends` is not looked at again."""
    model = scenario.build()
    trace: list[str] = []
    try:
        while event := choices.pick(model.events(), model.state):
            assert len(trace) < _MOST_EVENTS, "a plan comes to its end"
            assert model.time < _LONGEST, "and it does so while the clocks are as right as they must be"
            trace.append(event.label)
            model.happen(event)
        model.monitor.at_end(set() if ends is None else ends)
    except Violation as violation:
        lines = [str(violation), f"clocks: {scenario.clocks}", *trace, f"node: {model.node}"]
        raise Violation("\n  ".join(lines)) from violation
    return trace


def explore(scenario: Scenario) -> Exhaustive:
    """Play every interleaving."""
    choices = Exhaustive()
    ends: set[Hashable] = set()
    while choices.has_more:
        try:
            play(scenario, choices, ends)
        except Explored as explored:
            choices.played(explored.interleavings)
        else:
            choices.played()
    return choices


def walk(seed: int) -> list[str]:
    """A random model, and one random way through it."""
    chance = random.Random(seed)
    try:
        return play(_random(chance), Seeded(chance))
    except Violation as violation:
        raise Violation(f"REPLAY={seed}: {violation}") from None


def election(seed: int) -> list[str]:
    """A random walk of three candidates for a leader: terms, renewals, step-downs, cancels, and what goes wrong."""
    chance = random.Random(seed)
    clock = chance.choice((_steady_clock, _drifting_clock))
    scenario = Scenario(
        plans=tuple(_terms(chance) for _ in range(3)),
        clocks=tuple(clock(chance) for _ in range(3)),
        budget={
            "jump": chance.randint(2, 12),
            "crash": chance.randint(0, 2),
            "give_up": chance.randint(1, 5),
            "deny": 0,
            **{what: int(chance.random() < 0.2) for what in ("delete", "pause", "pause_until", "unlock", "cancel")},
        },
        restarts=chance.random() < 0.7,
        brisk=False,
    )
    try:
        return play(scenario, Seeded(chance))
    except Violation as violation:
        raise Violation(f"election {seed}: {violation}") from None


def _terms(chance: random.Random) -> tuple[Op, ...]:
    """The terms of one candidate: each is a fenced lock of a leader's node, renewed, and released at its end."""
    plan: list[Op] = []
    for _ in range(chance.randint(1, 3)):
        plan += [Op("acquire", leads=True, tries=chance.randint(1, 3)), *[RENEW] * chance.randint(0, 3), RELEASE]
        if chance.random() < 0.2:
            plan.append(CANCEL)
    return tuple(plan)


def _random(chance: random.Random) -> Scenario:
    kind = chance.choice(("plain", "fenced", "slot", "mixed"))
    clock = chance.choice((_steady_clock, _drifting_clock))
    return Scenario(
        plans=tuple(_plan(chance, kind) for _ in range(chance.choice((2, 3, 3)))),
        clocks=tuple(clock(chance) for _ in range(3)),
        budget={
            "jump": chance.randint(2, 12),
            "crash": chance.randint(0, 2),
            "give_up": chance.randint(0, 5),
            "deny": chance.randint(0, 2),
            **{what: int(chance.random() < 0.2) for what in ("delete", "pause", "pause_until", "unlock", "cancel")},
        },
        restarts=chance.random() < 0.7,
        brisk=False,
    )


def _steady_clock(chance: random.Random) -> tuple[float, float]:
    return chance.choice((-MARGIN, 0.0, MARGIN)), 1.0


def _drifting_clock(chance: random.Random) -> tuple[float, float]:
    """Right to within the margin as long as a walk may last."""
    rate = 1 + chance.choice((-1, 1)) * _DRIFT
    return chance.choice((-1.0, 1.0, chance.uniform(-1, 1))) * (MARGIN - _LONGEST * _DRIFT), rate


def _plan(chance: random.Random, kind: str) -> tuple[Op, ...]:
    plan: list[Op] = []
    for turn in range(chance.randint(1, 3)):
        has_slot = kind == "slot" or (kind == "mixed" and chance.random() < 0.5)
        slot = to_text(START + 1000 * (turn + chance.randint(0, 1)))
        plan += [
            Op(
                "acquire",
                fenced=kind != "plain" and (has_slot or chance.random() < 0.8),
                slot=slot if has_slot else None,
                rerun=chance.random() < 0.5,
                tries=chance.randint(1, 3),
            ),
            *[RENEW] * chance.randint(0, 2),
            Op("release", hold_at_least=chance.choice((0, 0, TTL // 2)), finishes=chance.random() < 0.7),
        ]
        if chance.random() < 0.2:
            plan.append(CANCEL)
    return tuple(plan)
