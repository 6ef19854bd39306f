"""Who may take a lock, a millisecond before, at and after each bound, and which rule speaks first."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import product

import pytest
from tests.unit.lock.records import EXPIRES, MARGIN, NOW, TTL, at, node, released_node, request, slot, verdict

from firecron.base.clocks import Moment
from firecron.lock.fields import LEADER
from firecron.lock.record import Current, Mine, Number, Refused, Request, Take, Trust, decide, parse

AROUND = (-1, 0, 1)
ORIGINAL = {"acquiredAt": NOW - 10_000, "expiresAt": EXPIRES, "instanceId": "nest-1"}
MINIMUM_HOLD = node(releasedAt=NOW - 1_000)


@dataclass(frozen=True)
class Bound:
    """What is answered just before an instant, and what from it on."""

    current: object
    wanted: Request
    instant: int
    before: str
    after: str


BOUNDS = {
    "held past its expiry by the margin": Bound(node(), request(), EXPIRES + MARGIN, "held", "take"),
    "its expiry frees nothing": Bound(node(), request(), EXPIRES, "held", "held"),
    "its holder's end frees nothing": Bound(node(), request(), EXPIRES - MARGIN, "held", "held"),
    "the margin is the contender's": Bound(node(), request(margin=5), EXPIRES + 5, "held", "take"),
    "the original's record too": Bound(ORIGINAL, request(), EXPIRES + MARGIN, "held", "take"),
    "a fraction counts": Bound(node(expiresAt=EXPIRES + 0.5), request(), EXPIRES + MARGIN + 1, "held", "take"),
    "a minimum hold ends at its expiry": Bound(MINIMUM_HOLD, request(), EXPIRES, "held", "take"),
    "a minimum hold needs no margin": Bound(MINIMUM_HOLD, request(), EXPIRES + MARGIN, "take", "take"),
    "released with its expiry then": Bound(released_node(), request(), NOW - 5_000, "held", "take"),
    "unlocked by an operator": Bound(node(expiresAt=0), request(), MARGIN, "held", "take"),
    "an early slot, nothing there": Bound(None, request(slot=slot(60)), NOW + 60_000 - MARGIN, "slot_early", "take"),
    "an early slot, idle node": Bound({"note": 1}, request(slot=slot(60)), NOW + 60_000 - MARGIN, "slot_early", "take"),
    "an early slot, free record": Bound(
        released_node(slot=slot()), request(slot=slot(60)), NOW + 60_000 - MARGIN, "slot_early", "take"
    ),
    "an early slot, no margin": Bound(None, request(slot=slot(60), margin=0), NOW + 60_000, "slot_early", "take"),
    "a rerun waits for the margin": Bound(
        node(slot=slot(), unfinished=slot()), request(slot=slot(), rerun=True), EXPIRES + MARGIN, "slot_done", "take"
    ),
    "what was cancelled is not rerun": Bound(
        node(slot=slot(), unfinished=slot(), fence=7, cancel=7),
        request(slot=slot(), rerun=True),
        EXPIRES + MARGIN,
        "slot_done",
        "slot_done",
    ),
    "a cancel of an earlier acquisition keeps nobody from a rerun": Bound(
        node(slot=slot(), unfinished=slot(), fence=8, cancel=7),
        request(slot=slot(), rerun=True),
        EXPIRES + MARGIN,
        "slot_done",
        "take",
    ),
    "a cancelled lock is held as any other": Bound(
        node(fence=7, cancel=7, slot=slot()), request(slot=slot(10)), EXPIRES + MARGIN, "held", "take"
    ),
    "a rerun of what was interrupted waits for the minimum hold": Bound(
        node(slot=slot(), unfinished=slot(), releasedAt=NOW),
        request(slot=slot(), rerun=True),
        EXPIRES,
        "slot_done",
        "take",
    ),
    "a new slot waits for the holder of the last": Bound(
        node(slot=slot()), request(slot=slot(10)), EXPIRES + MARGIN, "held", "take"
    ),
    "a slot a day ahead": Bound(released_node(slot=slot(86_400)), request(), NOW, "malformed", "take"),
}


@pytest.mark.parametrize("bound", BOUNDS.values(), ids=BOUNDS.keys())
@pytest.mark.parametrize("off", AROUND)
def test_bounds(bound: Bound, off: int) -> None:
    """Each bound holds to the millisecond."""
    decision = decide(bound.current, bound.wanted, at(bound.instant + off), {})
    assert verdict(decision) == (bound.before if off < 0 else bound.after)


@pytest.mark.parametrize("off", AROUND)
def test_mine_ends_with_the_trust(off: int) -> None:
    """My own record is mine until the margin before the end of the lease that was written; then it is anybody's."""
    trust = Trust(EXPIRES, Moment(EXPIRES - TTL, 5_000.0))
    ends = 5_000.0 + TTL - MARGIN
    decision = decide(node(holder="mine"), request(), at(NOW, mono=ends + off), {EXPIRES: trust})
    assert verdict(decision) == ("mine" if off < 0 else "held")


