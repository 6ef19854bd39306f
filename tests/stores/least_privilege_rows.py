"""The requests that the shipped rules must let pass, and those that they must refuse."""

from __future__ import annotations

from collections.abc import Iterator

from tests.stores.least_privilege import (
    BEAT,
    CALLED,
    CLAIMED,
    COUNTED,
    DECLARED,
    DID,
    ENDED,
    HARMED,
    HELD,
    LED,
    LOCKED,
    NOW,
    ONE_MORE,
    ORIGINAL,
    OVERRIDE,
    RAN,
    RELEASED,
    RUNNING,
    STAMP,
    TAKEN,
    TICKET,
    TOLD,
    UNRUN,
    Node,
    Row,
    delete,
    get,
    patch,
    put,
    without,
)

from firecron.base.instants import to_milliseconds

RUN = "cron-runs/job/2026-11-18T09:00:00Z"
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
    "2000-01-01T00:00:00Z",
    "2001-12-31T23:59:59Z",
    "2012-02-29T12:34:56Z",
    "2026-11-19T09:00:00Z",
    "2027-03-01T08:47:38Z",
    "2028-02-28T19:26:07Z",
    "2033-10-07T07:58:49Z",
    "2044-04-04T04:44:44Z",
    "2055-05-25T15:15:25Z",
    "2066-06-16T16:06:16Z",
    "2078-07-08T18:38:28Z",
    "2080-08-12T22:22:22Z",
    "2089-09-29T09:49:59Z",
    "2096-03-01T00:00:00Z",
    "2099-12-31T23:59:59Z",
]

ACT = "cron-acts/2026-11-18T09:00:00Z-000-a1b2c3"
OLD_ACT = "2026-11-18T08:00:00Z-999-ffffff"
DONE: Node = {"act": "pause", "at": NOW, "name": "job", "who": "w" * 200, "why": "w" * 500}
PAUSED: Node = {
    "paused": True,
    "pausedAt": NOW,
    "pausedBy": "w" * 200,
    "pausedUntil": NOW + 3_600_000,
    "pausedWhy": "w" * 500,
}
OVER: Node = {**PAUSED, "pausedAt": NOW - 9, "pausedUntil": NOW}
FIRST_PAUSE: Node = {"paused": True, "pausedUntil": 946_684_800_000}
RESUMED: Node = {**dict.fromkeys(PAUSED), "resumedAt": NOW}
MISTYPED: Node = {
    **{name: {"by": "Ann"} for name in ("pausedAt", "pausedBy", "pausedUntil", "pausedWhy", "resumedAt")},
    "paused": True,
}
PAUSE_WORDS: Node = {
    **MISTYPED,
    "pausedAt": "now",
    "pausedBy": 7,
    "pausedUntil": "soon",
    "pausedWhy": 8,
    "resumedAt": "x",
}
EVERY: Node = {**without(DECLARED, "line", "timezone"), "every": 2_700, "starting": GOOD_START}
# The longest text of each field of the catalogue.
LENGTHS = {
    **dict.fromkeys(("line", "revision", "role", "service"), 1_000),
    **dict.fromkeys(("catchUp", "overlap", "timezone"), 100),
    "where": 500,
}

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
    (ENTRY, DECLARED, "expectedRuntime", 0, 604_800),
    (ENTRY, DECLARED, "grace", 0, 86_400),
    (ENTRY, DECLARED, "since", 0, NOW),
    (ENTRY, EVERY, "every", 1, 31_622_400),
]
GOOD_SLOT = str(CLAIMED["slot"])
IMPOSSIBLE = ["2024-02-30T09:00:00Z", "2025-02-29T09:00:00Z", "2026-06-31T09:00:00Z", "2026-13-01T09:00:00Z"]
MISSED = ("missedAfter", "missedUntil")
PAIR = "2026-11-18T08:40:00Z/2026-11-18T08:45:00Z"
ILL_PAIRS = [
    NOW,
    "soon",
    GOOD_SLOT,
    PAIR.replace("/", " "),
    f"{PAIR} {GOOD_SLOT}",
    f"{PAIR}/{GOOD_SLOT}",
    f"{PAIR} ",
    f"x{PAIR[1:]}",
    " ".join([PAIR] * 21),
    *(f"{PAIR} {GOOD_SLOT}/{instant}" for instant in IMPOSSIBLE),
]
MENDED = {
    "attempt": 1,
    "fence": NOW,
    "missedAfter": "2026-11-18T08:00:00Z",
    "missedMore": "2024-02-29T08:40:00Z/2026-11-18T08:45:00Z 2026-11-18T08:50:00Z/2026-11-18T08:55:00Z",
    "missedUntil": "2026-11-18T08:30:00Z",
    "slot": "2026-11-18T09:00:00Z",
    "succeededSlot": "2024-02-29T09:00:00Z",
}
WRONG_RUN: Node = {**RAN, "attempt": -5, "durationMs": -1, "endedAt": 1e15, "fence": 1e300, "startedAt": -1}
WRONG_GROUP: Node = {**COUNTED, "firstSeenAt": 1e15, "heartbeat": 0, "jobs": 7, "schedules": 7, "service": {"a": "b"}}
WRONG_BEAT: Node = {**BEAT, "jobs": -1, "running": -1, "seenAt": NOW - 9, "startedAt": 1e15}


