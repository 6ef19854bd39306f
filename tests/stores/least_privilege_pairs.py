"""The pairs of fields that look at each other, or that one might think do: each pair is written to a node that stands
there, one after the other in both orders, and in one write.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tests.stores.least_privilege import (
    CALLED,
    COUNTED,
    DECLARED,
    DID,
    ENDED,
    HELD,
    LED,
    LOCKED,
    NOW,
    ORIGINAL,
    RAN,
    RELEASED,
    RUNNING,
    STAMP,
    Node,
    without,
)
from tests.stores.least_privilege_values import CANCELLED, ENTRY, GROUP, HOLD, HOLDS_ALL, HOUR, OLDER, RUN, STEP

LOCK = "cron-locks/job"
SLOT, NEXT, LATER = str(RUNNING["slot"]), "2026-11-18T09:00:00Z", "2026-11-18T09:00:01Z"
FENCE = NOW - 10_000
DEAD: Node = {**RUNNING, "expiresAt": NOW - 1}
FENCED: Node = without(RELEASED, "slot", "outcome")
BY_HAND: Node = without(RELEASED, "slot")
LED_BEFORE: Node = {**LED, "fence": FENCE, "releasedAt": NOW - 5, "expiresAt": NOW - 5, "outcome": "succeeded"}
BOTH: Node = {**RUNNING, "kind": "leader"}
# A new acquisition, which alone may bring a kind.
TAKES: Node = {"holder": "mine", "acquiredAt": NOW, "expiresAt": NOW + 60_000, "fence": NOW, "releasedAt": None}
LEADS: Node = {**TAKES, "kind": "leader", "outcome": None}
PAUSE: Node = {"paused": True}


@dataclass(frozen=True, slots=True)
class Pair:
    """Two writes to the node `before`, and which of them pass: `a` and then `b`, `b` and then `a`, and both in one.

    A write that is refused leaves the node as it was, and the other one is made nevertheless. `why` is the reason of
    each refusal, and of letting the rest pass.
    """

    a: Node
    b: Node
    before: Node | None
    orders: tuple[str, str, str]
    why: str
    path: str = LOCK
    beside: Node = field(default_factory=dict)

    def __str__(self) -> str:
        return f"{' '.join(self.a)}, {' '.join(self.b)}: {self.why}"


FREE = ("++", "++", "+")

PAIRS = [
    # --- kind and slot
    Pair({"kind": "leader"}, {"slot": NEXT}, None, ("-+", "+-", "-"), "a kind comes with an acquisition alone"),
    Pair(LEADS, {"slot": NEXT}, None, ("+-", "+-", "-"), "what comes first has the name: a job's or a leader's"),
    Pair({"kind": "once"}, {"slot": NEXT}, LED, ("--", "--", "-"), "a kind never changes, and excludes a slot"),
    Pair({"kind": "leader"}, {"slot": NEXT}, RELEASED, ("-+", "+-", "-"), "a slot excludes a kind, and only rises"),
    Pair({"kind": None}, {"slot": NEXT}, LED_BEFORE, ("--", "--", "-"), "a leader's name stays a leader's"),
    Pair({"kind": None}, {"slot": None}, BOTH, ("+-", "+-", "-"), "either may go, so that the name is one thing again"),
    Pair(
        {"kind": None}, {"slot": NEXT}, BOTH, ("++", "-+", "+"), "a wrong kind goes before the slot rises, or with it"
    ),
    Pair({"kind": "junk"}, {"outcome": "x"}, FENCED, ("-+", "+-", "-"), "there are two kinds; an outcome is any word"),
    Pair(
        {"kind": None},
        {"slot": SLOT},
        {**FENCED, "kind": "junk"},
        ("++", "-+", "+"),
        "a kind that is none may be removed",
    ),
    # --- kind and what else tells whose a node is
    Pair(LEADS, {"outcome": "failed"}, FENCED, ("++", "+-", "+"), "the outcome of a node without a kind is a job's"),
    Pair({"kind": "leader"}, {"outcome": None}, BY_HAND, ("-+", "+-", "-"), "without an outcome it is still no claim"),
    Pair(LEADS, {"outcome": None}, BY_HAND, ("-+", "++", "-"), "the name of a job that was run by hand is not taken"),
    Pair({"kind": None}, {"fence": FENCE + 1}, LED_BEFORE, ("-+", "+-", "-"), "a fence only rises, a kind stays"),
    Pair(LEADS, {"unfinished": NEXT}, FENCED, ("+-", "-+", "-"), "a leader claims no tick"),
    Pair(LEADS, {"succeededSlot": OLDER}, FENCED, ("+-", "-+", "-"), "a leader claims no tick"),
    # --- the slot and what was claimed
    Pair(
        {"unfinished": NEXT}, {"slot": NEXT}, RELEASED, ("-+", "++", "+"), "only a tick that was claimed is unfinished"
    ),
    Pair(
        {"unfinished": LATER}, {"slot": NEXT}, RELEASED, ("-+", "+-", "-"), "only a tick that was claimed is unfinished"
    ),
    Pair({"unfinished": OLDER}, {"slot": NEXT}, RELEASED, FREE, "a rerun claims a tick before the slot"),
    Pair({"unfinished": NEXT}, {"slot": NEXT}, None, ("-+", "++", "+"), "a claim writes both at once"),
    Pair({"succeededSlot": NEXT}, {"slot": NEXT}, RELEASED, ("-+", "++", "+"), "only a tick that was claimed succeeds"),
    Pair({"succeededSlot": OLDER}, {"slot": NEXT}, RELEASED, FREE, "an earlier tick may be the last that succeeded"),
    Pair({"succeededSlot": NEXT}, {"unfinished": SLOT}, DEAD, ("-+", "+-", "-"), "the slot decides, not the other one"),
    Pair({"slot": OLDER}, {"attempt": 2}, RELEASED, ("-+", "+-", "-"), "a slot never falls; a rerun counts its claims"),
    Pair({"slot": NEXT}, {"attempt": 1}, RELEASED, FREE, "each claim of a slot has its number"),
    # --- what was missed
    Pair({"missedAfter": NEXT}, {"missedUntil": SLOT}, RUNNING, FREE, "a span that ends before it begins has no tick"),
    Pair({"missedAfter": None}, {"missedMore": f"{OLDER}/{SLOT}"}, RUNNING, FREE, "without a first span none is read"),
    Pair({"missedUntil": SLOT}, {"slot": NEXT}, RELEASED, FREE, "spans before the slot are not read"),
    # --- cancelling
    Pair({"cancel": FENCE}, {"fence": FENCE + 1}, RUNNING, ("++", "+-", "-"), "a cancel names the fence of its write"),
    Pair({"cancel": FENCE + 1}, {"fence": FENCE + 1}, RUNNING, ("-+", "++", "+"), "a cancel names the present fence"),
    Pair({"cancel": FENCE}, {"cancelWhy": "slow"}, RUNNING, FREE, "a reason alone means nothing"),
    Pair({"cancel": FENCE}, {"unfinished": None}, RUNNING, FREE, "an unfinished tick may always go"),
    Pair(
        {"cancel": FENCE}, {"holder": "mine"}, DEAD, ("+-", "++", "+"), "only a cancel that was there stands in the way"
    ),
    Pair(
        {"cancel": None}, TAKES, {**CANCELLED, "expiresAt": 0}, ("++", "-+", "-"), "the tick goes, or first the cancel"
    ),
    Pair(
        {"unfinished": None},
        TAKES,
        {**CANCELLED, "expiresAt": 0},
        ("++", "-+", "+"),
        "the tick of a cancelled run goes",
    ),
    Pair({"renews": False}, {"cancel": FENCE}, RUNNING, FREE, "a holder that doesn't renew meets no cancel"),
    # --- pauses
    Pair(PAUSE, {"pausedUntil": NOW + HOUR}, RELEASED, FREE, "an end alone pauses nothing"),
    Pair(PAUSE, {"pausedUntil": "soon"}, RELEASED, ("+-", "-+", "-"), "an end is a number"),
    Pair(PAUSE, {"pausedUntil": 7}, RELEASED, FREE, "an end that is long past is none: the pause lasts"),
    Pair(PAUSE, {"pausedBy": "Ann", "pausedAt": NOW, "pausedWhy": "x"}, RELEASED, FREE, "they are for people"),
    Pair(PAUSE, {"resumedAt": NOW}, RELEASED, FREE, "a time for people ends no pause"),
    Pair(PAUSE, TAKES, RELEASED, ("+-", "++", "+"), "nobody takes a paused lock; a holder may be paused"),
    Pair({"paused": None}, TAKES, {**RELEASED, "paused": True}, ("++", "-+", "-"), "a pause is ended before"),
    Pair(
        {"pausedUntil": NOW},
        TAKES,
        {**RELEASED, "paused": True},
        ("++", "-+", "-"),
        "only a pause that was over is over",
    ),
    Pair(
        {"pausedWith": HOLD[10:]},
        {"pausedBy": "Ann"},
        {**RELEASED, "paused": True},
        FREE,
        "whose a pause is, the name of the hold tells",
        beside={HOLD: HOLDS_ALL},
    ),
    Pair({"until": 0}, {"by": "Ann"}, HOLDS_ALL, ("+-", "-+", "-"), "a hold is taken back, and not changed", HOLD),
    Pair({"until": 0}, {"leaders": True}, HOLDS_ALL, ("+-", "-+", "-"), "a hold covers what it did", HOLD),
    # --- the end of an acquisition
    Pair({"releasedAt": NOW}, {"expiresAt": NOW}, HELD, ("+-", "-+", "+"), "only a release shortens a lease, and once"),
    Pair({"releasedAt": NOW}, {"expiresAt": 0}, HELD, FREE, "an unlock frees it, also after a release"),
    Pair({"releasedAt": NOW}, {"expiresAt": NOW + HOUR}, HELD, ("+-", "++", "+"), "no renewal after a release"),
    Pair({"releasedAt": None}, {"expiresAt": NOW}, RELEASED, ("--", "--", "-"), "what is released stays released"),
    Pair({"releasedAt": NOW}, {"outcome": "failed"}, RUNNING, FREE, "an outcome is for people, until the release"),
    Pair({"failures": 1}, {"outcome": "failed"}, RUNNING, FREE, "each end counts one more"),
    # --- who holds it
    Pair(
        {"holder": "mine"},
        {"expiresAt": NOW + 9},
        None,
        ("--", "--", "+"),
        "a holder says until when, an expiry whose it is",
    ),
    Pair({"holder": "mine"}, {"expiresAt": 0}, HELD, ("-+", "++", "-"), "a live lock is unlocked before it is taken"),
    Pair({"holder": None}, {"expiresAt": None}, HELD, ("--", "--", "-"), "a live lock is nobody else's"),
    Pair({"holder": "mine"}, {"acquiredAt": NOW}, DEAD, FREE, "either makes another acquisition, of what has expired"),
    Pair({"holder": "mine"}, {"acquiredAt": NOW}, RUNNING, ("--", "--", "-"), "either makes another acquisition"),
    Pair({"holder": "mine"}, {"fence": NOW}, DEAD, FREE, "a fence rises with an acquisition, or without"),
    Pair({"fence": None}, {"slot": None}, RELEASED, ("--", "--", "-"), "neither is ever forgotten"),
    Pair({"instance": "a"}, {"instanceId": "b"}, ORIGINAL, FREE, "they are for people"),
    # --- steps: a record and its lock
    Pair({"result": "1"}, {"doneAt": NOW}, CALLED, ("--", "--", "+"), "a result has its time", STEP, LOCKED),
    Pair({"result": "x"}, {"doneAt": NOW}, CALLED, ("--", "--", "-"), "a result is JSON", STEP, LOCKED),
    Pair(
        {"result": None},
        {"doneAt": None},
        DID,
        ("--", "--", "-"),
        "a record is replaced by a higher fence",
        STEP,
        LOCKED,
    ),
    Pair({"fence": 1}, {"startedAt": 1}, CALLED, ("-+", "+-", "-"), "the fence is the lock's", STEP, LOCKED),
    # --- runs, the catalogue, the groups
    Pair({"slot": NEXT}, {"fence": NOW}, RAN, FREE, "the slot is the key's, the fence is bounded", RUN),
    Pair({"slot": SLOT}, {"outcome": None}, RAN, ("--", "--", "-"), "a run has an outcome, and the key's slot", RUN),
    Pair(
        {"every": 60, "declaredAt": STAMP},
        {"line": None, "timezone": None, "declaredAt": STAMP},
        DECLARED,
        ("--", "--", "+"),
        "a job has a line or a distance",
        ENTRY,
    ),
    Pair({"beats": 8}, {"seenAt": STAMP}, COUNTED, ("-+", "++", "+"), "a ticket has the time of its write", GROUP),
]

# Nodes as the library leaves them, and as it finds them.
STARTS: dict[str, Node | None] = {
    "nothing": None,
    "a plain lock": HELD,
    "a lock with a fence": FENCED,
    "a lock of the original": ORIGINAL,
    "a job that runs": RUNNING,
    "a job whose run died": DEAD,
    "a job that was released": RELEASED,
    "a job that was run by hand": BY_HAND,
    "a job that was cancelled": {**without(ENDED, "slot"), **CANCELLED},
    "a leader": LED,
    "a leader's name": LED_BEFORE,
    "what is done once": {**LED, "kind": "once"},
    "a paused job": {**RELEASED, "paused": True},
}
