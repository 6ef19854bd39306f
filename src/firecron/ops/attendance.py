"""Who has which job: what the groups of instances in `cron-groups` say of each job of the catalogue. Pure.

A group is live if it was seen within three heartbeats. A job in no live group was taken out on purpose if its service
has a live group that is younger than the job's entry.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from firecron.base.exact import number
from firecron.jobs.catalogue import Declared
from firecron.lock.instances import SILENT_BEATS
from firecron.ops.health import Attendance

# The groups can't be read: the rules are older than they are.
EVERYBODY = Attendance()


def attendances(catalogue: Iterable[Declared], groups: object, now: int, heartbeat: float) -> Mapping[str, Attendance]:
    """Return who has each of these jobs, by name. `heartbeat` is in seconds."""
    oldest = now - SILENT_BEATS * heartbeat * 1000
    last_seen: dict[str, int] = {}
    youngest: dict[str, int] = {}
    for group in groups.values() if isinstance(groups, dict) else ():
        fields = group if isinstance(group, dict) else {}
        seen, first, jobs = number(fields.get("seenAt")), number(fields.get("firstSeenAt")), fields.get("jobs")
        if seen is None:
            continue
        for name in jobs if isinstance(jobs, list | dict) else ():
            last_seen[name] = max(seen, last_seen.get(name, seen))
        if seen >= oldest and first is not None:
            service = str(fields.get("service"))
            youngest[service] = max(first, youngest.get(service, first))
    return {one.name: _of(one, last_seen.get(one.name), youngest.get(one.service), oldest) for one in catalogue}


def _of(declared: Declared, last_seen: int | None, youngest: int | None, oldest: float) -> Attendance:
    is_attended = last_seen is not None and last_seen >= oldest
    is_newer = youngest is not None and declared.declared_at is not None and youngest > declared.declared_at
    return Attendance(is_attended, declared.ticks and not is_attended and is_newer, last_seen)
