"""The instances of a fleet and their groups, as the page shows them, and where their log lines are. Pure.

Only `find_project` asks: for the project of this process.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TypeAlias
from urllib.parse import quote

from firecron.base.events import RUN_LABEL
from firecron.base.identity import ask_metadata, find_cloud_run
from firecron.base.instants import number, to_text
from firecron.base.texts import plain
from firecron.jobs.catalogue import Group
from firecron.lock.refusal import SILENT_BEATS
from firecron.runs.entry import Entry, key_of_run

Json: TypeAlias = dict[str, object]

# --- the instances, and the groups of those with the same jobs


@dataclass(frozen=True, slots=True)
class Fleet:
    """The instances and their groups, as their nodes are: None if they can't be read, and `problems` say why."""

    nodes: Mapping[str, object] | None
    groups: tuple[Group, ...] | None
    heartbeat: float
    problems: dict[str, str]

    def instances(self, now: int) -> list[Json]:
        """Return the instances as JSON, those of a service and revision together."""
        services = sorted((one.service for one in self.groups or () if one.service), key=len, reverse=True)
        oldest = now - SILENT_BEATS * self.heartbeat * 1000
        found = [
            _instance(name, node, oldest, services)
            for name, node in (self.nodes or {}).items()
            if name != "clock" and isinstance(node, dict)
        ]
        return sorted(found, key=lambda one: (one["service"] or "", one["instanceId"] or "", str(one["process"])))


def _instance(name: str, node: Mapping[str, object], oldest: float, services: Sequence[str]) -> Json:
    """Return an instance. Its revision or execution begins with the name of its service."""
    seen, instance_id = number(node.get("seenAt")), node.get("instanceId")
    owner = plain(instance_id) if isinstance(instance_id, str) else None
    service = next((one for one in services if owner is not None and f"{owner}-".startswith(f"{one}-")), None)
    return {
        "instance": plain(name.rpartition("-")[0] or name),
        "process": plain(name),
        "instanceId": owner,
        "service": None if service is None else plain(service),
        "startedAt": _instant(node.get("startedAt")),
        "seenAt": None if seen is None else to_text(seen),
        "alive": seen is not None and seen >= oldest,
        "jobs": number(node.get("jobs")),
    }


def group_json(group: Group, now: int) -> dict[str, object]:
    return {
        "group": plain(group.name),
        "service": None if group.service is None else plain(group.service),
        "firstSeenAt": None if group.first_seen_at is None else to_text(group.first_seen_at),
        "seenAt": None if group.seen_at is None else to_text(group.seen_at),
        "live": group.is_live(now),
        "jobs": None if group.jobs is None else sorted(plain(job) for job in group.jobs),
    }


def _instant(value: object) -> str | None:
    instant = number(value)
    return None if instant is None else to_text(instant)


# --- a link to the log lines of a run in Cloud Logging
#
# Each line of a run has the run's key in a label, which `firecron.logging.setup` writes on Cloud Run. A job that runs
# elsewhere has no link. The project is the environment's, or the metadata server's; without one the console takes the
# one that the visitor used last.

_CONSOLE = "https://console.cloud.google.com/logs/query"
# In milliseconds.
_AROUND = 60_000
_HOUR = 3_600_000


def log_link(name: str, entry: Entry, service: str | None, project: str | None) -> str | None:
    """Return the URL of a run's log lines; None for a run without any in Cloud Logging."""
    if service in (None, "local") or entry.started_at is None or entry.recorded_by is not None:
        return None
    ended = entry.started_at if entry.ended_at is None else entry.ended_at
    quoted = key_of_run(name, entry.key).replace("\\", "\\\\").replace('"', '\\"')
    return _console(f'labels.{RUN_LABEL}="{quoted}"', entry.started_at - _AROUND, ended + _AROUND, project)


def instance_link(instance: str, service: str, project: str | None, now: int) -> str | None:
    """Return the URL of an instance's log lines of the last hour; None if it has none in Cloud Logging."""
    if service == "local":
        return None
    return _console(f'labels.instanceId:"{instance}"', now - _HOUR, now, project)


def _console(query: str, start: int, end: int, project: str | None) -> str:
    where = "" if project is None else f"?project={quote(project, safe='')}"
    return f"{_CONSOLE};query={quote(query, safe='')};startTime={to_text(start)};endTime={to_text(end)}{where}"


@cache
def find_project() -> str | None:
    """Return the project of this process, if it is known. On Cloud Run the first call may take a second."""
    return project_of(os.environ)


def project_of(environment: Mapping[str, str]) -> str | None:
    """Return the project that the environment names, or that the metadata server knows on Cloud Run."""
    named = environment.get("GOOGLE_CLOUD_PROJECT")
    if named or find_cloud_run(environment) is None:
        return named or None
    return ask_metadata("project/project-id", environment)
