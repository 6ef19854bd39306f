"""The catalogue's schema: what `cron-jobs/<name>` says of a job, written and read here alone. Pure.

With the catalogue an operator's tools need no program of the jobs: they know each schedule, what it promises, and which
service declared it. Durations are seconds, as in the program. `since` and `declaredAt` are milliseconds of RTDB's time.

An entry has the `line` and its `timezone`, or `every` and `starting`; and `grace`, `overlap`, `catchUp`, `oncePerTick`,
`disabled`, `expectedRuntime`, `alertAfter` and `role` as the job's options have them. `where` is the job's function,
`ticks` is false if only triggers run the job. `service` and `revision` are those of the program that declared the job
last. An empty `service` means that no program with the job's role has declared it yet.

An entry that can't be read is None: the tools show the job without a schedule, and its verdict is `unknown`.
"""

from __future__ import annotations

import hashlib
import json
from base64 import urlsafe_b64encode
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime

from firecron.base.exact import number
from firecron.base.instants import check_instant, in_utc
from firecron.cron.schedule import Schedule
from firecron.jobs.options import DEFAULT_GRACE, JobOptions, has_lease
from firecron.store import SERVER_TIME

# A function's name has no bound; the node has.
_LONGEST_TEXT = 500
# In seconds. No duration of a job is as long, but what somebody has typed may be beyond all that can be counted.
_LONGEST_TIME = 10**9
_SCHEDULE = ("line", "timezone", "every", "starting")
_WHEN = ("since", "declaredAt")
# What a program declares.
_FIELDS = (
    *_SCHEDULE,
    "grace",
    "overlap",
    "catchUp",
    "oncePerTick",
    "disabled",
    "expectedRuntime",
    "alertAfter",
    "role",
    "where",
    "ticks",
    "service",
    "revision",
)


@dataclass(frozen=True, slots=True)
class Declared:
    """A job as a program declared it. Durations are milliseconds here, as in `JobOptions`.

    `since` is when this schedule was first declared, `declared_at` when this entry was written; None before the write.
    `ticks` is false if only triggers run the job. `where` is the job's function.
    """

    name: str
    schedule: Schedule
    grace: int
    overlap: str
    catch_up: str
    once_per_tick: bool
    disabled: bool
    expected_runtime: int | None
    alert_after: int
    role: str | None
    where: str
    ticks: bool
    service: str
    revision: str | None
    since: int | None = None
    declared_at: int | None = None

    @property
    def has_lease(self) -> bool:
        """Whether a run holds the lock of its job while it runs."""
        return has_lease(self.overlap)

    def is_same_as(self, other: Declared) -> bool:
        """Whether both say the same of the job, whenever they were written."""
        return replace(self, since=None, declared_at=None) == replace(other, since=None, declared_at=None)

    def to_node(self) -> dict[str, object]:
        """Return the entry as it is stored, without the fields that are None."""
        fields: dict[str, object] = {
            **_of(self.schedule),
            "since": self.since,
            "grace": self.grace / 1000,
            "overlap": self.overlap,
            "catchUp": self.catch_up,
            "oncePerTick": self.once_per_tick,
            "disabled": self.disabled,
            "expectedRuntime": None if self.expected_runtime is None else self.expected_runtime / 1000,
            "alertAfter": self.alert_after,
            "role": self.role,
            "where": self.where,
            "ticks": self.ticks,
            "service": self.service,
            "revision": self.revision,
            "declaredAt": self.declared_at,
        }
        return {name: value for name, value in fields.items() if value is not None}


def declared(options: JobOptions, *, where: str, ticks: bool, service: str, revision: str | None) -> Declared:
    """Return what a program declares of its job. `service` is what the program runs in, `local` outside Cloud Run."""
    return Declared(
        name=options.name,
        schedule=options.schedule,
        grace=options.grace,
        overlap=options.overlap,
        catch_up=options.catch_up,
        once_per_tick=options.once_per_tick,
        disabled=options.disabled,
        expected_runtime=options.expected_runtime,
        alert_after=options.alert_after,
        role=options.role,
        where=where[:_LONGEST_TEXT],
        ticks=ticks,
        service=service,
        revision=revision,
    )


