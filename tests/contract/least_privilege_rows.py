"""The requests that the shipped rules must let pass, and those that they must refuse."""

from __future__ import annotations

from tests.contract.least_privilege import (
    BEAT,
    CLAIMED,
    ENDED,
    HELD,
    NOW,
    ORIGINAL,
    OVERRIDE,
    RAN,
    RELEASED,
    RUNNING,
    STAMP,
    TAKEN,
    UNRUN,
    Row,
    delete,
    get,
    patch,
    put,
    without,
)

RUN = "cron-runs/job/2026-11-18T09:00:00Z"
INSTANCE = "cron-instances/00bf4b9c3f2a-a1b2c3"
LONGEST = "j" * 100

LEGAL = [
    # acquire
    put("take a lock that is not there", TAKEN),
    put("claim the first tick", CLAIMED),
    put("take a lock with a name of 100 characters", TAKEN, path=f"cron-locks/{LONGEST}"),
    put("take a lock beside somebody's notes", {**TAKEN, "note": {"a": "b"}}, {"note": {"a": "b"}}),
    put("take a lock that was resumed", {**TAKEN, "paused": False}, {"paused": False}),
    put("take a dead holder's lock at its expiry", CLAIMED, {**RUNNING, "expiresAt": NOW}),
    put("take a lock that was unlocked", CLAIMED, {**RUNNING, "expiresAt": 0}),
    put("take a lock of which an operator left only that", TAKEN, {"expiresAt": 0}),
    put("take an expired lock of the original", TAKEN, {**ORIGINAL, "expiresAt": NOW}),
    put("take a released lock", CLAIMED, RELEASED),
    put("take it the greatest margin before a minimum hold ends", CLAIMED, {**RELEASED, "expiresAt": NOW + 60_000}),
    put("rerun a tick", {**CLAIMED, "slot": RUNNING["slot"], "attempt": 2}, {**RUNNING, "expiresAt": NOW}),
    put("run by hand, and touch no tick", {**RELEASED, **TAKEN, "missedAfter": "2026-11-18T08:59:55Z"}, RELEASED),
    put("take it again with the same token", {**CLAIMED, "holder": "theirs"}, RELEASED),
    # renew and release
    put("renew", {**RUNNING, "expiresAt": NOW + 60_000}, RUNNING),
    put("renew what an operator has edited", {**HELD, "acquired": 9, "paused": "Ann"}, {**HELD, "paused": "Ann"}),
    put("release a tick", {**ENDED, "releasedAt": NOW, "expiresAt": NOW}, RUNNING),
    put("release into a minimum hold", {**HELD, "releasedAt": NOW}, HELD),
    put("release while it is paused", {**HELD, "releasedAt": NOW, "paused": "Ann"}, {**HELD, "paused": "Ann"}),
    put("release after the expiry", {**ENDED, "releasedAt": NOW, "expiresAt": NOW}, {**RUNNING, "expiresAt": 1}),
    delete("release a plain lock", HELD),
    # operators' commands
    patch("pause a running job", {"paused": True}, RUNNING),
    patch("pause a released lock", {"paused": True}, RELEASED),
    patch("pause a lock that is not there", {"paused": True}),
    patch("pause a lock of the original", {"paused": True}, ORIGINAL),
    patch("resume a job", {"paused": None}, {**RELEASED, "paused": True}),
    patch("resume what was only paused", {"paused": None}, {"paused": True}),
    patch("unlock", {"expiresAt": 0}, RUNNING),
    # the history
    put("record a run", RAN, path=RUN),
    put("record a tick that did not run", UNRUN, path=RUN),
    put("record a run in place of a lower fence", {**RAN, "note": "x"}, UNRUN, path=RUN),
    put("record a run by hand", without(RAN, "slot"), path=f"{RUN}-manual-a1b2c3"),
    patch("prune", {RUN[-20:]: None, "stray": None}, {RUN[-20:]: RAN, "stray": 1, "kept": 2}, "cron-runs/job"),
    # signs of life
    patch("beat for the first time", {**BEAT, "startedAt": STAMP}, path=INSTANCE),
    patch("beat", {**BEAT, "version": "1"}, {**BEAT, "seenAt": NOW - 9}, INSTANCE),
    put("ask for the time", STAMP, path="cron-instances/clock/seenAt"),
    patch("remove dead instances", {"a": None, "clock": None}, {"a": BEAT, "clock": {"seenAt": 1}}, "cron-instances"),
    # reading
    *(get(f"read {path}", path) for path in ("cron-locks", "cron-locks/job", "cron-runs/job", "cron-instances")),
]

