"""Requests on stored schedules: what firecron and a program that only makes schedules may do, and what nobody may.

An entry is a lock with more fields. So the requests on a lock are asked of an entry, too (`as_entry`).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from tests.stores.least_privilege import CLAIMED, NOW, OVERRIDE, RAN, READER, RELEASED, RUNNING, Node, Row, without
from tests.stores.least_privilege import DECLARED as JOB
from tests.stores.least_privilege_values import DAY, ENTRY, GOOD_SLOT, GOOD_START, HOUR, MINUTE, PAIR, RUN

PATH = "cron-schedules/job/:42"
SCHEDULER: Node = {"uid": "firecron-scheduler"}
PUT: Node = {
    "line": "0 9 * * *", "timezone": "Europe/Berlin", "args": '{"event":"42"}', "by": "me",
    "since": NOW - DAY, "nextAt": NOW,
}  # fmt: skip
GONE: Node = {"since": NOW - DAY, "closed": "removed", "closedAt": NOW - DAY - 1, "nextAt": NOW - 1}
FIRST: Node = {**PUT, "since": NOW + 3_000, "nextAt": NOW + HOUR}
LATER: Node = {**PUT, "nextAt": NOW + DAY}
# A minimum hold, and a run by hand that has died.
HELD_ON: Node = {**RELEASED, "expiresAt": NOW + HOUR}
BY_HAND: Node = {**without(RUNNING, "unfinished"), "expiresAt": NOW}
HAND_HELD: Node = {**BY_HAND, "expiresAt": NOW + 1}
STOPPED: Node = {**RELEASED, "unfinished": RELEASED["slot"]}
SUCCEEDED: Node = {"succeededSlot": GOOD_SLOT}
HIGH: Node = {**RELEASED, **PUT, "fence": 9 * 10**12}
LONG = {"args": 4_096, "line": 1_000, "written": 1_000, "timezone": 100, "by": 200}
ASKED: Node = {"failures": 2, "cancel": 1, "closed": "over", "passed": NOW - 1}
# Values that a program may not change, each with another one.
OF_THE_LOCK: Node = {
    "acquired": "x", "acquiredAt": 1, "attempt": 2, "cancelWhy": "x", "expires": "x", "expiresAt": 0, "fence": NOW,
    "holder": "x", "instance": "x", "instanceId": "x", "missedAfter": GOOD_START, "missedMore": "x",
    "missedUntil": GOOD_START, "outcome": "x", "paused": True, "pausedAt": 1, "pausedBefore": PAIR, "pausedBy": "x",
    "pausedOver": "x",
    "pausedUntil": NOW, "pausedWhy": "x", "pausedWith": "x", "releasedAt": NOW, "renews": False, "resumedAt": 1,
    "slot": GOOD_START, "succeededSlot": "2026-11-18T08:59:50Z", "unfinished": "2026-11-18T08:59:49Z",
}  # fmt: skip
DECLARED: Node = {
    "alertAfter": 1, "declaredAt": NOW, "disabled": False, "grace": 60, "history": 1_000, "keepClosed": 86_400,
    "lookers": 3, "parameters": "event channel=", "service": "api", "since": NOW - 9, "stored": True, "ticks": True,
    "where": "jobs.Reminders.remind",
}  # fmt: skip
OWN_RUN = f"{RUN}:42"


def as_entry(rows: Iterable[Row], but: Iterable[str] = ()) -> list[Row]:
    """The requests on a lock that an entry's rules judge alike: without a kind, and not by these titles."""
    left = tuple(but)
    return [
        replace(
            row,
            title=f"of an entry: {row.title}",
            path=PATH,
            before={**PUT, **(row.before or {})},  # type: ignore[dict-item]  # a lock's node is a dict
            body={**PUT, **row.body} if row.method == "PUT" else row.body,
        )
        for row in rows
        if row.path == "cron-locks/job"
        and row.method in ("PUT", "PATCH")
        and isinstance(row.body, dict)
        and "kind" not in {**row.body, **(row.before if isinstance(row.before, dict) else {})}
        and not row.title.startswith(left)
    ]


def _by(auth: Node, method: str, title: str, body: object, before: object = None, **more: object) -> Row:
    return Row(title, method, body, before, **{"path": PATH, "auth": auth, **more})  # type: ignore[arg-type]  # a row's fields, by name


def ours(title: str, body: object, before: object = None, path: str = PATH, **more: object) -> Row:
    return _by(OVERRIDE, "PUT", title, body, before, path=path, **more)


def theirs(title: str, body: object, before: object = None, path: str = PATH, **more: object) -> Row:
    return _by(SCHEDULER, "PUT", f"a program: {title}", body, before, path=path, **more)