def _a_day_ahead(later: int) -> Iterator[Row]:
    """Instants that are a day ahead, and so much later. All of them in one place, and each place once: the rules of the
    others say the same in the same words, of which `rule_mutants` changes the first.
    """
    first, *others = "missedAfter", "missedUntil", "slot", "unfinished"
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
OBEYED = without(CANCELLED, "unfinished")
BY_HAND: Node = {**ENDED, **TAKEN, "fence": NOW}
TYPED: Node = {name: {"by": "Ann"} for name in ("cancel", "cancelWhy", "failures", "renews")}
WORDS: Node = {"cancel": "please", "cancelWhy": 7, "failures": "many", "renews": "never"}
FAILED: Node = {**ENDED, "failures": 2, "outcome": "failed", "releasedAt": NOW, "expiresAt": NOW}
SHARED = ("cron-instances", "cron-groups", "cron-jobs")
SUCCEEDED: Node = {**ENDED, "releasedAt": NOW, "expiresAt": NOW}
OLDER = "2026-11-18T08:00:00Z"
NEWER = {"succeededSlot": RUNNING["slot"]}


def beside_of(path: str) -> Node:
    """What has to be there for a write: a step needs its lock."""
    return LOCKED if path == STEP else {}


LEGAL = [
    # acquire
    put("take a lock that is not there", TAKEN),
    put("claim the first tick", CLAIMED),
    put("take a lock for what is done once", {**TAKEN, "fence": NOW, "kind": "once"}),
    put("take a lock with a name of 100 characters", TAKEN, path=f"cron-locks/{LONGEST}"),
    put("take a lock beside somebody's notes", {**TAKEN, "note": {"a": "b"}}, {"note": {"a": "b"}}),
    put("take a lock that was resumed", {**TAKEN, "paused": False}, {"paused": False}),
    put("take a lock whose pause is over", {**CLAIMED, **OVER}, {**RELEASED, **OVER}),
    put(
        "take it the greatest margin before its pause ends",
        {**CLAIMED, **OVER, "pausedUntil": NOW + 60_000},
        {**RELEASED, **OVER, "pausedUntil": NOW + 60_000},
    ),
    put("take it after the first pause that there can have been", {**TAKEN, **FIRST_PAUSE}, FIRST_PAUSE),
    put("take a dead holder's lock at its expiry", CLAIMED, {**RUNNING, "expiresAt": NOW}),
    put("take a lock that was unlocked", CLAIMED, {**RUNNING, "expiresAt": 0}),
    put("take a lock of which an operator left only that", TAKEN, {"expiresAt": 0}),
    put("take an expired lock of the original", TAKEN, {**ORIGINAL, "expiresAt": NOW}),
    put("take a released lock", CLAIMED, RELEASED),
    put("take it the greatest margin before a minimum hold ends", CLAIMED, {**RELEASED, "expiresAt": NOW + 60_000}),
    put("rerun a tick", RERUN, {**RUNNING, "expiresAt": NOW}),
    put("run by hand, and touch no tick", {**RELEASED, **TAKEN, "missedAfter": "2026-11-18T08:59:55Z"}, RELEASED),
    put("take it again with the same token", {**CLAIMED, "holder": "theirs"}, RELEASED),
    put("lead for the first time", LED),
    put("lead after another leader", LED, {**LED, "holder": "theirs", "fence": NOW - 9, "expiresAt": NOW}),
    # renew and release
    put("renew", {**RUNNING, "expiresAt": NOW + 60_000}, RUNNING),
    put("renew what an operator has edited", {**HELD, "acquired": 9, "paused": "Ann"}, {**HELD, "paused": "Ann"}),
    put("release a tick", {**ENDED, "releasedAt": NOW, "expiresAt": NOW}, RUNNING),
    put("release the first success", {**SUCCEEDED, "succeededSlot": RUNNING["slot"]}, RUNNING),
    put(
        "release a later success", {**SUCCEEDED, "succeededSlot": RUNNING["slot"]}, {**RUNNING, "succeededSlot": OLDER}
    ),
    put(
        "release a failure after a success", {**SUCCEEDED, "succeededSlot": OLDER}, {**RUNNING, "succeededSlot": OLDER}
    ),
    put("claim after a success", {**CLAIMED, "succeededSlot": OLDER}, {**RELEASED, "succeededSlot": OLDER}),
    put("release a success in place of a later one", {**SUCCEEDED, **NEWER}, {**RUNNING, "succeededSlot": GOOD_SLOT}),
    put("release a tick whose run has failed", {**FAILED, "failures": 1}, RUNNING),
    *(
        put(f"release one more, after {before!r}", {**FAILED, "failures": after}, {**RUNNING, "failures": before})
        for before, after in ((1, 2), (0, 1), (-1, 1), (1.5, 2.5), ("many", 1))
    ),
    put("release a tick whose run has succeeded", without(FAILED, "failures"), {**RUNNING, "failures": 2}),
    put("release another end", FAILED, {**RUNNING, "failures": 2}),
    put("count a run that died", {**CLAIMED, "failures": 3}, {**RUNNING, "expiresAt": NOW, "failures": 2}),
    put("release into a minimum hold", {**HELD, "releasedAt": NOW}, HELD),
    put("release while it is paused", {**HELD, "releasedAt": NOW, "paused": "Ann"}, {**HELD, "paused": "Ann"}),
    put("release after the expiry", {**ENDED, "releasedAt": NOW, "expiresAt": NOW}, {**RUNNING, "expiresAt": 1}),
    delete("release a plain lock", HELD),
    # cancel
    patch("cancel a run", {"cancel": RUNNING["fence"], "cancelWhy": "w" * 500}, RUNNING),
    put("renew what is cancelled", {**CANCELLED, "expiresAt": NOW + 60_000}, CANCELLED),
    put("release what is cancelled", {**OBEYED, "releasedAt": NOW, "expiresAt": NOW}, CANCELLED),
    put("claim the tick after a cancelled run", CLAIMED, {**CANCELLED, "expiresAt": NOW}),
    put("run by hand after a cancelled run that died", BY_HAND, {**CANCELLED, "expiresAt": NOW}),
    put("run by hand after a run that was cancelled", BY_HAND, {**OBEYED, "releasedAt": NOW - 1, "expiresAt": NOW - 1}),
    put("rerun a tick of a node that lost its fence", RERUN, {**without(RUNNING, "fence"), "expiresAt": NOW}),
    put("rerun a tick beside a cancel of a lower fence", RERUN, {**RUNNING, "expiresAt": NOW, "cancel": NOW - 10_001}),
    put("renew beside what an operator typed", {**HELD, **TYPED, "expiresAt": NOW + 60_000}, {**HELD, **TYPED}),
    put("renew beside words that an operator typed", {**HELD, **WORDS, "expiresAt": NOW + 60_000}, {**HELD, **WORDS}),
    put("take a lock with a fence, and without renewals", {**CLAIMED, "renews": False}),
    put("end a term", {**LED, "releasedAt": NOW, "expiresAt": NOW}, LED),
    # operators' commands
    patch("pause a running job", {"paused": True}, RUNNING),
    patch("pause a released lock", {"paused": True}, RELEASED),
    patch("pause a lock that is not there", {"paused": True}),
    patch("pause a lock of the original", {"paused": True}, ORIGINAL),
    patch("pause until then, and say why", PAUSED, RUNNING),
    patch("pause once more, in other words", {**PAUSED, "pausedWhy": None}, {**RUNNING, **PAUSED}),
    patch("resume and say when", RESUMED, {**RELEASED, **PAUSED}),
    patch("resume what was only paused, and say when", RESUMED, PAUSED),
    put("renew what is paused", {**RUNNING, **PAUSED, "expiresAt": NOW + 60_000}, {**RUNNING, **PAUSED}),
    put("renew beside a pause that was typed", {**HELD, **MISTYPED, "expiresAt": NOW + 60_000}, {**HELD, **MISTYPED}),
    put("renew beside a pause of words", {**HELD, **PAUSE_WORDS, "expiresAt": NOW + 60_000}, {**HELD, **PAUSE_WORDS}),
    patch("pause in place of what was typed", PAUSED, {**HELD, **MISTYPED}),
    patch("resume in place of what was typed", {"resumedAt": NOW}, {"resumedAt": {"by": "Ann"}}),
    patch(
        "record a pause in its own write", {f"cron-locks/job/{k}": v for k, v in PAUSED.items()} | {ACT: DONE}, path=""
    ),
    put("record an act", DONE, path=ACT),
    put("record an act without a reason", without(DONE, "why"), path=ACT),
    put("record an act on a name of 100 characters", {**DONE, "name": LONGEST}, path=ACT),
    patch("record an act and prune", {ACT[-31:]: DONE, OLD_ACT: None}, {OLD_ACT: DONE}, "cron-acts"),
    delete("prune an act", DONE, ACT),
    get("read the acts", "cron-acts"),
    patch("resume a job", {"paused": None}, {**RELEASED, "paused": True}),
    patch("resume what was only paused", {"paused": None}, {"paused": True}),
    patch("unlock", {"expiresAt": 0}, RUNNING),
    # the history
    put("record a run", RAN, path=RUN),
    put("record a tick that did not run", UNRUN, path=RUN),
    put("record a run in place of a lower fence", {**RAN, "note": "x"}, UNRUN, path=RUN),
    put("record a run with the longest note", {**RAN, "note": "\U0001f4ec" * 500}, path=RUN),
    patch("remark something beside a note of another kind", {"note": 7, "remark": 1}, {**RAN, "note": 7}, RUN),
    put("record a run by hand", without(RAN, "slot"), path=f"{RUN}-manual-a1b2c3"),
    patch("prune", {RUN[-20:]: None, "stray": None}, {RUN[-20:]: RAN, "stray": 1, "kept": 2}, "cron-runs/job"),
    # the steps
    put("record a step of a tick", DID, path=STEP, beside=LOCKED),
    put("record a step of a run by hand", DID, path=f"{TICK}-manual-a1b2c3/charge 42", beside=LOCKED),
    put("record a lock's own work", DID, path="cron-steps/job/once/done", beside=LOCKED),
    put("record a step with a name of any text", DID, path=f"{TICK}/größe ✓", beside=LOCKED),
    put(
        "record a step of a job with a name of 100 characters",
        DID,
        path=f"cron-steps/{LONGEST}/{TICK[-20:]}/x",
        beside={f"cron-locks/{LONGEST}": RUNNING},
    ),
    put("write the intent of a step", CALLED, path=STEP, beside=LOCKED),
    put("record what was intended", DID, CALLED, STEP, beside=LOCKED),
    put("intend again what an earlier claim has begun", CALLED, {**CALLED, "fence": 1}, STEP, beside=LOCKED),
    put("replace what a zombie has recorded", DID, {**DID, "fence": NOW - 10_001}, STEP, beside=LOCKED),
    put("record a step without what is for people", without(DID, "attempt", "instance"), path=STEP, beside=LOCKED),
    put("record a step after the expiry", DID, path=STEP, beside={"cron-locks/job": {**RUNNING, "expiresAt": 1}}),
    put("record the longest result", {**DID, "result": "x" * 65_536}, path=STEP, beside=LOCKED),
    patch(
        "prune steps with their entry",
        {RUN: None, STEP.rpartition("/")[0]: None},
        {"cron-runs": {"job": {RUN[-20:]: RAN}}, "cron-steps": {"job": {TICK[-20:]: {"a": DID, "b": CALLED}}}},
        "",
    ),
    delete("prune the steps of one tick", {"a": DID, "b": CALLED}, TICK),
    # signs of life
    patch("beat for the first time", {**BEAT, "startedAt": STAMP}, path=INSTANCE),
    patch("beat", {**BEAT, "version": "1"}, {**BEAT, "seenAt": NOW - 9}, INSTANCE),
    put("ask for the time", STAMP, path="cron-instances/clock/seenAt"),
    patch("remove dead instances", {"a": None, "clock": None}, {"a": BEAT, "clock": {"seenAt": 1}}, "cron-instances"),
    # tickets
    patch(
        "beat and take a ticket",
        {INSTANCE: {**BEAT, "seenAt": NOW}, **{f"{GROUP}/{name}": value for name, value in TICKET.items()}},
        {"cron-groups": {GROUP[-16:]: COUNTED}, "cron-instances": {INSTANCE[-19:]: {**BEAT, "seenAt": NOW - 9}}},
        "",
    ),
    patch("take the first ticket", TICKET, path=GROUP),
    patch("take a ticket", TICKET, COUNTED, GROUP),
    patch("take a ticket of a counter that is no number", TICKET, {"beats": "many", "seenAt": 1}, GROUP),
    # the catalogue
    put("declare a job", {**DECLARED, "declaredAt": NOW}, path=ENTRY),
    put("declare a job of even distances", {**EVERY, "declaredAt": NOW}, path=ENTRY),
    put("declare a job of the longest name", {**DECLARED, "declaredAt": NOW}, path=f"cron-jobs/{LONGEST}"),
    patch(
        "declare a job with the longest texts",
        {**DECLARED, **{name: "x" * most for name, most in LENGTHS.items()}},
        path=ENTRY,
    ),
    patch(
        "declare jobs anew",
        {ENTRY: {**DECLARED, "declaredAt": NOW}, f"{ENTRY}2": {**EVERY, "declaredAt": NOW}},
        {"cron-jobs": {"job": DECLARED}},
        "",
    ),
    put(
        "declare a job since nobody knows when",
        {**DECLARED, "declaredAt": NOW, "since": 1e15},
        {**DECLARED, "since": 1e15},
        ENTRY,
    ),
    delete("forget a job", DECLARED, ENTRY),
    patch("tell who runs what", TOLD, path=GROUP),
    patch(
        "tell of very many jobs",
        {**TOLD, "jobs": "j" * 100_000, "schedules": "s" * 200_000, "service": "s" * 1_000},
        path=GROUP,
    ),
    patch("take no ticket", {"seenAt": STAMP}, COUNTED, GROUP),
    patch("take no ticket the first time", {"seenAt": STAMP, "jobs": ""}, path=GROUP),
    patch("take a ticket beside what is wrong", TICKET, WRONG_GROUP, GROUP),
    delete("remove a counter", {**COUNTED, "seenAt": NOW - HOUR - 1}, GROUP),
    # numbers and instants
    *(
        patch(f"the {which} {name} in {path}", {**node, name: value}, path=path, beside=beside_of(path))
        for path, node, name, *bounds in BOUNDS
        for which, value in zip(("least", "greatest"), bounds, strict=True)
    ),
    *_a_day_ahead(0),
    put(
        "a fence of a lock whose last one was a minute ahead",
        {**CLAIMED, "fence": NOW + 60_001},
        {**RELEASED, "fence": NOW + 60_000},
    ),
    put(
        "a run's fence that is the lock's",
        {**RAN, "fence": 9 * 10**12},
        path=RUN,
        beside={"cron-locks/job": {**RELEASED, "fence": 9 * 10**12}},
    ),
    put("a manual run that left behind what was missed", {**TAKEN, **{name: MENDED[name] for name in MISSED}}),
    put("the most pairs of what was missed", {**CLAIMED, "missedMore": " ".join([PAIR] * 20)}),
    put("a slot on a leap day", {**CLAIMED, "slot": "2024-02-29T09:00:00Z", "unfinished": "2024-02-29T09:00:00Z"}),
    put("a rerun of a tick before the slot", {**CLAIMED, "unfinished": "2026-11-18T08:59:59Z"}),
    # what was written without these bounds
    patch("pause a lock with wrong values", {"paused": True}, HARMED),
    patch("unlock a lock with wrong values", {"expiresAt": 0}, HARMED),
    put("renew a lock with wrong values", {**HARMED, "expiresAt": NOW + 60_000}, HARMED),
    put(
        "release a lock with wrong values",
        {**without(HARMED, "unfinished"), "releasedAt": NOW, "expiresAt": NOW},
        HARMED,
    ),
    put(
        "unlock a wrong minimum hold",
        {**HARMED, "releasedAt": 1e15, "expiresAt": 0},
        {**HARMED, "releasedAt": 1e15},
    ),
    *(patch(f"mend a wrong {name}", {name: value}, HARMED) for name, value in MENDED.items()),
    put("mend all", {**HARMED, **MENDED, "expiresAt": NOW, "unfinished": MENDED["slot"]}, HARMED),
    patch("mend a wrong expiry", {"expiresAt": NOW}, {**HARMED, "expiresAt": NOW + DAY + MINUTE + 1}),
    patch("mend a wrong minimum hold", {"expiresAt": NOW}, {**HARMED, "releasedAt": NOW}),
    patch("pause a job with a kind", {"paused": True}, {**RUNNING, "kind": 7}),
    patch("mend a fence that can hardly rise", {"fence": NOW}, {**RUNNING, "fence": 9 * 10**15}),
    patch("mend a slot of the next century", {"slot": GOOD_SLOT}, {**RUNNING, "slot": "2100-01-01T00:00:00Z"}),
    put("rerun a tick whose attempt is wrong", {**CLAIMED, "attempt": -4}, {**RELEASED, "attempt": -5}),
    patch("remark something in a wrong run", {"remark": 1}, WRONG_RUN, RUN),
    put("change a word of a wrong run", {**WRONG_RUN, "outcome": "lost"}, WRONG_RUN, RUN),
    put("change a wrong count's outcome", {**UNRUN, "count": -1, "outcome": "skipped"}, {**UNRUN, "count": -1}, RUN),
    put("change a run under a wrong key", {**RAN, "outcome": "lost"}, RAN, "cron-runs/job/9999"),
    patch("beat with wrong numbers", {**WRONG_BEAT, "seenAt": STAMP}, WRONG_BEAT, INSTANCE),
    # reading
    *(get(f"read {path}", path) for path in ("cron-locks", "cron-locks/job", "cron-runs/job", TICK, *SHARED)),
]

