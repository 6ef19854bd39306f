"""Links to the log lines of a run in Cloud Logging.

Each line of a run has the run's key in a label, which `firecron.logging.setup` writes on Cloud Run. A job that runs
elsewhere has no link. The project is the environment's, or the metadata server's; without one the console takes the one
that the visitor used last.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import cache
from urllib.parse import quote

from firecron.base.cloud_run import find_cloud_run
from firecron.base.events import RUN_LABEL
from firecron.base.instants import to_text
from firecron.base.metadata import ask_metadata
from firecron.runs.entry import Entry

_CONSOLE = "https://console.cloud.google.com/logs/query"
# In milliseconds.
_AROUND = 60_000
_MANUAL = "-manual-"


def log_link(name: str, entry: Entry, service: str | None, project: str | None) -> str | None:
    """Return the URL of a run's log lines; None for a run without any in Cloud Logging."""
    if service in (None, "local") or entry.started_at is None or entry.recorded_by is not None:
        return None
    ended = entry.started_at if entry.ended_at is None else entry.ended_at
    run = f"{name}:manual:{entry.key.rpartition(_MANUAL)[2]}" if _MANUAL in entry.key else f"{name}:{entry.key}"
    quoted = run.replace("\\", "\\\\").replace('"', '\\"')
    query = quote(f'labels.{RUN_LABEL}="{quoted}"', safe="")
    start, end = to_text(entry.started_at - _AROUND), to_text(ended + _AROUND)
    where = "" if project is None else f"?project={quote(project, safe='')}"
    return f"{_CONSOLE};query={query};startTime={start};endTime={end}{where}"


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