STORED_LEGAL = [
    ours("put an entry", FIRST),
    ours("put one instant", {**without(FIRST, "line", "timezone"), "at": GOOD_START, "until": GOOD_START}),
    ours("put an interval", {**without(FIRST, "line", "timezone"), "every": 2_700, "starting": GOOD_START}),
    ours(
        "put the longest",
        {
            **FIRST,
            "args": "x" * 4_096,
            "line": "x" * 1_000,
            "written": "x" * 1_000,
            "timezone": "x" * 100,
            "by": "x" * 200,
        },
    ),
    ours("put an entry of the longest names", FIRST, path=f"cron-schedules/{'j' * 100}/:{'k' * 60}"),
    ours("remove an entry", {**GONE, "closedAt": NOW, "nextAt": NOW + DAY}, PUT),
    ours("close an entry", {**PUT, "closed": "missed", "closedAt": NOW, "closedWhy": "w" * 1_000}, PUT),
    ours("pass a tick", {**PUT, "passed": NOW, "nextAt": NOW + DAY}, PUT),
    ours("mend a since that is too late", {**PUT, "since": NOW}, {**PUT, "since": NOW + 300_001}),
    ours("put beside a since of three margins", {**FIRST, "since": NOW + 300_000}),
    ours("renew what was removed", {**RUNNING, **GONE, "expiresAt": NOW + DAY}, {**RUNNING, **GONE}),
    _by(OVERRIDE, "DELETE", "delete what is closed", None, GONE),
    _by(OVERRIDE, "DELETE", "delete what is closed and released", None, {**RELEASED, **GONE, "expiresAt": NOW + DAY}),
    _by(OVERRIDE, "DELETE", "delete what is closed and died", None, {**RUNNING, **GONE, "expiresAt": NOW}),
    _by(OVERRIDE, "DELETE", "delete it a minute early", None, {**GONE, "nextAt": NOW + MINUTE}),
    theirs("put an entry", FIRST),
    theirs("put an entry with a since of now", {**FIRST, "since": NOW}),
    theirs("put other arguments", {**PUT, "args": "{}"}, PUT),
    theirs("put a line with an H", {**FIRST, "written": "H 9 * * *"}),
    theirs(
        "put another line", {**PUT, "line": "* * * * *", "since": NOW, "nextAt": NOW + MINUTE}, {**PUT, "passed": NOW}
    ),
    theirs("put other arguments of a run", {**RUNNING, **PUT, "args": "{}"}, {**RUNNING, **PUT}),
    theirs("bring forward a run's look", {**RUNNING, **PUT, "nextAt": NOW}, {**RUNNING, **PUT, "nextAt": NOW + 1}),
    theirs("put off what is released", {**HELD_ON, **LATER}, {**HELD_ON, **PUT}),
    theirs("put off what has died by hand", {**BY_HAND, **LATER}, {**BY_HAND, **PUT}),
    theirs("put at the earliest time", {**PUT, "nextAt": NOW - MINUTE}, PUT),
    theirs("remove an entry", {**GONE, "closedAt": NOW, "nextAt": NOW + DAY}, {**PUT, "failures": 2}),
    theirs("remove an entry by a slow clock", {**GONE, "closedAt": NOW - MINUTE, "nextAt": NOW + DAY}, PUT),
    theirs("remove a run", {**RUNNING, **GONE, "closedAt": NOW, "nextAt": NOW + DAY}, {**RUNNING, **PUT}),
    theirs("open what was removed", {**RUNNING, **PUT, "nextAt": NOW + DAY}, {**RUNNING, **GONE}),
    theirs("ask a run to end", {**RUNNING, **GONE, "cancel": RUNNING["fence"]}, {**RUNNING, **GONE}),
    theirs(
        "leave what is closed and asked to end", {**RUNNING, **PUT, **ASKED, "args": "{}"}, {**RUNNING, **PUT, **ASKED}
    ),
    theirs("leave a remark", {**PUT, "args": "{}", "remark": "x"}, {**PUT, "remark": "x"}),
    theirs("ring", {".sv": "timestamp"}, path="cron-bell/job"),
    ours("ring", {".sv": "timestamp"}, path=f"cron-bell/{'j' * 100}"),
    theirs("ask for the time", {".sv": "timestamp"}, path="cron-instances/clock/seenAt"),
    *(
        Row(f"read {path} as {auth['uid']}", "GET", path=path, auth=auth)
        for auth, paths in (
            (SCHEDULER, ("cron-schedules/job", PATH, ENTRY)),
            (READER, ("cron-schedules", "cron-bell")),
            (OVERRIDE, ("cron-schedules", "cron-bell/job")),
        )
        for path in paths
    ),
    ours("record a run", {**RAN, "key": "42"}, path=OWN_RUN),
    ours(
        "record a run whose fence is its entry's",
        {**RAN, "key": "42", "fence": 9 * 10**12},
        path=OWN_RUN,
        beside={PATH: HIGH},
    ),
    ours("declare a stored job", DECLARED, path=ENTRY),
    ours(
        "declare a stored job with the most of each",
        {**DECLARED, "history": 10_000, "keepClosed": 31_622_400, "lookers": 1_000, "parameters": "p" * 4_000},
        path=ENTRY,
    ),
    ours(
        "declare a stored job with the least of each",
        {**DECLARED, "history": 1, "keepClosed": 0, "lookers": 1},
        path=ENTRY,
    ),
]

