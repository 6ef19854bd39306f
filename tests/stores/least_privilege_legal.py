"""The requests that the shipped rules must let pass."""

from __future__ import annotations

from dataclasses import replace

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
    ORIGINAL,
    OVERRIDE,
    RAN,
    READER,
    RELEASED,
    RUNNING,
    STAMP,
    TAKEN,
    TICKET,
    TOLD,
    UNRUN,
    Node,
    delete,
    get,
    patch,
    put,
    without,
)
from tests.stores.least_privilege_values import (
    ACT,
    ASK,
    ASKED,
    ASKED_RESUME,
    ASKED_SLOT,
    BOUNDS,
    CANCELLED,
    CLAIMED_NOTICE,
    DAY,
    DONE,
    ENTRY,
    ERROR,
    EVERY,
    FAILED,
    GOOD_SLOT,
    GROUP,
    HOLD,
    HOLDS_ALL,
    HOLDS_SOME,
    HOUR,
    INSTANCE,
    LENGTHS,
    LONGEST,
    LONGEST_RUNBOOK,
    LONGEST_TEXT,
    MINUTE,
    MISSED,
    MUTE,
    MUTED,
    NOTICE,
    OLD_ASK,
    OLDER,
    OVER,
    PAIR,
    PAST,
    PAUSED,
    RECORDED,
    RERUN,
    RESUMED,
    RUN,
    SENT_NOTICE,
    SHARED,
    STEP,
    TAKEN_BY,
    TEXTS,
    TICK,
    WITH,
    a_day_ahead,
    beside_of,
)