OF_STRANGERS = (
    "record a step of a tick",
    "prune the steps of one tick",
    "take a lock that is not there",
    "release a plain lock",
    "record a run",
    "ask for the time",
    "take a ticket",
    "remove a counter",
    "record an act",
    "prune an act",
    "declare a job",
    "forget a job",
)
STRANGERS = {"nobody": None, "another user": {"uid": "somebody"}, "a user without a uid": {"admin": True}}
ILL_SLOTS = [
    NOW,
    "soon",
    GOOD_SLOT[:-1],
    f"{GOOD_SLOT}x",
    f"x{GOOD_SLOT}",
    GOOD_SLOT.replace("T", " "),
    "1999-12-31T23:59:59Z",
    "2026-00-18T09:00:00Z",
    "2026-11-00T09:00:00Z",
    "2026-11-18T24:00:00Z",
    "2026-11-18T09:60:00Z",
    "2026-11-18T09:00:60Z",
    *IMPOSSIBLE,
]


def _ill_typed() -> list[Row]:
    """Each field with a value of another type."""
    rows = [
        put(f"a lock's {field} that is {value!r}", {**CLAIMED, field: value})
        for field, value in [
            *((field, "1") for field in ("acquiredAt", "attempt", "expiresAt", "fence", "releasedAt")),
            *((field, 1) for field in ("holder", "instance", "instanceId", "kind", "outcome", "renews", "cancelWhy")),
            ("cancelWhy", "w" * 501),
            *((field, value) for field in ("slot", "succeededSlot", "unfinished", *MISSED) for value in ILL_SLOTS),
            ("succeededSlot", "2026-11-18T09:00:01Z"),
            *(("missedMore", value) for value in ILL_PAIRS),
        ]
    ]
    rows += [
        put(f"a run's {field} that is {value!r}", {**RAN, field: value}, path=RUN)
        for field, value in [
            *((field, "1") for field in ("attempt", "count", "durationMs", "endedAt", "fence", "startedAt", "atLeast")),
            *((field, 1) for field in ("error", "instance", "instanceId", "note", "outcome", "recordedBy", "trigger")),
            ("note", "n" * 1_001),
            *(("slot", value) for value in ILL_SLOTS),
        ]
    ]
    rows += [
        patch(f"a group's {field} that is {str(value)[:20]!r}", {**TOLD, field: value}, path=GROUP)
        for field, value in [
            ("firstSeenAt", "1"),
            ("heartbeat", "30"),
            *((field, 1) for field in ("jobs", "schedules", "service")),
            ("jobs", "j" * 100_001),
            ("schedules", "s" * 200_001),
            ("service", "s" * 1_001),
        ]
    ]
    rows += [
        patch(f"a job's {field} that is {str(value)[:20]!r}", {**DECLARED, field: value}, path=ENTRY)
        for field, value in [
            *((field, "1") for field in ("alertAfter", "expectedRuntime", "grace", "since", "declaredAt")),
            *((field, 1) for field in ("disabled", "oncePerTick", "ticks", *LENGTHS)),
            *((field, "x" * (most + 1)) for field, most in LENGTHS.items()),
        ]
    ]
    rows += [
        patch(f"a job's {field} that is {value!r}", {**EVERY, field: value}, path=ENTRY)
        for field, value in [("every", "1"), ("starting", 1), ("starting", f"{GOOD_START}x"), ("starting", "x" * 21)]
    ]
    beats = [("instanceId", 1), ("jobs", "1"), ("running", "1"), ("startedAt", "1"), ("seenAt", "1")]
    return rows + [patch(f"a beat's {field} that is {value!r}", {**BEAT, field: value}, path=INSTANCE)
                   for field, value in beats]  # fmt: skip


