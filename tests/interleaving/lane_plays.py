"""Playing worlds of lanes: every order of what can happen in a small one, a random walk through a larger one.

A violation is reported with all events that led to it. That of a walk also names its seed: `REPLAY=<seed>` makes
`tests/interleaving/test_interleavings_lanes.py` play this walk alone.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Mapping

from tests.interleaving.checks import Violation
from tests.interleaving.choices import Choices, Exhaustive, Explored, Seeded
from tests.interleaving.clocks import START
from tests.interleaving.lane_parts import token_of
from tests.interleaving.lanes import LaneModel, LaneScenario, slot_at

_MOST_EVENTS = 2_000

# A lock whose last run was half a minute ago, and has ended or died.
DIED = {
    "holder": token_of(0),
    "slot": slot_at(-30),
    "acquiredAt": START - 30_000,
    "expiresAt": START - 29_000,
    "unfinished": slot_at(-30),
}
ENDED = {**DIED, "releasedAt": START - 29_000}
del ENDED["unfinished"]
# A lock that another instance holds for the first twelve seconds, and a margin.
HELD = {**DIED, "expiresAt": START + 12_000}


QUEUE: Mapping[str, object] = {"overlap": "queue"}
KEEP_ALL: Mapping[str, object] = {"overlap": "queue", "grace": 15}
CANCEL: Mapping[str, object] = {"overlap": "cancel_previous"}
ALLOW: Mapping[str, object] = {"overlap": "allow"}
RERUN: Mapping[str, object] = {"on_abandoned": "rerun"}
HOLD: Mapping[str, object] = {"catch_up": "all", "hold_at_least": 3}

# What comes in the way of two ticks, as deep as there is time for in each run of the tests: `make interleavings` plays
# them deeper.
CASES: Mapping[str, LaneScenario] = {
    "by hand": LaneScenario(budget={"by_hand": 1}),
    "by hand, each step": LaneScenario(budget={"by_hand": 1}, fine=True, depth=8),
    "a request is lost": LaneScenario(budget={"lose": 1, "by_tick": 1}, depth=7),
    "a reply is lost": LaneScenario(budget={"unread": 1, "by_hand": 1}, depth=6),
    "two instances": LaneScenario(budget={"lose": 1}, instances=2, depth=6),
    "two that queue": LaneScenario(QUEUE, {"deaf": 1}, instances=2, hears=True, depth=6),
    "two that queue all": LaneScenario(KEEP_ALL, instances=2, hears=True, depth=6),
    "two that cancel": LaneScenario(CANCEL, instances=2, depth=6),
    "queue, by hand": LaneScenario(QUEUE, {"by_hand": 1, "lose": 1}, depth=6),
    "a stop": LaneScenario(budget={"stop": 1, "start": 1, "lose": 1}),
    "a stop, each step": LaneScenario(QUEUE, {"stop": 1}, hears=True, fine=True, depth=7),
    "a stop beside another": LaneScenario(QUEUE, {"stop": 1}, instances=2, hears=True, depth=5),
    "a fork": LaneScenario(HOLD, {"fork": 1, "start": 1}, node=ENDED),
    "a pause": LaneScenario(budget={"pause": 1, "lose": 1}, depth=8),
    "a pause of all": LaneScenario(budget={"pause_node": 2, "lose": 1}, depth=8),
    "removed": LaneScenario(budget={"remove": 1, "lose": 1}),
    "replaced": LaneScenario(budget={"replace": 1, "lose": 1}),
    "looks": LaneScenario(RERUN, {"look": 1}, node=DIED, depth=7),
    "a look back": LaneScenario(budget={"look_back": 1, "lose": 1}, depth=7),
    "tickets": LaneScenario(budget={"beat": 1, "fall": 1}, depth=7),
    "overlap": LaneScenario(ALLOW, {"by_hand": 1, "lose": 1}, depth=7),
    "overlap, two places": LaneScenario({**ALLOW, "catch_up": "all"}, {"by_hand": 1}, node=ENDED, places=2, depth=6),
    "two jobs": LaneScenario(budget={"lose": 1}, jobs=2, workers=1, depth=6),
    "interrupted": LaneScenario(QUEUE, {"by_hand": 1, "interrupt": 1}, depth=6),
    "a minimum hold": LaneScenario(HOLD, {"by_hand": 1}, node=ENDED, depth=8),
    "a minimum hold beside another": LaneScenario(HOLD, instances=2, node=ENDED, depth=6),
    "held": LaneScenario(QUEUE, {"deaf": 1}, hears=True, node=HELD, depth=10),
    "held, all queue": LaneScenario(KEEP_ALL, {"by_hand": 1}, node=HELD, depth=11),
    "held, a stop": LaneScenario(RERUN, {"stop": 1, "start": 1}, node=HELD, depth=11),
    "held, a stop while it queues": LaneScenario(QUEUE, {"stop": 1, "start": 1}, hears=True, node=HELD, depth=11),
    "a look, by hand": LaneScenario(RERUN, {"look": 1, "by_hand": 1}, node=DIED, depth=6),
    "tickets, a stop": LaneScenario(budget={"beat": 1, "stop": 1, "start": 1}, depth=8),
    "by tick, without an answer": LaneScenario(budget={"by_tick": 3, "lose": 1}, depth=7),
    "cancel here": LaneScenario(CANCEL, {"by_hand": 1}, depth=7),
    "a stop, two places": LaneScenario({**ALLOW, "catch_up": "all"}, {"stop": 1}, node=ENDED, places=2, depth=8),
    "a fork while it queues": LaneScenario(QUEUE, {"fork": 1}, depth=8),
    "cancel, and rerun": LaneScenario({**CANCEL, **RERUN, "hold_at_least": 3}, {"by_hand": 1}, node=DIED, depth=7),
    "queue all, a pause": LaneScenario(KEEP_ALL, {"pause": 1, "lose": 1}, depth=8),
    "a crash": LaneScenario(budget={"crash": 1}, instances=2, depth=6),
}


def play_lanes(scenario: LaneScenario, choices: Choices) -> list[str]:
    """Play it to its end; returns what happened."""
    model = LaneModel(scenario)
    trace: list[str] = []
    try:
        while True:
            assert len(trace) < _MOST_EVENTS, "all that is under way comes to its end"
            if len(trace) < scenario.depth:
                both = (model.events, model.chances)
                event = choices.pick((one for events in both for one in events()), model.state)
            else:
                event = next(model.events(), None)
            if event is None:
                break
            trace.append(event.label)
            model.happen(event)
        model.monitor.at_end()
    except AssertionError as error:
        lines = [str(error), str(scenario), *trace, f"nodes: {model.store.nodes}"]
        raise Violation("\n  ".join(lines)) from error
    finally:
        model.close()
    return trace


def explore_lanes(scenario: LaneScenario, most: float = math.inf) -> Exhaustive:
    """Play every order, or so many of them at most."""
    choices = Exhaustive()
    while choices.has_more and choices.runs < most:
        try:
            play_lanes(scenario, choices)
        except Explored as explored:
            choices.played(explored.interleavings)
        else:
            choices.played()
    return choices


def walk_lanes(seed: int) -> list[str]:
    """A random scenario, and one random way through it."""
    chance = random.Random(seed)
    try:
        return play_lanes(_random(chance), Seeded(chance))
    except Violation as violation:
        raise Violation(f"REPLAY={seed}: {violation}") from None


_OPTIONS: tuple[dict[str, object], ...] = (
    {},
    {"catch_up": "all"},
    {"catch_up": "once", "hold_at_least": 3},
    {"catch_up": "all", "hold_at_least": 3},
    {"overlap": "queue"},
    {"overlap": "queue", "grace": 15},
    {"overlap": "queue", "grace": 25, "catch_up": "all", "hold_at_least": 2},
    {"overlap": "cancel_previous"},
    {"overlap": "allow"},
    {"overlap": "allow", "catch_up": "all"},
    {"on_abandoned": "rerun"},
    {"overlap": "queue", "on_abandoned": "rerun", "hold_at_least": 4},
    {"once_per_tick": False},
    {"once_per_tick": False, "overlap": "queue"},
)
_CHANCES = (
    *("lose", "lose", "unread", "deaf", "by_hand", "by_tick", "interrupt", "look", "look_back", "beat", "beat", "fall"),
    *("pause", "remove", "replace", "pause_node", "stop", "start", "fork", "crash"),
)


def _random(chance: random.Random) -> LaneScenario:
    budget = Counter(chance.choices(_CHANCES, k=chance.randint(0, 6)))
    budget["interrupt"] = min(1, budget["interrupt"])  # a second one may come as the first one clears up
    return LaneScenario(
        options=chance.choice(_OPTIONS),
        budget=+budget,
        ticks=chance.choice(((0,), (0, 10), (0, 10, 20), (5, 10, 20, 30))),
        jobs=chance.choice((1, 1, 2)),
        instances=chance.choice((1, 1, 2)),
        workers=chance.choice((1, 2, 2, 3)),
        places=chance.choice((1, 2)),
        hears=chance.random() < 0.7,
        fine=chance.random() < 0.7,
        depth=chance.choice((20, 40, 80, 200)),
        node=chance.choice((None, None, None, ENDED, DIED)),
    )
