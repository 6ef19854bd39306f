"""What the shipped rules are asked in the tests: requests on one node each, of the user whom the rules are for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

RULES = Path(__file__).parents[2] / "emulator" / "database.rules.json"
OVERRIDE: Mapping[str, object] = {"uid": "firecron"}
READER: Mapping[str, object] = {"uid": "firecron-reader"}

# Nine o'clock, and the server's time in all of them.
NOW = 1_794_992_400_000

Node = Mapping[str, object]

HELD: Node = {
    "acquired": "2026-11-18T08:59:50Z",
    "acquiredAt": NOW - 10_000,
    "expires": "2026-11-18T09:00:50Z",
    "expiresAt": NOW + 50_000,
    "holder": "theirs",
    "instance": "00bf4b9c3f2a",
    "instanceId": "api-00042-abc",
}
RUNNING: Node = {
    **HELD,
    "attempt": 1,
    "fence": NOW - 10_000,
    "slot": "2026-11-18T08:59:50Z",
    "unfinished": "2026-11-18T08:59:50Z",
}
ENDED = {key: value for key, value in RUNNING.items() if key != "unfinished"}
RELEASED: Node = {**ENDED, "releasedAt": NOW - 5_000, "expiresAt": NOW - 5_000, "outcome": "succeeded"}
TAKEN: Node = {**HELD, "acquiredAt": NOW, "expiresAt": NOW + 60_000, "holder": "mine"}
CLAIMED: Node = {**RUNNING, **TAKEN, "fence": NOW, "slot": "2026-11-18T09:00:00Z", "unfinished": "2026-11-18T09:00:00Z"}
LED: Node = {**TAKEN, "fence": NOW, "kind": "leader"}
# What an older version, or a script without these rules, may have left behind.
HARMED: Node = {
    **RUNNING,
    "acquiredAt": 1e15,
    "attempt": -5,
    "expiresAt": 1e15,
    "fence": 1e300,
    "missedAfter": "2026-02-30T00:00:00Z",
    "missedMore": "ever",
    "missedUntil": "9999-12-31T23:59:59Z",
    "slot": "9999-12-31T23:59:59Z",
    "succeededSlot": "yesterday",
    "unfinished": "9999-12-31T23:59:59Z",
}
ORIGINAL: Node = {"acquiredAt": NOW - 10_000, "expiresAt": NOW + 50_000, "instanceId": "nest"}

RAN: Node = {
    "attempt": 1, "durationMs": 10, "endedAt": NOW, "error": "ValueError", "fence": NOW - 10,
    "instance": "00bf4b9c3f2a", "instanceId": "api-00042-abc", "outcome": "failed", "slot": "2026-11-18T09:00:00Z",
    "startedAt": NOW - 10, "trigger": "schedule",
}  # fmt: skip
UNRUN: Node = {"atLeast": True, "count": 500, "outcome": "missed", "recordedBy": "bookkeeper", "slot": RAN["slot"]}
# The steps of the run above: while it holds the lock, with the fence that the lock has.
CALLED: Node = {"attempt": 1, "fence": RUNNING["fence"], "instance": "00bf4b9c3f2a", "startedAt": NOW - 20}
DID: Node = {**CALLED, "doneAt": NOW - 10, "result": '{"charge":1}'}
LOCKED: Node = {"cron-locks/job": RUNNING}
STAMP: Node = {".sv": "timestamp"}
ONE_MORE: Node = {".sv": {"increment": 1}}
COUNTED: Node = {"beats": 7, "seenAt": NOW - 9}
TICKET: Node = {"beats": ONE_MORE, "seenAt": STAMP}
TOLD: Node = {
    **TICKET,
    "firstSeenAt": NOW - 9,
    "heartbeat": 30,
    "jobs": "digest mail",
    "schedules": "r8_ww8PQ",
    "service": "api",
}
DECLARED: Node = {
    "alertAfter": 1, "catchUp": "once", "catchUpWindow": 3600, "declaredAt": STAMP, "description": "Sends the digest.",
    "disabled": False, "exceptDays": "2026-12-25 holiday", "exceptDigest": "r8_ww8PQ",
    "expectedRuntime": 0.5, "grace": 60, "holdAtLeast": 5, "line": "0 9 * * *", "maxRuntime": 3600,
    "onAbandoned": "rerun", "oncePerTick": True, "overlap": "skip", "owner": "mail@example.com", "renew": False,
    "retries": 3, "revision": "api-00042-abc", "role": "mail", "runbook": "https://wiki.example.com/digest",
    "service": "api", "since": NOW - 9, "ticks": True, "timezone": "Europe/Berlin", "ttl": 30,
    "until": "2027-11-18T09:00:00Z", "where": "jobs.Jobs.digest",
}  # fmt: skip
BEAT: Node = {"instanceId": "api-00042-abc", "jobs": 2, "running": 0, "seenAt": STAMP, "startedAt": NOW - 10}


@dataclass(frozen=True, slots=True)
class Row:
    """A request at the time `now`; `before` is what the node at `path` holds, `beside` what other paths hold."""

    title: str
    method: str
    body: object = None
    before: object = None
    path: str = "cron-locks/job"
    auth: Mapping[str, object] | None = None
    now: int = NOW
    beside: Node = field(default_factory=dict)

    def __str__(self) -> str:
        return self.title


def put(
    title: str,
    body: object,
    before: object = None,
    path: str = "cron-locks/job",
    now: int = NOW,
    beside: Node | None = None,
) -> Row:
    return Row(title, "PUT", body, before, path, OVERRIDE, now, beside or {})


def patch(
    title: str, body: object, before: object = None, path: str = "cron-locks/job", beside: Node | None = None
) -> Row:
    return Row(title, "PATCH", body, before, path, OVERRIDE, beside=beside or {})


def delete(title: str, before: object, path: str = "cron-locks/job") -> Row:
    return Row(title, "DELETE", None, before, path, OVERRIDE)


def get(title: str, path: str) -> Row:
    return Row(title, "GET", None, None, path, OVERRIDE)


def without(node: Node, *fields: str) -> Node:
    return {key: value for key, value in node.items() if key not in fields}