# Of a lock, what an entry's rules do not judge: dates digit by digit, and a hold's name.
LOOSER = (
    *(f"a lock's {name}" for name in ("slot that", "succeededSlot that", "unfinished that", "missed")),
    *(f"a {name} that is a day and" for name in ("missedAfter", "missedUntil", "slot")),
)

STORED_FORBIDDEN = [
    ours("claim what is absent", {**CLAIMED, **PUT}),
    ours("claim what is closed", {**CLAIMED, **PUT}, {**PUT, **GONE}),
    ours("a since that falls", {**PUT, "since": NOW - DAY - 1}, PUT),
    ours("a since that goes", without(PUT, "since"), PUT),
    ours("an entry without a look", without(PUT, "nextAt")),
    ours("a since that is late and falls", {**PUT, "since": NOW}, {**PUT, "since": NOW + 300_000}),
    ours("a holder without an expiry", {**PUT, "holder": "x"}),
    ours("a key without a colon", FIRST, path="cron-schedules/job/42"),
    ours("a key of nothing", FIRST, path="cron-schedules/job/:"),
    ours("too long a key", FIRST, path=f"cron-schedules/job/:{'k' * 61}"),
    ours("a key with more", FIRST, path="cron-schedules/job/:a b"),
    ours("a job that is none", FIRST, path="cron-schedules/1job/:42"),
    ours("too long a job", FIRST, path=f"cron-schedules/{'j' * 101}/:42"),
    ours("all entries of a job", {":42": FIRST}, path="cron-schedules/job"),
    *(
        ours(f"an entry's {name} that is {str(value)[:20]!r}", {**FIRST, name: value})
        for name, value in [
            ("args", "x" * 4_097),
            ("args", 1),
            ("at", "soon"),
            ("at", f"{GOOD_START}x"),
            ("by", "x" * 201),
            ("by", 1),
            ("closed", "gone"),
            ("closed", "xover"),
            ("closedAt", NOW + MINUTE + 1),
            ("closedAt", -1),
            ("closedAt", "1"),
            ("closedWhy", "x" * 1_001),
            ("every", 0),
            ("every", 31_622_401),
            ("every", "1"),
            ("line", "x" * 1_001),
            ("line", 1),
            ("written", "x" * 1_001),
            ("written", 1),
            ("missedAfter", "soon"),
            ("missedUntil", "soon"),
            ("missedMore", "x" * 1_001),
            ("nextAt", 0),
            ("nextAt", "1"),
            ("passed", NOW + MINUTE + 1),
            ("passed", -1),
            ("passed", "1"),
            ("since", NOW + 300_001),
            ("since", -1),
            ("since", "1"),
            ("slot", "soon"),
            ("starting", "x" * 19),
            ("starting", 1),
            ("succeededSlot", "soon"),
            ("unfinished", "soon"),
            ("timezone", "x" * 101),
            ("timezone", 1),
            ("until", "x"),
        ]
    ),
    ours("a tick that succeeded after the slot", {**PUT, "slot": GOOD_START, "succeededSlot": "2026-11-18T09:00:01Z"}),
    *(
        ours(f"a {name} before the slot that is none", {**PUT, "slot": GOOD_START, name: "1"})
        for name in ("succeededSlot", "unfinished")
    ),
    ours("a job with a line that is stored in a word", {**JOB, "declaredAt": NOW, "stored": "yes"}, path=ENTRY),
    *(
        Row(f"a stranger reads {path}", "GET", path=path, auth={"uid": "someone"})
        for path in ("cron-schedules/job", "cron-jobs/job", "cron-bell/job")
    ),
    ours("an unfinished tick after the slot", {**PUT, "slot": GOOD_START, "unfinished": "2026-11-18T09:00:01Z"}),
    _by(OVERRIDE, "DELETE", "delete what is open", None, PUT),
    _by(OVERRIDE, "DELETE", "delete what is closed and held", None, {**RUNNING, **GONE, "expiresAt": NOW + 1}),
    _by(OVERRIDE, "DELETE", "delete it too early", None, {**GONE, "nextAt": NOW + MINUTE + 1}),
    _by(OVERRIDE, "DELETE", "delete all entries", None, {":42": GONE}, path="cron-schedules/job"),
    _by(SCHEDULER, "DELETE", "a program: delete what is closed", None, GONE),
    *(
        _by(
            SCHEDULER,
            "PATCH",
            f"a program: change {name}",
            {name: value},
            {**RUNNING, **PUT, "succeededSlot": GOOD_SLOT},
        )
        for name, value in OF_THE_LOCK.items()
    ),
    theirs("claim", {**CLAIMED, **PUT}, PUT),
    theirs("a failure", {**PUT, "failures": 1}, PUT),
    theirs("pass a tick", {**PUT, "passed": NOW}, PUT),
    theirs("ask another run to end", {**RUNNING, **PUT, "cancel": 7}, {**RUNNING, **PUT}),
    theirs("close as over", {**PUT, "closed": "over", "closedAt": NOW}, PUT),
    theirs("a since that falls", {**PUT, "since": NOW - DAY - 1}, PUT),
    theirs("a since of the past", {**FIRST, "since": NOW - 1}),
    theirs("remove as of long ago", {**GONE, "closedAt": 0, "nextAt": NOW}, PUT),
    theirs("remove as of more than a minute ago", {**GONE, "closedAt": NOW - MINUTE - 1, "nextAt": NOW}, PUT),
    theirs("make closed older", {**GONE, "closedAt": 1}, GONE),
    theirs("put too early a look", {**PUT, "nextAt": NOW - MINUTE - 1}, PUT),
    theirs("put off a run", {**RUNNING, **LATER}, {**RUNNING, **PUT}),
    theirs(
        "put off a run by hand", {**BY_HAND, "expiresAt": NOW + 1, **LATER}, {**BY_HAND, "expiresAt": NOW + 1, **PUT}
    ),
    theirs(
        "put off what is unfinished",
        {**RELEASED, "unfinished": RELEASED["slot"], **LATER},
        {**RELEASED, "unfinished": RELEASED["slot"], **PUT},
    ),
    *(
        _by(SCHEDULER, "PATCH", f"a program: drop {name}", {name: None}, {**RUNNING, **PUT, name: value})
        for name, value in (
            ("acquired", "x"),
            ("expires", "x"),
            ("kind", "once"),
            ("paused", True),
            ("pausedWith", "x"),
            ("cancel", RUNNING["fence"]),
        )
    ),
    theirs("write a remark", {**PUT, "remark": "x"}, PUT),
    theirs("ring at another time", NOW - 1, path="cron-bell/job"),
    theirs("ring for a name that is none", {".sv": "timestamp"}, path="cron-bell/1job"),
    theirs("ring for too long a name", {".sv": "timestamp"}, path=f"cron-bell/{'j' * 101}"),
    theirs("beat", {"seenAt": {".sv": "timestamp"}}, path="cron-instances/00bf4b9c3f2a-a1b2c3"),
    theirs("claim a lock", CLAIMED, path="cron-locks/job"),
    theirs("declare a job", DECLARED, path=ENTRY),
    *(
        Row(f"a program reads {path}", "GET", path=path, auth=SCHEDULER)
        for path in ("cron-schedules", "cron-bell", "cron-locks/job", "cron-runs/job", "cron-jobs", "cron-instances")
    ),
    *(
        replace(row, title=f"{auth['uid']}: {row.title}", auth=auth)
        for auth in (READER, {"uid": "someone"})
        for row in (ours("put an entry", FIRST), ours("ring", {".sv": "timestamp"}, path="cron-bell/job"))
    ),
    ours("a run with another key", {**RAN, "key": "43"}, path=OWN_RUN),
    ours("a run with too long a key", {**RAN, "key": "k" * 61}, path=f"{RUN}:{'k' * 61}"),
    ours(
        "a run whose fence is another entry's",
        {**RAN, "key": "42", "fence": 9 * 10**12},
        path=OWN_RUN,
        beside={
            f"{PATH}3": {**RELEASED, **PUT, "fence": 9 * 10**12},
            "cron-locks/job": {**RELEASED, "fence": 9 * 10**12},
        },
    ),
    *(
        ours(f"a stored job's {name} that is {str(value)[:20]!r}", {**DECLARED, name: value}, path=ENTRY)
        for name, value in [
            ("history", 0),
            ("history", 10_001),
            ("history", "1"),
            ("keepClosed", -1),
            ("keepClosed", 31_622_401),
            ("keepClosed", "1"),
            ("lookers", 0),
            ("lookers", 1_001),
            ("lookers", "1"),
            ("parameters", "p" * 4_001),
            ("parameters", 1),
            ("stored", "yes"),
            ("line", "0 9 * * *"),
            ("every", 60),
        ]
    ),
]
