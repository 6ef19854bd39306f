"""What a group of instances says of itself in `cron-groups/<group>`: which jobs it would run, and that it lives. Pure.

Instances with the same jobs are a group (`base/tickets`). So an operator's tools learn from one small read who would
run what, however large the fleet is. Beside the counter `beats` the node has

    seenAt        the last heartbeat of any of them
    firstSeenAt   one of the first heartbeats; missing for the first seconds, or if those that were first died at once
    jobs          the names of the jobs that they run by their schedules, in one text, with a space between two
    schedules     a digest of the schedule of each of these jobs, in the same order, in one text
    service       what they run in: the name of the Cloud Run service, worker pool or job, else `local`
    heartbeat     the seconds between two heartbeats of one instance

A group is live if it was seen within three heartbeats. What can't be read counts as not known: nothing is said of a job
because of a node that is odd.

The catalogue has one schedule for each job, that of the program that has declared it last. The digests show that a live
program runs the job by another one, as during a rolling deployment. They are short, because a group has a hundred jobs
and is read often: which schedule the other one is, isn't said.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from firecron.base.exact import number
from firecron.cron.schedule import Schedule
from firecron.jobs.catalogue import Declared, digest

# Three missed heartbeats are silence, as of a single instance.
LIVE_BEATS = 3
DEFAULT_HEARTBEAT = 30.0
_LONGEST_HEARTBEAT = 3_600
# The security rules allow as much. Some thousand names fit.
LONGEST_JOBS = 100_000
# Of a digest.
_LENGTH = 4


@dataclass(frozen=True, slots=True)
class Group:
    """A group of instances. Instants are milliseconds of RTDB's time, `heartbeat` is seconds.

    `name` is the node's name. `jobs` is None if the node doesn't say which jobs the group runs. `digests` are those of
    the schedules, by job; a job is missing if its schedule is not known.
    """

    name: str
    jobs: frozenset[str] | None
    service: str | None
    first_seen_at: int | None
    seen_at: int | None
    heartbeat: float = DEFAULT_HEARTBEAT
    digests: Mapping[str, str] = field(default_factory=dict)

    def is_live(self, now: int) -> bool:
        """Return whether an instance of the group was seen within three heartbeats."""
        return self.seen_at is not None and self.seen_at >= now - LIVE_BEATS * self.heartbeat * 1000

    def may_run(self, job: str) -> bool:
        """Return whether the group runs the job by its schedule, as far as is known."""
        return self.jobs is None or job in self.jobs


def group_fields(schedules: Mapping[str, Schedule], service: str, heartbeat: float) -> dict[str, object]:
    """Return what an instance writes of its group once, given the schedule of each job, by the job's name.

    Too many names are left out: they are not known then.
    """
    names = sorted(schedules)
    text = " ".join(names)
    fields: dict[str, object] = {"service": service, "heartbeat": heartbeat}
    if len(text) > LONGEST_JOBS:
        return fields
    return {**fields, "jobs": text, "schedules": "".join(digest(schedules[name]) for name in names)}


def read_groups(node: object) -> tuple[Group, ...]:
    """Return what `cron-groups` says, whatever it holds."""
    found = node if isinstance(node, Mapping) else {}
    return tuple(_group(str(name), child) for name, child in sorted(found.items()) if isinstance(child, Mapping))


def live_groups_of(job: str, groups: Iterable[Group], now: int) -> tuple[Group, ...]:
    """Return the live groups that run the job by its schedule, as far as is known."""
    return tuple(group for group in groups if group.is_live(now) and group.may_run(job))


def retired(declared: Declared, groups: Iterable[Group], now: int) -> bool:
    """Return whether the job was taken out on purpose: its service lives without it, and is younger than its entry.

    A job that only triggers run is in no group, and neither is a disabled one: of them this can't be said.
    """
    groups = tuple(groups)
    if not declared.ticks or declared.disabled or declared.declared_at is None:
        return False
    if live_groups_of(declared.name, groups, now):
        return False
    return any(
        group.is_live(now)
        and group.service == declared.service
        and group.first_seen_at is not None
        and group.first_seen_at > declared.declared_at
        for group in groups
    )


def dissenting(declared: Declared, groups: Iterable[Group], now: int) -> tuple[Group, ...]:
    """Return the live groups that run the job by another schedule than declared, or although it is declared disabled.

    A group counts if it was seen after the entry was written. Before that, its instances may have become those that
    wrote it: a program was replaced, or has given its job another schedule.
    """
    name, since = declared.name, declared.declared_at or 0
    having = [group for group in groups if group.jobs is not None and name in group.jobs and group.is_live(now)]
    others = tuple(group for group in having if (group.seen_at or 0) > since)
    if declared.disabled or not others:
        return others
    mine = digest(declared.schedule)
    return tuple(group for group in others if group.digests.get(name, mine) != mine)


def _group(name: str, node: Mapping[object, object]) -> Group:
    jobs, service = node.get("jobs"), node.get("service")
    names = jobs.split() if isinstance(jobs, str) else None
    return Group(
        name,
        None if names is None else frozenset(names),
        service if isinstance(service, str) else None,
        number(node.get("firstSeenAt")),
        number(node.get("seenAt")),
        _heartbeat(node.get("heartbeat")),
        _digests(names or [], node.get("schedules")),
    )


def _digests(names: list[str], value: object) -> dict[str, str]:
    if not isinstance(value, str) or len(value) != _LENGTH * len(names):
        return {}
    return {name: value[_LENGTH * place : _LENGTH * (place + 1)] for place, name in enumerate(names)}


def _heartbeat(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= _LONGEST_HEARTBEAT:
        return DEFAULT_HEARTBEAT
    return float(value)