STRANGERS = {"nobody": None, "another user": {"uid": "somebody"}, "a user without a uid": {"admin": True}}
GOOD_SLOT = str(CLAIMED["slot"])
ILL_SLOTS = [NOW, "soon", GOOD_SLOT[:-1], f"{GOOD_SLOT}x", f"x{GOOD_SLOT}", GOOD_SLOT.replace("T", " ")]


def _ill_typed() -> list[Row]:
    """Each field with a value of another type."""
    rows = [
        put(f"a lock's {field} that is {value!r}", {**CLAIMED, field: value})
        for field, value in [
            *((field, "1") for field in ("acquiredAt", "attempt", "expiresAt", "fence", "releasedAt")),
            *((field, 1) for field in ("holder", "instance", "instanceId", "outcome")),
            *((field, value) for field in ("slot", "unfinished", "missedAfter") for value in ILL_SLOTS),
        ]
    ]
    rows += [
        put(f"a run's {field} that is {value!r}", {**RAN, field: value}, path=RUN)
        for field, value in [
            *((field, "1") for field in ("attempt", "count", "durationMs", "endedAt", "fence", "startedAt", "atLeast")),
            *((field, 1) for field in ("error", "instance", "instanceId", "outcome", "recordedBy", "trigger")),
            *(("slot", value) for value in ILL_SLOTS),
        ]
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
    # 2. the same acquisition
    put("a release is undone", without(RELEASED, "releasedAt"), RELEASED),
    put("a release is undone in a minimum hold", HELD, {**HELD, "releasedAt": NOW - 1, "expiresAt": NOW + 90_000}),
    # 3. another acquisition
    put("a live lock is taken, a millisecond early", CLAIMED, {**RUNNING, "expiresAt": NOW + 1}),
    put("a live plain lock is taken", TAKEN, HELD),
    put("a live lock of the original is taken", TAKEN, ORIGINAL),
    put("a live lock is taken by its holder's token", {**TAKEN, "holder": "theirs"}, HELD),
    put("a live lock is taken in its holder's instant", {**HELD, "holder": "mine"}, HELD),
    put("a live lock is given to nobody", without(HELD, "holder"), HELD),
    patch("a live lock's holder is replaced", {"holder": "mine"}, RUNNING),
    put("a minimum hold is ignored", CLAIMED, {**RELEASED, "expiresAt": NOW + 60_001}),
    put("a paused lock is taken", {**CLAIMED, "paused": True}, {**RELEASED, "paused": True}),
    put("a lock that is paused with a word is taken", TAKEN, {"paused": "no"}),
    put("a lock that is paused with a list is taken", TAKEN, {"paused": {"by": "Ann"}}),
    put("a pause is taken away with the lock", CLAIMED, {**RELEASED, "paused": True}),
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
    put("a run of no job", RAN, path=RUN.replace("job", "1job")),
    put("a run of a job with too long a name", RAN, path=RUN.replace("job", f"{LONGEST}j")),
    put("a run under a key that is no instant", RAN, path="cron-runs/job/latest"),
    put("a run without an outcome", without(RAN, "outcome"), path=RUN),
    put("an instance that was never seen", without(BEAT, "seenAt"), path=INSTANCE),
    put("an instance that is seen in the future", {**BEAT, "seenAt": NOW + 1}, path=INSTANCE),
    put("a clock without a time", {"note": 1}, path="cron-instances/clock"),
    *_ill_typed(),
    # other paths
    get("read everything", ""),
    put("write everything", {"cron-locks": {"job": TAKEN}}, path=""),
    put("write beside", 1, path="orders/1"),
    *(
        put(f"write all of {path}", {"a": {"b": 1}}, path=path)
        for path in ("cron-locks", "cron-runs", "cron-instances")
    ),
    put("write all runs of a job", {RUN[-20:]: RAN}, path="cron-runs/job"),
    *(delete(f"delete all of {path}", {"a": {"b": 1}}, path) for path in ("cron-locks", "cron-runs", "cron-instances")),
    delete("delete all runs of a job", {RUN[-20:]: RAN}, "cron-runs/job"),
    # other people
    *(
        Row(f"{who}: {row}", row.method, row.body, row.before, row.path, auth)
        for who, auth in STRANGERS.items()
        for row in LEGAL
        if row.title in ("take a lock that is not there", "release a plain lock", "record a run", "ask for the time")
        or row.method == "GET"
    ),
]

assert all(row.auth == OVERRIDE for row in LEGAL), "what is legal is so for one user"
