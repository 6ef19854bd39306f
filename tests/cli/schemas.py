"""What `--json` of each command promises, as JSON schemas that allow nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, get_args

from firecron.cron.words import Kind
from firecron.jobs.run import Outcome
from firecron.ops.findings import Kind as ProblemKind
from firecron.ops.findings import Level
from firecron.ops.health import VerdictWord
from firecron.ops.views import LockState, StepState

Schema: TypeAlias = dict[str, object]

TEXT: Schema = {"type": "string"}
NUMBER: Schema = {"type": "integer"}
TRUTH: Schema = {"type": "boolean"}
INSTANT: Schema = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}Z$"}
LOCAL: Schema = {"type": "string", "pattern": "^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9:]{8}[+-][0-9:]{5,8}$"}


def one_of(values: tuple[str, ...]) -> Schema:
    return {"enum": list(values)}


def perhaps(schema: Schema) -> Schema:
    return {"anyOf": [schema, {"type": "null"}]}


def each(schema: Schema) -> Schema:
    return {"type": "array", "items": schema}


def exactly(properties: Mapping[str, Schema]) -> Schema:
    """An object with all of these properties and no others."""
    return {
        "type": "object",
        "properties": dict(properties),
        "required": list(properties),
        "additionalProperties": False,
    }


ERROR = exactly({"error": TEXT, "code": {"enum": [1, 2, 69, 75, 78]}})

LOCK = exactly(
    {
        "name": TEXT,
        "state": one_of(get_args(LockState)),
        "paused": TRUTH,
        "pausedBy": perhaps(TEXT),
        "pausedAt": perhaps(INSTANT),
        "pausedWhy": perhaps(TEXT),
        "pausedUntil": perhaps(INSTANT),
        "foreign": TRUTH,
        "instanceId": perhaps(TEXT),
        "instance": perhaps(TEXT),
        "since": perhaps(INSTANT),
        "until": perhaps(INSTANT),
        "released": perhaps(INSTANT),
        "slot": perhaps(INSTANT),
        "unfinished": perhaps(INSTANT),
        "outcome": perhaps(TEXT),
        "attempt": perhaps(NUMBER),
        "fence": perhaps(NUMBER),
        "cancelled": TRUTH,
        "cancelWhy": perhaps(TEXT),
        "kind": perhaps(TEXT),
        "stuck": TRUTH,
        "problem": perhaps(TEXT),
        "remedy": perhaps(TEXT),
    }
)
LOCKS = exactly({"locks": each(LOCK)})
ACT = exactly(
    {"key": TEXT, "act": TEXT, "name": TEXT, "who": TEXT, "at": perhaps(INSTANT), "why": perhaps(TEXT)},
)
ACTS = exactly({"acts": each(ACT)})
CHANGED = exactly({"changed": TRUTH, "lock": LOCK})
FORGOTTEN = exactly(
    {
        "forgotten": each(
            exactly(
                {
                    "name": TEXT,
                    "line": perhaps(TEXT),
                    "timezone": perhaps(TEXT),
                    "every": perhaps(NUMBER),
                    "starting": perhaps(INSTANT),
                    "service": perhaps(TEXT),
                    "revision": perhaps(TEXT),
                    "where": perhaps(TEXT),
                    "declared": perhaps(INSTANT),
                    "live": TRUTH,
                }
            )
        )
    }
)

RUN = exactly(
    {
        "key": TEXT,
        "outcome": one_of((*get_args(Outcome), "malformed")),
        "slot": perhaps(TEXT),
        "trigger": perhaps(TEXT),
        "started": perhaps(INSTANT),
        "ended": perhaps(INSTANT),
        "durationMs": perhaps(NUMBER),
        "attempt": perhaps(NUMBER),
        "fence": perhaps(NUMBER),
        "count": NUMBER,
        "atLeast": TRUTH,
        "recordedBy": perhaps(TEXT),
        "instanceId": perhaps(TEXT),
        "instance": perhaps(TEXT),
        "error": perhaps(TEXT),
        "note": perhaps(TEXT),
    }
)
UNFINISHED = exactly(
    {
        "slot": INSTANT,
        "isLive": TRUTH,
        "since": perhaps(INSTANT),
        "instanceId": perhaps(TEXT),
        "instance": perhaps(TEXT),
        "problem": perhaps(TEXT),
        "remedy": perhaps(TEXT),
    }
)
STEP = exactly(
    {
        "name": TEXT,
        "state": one_of(get_args(StepState)),
        "started": perhaps(INSTANT),
        "done": perhaps(INSTANT),
        "attempt": perhaps(NUMBER),
        "fence": perhaps(NUMBER),
        "instance": perhaps(TEXT),
    }
)
RUNS = exactly(
    {
        "name": TEXT,
        "counts": {"type": "object", "additionalProperties": NUMBER},
        "runs": each(RUN),
        "unfinished": perhaps(UNFINISHED),
        "steps": perhaps(each(exactly({"tick": TEXT, "steps": each(STEP)}))),
    }
)
LAST_RUNS = exactly({"jobs": each(exactly({"name": TEXT, "last": perhaps(RUN), "unfinished": perhaps(UNFINISHED)}))})

VERDICT: dict[str, Schema] = {
    "job": TEXT,
    "verdict": one_of(get_args(VerdictWord)),
    "since": perhaps(INSTANT),
    "due": perhaps(INSTANT),
    "why": TEXT,
}
ROW = exactly(
    {
        **VERDICT,
        "warning": TRUTH,
        "line": perhaps(TEXT),
        "timezone": perhaps(TEXT),
        "every": perhaps(NUMBER),
        "starting": perhaps(INSTANT),
        "words": perhaps(TEXT),
        "next": perhaps(INSTANT),
        "lock": perhaps(LOCK),
        "last": perhaps(RUN),
        "service": perhaps(TEXT),
        "revision": perhaps(TEXT),
        "where": perhaps(TEXT),
        "role": perhaps(TEXT),
        "ticks": TRUTH,
        "disabled": TRUTH,
    }
)
STATUS = exactly({"now": INSTANT, "jobs": each(ROW)})
CHECK = exactly(
    {"status": {"enum": ["ok", "failing", "unknown"]}, "jobs": each(exactly({**VERDICT, "warning": TRUTH}))}
)
# What `/health` sends.
HEALTH = exactly({"status": {"enum": ["ok", "failing", "unknown"]}, "jobs": each(exactly(VERDICT))})

TICK = exactly({"local": LOCAL, "utc": INSTANT})
CHANGE = exactly({"at": INSTANT, "kind": one_of(get_args(Kind)), "times": each(TEXT), "said": TEXT})
SCHEDULE: dict[str, Schema] = {
    "line": TEXT,
    "timezone": TEXT,
    "every": perhaps(NUMBER),
    "starting": perhaps(INSTANT),
    "words": TEXT,
}
NEXT = exactly({**SCHEDULE, "ticks": each(TICK), "changes": each(CHANGE), "warnings": each(TEXT)})

JOB = exactly(
    {
        "name": TEXT,
        **SCHEDULE,
        "role": perhaps(TEXT),
        "disabled": TRUTH,
        "runsHere": TRUTH,
        "where": TEXT,
        "next": each(TICK),
    }
)
LEADER = exactly(
    {"name": TEXT, "ttl": NUMBER, "role": perhaps(TEXT), "disabled": TRUTH, "standsHere": TRUTH, "where": TEXT}
)
UNCLAIMED = exactly({"name": TEXT, "where": TEXT})
JOBS = exactly(
    {
        "ticksHere": TRUTH,
        "why": TEXT,
        "roles": each(TEXT),
        "jobs": each(JOB),
        "leaders": each(LEADER),
        "unclaimed": each(UNCLAIMED),
    }
)

FINDING = exactly(
    {
        "check": TEXT,
        "level": one_of(get_args(Level)),
        "message": TEXT,
        "remedy": perhaps(TEXT),
        "kind": perhaps(one_of(get_args(ProblemKind))),
    }
)
DOCTOR = exactly({"code": {"enum": [0, 1, 2, 69, 78]}, "findings": each(FINDING)})