def probe(name: str) -> Declared:
    """Return a disabled entry that belongs to no program. It is written to find out whether entries can be written."""
    return Declared(
        name,
        Schedule("0 0 * * *"),
        grace=DEFAULT_GRACE * 1000,
        overlap="skip",
        catch_up="skip",
        once_per_tick=True,
        disabled=True,
        expected_runtime=None,
        alert_after=1,
        role=None,
        where="firecron doctor",
        ticks=False,
        service="",
        revision=None,
    )


def changed(mine: Declared, stored: object) -> dict[str, object] | None:
    """Return the node to write in place of the `stored` one; None if that says the same already.

    `since` stays while the schedule stays the same, and begins anew if nobody was to run the job until now: its ticks
    before are not late. The nodes are compared as they are, because to parse a thousand schedules at the start of a
    program would delay its first ticks.
    """
    node, other = mine.to_node(), stored if isinstance(stored, Mapping) else {}
    since, declared_at = (number(other.get(name)) for name in _WHEN)
    if None not in (since, declared_at) and all(node.get(name) == other.get(name) for name in _FIELDS):
        return None
    goes_on = all(node.get(name) == other.get(name) for name in _SCHEDULE)
    was_run = (mine.disabled or other.get("disabled") is not True) and (not mine.service or other.get("service") != "")
    keeps_since = since is not None and goes_on and was_run
    return {**node, "since": since if keeps_since else SERVER_TIME, "declaredAt": SERVER_TIME}


def read_declared(name: str, node: object) -> Declared | None:
    """Return what an entry says; None if it can't be read. A field that is missing or odd has its default."""
    if not isinstance(node, Mapping):
        return None
    try:
        schedule = _schedule(node)
    except ValueError:
        return None
    service = node.get("service")
    return Declared(
        name=name,
        schedule=schedule,
        grace=_duration(node.get("grace")) or DEFAULT_GRACE * 1000,
        overlap=_text(node.get("overlap")) or "skip",
        catch_up=_text(node.get("catchUp")) or "skip",
        once_per_tick=node.get("oncePerTick") is not False,
        disabled=node.get("disabled") is True,
        expected_runtime=_duration(node.get("expectedRuntime")),
        alert_after=max(1, number(node.get("alertAfter")) or 1),
        role=_text(node.get("role")),
        where=_text(node.get("where")) or "",
        ticks=node.get("ticks") is not False,
        service=service if isinstance(service, str) else "local",
        revision=_text(node.get("revision")),
        since=number(node.get("since")),
        declared_at=number(node.get("declaredAt")),
    )


def digest(schedule: Schedule) -> str:
    """Return four characters for the schedule. Those of another one differ, but for a chance of one in 16 million."""
    text = json.dumps(list(_of(schedule).values()))
    return urlsafe_b64encode(hashlib.blake2b(text.encode(), digest_size=3).digest()).decode()


def _of(schedule: Schedule) -> dict[str, object]:
    every, starting = schedule.every, schedule.starting
    return {
        "line": schedule.line if every is None else None,
        "timezone": schedule.timezone if every is None else None,
        "every": None if every is None else int(every.total_seconds()),
        "starting": None if starting is None else in_utc(starting),
    }


def _schedule(node: Mapping[object, object]) -> Schedule:
    every = number(node.get("every"))
    if every is None:
        return Schedule(_text(node.get("line")), _text(node.get("timezone")) or "UTC")
    starting = _text(node.get("starting"))
    return Schedule(every=every, starting=None if starting is None else datetime.fromisoformat(check_instant(starting)))


def _duration(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return round(value * 1000) if 0 < value <= _LONGEST_TIME else None


def _text(value: object) -> str | None:
    return value if isinstance(value, str) else None
