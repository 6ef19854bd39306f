"""What the rows of the rules' tests share: paths, nodes, and the bounds of each number."""

from __future__ import annotations

from collections.abc import Iterator

from tests.stores.least_privilege import (
    BEAT,
    CLAIMED,
    DECLARED,
    DID,
    ENDED,
    LOCKED,
    NOW,
    RAN,
    RUNNING,
    TOLD,
    UNRUN,
    Node,
    Row,
    put,
    without,
)

from firecron.base.instants import to_milliseconds

RUN = "cron-runs/job/2026-11-18T09:00:00Z"
ERROR = f"cron-errors/{RUN.partition('/')[2]}"
# Its entry in the history.
RECORDED: Node = {RUN: RAN}
TICK = "cron-steps/job/2026-11-18T08:59:50Z"
STEP = f"{TICK}/charge 42"
INSTANCE = "cron-instances/00bf4b9c3f2a-a1b2c3"
GROUP = "cron-groups/0123456789abcdef"
ENTRY = "cron-jobs/job"
HOUR = 3_600_000
LONGEST = "j" * 100

GOOD_START = "2026-11-18T09:00:00Z"
DAY = 86_400_000
MINUTE = 60_000

# A day ahead of the server's time in the rows below: among them each month, each digit where it may stand, and the
# days around a leap day and a new year. The rules add up such digits.
INSTANTS = [
    "2000-01-01T00:00:00Z", "2001-12-31T23:59:59Z", "2012-02-29T12:34:56Z", "2026-11-19T09:00:00Z",
    "2027-03-01T08:47:38Z", "2028-02-28T19:26:07Z", "2033-10-07T07:58:49Z", "2044-04-04T04:44:44Z",
    "2055-05-25T15:15:25Z", "2066-06-16T16:06:16Z", "2078-07-08T18:38:28Z", "2080-08-12T22:22:22Z",
    "2089-09-29T09:49:59Z", "2096-03-01T00:00:00Z", "2099-12-31T23:59:59Z",
]  # fmt: skip

ACT = "cron-acts/2026-11-18T09:00:00Z-000-a1b2c3"
DONE: Node = {"act": "pause", "at": NOW, "name": "job", "who": "w" * 200, "why": "w" * 500}
PAUSED: Node = {
    "paused": True,
    "pausedAt": NOW,
    "pausedBy": "w" * 200,
    "pausedUntil": NOW + 3_600_000,
    "pausedWhy": "w" * 500,
}
OVER: Node = {**PAUSED, "pausedAt": NOW - 9, "pausedUntil": NOW}
RESUMED: Node = {**dict.fromkeys(PAUSED), "resumedAt": NOW}
PAST = "2026-11-18T08:40:00Z/2026-11-18T08:45:00Z"
HOLD = "cron-hold/00ffa1b2c3d4"
HOLDS_ALL: Node = {"at": NOW, "by": "w" * 200, "until": NOW + 3_600_000, "why": "w" * 500}
HOLDS_SOME: Node = {**HOLDS_ALL, "leaders": True, "match": "m" * 100, "service": "s" * 100}
# A lock that it pauses, over another pause.
WITH: Node = {**PAUSED, "pausedOver": "x" * 8_000, "pausedWith": HOLD[10:]}
MUTE = "cron-mutes/job"
MUTED: Node = {"by": "w" * 200, "until": NOW + 1, "why": "w" * 500}
ASK = "cron-asks/job"
ASKED: Node = {"at": NOW, "by": "w" * 200, "id": "00ffa1", "kind": "run", "why": "w" * 500}
ASKED_SLOT: Node = {**ASKED, "kind": "slot", "tick": "2026-11-18T09:00:00Z"}
ASKED_RESUME: Node = {**ASKED, "kind": "resume", "tick": "2026-11-18T09:00:00Z-manual-a1b2c3"}
TAKEN_BY: Node = {"takenBy": "t" * 100}
OLD_ASK: Node = {**ASKED, "at": NOW - 240_000, "id": "00ffa2"}
NOTICE = "cron-told/job"
CLAIMED_NOTICE: Node = {
    "againAt": NOW + 86_400_000, "changes": 1, "failingAt": NOW, "id": "x" * 100, "last": "x" * 20, "lateAt": NOW,
    "okAt": NOW, "unanswered": 1,
    "since": NOW, "stuckAt": NOW, "token": "x" * 100, "unattendedAt": NOW, "verdict": "x" * 20,
}  # fmt: skip
SENT_NOTICE: Node = {**CLAIMED_NOTICE, "changes": 0, "sentAt": NOW, "sentTo": "x" * 1_000}
EVERY: Node = {**without(DECLARED, "line", "timezone"), "every": 2_700, "starting": GOOD_START}
# The longest text of each field of the catalogue.
LENGTHS = {
    **dict.fromkeys(("line", "revision", "role", "service"), 1_000),
    **dict.fromkeys(("catchUp", "onAbandoned", "overlap", "owner", "timezone"), 100),
    "description": 200,
    "exceptDays": 8_000,
    "where": 500,
}
# As long as it may be.
LONGEST_RUNBOOK = f"https://wiki.example.com/{'x' * 475}"