MINE = Trust(EXPIRES, Moment(EXPIRES - TTL, 0.0))

NOT_MINE = {
    "another's holder": (node(), {EXPIRES: MINE}),
    "no holder": (node(holder=None), {EXPIRES: MINE}),
    "the write is not one that I know": (node(holder="mine"), {}),
    "another expiry than that of my write": (node(holder="mine"), {EXPIRES - 1: MINE}),
    "released": (node(holder="mine", releasedAt=NOW), {EXPIRES: MINE}),
}


@pytest.mark.parametrize(("current", "written"), NOT_MINE.values(), ids=NOT_MINE.keys())
def test_what_is_not_mine(current: dict[str, object], written: dict[Number, Trust]) -> None:
    """Nothing but my token in an unreleased record, with the expiry of a write of mine, makes it mine."""
    assert verdict(decide(current, request(), at(), written)) == "held"


def test_mine_comes_with_the_lease_of_the_write_that_landed() -> None:
    """Of several writes the one that is there counts, however late it is found."""
    first, second = (Trust(EXPIRES, Moment(EXPIRES - TTL, 1.0)), Trust(EXPIRES + 9, Moment(EXPIRES - TTL + 9, 10.0)))
    written: dict[Number, Trust] = {first.expires_at: first, second.expires_at: second}
    decision = decide(node(holder="mine"), request(), at(mono=40_000.0), written)
    assert isinstance(decision, Mine)
    assert decision.trust is first


@pytest.mark.parametrize(
    "current", [node(holder="mine"), node(holder="mine", releasedAt=NOW)], ids=["held", "released"]
)
@pytest.mark.parametrize("age", [0.0, float(TTL), 1e9])
def test_a_momentary_claim_of_mine_is_mine_at_any_age(current: dict[str, object], age: float) -> None:
    """A claim that was let go in the same write has no lease that could be over: found, it is a win."""
    decision = decide(current, request(momentary=True), at(mono=age), {EXPIRES: Trust(EXPIRES, at(mono=0.0))})
    assert verdict(decision) == "mine"
    assert verdict(decide(current, request(momentary=True), at(mono=age), {})) == "held"


def test_a_record_of_another_kind_is_not_mine() -> None:
    """Whose kind somebody has changed since my write belongs to something else."""
    assert verdict(decide(node(holder="mine", kind=LEADER), request(), at(), {EXPIRES: MINE})) == "malformed"


def nothing_to_claim(wanted: Request, current: Current, now: int) -> Refused:
    return Refused("slot_done", current)


@pytest.mark.parametrize(
    ("current", "word"),
    [
        (released_node(), "slot_done"),
        (released_node(paused=True), "slot_done"),
        (node(), "slot_done"),
        (released_node(kind=LEADER), "slot_done"),
        (node(holder="mine"), "mine"),
        (released_node(attempt="first"), "malformed"),
    ],
    ids=["free", "paused", "held", "of another kind", "mine", "malformed"],
)
def test_when_there_is_nothing_to_claim(current: dict[str, object], word: str) -> None:
    """The choice comes before every rule but two: what can't be read shows nothing to choose, and mine is mine."""
    assert verdict(decide(current, request(), at(), {EXPIRES: MINE}, nothing_to_claim)) == word


def test_what_is_chosen_is_asked_for() -> None:
    """The choice sees what the node says at that time, and the rules judge the request that it returns."""
    seen: list[object] = []

    def choose(wanted: Request, current: Current, now: int) -> Request:
        seen.extend((wanted, current, now))
        return replace(wanted, slot=slot(7_200))

    current = released_node(slot=slot(-60))
    assert verdict(decide(current, request(), at(), {}, choose)) == "slot_early"
    assert seen == [request(), parse(current, NOW), NOW]


def test_what_is_taken_comes_with_what_the_node_said() -> None:
    """The record that is replaced, as it was parsed."""
    decision = decide(released_node(), request(), at(), {})
    assert isinstance(decision, Take)
    assert decision.before == parse(released_node(), NOW)


@dataclass
class Scene:
    """A node and a request without any obstacle between them, until one is put there."""

    current: dict[str, object] = field(default_factory=released_node)
    wanted: Request = field(default_factory=request)
    written: dict[Number, Trust] = field(default_factory=dict)


