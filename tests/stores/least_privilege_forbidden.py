"""The requests that the shipped rules must refuse."""

from __future__ import annotations

from tests.stores.least_privilege import (
    BEAT,
    CALLED,
    CLAIMED,
    COUNTED,
    DECLARED,
    DID,
    HARMED,
    HELD,
    LED,
    LOCKED,
    NOW,
    ONE_MORE,
    ORIGINAL,
    OVERRIDE,
    RAN,
    READER,
    RELEASED,
    RUNNING,
    TAKEN,
    TICKET,
    Row,
    delete,
    get,
    patch,
    put,
    without,
)
from tests.stores.least_privilege_ill_typed import ill_typed
from tests.stores.least_privilege_legal import LEGAL
from tests.stores.least_privilege_values import (
    ACT,
    ASK,
    ASKED,
    ASKED_SLOT,
    BOUNDS,
    CANCELLED,
    DAY,
    DONE,
    ENTRY,
    ERROR,
    FAILED,
    GOOD_SLOT,
    GROUP,
    HOLD,
    HOLDS_ALL,
    HOLDS_SOME,
    HOUR,
    IMPOSSIBLE,
    INSTANCE,
    LONGEST,
    MINUTE,
    MUTE,
    MUTED,
    NOTICE,
    OLD_ASK,
    OLDER,
    OVER,
    PAST,
    PAUSED,
    RECORDED,
    RERUN,
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

OF_STRANGERS = (
    "record a step of a tick", "prune the steps of one tick", "take a lock that is not there", "release a plain lock",
    "record a run", "ask for the time", "take a ticket", "remove a counter", "record an act", "prune an act",
    "declare a job", "forget a job", "keep a traceback of a run that is recorded",
    "remove the traceback of an earlier attempt", "forget the tracebacks of a job",
    "hold all jobs", "take a hold back", "delete a hold that is over", "mute a job", "unmute a job",
    "claim a message", "forget what was told of a job",
    "ask for a run", "take an ask", "remove an ask that is taken",
)  # fmt: skip
STRANGERS = {"nobody": None, "another user": {"uid": "somebody"}, "a user without a uid": {"admin": True}}
SECOND_SLOT = {"slot": RUNNING["slot"]}
FENCED = without(RELEASED, "slot", "outcome")


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
    patch("a kind of what is done once is taken away", {"kind": None}, {**LED, "kind": "once"}),
    patch("a kind becomes another in place of none", {"kind": "leader"}, {**FENCED, "kind": "junk"}),
    put("a kind is no word", {**LED, "kind": 7}),
    *(put(f"a kind is {kind}", {**LED, "kind": kind}) for kind in ("junk", "leaders", "a leader", "")),
    put("a leader has a slot", {**CLAIMED, "kind": "leader"}),
    *(patch(f"what is {kind} gets a slot", SECOND_SLOT, {**LED, "kind": kind}) for kind in ("leader", "once", "junk")),
    patch("a job gets a kind", {"kind": "leader"}, RUNNING),
    patch("a released lock gets a kind", {"kind": "leader"}, FENCED),
    patch("a name without a node gets a kind", {"kind": "leader"}),
    put("a leader takes the name of a job that was run by hand", {**LED, "fence": NOW}, without(RELEASED, "slot")),
    put("a leader takes a job's node as it is", {**FENCED, **LED, **SECOND_SLOT}, {**FENCED, **SECOND_SLOT}),
    put("a slot makes way for a kind", {**LED, "fence": NOW}, without(RELEASED, "outcome")),
    put("a slot and a kind go together", without(RUNNING, "slot", "unfinished"), {**RUNNING, "kind": "leader"}),
    # 1. ticks that nobody has claimed
    put("an unfinished tick after the slot", {**CLAIMED, "unfinished": "2026-11-18T09:00:01Z"}),
    put("an unfinished tick without a slot", {**TAKEN, "fence": NOW, "unfinished": OLDER}),
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
            ("name", "a" * 162),
            ("name", f"{LONGEST}:{'k' * 61}"),
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
    # holds and mutes
    *(put(f"a hold without its {name}", without(HOLDS_ALL, name), path=HOLD) for name in HOLDS_ALL),
    *(
        put(f"a hold's {name} that is {str(value)[:20]!r}", {**HOLDS_SOME, name: value}, path=HOLD)
        for name, value in (
            ("at", "1"),
            *((name, 7) for name in ("by", "leaders", "match", "service", "why")),
            ("by", "w" * 201),
            ("match", "m" * 101),
            ("service", "s" * 101),
            ("until", "soon"),
            ("until", NOW),
            ("until", 1),
            ("why", "w" * 501),
        )
    ),
    *(
        put(f"a hold under the name {name}", HOLDS_ALL, path=f"cron-hold/{name}")
        for name in ("00ffa1b2c3d", "00ffa1b2c3d45", "00ffa1b2c3dg", "00FFA1B2C3D4")
    ),
    put("a hold that is made longer", {**HOLDS_ALL, "until": NOW + 2 * HOUR}, HOLDS_ALL, HOLD),
    *(
        put(f"another {name} as it is taken back", {**HOLDS_SOME, name: value, "until": 0}, HOLDS_SOME, HOLD)
        for name, value in (
            ("at", NOW - 1),
            ("by", "me"),
            ("leaders", False),
            ("match", "n"),
            ("service", "t"),
            ("why", "x"),
        )
    ),
    *(
        put(f"a {name} that it had not, as it is taken back", {**HOLDS_ALL, name: value, "until": 0}, HOLDS_ALL, HOLD)
        for name, value in (("leaders", True), ("match", "n"), ("service", "t"))
    ),
    delete("delete a hold that stands", HOLDS_ALL, HOLD),
    put("pause with a hold that is not there", {**RUNNING, **WITH}, RUNNING),
    put("pause with a hold that was taken back", WITH, beside={HOLD: {**HOLDS_ALL, "until": 0}}),
    put("pause with a hold that is over", WITH, beside={HOLD: {**HOLDS_ALL, "until": NOW}}),
    put("pause with another hold", WITH, beside={f"{HOLD[:-1]}5": HOLDS_ALL}),
    put("pause over what is too long", {**WITH, "pausedOver": "x" * 8_001}, beside={HOLD: HOLDS_ALL}),
    *(
        put(f"note a pause that is {value!r:.30}", {**RUNNING, "pausedBefore": value}, RUNNING)
        for value in (7, "", "x", PAST[:-1], f"{PAST} ", f"x{PAST}", " ".join([PAST] * 11))
    ),
    put("pause over what is no text", {**WITH, "pausedOver": 7}, beside={HOLD: HOLDS_ALL}),
    *(put(f"a mute without its {name}", without(MUTED, name), path=MUTE) for name in MUTED),
    *(
        put(f"a mute's {name} that is {str(value)[:20]!r}", {**MUTED, name: value}, path=MUTE)
        for name, value in (
            ("by", 7),
            ("by", "w" * 201),
            ("until", "soon"),
            ("until", NOW),
            ("why", 7),
            ("why", "w" * 501),
        )
    ),
    *(put(f"a mute of {name}", MUTED, path=f"cron-mutes/{name}") for name in ("1job", f"{LONGEST}j")),
    # what operators have asked for
    put("ask in place of an ask", {**ASKED, "id": "00ffa2"}, ASKED, ASK),
    put("ask in place of one that is not over", ASKED, {**OLD_ASK, "at": NOW - 4 * MINUTE + 1}, ASK),
    put("ask in place of one that is taken", {**ASKED, "id": "00ffa2"}, {**ASKED, **TAKEN_BY}, ASK),
    *(put(f"an ask of {ms} ms ago", {**ASKED, "at": NOW - ms}, path=ASK) for ms in (-MINUTE - 1, MINUTE + 1)),
    put("take what nobody has asked for", {**ASKED, **TAKEN_BY}, path=ASK),
    put("take an ask twice", {**ASKED, "takenBy": "other"}, {**ASKED, **TAKEN_BY}, ASK),
    put(
        "take an ask that is over",
        {**ASKED, **TAKEN_BY, "at": NOW - 6 * MINUTE},
        {**ASKED, "at": NOW - 6 * MINUTE},
        ASK,
    ),
    *(
        put(f"take an ask with another {name}", {**ASKED_SLOT, **TAKEN_BY, name: value}, ASKED_SLOT, ASK)
        for name, value in (
            ("at", NOW - 1),
            ("by", "ann"),
            ("id", "00ffa2"),
            ("kind", "resume"),
            ("tick", "2026-11-18T08:00:00Z"),
            ("why", "x"),
        )
    ),
    delete("remove an ask", ASKED, ASK),
    delete("remove an ask that is not over", {**OLD_ASK, "at": NOW - 4 * MINUTE + 1}, ASK),
    *(put(f"an ask without its {name}", without(ASKED, name), path=ASK) for name in ("at", "by", "id", "kind")),
    *(
        put(f"an ask's {name} that is {value!r:.20}", {**ASKED_SLOT, name: value}, path=ASK)
        for name, value in (
            ("at", "now"),
            ("by", 7),
            ("by", "w" * 201),
            ("id", "00ffag"),
            ("id", "00ffa10"),
            ("kind", "cancel"),
            ("tick", 7),
            ("tick", "w" * 41),
            ("why", 7),
            ("why", "w" * 501),
        )
    ),
    *(put(f"take an ask by {value!r:.20}", {**ASKED, "takenBy": value}, ASKED, ASK) for value in (7, "t" * 101)),
    *(put(f"an ask of {name}", ASKED, path=f"cron-asks/{name}") for name in ("1job", f"{LONGEST}j")),
    # what people were told
    *(
        put(f"what was told without its {name}", without(SENT_NOTICE, name), path=NOTICE)
        for name in ("changes", "since", "verdict")
    ),
    *(
        put(f"a {name} of what was told that is {value!r:.20}", {**SENT_NOTICE, name: value}, path=NOTICE)
        for name, most in (("id", 100), ("last", 20), ("sentTo", 1_000), ("token", 100), ("verdict", 20))
        for value in (7, "x" * (most + 1))
    ),
    *(
        put(f"a {name} of what was told that is no number", {**SENT_NOTICE, name: "soon"}, path=NOTICE)
        for name in SENT_NOTICE
        if name not in ("id", "last", "sentTo", "token", "verdict")
    ),
    *(put(f"what was told of {name}", SENT_NOTICE, path=f"cron-told/{name}") for name in ("1job", f"{LONGEST}j")),
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
    *ill_typed(),
    # numbers and instants
    *(
        patch(f"{name} = {value} in {path}", {**node, name: value}, path=path, beside=beside_of(path))
        for path, node, name, least, greatest in BOUNDS
        for value in (least - 1, greatest + 1)
    ),
    *a_day_ahead(1),
    *(
        patch(f"too long a {name} in {path}", {**node, name: "x" * 1_001}, path=path, beside=beside_of(path))
        for path, node, name in TEXTS
    ),
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
    put("a result that is too long", {**DID, "result": "1" * 65_537}, path=STEP, beside=LOCKED),
    put("a result that is no text", {**DID, "result": 1}, path=STEP, beside=LOCKED),
    *(
        put(f"a result that is {text!r}, and no JSON", {**DID, "result": text}, path=STEP, beside=LOCKED)
        for text in ("", "done", " 1", "nulls", "trues", "x[]", "None")
    ),
    *(
        delete(f"what was done once is deleted: {text}", {**DID, "result": text}, "cron-steps/job/once/done")
        for text in ('{"charge":1}', "[]", '""', "-1", "7", "true", "false", "null")
    ),
    patch(
        "a step that nobody can read is deleted alone",
        {"a": None},
        {"a": {**DID, "result": "x"}, "b": DID},
        TICK,
        LOCKED,
    ),
    put("what nobody can read is replaced without the lock", DID, {**DID, "result": "x"}, "cron-steps/job/once/done"),
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
    # tracebacks
    put("a traceback that is too long", "x" * 4_001, path=ERROR, beside=RECORDED),
    put("a traceback that is no text", 7, path=ERROR, beside=RECORDED),
    put("a traceback in parts", {"a": "x"}, path=ERROR, beside=RECORDED),
    put("a traceback of no entry", "x", path=ERROR),
    put("a traceback of another job's entry", "x", path=ERROR.replace("job", "other"), beside=RECORDED),
    put("a traceback of another entry", "x", path=ERROR.replace("09:00", "09:01"), beside=RECORDED),
    put("all tracebacks of a job", {RUN[-20:]: "x"}, path="cron-errors/job", beside=RECORDED),
    # other paths
    get("read everything", ""),
    put("write everything", {"cron-locks": {"job": TAKEN}}, path=""),
    put("write beside", 1, path="orders/1"),
    *(
        put(f"write all of {path}", {"a": {"b": 1}}, path=path)
        for path in ("cron-locks", "cron-runs", "cron-errors", "cron-steps", *SHARED)
    ),
    put("write all runs of a job", {RUN[-20:]: RAN}, path="cron-runs/job"),
    *(
        delete(f"delete all of {path}", {"a": {"b": 1}}, path)
        for path in ("cron-locks", "cron-runs", "cron-errors", "cron-steps", *SHARED)
    ),
    delete("delete all runs of a job", {RUN[-20:]: RAN}, "cron-runs/job"),
    # other people
    Row("a reader reads everything", "GET", path="", auth=READER),
    *(
        Row(f"{who}: {row}", row.method, row.body, row.before, row.path, auth, beside=row.beside)
        for who, auth in STRANGERS.items()
        for row in LEGAL
        if row.title in OF_STRANGERS or (row.method == "GET" and row.auth == OVERRIDE)
    ),
    *(
        Row(f"a reader: {row}", row.method, row.body, row.before, row.path, READER, beside=row.beside)
        for row in LEGAL
        if row.title in OF_STRANGERS
    ),
]