FORBIDDEN = [
    # 1. slots and fences
    put("a slot falls", {**CLAIMED, "slot": "2026-11-18T08:59:49Z"}, RELEASED),
    put("a slot vanishes", without(CLAIMED, "slot"), RELEASED),
    put("a slot falls under its holder", {**RUNNING, "slot": "2026-11-18T08:59:49Z"}, RUNNING),
    put("a fence falls", {**CLAIMED, "fence": NOW - 10_001}, RELEASED),
    put("a fence vanishes", without(CLAIMED, "fence"), RELEASED),
    patch("a fence is taken away", {"fence": None}, RUNNING),
    # 1. successes
    put("a success falls", {**CLAIMED, "succeededSlot": OLDER}, {**RELEASED, "succeededSlot": RELEASED["slot"]}),
    put("a success vanishes", CLAIMED, {**RELEASED, "succeededSlot": OLDER}),
    patch("a success is taken away", {"succeededSlot": None}, {**RUNNING, "succeededSlot": OLDER}),
    put("a success of a lock without a slot", {**TAKEN, "fence": NOW, "succeededSlot": OLDER}),
    # 1. kinds
    put("a kind vanishes", without({**LED, "fence": NOW + 1}, "kind"), {**LED, "expiresAt": NOW}),
    patch("a kind becomes another", {"kind": "once"}, LED),
    patch("a kind is no word", {"kind": 7}),
    put("a leader has a slot", {**CLAIMED, "kind": "leader"}),
    # 2. the same acquisition
    patch("a cancel names a higher fence", {"cancel": NOW - 9_999}, RUNNING),
    patch("a cancel names a lower fence", {"cancel": NOW - 10_001}, RUNNING),
    patch("a cancel of a lock without a fence", {"cancel": NOW}, HELD),
    put("a release is undone", without(RELEASED, "releasedAt"), RELEASED),
    put("a release is undone in a minimum hold", HELD, {**HELD, "releasedAt": NOW - 1, "expiresAt": NOW + 90_000}),
    patch("a release is moved", {"releasedAt": NOW - 4_999}, RELEASED),
    # 2. a live lock that is made to look expired, to be taken by the next write
    patch("an expiry is moved into the past", {"expiresAt": NOW - 1}, RUNNING),
    patch("an expiry is moved a little nearer", {"expiresAt": NOW + 49_999}, HELD),
    patch("the original's expiry is taken away", {"expiresAt": None}, ORIGINAL),
    patch("the original is released without an expiry", {"expiresAt": None, "releasedAt": NOW}, ORIGINAL),
    patch("the greatest expiry is moved nearer", {"expiresAt": NOW}, {**RUNNING, "expiresAt": NOW + DAY + MINUTE}),
    patch(
        "a minimum hold is cut short", {"expiresAt": NOW}, {**HELD, "releasedAt": NOW - 1, "expiresAt": NOW + 90_000}
    ),
    patch(
        "a minimum hold is made longer",
        {"expiresAt": NOW + 90_001},
        {**HELD, "releasedAt": NOW - 1, "expiresAt": NOW + 90_000},
    ),
    # 3. another acquisition
    put("a live lock is taken, a millisecond early", CLAIMED, {**RUNNING, "expiresAt": NOW + 1}),
    put("a live plain lock is taken", TAKEN, HELD),
    put("a live lock of the original is taken", TAKEN, ORIGINAL),
    put("a live lock is taken by its holder's token", {**TAKEN, "holder": "theirs"}, HELD),
    put("a live lock is taken in its holder's instant", {**HELD, "holder": "mine"}, HELD),
    put("a live lock is given to nobody", without(HELD, "holder"), HELD),
    patch("a live lock's holder is replaced", {"holder": "mine"}, RUNNING),
    put("a cancelled tick is rerun", RERUN, {**CANCELLED, "expiresAt": NOW}),
    put("a cancelled tick is rerun after a release", RERUN, {**CANCELLED, "releasedAt": NOW - 1, "expiresAt": NOW - 1}),
    put(
        "a run by hand leaves a cancelled tick unfinished",
        {**RUNNING, **TAKEN, "fence": NOW},
        {**CANCELLED, "expiresAt": NOW},
    ),
    put("a minimum hold is ignored", CLAIMED, {**RELEASED, "expiresAt": NOW + 60_001}),
    put("a paused lock is taken", {**CLAIMED, "paused": True}, {**RELEASED, "paused": True}),
    put("a lock that is paused with a word is taken", TAKEN, {"paused": "no"}),
    put("a lock that is paused with a list is taken", TAKEN, {"paused": {"by": "Ann"}}),
    put("a lock is taken before its pause ends", {**CLAIMED, **PAUSED}, {**RELEASED, **PAUSED}),
    *(
        put(
            f"a lock that is paused until {until} is taken",
            {**TAKEN, **OVER, "pausedUntil": until},
            {**OVER, "pausedUntil": until},
        )
        for until in (NOW + 60_001, "soon", True, 946_684_799_999)
    ),
    put("a pause is taken away with the lock", CLAIMED, {**RELEASED, "paused": True}),
    put("a fence falls that can rise for ages", {**CLAIMED, "fence": NOW}, {**RELEASED, "fence": 9 * 10**15 - 1}),
    put(
        "a slot falls that may come to be", {**CLAIMED, "slot": GOOD_SLOT}, {**RELEASED, "slot": "2099-12-31T23:59:59Z"}
    ),
    patch("a wrong slot vanishes", {"slot": None}, HARMED),
    *(
        put(
            f"the count of failures goes from {before!r} to {after!r}",
            {**FAILED, "failures": after},
            {**RUNNING, "failures": before},
        )
        for before, after in ((2, 4), (2, 1), (2, 0), (2, "3"), (-1, 0), ("many", 2))
    ),
    put("the count of failures begins with 2", FAILED, RUNNING),
    # 4. deletions
    delete("a node with a slot is deleted", without(RUNNING, "fence")),
    delete("a node with a fence is deleted", without(RUNNING, "slot", "unfinished")),
    delete("a minimum hold is deleted", {**HELD, "releasedAt": NOW - 1}),
    delete("a paused lock is deleted", {**HELD, "paused": True}),
    put("a node with a slot is put to nothing", {}, RUNNING),
    # what is written
    put("a lock with a digit in front", TAKEN, path="cron-locks/1job"),
    put("a lock with a space in its name", TAKEN, path="cron-locks/my job"),
    put("a lock with a name of 101 characters", TAKEN, path=f"cron-locks/{LONGEST}j"),
    put("a text in place of a record", "locked"),
    put("a holder without an expiry", without(TAKEN, "expiresAt")),
    patch("an expiry is taken away", {"expiresAt": None}, RUNNING),
    patch("a pause by a number", {"pausedBy": 7}, RUNNING),
    patch("a pause by too long a name", {"pausedBy": "w" * 201}, RUNNING),
    patch("a pause for a number", {"pausedWhy": 7}, RUNNING),
    patch("a pause for too long a reason", {"pausedWhy": "w" * 501}, RUNNING),
    patch("a pause until a word", {"pausedUntil": "soon"}, RUNNING),
    put("an act is changed", {**DONE, "who": "eve@laptop"}, DONE, ACT),
    *(put(f"an act without {name}", without(DONE, name), path=ACT) for name in ("act", "at", "name", "who")),
    *(
        put(f"an act whose {name} is {value!r:.20}", {**DONE, name: value}, path=ACT)
        for name, value in (
            ("act", 7),
            ("act", "a" * 51),
            ("name", "my job"),
            ("name", f"{LONGEST}j"),
            ("who", 7),
            ("who", "w" * 201),
            ("why", 7),
            ("why", "w" * 501),
        )
    ),
    *(
        put(f"an act under the key {key}", DONE, path=f"cron-acts/{key}")
        for key in (
            "latest",
            ACT[10:30],
            ACT[10:34],
            f"{ACT[10:]}0",
            f"{ACT[10:-1]}g",
            *(f"{day}-000-a1b2c3" for day in IMPOSSIBLE),
        )
    ),
    put("a run of no job", RAN, path=RUN.replace("job", "1job")),
    put("a run of a job with too long a name", RAN, path=RUN.replace("job", f"{LONGEST}j")),
    put("a run under a key that is no instant", RAN, path="cron-runs/job/latest"),
    put("a run without an outcome", without(RAN, "outcome"), path=RUN),
    put("an instance that was never seen", without(BEAT, "seenAt"), path=INSTANCE),
    put("an instance that is seen in the future", {**BEAT, "seenAt": NOW + 1}, path=INSTANCE),
    put("a clock without a time", {"note": 1}, path="cron-instances/clock"),
    *(
        patch(f"a counter that goes from 7 to {beats}", {**TICKET, "beats": beats}, COUNTED, GROUP)
        for beats in (6, 9, "8", None)
    ),
    patch("a counter that begins with 2", {**TICKET, "beats": 2}, path=GROUP),
    patch("a counter without a time", {"beats": ONE_MORE}, path=GROUP),
    *(
        patch(f"a ticket at {later} ms", {**TICKET, "seenAt": NOW + later}, {**COUNTED, "seenAt": NOW}, GROUP)
        for later in (-1, 1)
    ),
    patch("a ticket without a time", {"beats": ONE_MORE}, COUNTED, GROUP),
    *(
        patch(f"a ticket of the group {name}", TICKET, path=f"cron-groups/{name}")
        for name in ("0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0123456789abcdeg")
    ),
    *(
        delete(f"remove a counter with the time {at}", {**COUNTED, "seenAt": at}, GROUP)
        for at in (NOW, NOW - HOUR, "long ago")
    ),
    # the catalogue
    *(
        patch(f"a job without its {'and '.join(names)}", without(DECLARED, *names), path=ENTRY)
        for names in (("since",), ("service",), ("ticks",), ("where",), ("declaredAt",), ("line",), ("timezone",))
    ),
    *(
        patch(f"a job declared {later} ms later", {**DECLARED, "declaredAt": NOW + later}, path=ENTRY)
        for later in (-1, 1)
    ),
    patch("a job of a line and a distance", {**DECLARED, "every": 60}, path=ENTRY),
    patch("a job with a field that is changed alone", {"grace": 5}, {**DECLARED, "declaredAt": NOW - 9}, ENTRY),
    patch("a job with a digit in front", DECLARED, path="cron-jobs/1job"),
    patch("a job with a name of 101 characters", DECLARED, path=f"cron-jobs/{LONGEST}j"),
    *_ill_typed(),
    # numbers and instants
    *(
        patch(f"{name} = {value} in {path}", {**node, name: value}, path=path, beside=beside_of(path))
        for path, node, name, least, greatest in BOUNDS
        for value in (least - 1, greatest + 1)
    ),
    *_a_day_ahead(1),
    put("a fence that leaps", {**CLAIMED, "fence": NOW + 60_002}, {**RELEASED, "fence": NOW + 60_000}),
    put(
        "a run's fence that is beyond the lock's",
        {**RAN, "fence": 9 * 10**12 + 1},
        path=RUN,
        beside={"cron-locks/job": {**RELEASED, "fence": 9 * 10**12}, "cron-locks/job2": {"fence": 10**13}},
    ),
    *(put(f"a run under the key {key}", {"outcome": "missed"}, path=f"cron-runs/job/{key}") for key in IMPOSSIBLE),
    put("a run of another slot", {**RAN, "slot": "2026-11-18T08:59:00Z"}, path=RUN),
    put("a run of a part of its slot", {**RAN, "slot": "2026-11-18"}, path=RUN),
    # the steps
    put("a step without its lock", DID, path=STEP),
    put("a step of another job", DID, path=STEP.replace("job", "job2"), beside=LOCKED),
    put("a zombie's step", {**DID, "fence": NOW - 10_001}, path=STEP, beside=LOCKED),
    put("a step of a fence to come", {**DID, "fence": NOW}, path=STEP, beside=LOCKED),
    put("a step after the release", DID, path=STEP, beside={"cron-locks/job": RELEASED}),
    put("a result in place of one's own", {**DID, "result": "2"}, DID, STEP, beside=LOCKED),
    put("a zombie's result in place of its successor's", DID, {**DID, "fence": NOW}, STEP, beside=LOCKED),
    put("an intent in place of a result", CALLED, DID, STEP, beside=LOCKED),
    put("a result without its time", without(DID, "doneAt"), path=STEP, beside=LOCKED),
    put("a time without a result", without(DID, "result"), path=STEP, beside=LOCKED),
    put("a step without its start", without(DID, "startedAt"), path=STEP, beside=LOCKED),
    put("a step that is a text", "done", path=STEP, beside=LOCKED),
    put("a fence that is none in the lock either", without(DID, "fence"), path=STEP, beside={"cron-locks/job": HELD}),
    put(
        "a fence that is a text in the lock, too",
        {**DID, "fence": "1"},
        path=STEP,
        beside={"cron-locks/job": {**RUNNING, "fence": "1"}},
    ),
    put("a result that is too long", {**DID, "result": "x" * 65_537}, path=STEP, beside=LOCKED),
    put("a result that is no text", {**DID, "result": 1}, path=STEP, beside=LOCKED),
    put("an attempt that is a text", {**DID, "attempt": "1"}, path=STEP, beside=LOCKED),
    put("an instance that is a number", {**DID, "instance": 1}, path=STEP, beside=LOCKED),
    put("a step done at a text", {**DID, "doneAt": "1"}, path=STEP, beside=LOCKED),
    put("a step started at a text", {**DID, "startedAt": "1"}, path=STEP, beside=LOCKED),
    put("a step of no tick", DID, path="cron-steps/job/latest/x", beside=LOCKED),
    put("a step of a part of a tick", DID, path="cron-steps/job/2026-11-18/x", beside=LOCKED),
    put("a step of a tick and more", DID, path=f"{TICK}-manual/x", beside=LOCKED),
    put("a step of no job", DID, path=STEP.replace("job", "1job"), beside={"cron-locks/1job": RUNNING}),
    put(
        "a step of a job with too long a name",
        DID,
        path=STEP.replace("job", f"{LONGEST}j"),
        beside={f"cron-locks/{LONGEST}j": RUNNING},
    ),
    put("all steps of a tick", {"a": DID}, path=TICK, beside=LOCKED),
    patch(
        "an intent is deleted beside a lock without a fence",
        {"a": None},
        {"a": CALLED, "b": CALLED},
        TICK,
        {"cron-locks/job": HELD},
    ),
    patch("one of two steps is deleted", {"a": None}, {"a": DID, "b": DID}, TICK, LOCKED),
    Row("the unfinished tick is deleted", "DELETE", None, {"a": DID}, TICK, OVERRIDE, beside=LOCKED),
    delete("what was done once is deleted", {"done": DID}, "cron-steps/job/once"),
    delete("all steps of a job are deleted", {TICK[-20:]: {"a": DID}}, "cron-steps/job"),
    # other paths
    get("read everything", ""),
    put("write everything", {"cron-locks": {"job": TAKEN}}, path=""),
    put("write beside", 1, path="orders/1"),
    *(
        put(f"write all of {path}", {"a": {"b": 1}}, path=path)
        for path in ("cron-locks", "cron-runs", "cron-steps", *SHARED)
    ),
    put("write all runs of a job", {RUN[-20:]: RAN}, path="cron-runs/job"),
    *(
        delete(f"delete all of {path}", {"a": {"b": 1}}, path)
        for path in ("cron-locks", "cron-runs", "cron-steps", *SHARED)
    ),
    delete("delete all runs of a job", {RUN[-20:]: RAN}, "cron-runs/job"),
    # other people
    *(
        Row(f"{who}: {row}", row.method, row.body, row.before, row.path, auth, beside=row.beside)
        for who, auth in STRANGERS.items()
        for row in LEGAL
        if row.title in OF_STRANGERS or row.method == "GET"
    ),
]

assert all(row.auth == OVERRIDE for row in LEGAL), "what is legal is so for one user"