OLD_ACT = "2026-11-18T08:00:00Z-999-ffffff"
OLD_HOLD = "cron-hold/fedcba987654"
WRONG_HOLD: Node = {**dict.fromkeys(HOLDS_SOME, 7), "at": "x", "until": NOW + 9}
FIRST_PAUSE: Node = {"paused": True, "pausedUntil": 946_684_800_000}
MISTYPED: Node = {
    **{name: {"by": "Ann"} for name in ("pausedAt", "pausedBy", "pausedUntil", "pausedWhy", "resumedAt")},
    "paused": True,
}
PAUSE_WORDS: Node = {
    **MISTYPED,
    "pausedAt": "now",
    "pausedBefore": 7,
    "pausedBy": 7,
    "pausedOver": 7,
    "pausedUntil": "soon",
    "pausedWhy": 8,
    "pausedWith": 7,
    "resumedAt": "x",
}
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
OBEYED = without(CANCELLED, "unfinished")
BY_HAND: Node = {**ENDED, **TAKEN, "fence": NOW}
TYPED: Node = {name: {"by": "Ann"} for name in ("cancel", "cancelWhy", "failures", "renews")}
WORDS: Node = {"cancel": "please", "cancelWhy": 7, "failures": "many", "renews": "never"}
SUCCEEDED: Node = {**ENDED, "releasedAt": NOW, "expiresAt": NOW}
NEWER = {"succeededSlot": RUNNING["slot"]}
# What rules could let happen that looked at one of the two fields only.
BOTH: Node = {**RUNNING, "kind": "leader"}
ONCE = "cron-steps/job/once/done"


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
    # holds and mutes
    put("hold all jobs", HOLDS_ALL, path=HOLD),
    put("hold some jobs", HOLDS_SOME, path=HOLD),
    put("take a hold back", {**HOLDS_SOME, "until": 0}, HOLDS_SOME, HOLD),
    put("take a hold back whose fields are wrong", {**WRONG_HOLD, "until": 0}, WRONG_HOLD, HOLD),
    delete("delete a hold that was taken back", {**HOLDS_ALL, "until": 0}, HOLD),
    delete("delete a hold that is over", {**HOLDS_ALL, "until": NOW}, HOLD),
    delete("delete what is no hold", {"until": "soon"}, HOLD),
    patch(
        "hold in its own write, with its act, and prune",
        {HOLD: HOLDS_ALL, OLD_HOLD: None, ACT: {**DONE, "act": "hold", "name": "every job"}},
        {"cron-hold": {OLD_HOLD[10:]: {**HOLDS_ALL, "until": NOW - 1}}},
        "",
    ),
    put("pause with a hold", {**RUNNING, **WITH}, RUNNING, beside={HOLD: HOLDS_ALL}),
    put("pause what is not there with a hold", WITH, beside={HOLD: HOLDS_ALL}),
    put(
        "renew what is paused with a hold that is gone",
        {**RUNNING, **WITH, "expiresAt": NOW + 60_000},
        {**RUNNING, **WITH},
    ),
    put("note the most pauses", {**RUNNING, "pausedBefore": " ".join([PAST] * 10)}, RUNNING),
    patch("note a pause in place of what was typed", {"pausedBefore": PAST}, {"pausedBefore": {"by": "Ann"}}),
    put("keep what was typed as a pause", {**HELD, "pausedBefore": "x"}, {**HELD, "pausedBefore": "x"}),
    put("resume from a hold", {**RUNNING, "resumedAt": NOW}, {**RUNNING, **WITH}),
    put("put a pause back", {**RUNNING, **PAUSED}, {**RUNNING, **WITH}),
    put(
        "pause with a hold in place of what was typed",
        {**HELD, **WITH},
        {**HELD, "pausedWith": {"by": "x"}, "pausedOver": {"by": "x"}},
        beside={HOLD: HOLDS_ALL},
    ),
    put(
        "pause in place of a hold that was typed",
        {"pausedOver": 1, "pausedWith": 1},
        {"pausedOver": {"a": 1}, "pausedWith": {"a": 1}},
    ),
    patch("resume as a version that knows no hold", RESUMED, {**RELEASED, **WITH}),
    put("mute a job", MUTED, path=MUTE),
    put("mute a job anew", MUTED, {**MUTED, "until": NOW - 1}, MUTE),
    put("mute a job of the longest name", MUTED, path=f"cron-mutes/{LONGEST}"),
    patch(
        "mute in its own write, with its act, and prune",
        {MUTE: MUTED, f"{MUTE}2": None, ACT: {**DONE, "act": "mute"}},
        {"cron-mutes": {"job2": {**MUTED, "until": NOW - 1}}},
        "",
    ),
    delete("unmute a job", MUTED, MUTE),
    delete("remove a mute that is over", {**MUTED, "until": NOW - HOUR}, MUTE),
    # what operators have asked for
    put("ask for a run", ASKED, path=ASK),
    put("ask for the run of a tick", ASKED_SLOT, path=ASK),
    put("ask for another attempt", ASKED_RESUME, path=ASK),
    put("ask for a job of the longest name", ASKED, path=f"cron-asks/{LONGEST}"),
    *(put(f"ask by a clock that is wrong by {ms} ms", {**ASKED, "at": NOW + ms}, path=ASK) for ms in (-MINUTE, MINUTE)),
    put("ask in place of what is over", ASKED, OLD_ASK, ASK),
    put("ask in place of what was taken and is over", ASKED, {**OLD_ASK, **TAKEN_BY}, ASK),
    put("ask in place of what was typed", ASKED, {"note": 1}, ASK),
    put("take an ask", {**ASKED, **TAKEN_BY}, ASKED, ASK),
    put("take an ask of a tick", {**ASKED_SLOT, **TAKEN_BY}, ASKED_SLOT, ASK),
    put(
        "take an ask in its last moment",
        {**ASKED, **TAKEN_BY, "at": NOW - 6 * MINUTE + 1},
        {**ASKED, "at": NOW - 6 * MINUTE + 1},
        ASK,
    ),
    delete("remove an ask that is taken", {**ASKED, **TAKEN_BY}, ASK),
    delete("remove an ask that is over", OLD_ASK, ASK),
    delete("remove what was typed as an ask", {"note": 1}, ASK),
    # what people were told
    put("claim a message", CLAIMED_NOTICE, path=NOTICE),
    put("claim one that was claimed before", CLAIMED_NOTICE, {**CLAIMED_NOTICE, "token": "other"}, NOTICE),
    put("note that a message was taken", SENT_NOTICE, CLAIMED_NOTICE, NOTICE),
    put("note the least that there is", {"changes": 0, "since": 0, "verdict": "ok"}, path=NOTICE),
    put("claim a message of a job of the longest name", CLAIMED_NOTICE, path=f"cron-told/{LONGEST}"),
    patch("forget what was told of a job", {"job": None}, {"job": SENT_NOTICE}, "cron-told"),
    put("record an act", DONE, path=ACT),
    put("record an act without a reason", without(DONE, "why"), path=ACT),
    put("record an act on a name of 161 characters", {**DONE, "name": f"{LONGEST}:{'k' * 60}"}, path=ACT),
    put("record that a key was forgotten that can name no job", {**DONE, "act": "forget", "name": "a b<b>"}, path=ACT),
    patch("record an act and prune", {ACT[-31:]: DONE, OLD_ACT: None}, {OLD_ACT: DONE}, "cron-acts"),
    delete("prune an act", DONE, ACT),
    patch("resume a job", {"paused": None}, {**RELEASED, "paused": True}),
    patch("resume what was only paused", {"paused": None}, {"paused": True}),
    patch("unlock", {"expiresAt": 0}, RUNNING),
    # the history
    put("record a run", RAN, path=RUN),
    put("record a tick that did not run", UNRUN, path=RUN),
    put("record a run in place of a lower fence", {**RAN, "note": "x"}, UNRUN, path=RUN),
    *(
        put(f"record a run with the longest {name}", {**RAN, name: "\U0001f4ec" * 500}, path=RUN)
        for name in ("error", "note")
    ),
    patch("remark something beside a note of another kind", {"note": 7, "remark": 1}, {**RAN, "note": 7}, RUN),
    put("record a run by hand", without(RAN, "slot"), path=f"{RUN}-manual-a1b2c3"),
    patch("prune", {RUN[-20:]: None, "stray": None}, {RUN[-20:]: RAN, "stray": 1, "kept": 2}, "cron-runs/job"),
    put("keep a traceback of a run that is recorded", "x" * 4_000, path=ERROR, beside=RECORDED),
    put("keep one of a run by hand", "x", path=f"{ERROR}-manual-a1b2c3", beside={f"{RUN}-manual-a1b2c3": RAN}),
    put("keep one in place of an earlier attempt's", "x", "y", ERROR, beside=RECORDED),
    patch("keep one among others", {ERROR[-20:]: "x"}, {"other": "y"}, "cron-errors/job", RECORDED),
    delete("remove the traceback of an earlier attempt", "x", ERROR),
    patch(
        "prune a traceback with its entry",
        {RUN: None, ERROR: None},
        {"cron-runs": {"job": {RUN[-20:]: RAN}}, "cron-errors": {"job": {RUN[-20:]: "x"}}},
        "",
    ),
    delete("forget the tracebacks of a job", {RUN[-20:]: "x", "other": "y"}, "cron-errors/job"),
    # the steps
    put("record a step of a tick", DID, path=STEP, beside=LOCKED),
    put("record a step of a run by hand", DID, path=f"{TICK}-manual-a1b2c3/charge 42", beside=LOCKED),
    put("record a lock's own work", DID, path=ONCE, beside=LOCKED),
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
    put("record the longest result", {**DID, "result": f'"{"x" * 65_534}"'}, path=STEP, beside=LOCKED),
    *(
        put(f"record the result {text}", {**DID, "result": text}, path=STEP, beside=LOCKED)
        for text in ("[]", "{}", '""', "-1", "0.5", "true", "false", "null", "NaN", "Infinity", '"a\u2028b"')
    ),
    *(
        delete(f"delete what {why}, so that it is done again", {**DID, "result": result}, ONCE)
        for why, result in (("nobody can read", "done"), ("is no text", 7), ("has no result", None))
    ),
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
        {**DECLARED, **{name: "x" * most for name, most in LENGTHS.items()}, "runbook": LONGEST_RUNBOOK},
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
    *a_day_ahead(0),
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
    put("unlock a wrong minimum hold", {**HARMED, "releasedAt": 1e15, "expiresAt": 0}, {**HARMED, "releasedAt": 1e15}),
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
    *(
        patch(f"renew beside too long a {name}", {"expiresAt": NOW + 60_000}, {**HELD, name: "x" * 1_001})
        for name in ("holder", "instance", "instanceId", "outcome")
    ),
    patch("remove a kind beside a slot", {"kind": None}, BOTH),
    patch("remove a slot beside a kind", {"slot": None}, BOTH),
    patch("remove a kind that is none", {"kind": None}, {**RELEASED, "kind": "junk"}),
    put("renew beside a kind and a slot", {**BOTH, "expiresAt": NOW + 60_000}, BOTH),
    # texts
    *(
        patch(f"the longest {name} in {path}", {**node, name: "x" * LONGEST_TEXT}, path=path, beside=beside_of(path))
        for path, node, name in TEXTS
    ),
    *(
        patch(f"leave too long a {name} in {path}", {"remark": 1}, {**node, name: "x" * (LONGEST_TEXT + 1)}, path)
        for path, node, name in TEXTS
        if path == RUN
    ),
    patch("beat with too long a name", {"seenAt": STAMP}, {**BEAT, "instanceId": "x" * 1_001}, INSTANCE),
    # reading
    *(
        replace(get(f"read {path} as {auth['uid']}", path), auth=auth)
        for auth in (OVERRIDE, READER)
        for path in ("cron-locks", "cron-locks/job", "cron-runs/job", "cron-errors/job", "cron-acts", TICK, *SHARED)
    ),
]
assert all(row.auth == OVERRIDE or (row.auth == READER and row.method == "GET") for row in LEGAL), "a reader reads"