def malformed(scene: Scene) -> None:
    scene.current["attempt"] = "first"


def mine(scene: Scene) -> None:
    scene.current.pop("releasedAt", None)
    scene.current["holder"] = "mine"
    expires = scene.current["expiresAt"]
    assert isinstance(expires, int)
    scene.written[expires] = Trust(expires, Moment(expires - TTL, 0.0))


def paused(scene: Scene) -> None:
    scene.current["paused"] = True


def slot_done(scene: Scene) -> None:
    scene.wanted = scene.wanted if scene.wanted.slot else request(slot=slot())
    scene.current["slot"] = scene.wanted.slot


def held(scene: Scene) -> None:
    scene.current.pop("releasedAt", None)
    scene.current.update(expiresAt=EXPIRES)


def slot_early(scene: Scene) -> None:
    scene.wanted = request(slot=slot(7_200))


# In the order in which they are put there; `slot_early` chooses the slot and `held` the expiry that others copy.
OBSTACLES = (slot_early, held, slot_done, paused, mine, malformed)
# In the order in which they are answered.
ORDER = (malformed, mine, paused, slot_done, held, slot_early)
SUBSETS = [
    [obstacle for obstacle, there in zip(OBSTACLES, chosen, strict=True) if there]
    for chosen in product((False, True), repeat=len(OBSTACLES))
]


@pytest.mark.parametrize("obstacles", SUBSETS, ids=lambda some: "+".join(one.__name__ for one in some) or "none")
def test_precedence(obstacles: list[object]) -> None:
    """Of all rules that apply, in every combination, the first of the contract's order answers."""
    scene = Scene()
    for obstacle in OBSTACLES:
        if obstacle in obstacles:
            obstacle(scene)
    first = next((rule.__name__ for rule in ORDER if rule in obstacles), "take")
    assert verdict(decide(scene.current, scene.wanted, at(), scene.written)) == first


@pytest.mark.parametrize("off", AROUND)
@pytest.mark.parametrize("rerun", [False, True])
def test_only_a_later_slot_is_new(off: int, rerun: bool) -> None:
    """A slot that is not later than the last one claimed is done, also for a rerun that finds nothing unfinished."""
    current = released_node(slot=slot())
    assert verdict(decide(current, request(slot=slot(off), rerun=rerun), at(), {})) == (
        "take" if off > 0 else "slot_done"
    )


RERUNS = {
    "asked for, unfinished, free": (slot(-60), True, {"unfinished": slot(-60)}, "take"),
    "the newest slot": (slot(), True, {"unfinished": slot()}, "take"),
    "not asked for": (slot(-60), False, {"unfinished": slot(-60)}, "slot_done"),
    "another slot is unfinished": (slot(-60), True, {"unfinished": slot(-120)}, "slot_done"),
    "nothing is unfinished": (slot(-60), True, {}, "slot_done"),
    "paused": (slot(-60), True, {"unfinished": slot(-60), "paused": True}, "paused"),
    "live": (slot(-60), True, {"unfinished": slot(-60), "expiresAt": EXPIRES}, "slot_done"),
}


@pytest.mark.parametrize(("wanted", "rerun", "fields", "word"), RERUNS.values(), ids=RERUNS.keys())
def test_reruns(wanted: str, rerun: bool, fields: dict[str, object], word: str) -> None:
    """An older slot is claimed again only by a rerun, only while it is unfinished, and never beside a live run."""
    current = released_node(**{"slot": slot(), **fields})
    assert verdict(decide(current, request(slot=wanted, rerun=rerun), at(), {})) == word


@pytest.mark.parametrize("value", [True, "true", "yes", 1, 0, "", {"by": "me"}, "false"])
@pytest.mark.parametrize("base", [{}, released_node(), node()], ids=["idle", "released", "live"])
def test_anything_but_false_pauses(value: object, base: dict[str, object]) -> None:
    """Whatever an operator types into `paused` keeps everybody out, and is handed on for the warning."""
    decision = decide({**base, "paused": value}, request(slot=slot()), at(), {})
    assert isinstance(decision, Refused)
    assert decision.reason == "paused"
    assert decision.current.kept["paused"] == value


def test_paused_false_is_not_paused() -> None:
    """`paused: false` is as good as none."""
    assert isinstance(decide(released_node(paused=False), request(), at(), {}), Take)


def test_a_refusal_carries_what_stands_in_the_way() -> None:
    """Who is refused sees the record that did it."""
    assert decide(node(), request(), at(), {}) == Refused("held", parse(node(), NOW))
