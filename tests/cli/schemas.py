"""What `--json` of each command promises, as JSON schemas that allow nothing else."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias, get_args

from firecron.cron.words import Kind
from firecron.jobs.run import Outcome
from firecron.ops.findings import Kind as ProblemKind
from firecron.ops.findings import Level
from firecron.ops.health import VerdictWord
from firecron.ops.remedy import ActWord
from firecron.ops.status import HealthWord
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


def of(schema: Schema, names: str) -> dict[str, Schema]:
    """The properties of these names, all of the same schema."""
    return dict.fromkeys(names.split(), schema)


def exactly(*properties: Mapping[str, Schema]) -> Schema:
    """An object with all of these properties and no others."""
    every = {name: schema for some in properties for name, schema in some.items()}
    return {"type": "object", "properties": every, "required": list(every), "additionalProperties": False}


NO_TEXT, NO_NUMBER, NO_INSTANT = map(perhaps, (TEXT, NUMBER, INSTANT))

REMEDY = perhaps(exactly(of(TEXT, "words"), of(NO_TEXT, "command tick"), of(perhaps(one_of(get_args(ActWord))), "act")))
ERROR = exactly({"error": TEXT, "code": {"enum": [1, 2, 69, 75, 78]}, "remedy": REMEDY})

LOCK = exactly(
    of(TEXT, "name"),
    of(one_of(get_args(LockState)), "state"),
    of(TRUTH, "paused foreign cancelled stuck"),
    of(NO_TEXT, "pausedBy pausedWhy pausedWith instanceId instance outcome cancelWhy kind problem"),
    {"remedy": REMEDY},
    of(NO_INSTANT, "pausedAt pausedUntil since until released slot unfinished"),
    of(NO_NUMBER, "attempt fence"),
)
LOCKS = exactly({"locks": each(LOCK)})
NAMED = exactly(of(TEXT, "job why"))
HOLD_FIELDS = {
    **of(TEXT, "hold by what"),
    **of(INSTANT, "at until"),
    **of(NO_TEXT, "why service match"),
    **of(TRUTH, "leaders"),
}
HOLD = exactly(HOLD_FIELDS, of(TRUTH, "stands"), of(NUMBER, "held"), of(each(TEXT), "notHeld"))
RUNNING = exactly({"job": TEXT, "cancelled": TRUTH, "why": NO_TEXT})
HELD = exactly(
    HOLD_FIELDS,
    of(each(TEXT), "held"),
    of(each(NAMED), "left failed"),
    of(each(RUNNING), "running"),
    of(TRUTH, "recorded takenBack"),
)
RESUMED = exactly(of(TEXT, "hold what"), of(each(TEXT), "resumed"), of(each(NAMED), "paused failed"))
MUTE = exactly({"until": INSTANT, "by": TEXT, "why": NO_TEXT})
MUTED = exactly(of(TRUTH, "changed"), of(TEXT, "job"), of(perhaps(MUTE), "muted"))
FLAGS: Schema = {"type": "object", "additionalProperties": TRUTH}
ANY_OBJECT: Schema = {"type": "object"}
PUT = exactly(of(TEXT, "job"), of(FLAGS, "changed"))
REMOVED = exactly(of(TEXT, "job key"), of(TRUTH, "running"))
MENDED = exactly(of(TEXT, "job"), of(NUMBER, "mended"))
STORED_JOBS = exactly(of(each(TEXT), "jobs"))
STORED_SCHEDULE = exactly(
    of(TEXT, "name key state"),
    of(NO_TEXT, "line written timezone by outcome why"),
    of(NO_NUMBER, "every"),
    of(NO_INSTANT, "starting until at nextAt since slot"),
    of(NUMBER, "failures"),
    of(ANY_OBJECT, "args"),
)
SCHEDULES = exactly(of(each(STORED_SCHEDULE), "schedules"))
UNHELD = exactly({"holds": each(RESUMED)})
ACT = exactly(of(TEXT, "key act name who"), of(NO_INSTANT, "at"), of(NO_TEXT, "why"))
ACTS = exactly({"acts": each(ACT)})
CONTEXT = exactly({"context": exactly(of(TEXT, "name database prefix"))})
CONTEXTS = exactly({"file": TEXT, "contexts": each(exactly(of(TEXT, "name database prefix")))})
INIT = exactly(of(TEXT, "folder service database"), of(NO_TEXT, "project region"), of(each(TEXT), "written kept"))
CHANGED = exactly({"changed": TRUTH, "lock": LOCK})
# Of what the catalogue says where its entry can be read.
PLACE = of(NO_TEXT, "service revision where")
DECLARED = {
    **of(NO_TEXT, "line timezone"),
    **of(NO_NUMBER, "every"),
    **of(NO_INSTANT, "starting until"),
    **of(each(TEXT), "exceptDays"),
    **PLACE,
}
ENTRY = exactly(of(TEXT, "name"), DECLARED, of(NO_INSTANT, "declared"), of(TRUTH, "live"), of(NO_NUMBER, "history"))
FORGOTTEN = exactly({"forgotten": each(ENTRY)})

_RUN = (
    of(one_of((*get_args(Outcome), "malformed")), "outcome"),
    of(NO_TEXT, "slot trigger recordedBy instanceId instance error note"),
    of(NO_INSTANT, "started ended"),
    of(NO_NUMBER, "durationMs attempt fence"),
    of(NUMBER, "count"),
    of(TRUTH, "atLeast"),
)
RUN = exactly(of(TEXT, "key"), *_RUN)
# Of which the lock alone was read.
LAST = exactly(of(NO_TEXT, "key"), *_RUN)
UNFINISHED = exactly(
    of(INSTANT, "slot"),
    of(TRUTH, "isLive"),
    of(NO_INSTANT, "since"),
    of(NO_TEXT, "instanceId instance problem"),
    {"remedy": REMEDY},
)
STEP = exactly(
    of(TEXT, "name"),
    of(one_of(get_args(StepState)), "state"),
    of(NO_INSTANT, "started done"),
    of(NO_NUMBER, "attempt fence"),
    of(NO_TEXT, "instance"),
)
RUNS = exactly(
    of(TEXT, "name"),
    of({"type": "object", "additionalProperties": NUMBER}, "counts"),
    of(each(RUN), "runs"),
    of(perhaps(UNFINISHED), "unfinished"),
    of(perhaps(each(exactly({"tick": TEXT, "steps": each(STEP)}))), "steps"),
    of(perhaps({"type": "object", "additionalProperties": TEXT}), "tracebacks"),
)
LAST_RUNS = exactly({"jobs": each(exactly({"name": TEXT, "last": perhaps(RUN), "unfinished": perhaps(UNFINISHED)}))})

MATCHING_RUNS = exactly({"jobs": each(exactly({"name": TEXT, "runs": each(RUN)}))})

# What an operator has asked for.
ASK = exactly(of(TEXT, "id by kind"), {"at": INSTANT}, of(NO_TEXT, "why tick"), of(TRUTH, "taken"))
ASKED = exactly({"job": TEXT, "ask": ASK, "attended": perhaps(TRUTH)})

# What a program says of a job or a leader.
ABOUT = of(NO_TEXT, "description owner runbook")
VERDICT = {
    **of(TEXT, "job why"),
    **of(one_of(get_args(VerdictWord)), "verdict"),
    **of(NO_INSTANT, "since due"),
}
WARNED = {**VERDICT, **ABOUT, "warning": TRUTH, "failures": NUMBER, "remedy": REMEDY}
ROW = exactly(
    WARNED,
    DECLARED,
    of(perhaps(MUTE), "muted"),
    of(perhaps(ASK), "ask"),
    of(NO_TEXT, "words role nextKey"),
    of(NO_INSTANT, "next"),
    of(perhaps(LOCK), "lock"),
    of(perhaps(LAST), "last"),
    of(TRUTH, "ticks disabled"),
)
STATUS = exactly({"now": INSTANT, "holds": each(HOLD), "jobs": each(ROW)})
OVERALL = of(one_of(get_args(HealthWord)), "status")
CHECK = exactly(OVERALL, {"jobs": each(exactly(WARNED))})
# What `/health` sends.
HEALTH = exactly(OVERALL, {"jobs": each(exactly(VERDICT))})

TICK = exactly({"local": LOCAL, "utc": INSTANT})
CHANGE = exactly({"at": INSTANT, "kind": one_of(get_args(Kind)), "times": each(TEXT), "said": TEXT})
SCHEDULE = {
    **of(TEXT, "line timezone words"),
    **of(NO_NUMBER, "every"),
    **of(NO_INSTANT, "starting until"),
    **of(each(TEXT), "exceptDays"),
}
NO_TICKS = exactly(of(TEXT, "date why"))
NEXT = exactly(
    SCHEDULE, {"ticks": each(TICK), "changes": each(CHANGE), "excluded": each(NO_TICKS), "warnings": each(TEXT)}
)

GUARDED = {**of(TEXT, "name where"), **of(NO_TEXT, "role"), **of(TRUTH, "disabled"), **ABOUT}
JOB = exactly(SCHEDULE, GUARDED, of(TRUTH, "runsHere stored"), of(each(TICK), "next"))
LEADER = exactly(GUARDED, of(NUMBER, "ttl"), of(TRUTH, "standsHere"))
UNCLAIMED = exactly(of(TEXT, "name where"))
SCHEDULER_JOB = exactly(of(TEXT, "name schedule timezone uri"), of(NO_TEXT, "description"), of(NUMBER, "deadline"))
EXPORT = exactly(of(TEXT, "to text"), of(each(SCHEDULER_JOB), "jobs"))
JOBS = exactly(
    {"ticksHere": TRUTH, "why": TEXT, "roles": each(TEXT)},
    {"jobs": each(JOB), "leaders": each(LEADER), "unclaimed": each(UNCLAIMED)},
)

FINDING = exactly(
    of(TEXT, "check message"),
    of(one_of(get_args(Level)), "level"),
    {"remedy": REMEDY},
    of(perhaps(one_of(get_args(ProblemKind))), "kind"),
)
DOCTOR = exactly({"code": {"enum": [0, 1, 2, 69, 78]}, "findings": each(FINDING)})