# Each number that firecron writes, with the least and the greatest that it may be.
BOUNDS: list[tuple[str, Node, str, int, int]] = [
    ("cron-locks/job", CLAIMED, "acquiredAt", 0, NOW + MINUTE),
    ("cron-locks/job", CLAIMED, "attempt", 1, 1_000),
    ("cron-locks/job", CLAIMED, "expiresAt", 0, NOW + DAY + MINUTE),
    ("cron-locks/job", CLAIMED, "fence", 0, NOW + MINUTE),
    ("cron-locks/job", CLAIMED, "releasedAt", 0, NOW + MINUTE),
    ("cron-locks/job", PAUSED, "pausedAt", 0, NOW + MINUTE),
    ("cron-locks/job", RESUMED, "resumedAt", 0, NOW + MINUTE),
    (ACT, DONE, "at", 0, NOW + MINUTE),
    (HOLD, HOLDS_ALL, "at", 0, NOW + MINUTE),
    (RUN, RAN, "attempt", 1, 1_000),
    (RUN, UNRUN, "count", 1, 1_000),
    (RUN, RAN, "durationMs", 0, NOW),
    (RUN, RAN, "endedAt", 0, NOW + DAY),
    (RUN, RAN, "fence", 0, NOW + MINUTE),
    (RUN, RAN, "startedAt", 0, NOW + MINUTE),
    (STEP, DID, "attempt", 1, 1_000),
    (STEP, DID, "doneAt", 0, NOW + DAY),
    (STEP, DID, "startedAt", 0, NOW + DAY),
    (INSTANCE, BEAT, "jobs", 0, 1_000_000),
    (INSTANCE, BEAT, "running", 0, 1_000_000),
    (INSTANCE, BEAT, "seenAt", 0, NOW),
    (INSTANCE, BEAT, "startedAt", 0, NOW),
    (GROUP, TOLD, "firstSeenAt", 0, NOW),
    (GROUP, TOLD, "heartbeat", 1, 3_600),
    (ENTRY, DECLARED, "alertAfter", 1, 1_000),
    (ENTRY, DECLARED, "catchUpWindow", 0, 31_622_400),
    (ENTRY, DECLARED, "expectedRuntime", 0, 604_800),
    (ENTRY, DECLARED, "grace", 0, 86_400),
    (ENTRY, DECLARED, "holdAtLeast", 0, 86_400),
    (ENTRY, DECLARED, "maxRuntime", 0, 604_800),
    (ENTRY, DECLARED, "retries", 0, 100),
    (ENTRY, DECLARED, "since", 0, NOW),
    (ENTRY, DECLARED, "ttl", 0, 86_400),
    (ENTRY, EVERY, "every", 1, 31_622_400),
    (NOTICE, SENT_NOTICE, "againAt", 0, NOW + DAY),
    (NOTICE, SENT_NOTICE, "unanswered", 0, 1_000_000),
    (NOTICE, SENT_NOTICE, "changes", 0, 1_000_000),
    *(
        (NOTICE, SENT_NOTICE, name, 0, NOW + MINUTE)
        for name in ("failingAt", "lateAt", "okAt", "sentAt", "since", "stuckAt", "unattendedAt")
    ),
]
# Each text of people and machines that firecron writes into a lock, a run, a step or a beat, with the longest.
TEXTS: list[tuple[str, Node, str]] = [
    *(("cron-locks/job", CLAIMED, name) for name in ("holder", "instance", "instanceId", "outcome")),
    *((RUN, RAN, name) for name in ("error", "instance", "instanceId", "note", "outcome", "recordedBy", "trigger")),
    (STEP, DID, "instance"),
    (INSTANCE, BEAT, "instanceId"),
]
LONGEST_TEXT = 1_000
GOOD_SLOT = str(CLAIMED["slot"])
IMPOSSIBLE = ["2024-02-30T09:00:00Z", "2025-02-29T09:00:00Z", "2026-06-31T09:00:00Z", "2026-13-01T09:00:00Z"]
MISSED = ("missedAfter", "missedUntil")
PAIR = "2026-11-18T08:40:00Z/2026-11-18T08:45:00Z"


def a_day_ahead(later: int) -> Iterator[Row]:
    """Instants that are a day ahead, and so much later. All of them in one place, and each place once: the rules of the
    others say the same in the same words, of which `rule_mutants` changes the first.
    """
    first, *others = "missedAfter", "missedUntil", "slot"
    for name, texts in ((first, INSTANTS), *((name, INSTANTS[:1]) for name in others)):
        for text in texts:
            now = to_milliseconds(text) - DAY - later
            yield put(f"a {name} that is a day and {later} ms ahead: {text}", {name: text}, now=now)
    key = INSTANTS[0]
    now = to_milliseconds(key) - DAY - later
    yield put(
        f"a run whose key is a day and {later} ms ahead", {"outcome": "missed"}, None, f"cron-runs/job/{key}", now
    )
    act = f"cron-acts/{key}-000-a1b2c3"
    yield put(f"an act whose key is a day and {later} ms ahead", {**DONE, "at": now}, None, act, now)


RERUN: Node = {**CLAIMED, "slot": RUNNING["slot"], "unfinished": RUNNING["unfinished"], "attempt": 2}
CANCELLED: Node = {**RUNNING, "cancel": RUNNING["fence"]}
FAILED: Node = {**ENDED, "failures": 2, "outcome": "failed", "releasedAt": NOW, "expiresAt": NOW}
SHARED = ("cron-instances", "cron-groups", "cron-jobs", "cron-hold", "cron-mutes", "cron-told", "cron-asks")
OLDER = "2026-11-18T08:00:00Z"


def beside_of(path: str) -> Node:
    """What has to be there for a write: a step needs its lock."""
    return LOCKED if path == STEP else {}
