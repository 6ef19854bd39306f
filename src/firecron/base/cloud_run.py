"""Whether this process runs on Cloud Run, and as which kind.

Each kind of Cloud Run sets environment variables of its own.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["service", "job", "worker pool"]

# For each kind: the variable that holds its name, and the variable that holds the revision or execution.
_KINDS: tuple[tuple[Kind, str, str], ...] = (
    ("service", "K_SERVICE", "K_REVISION"),
    ("job", "CLOUD_RUN_JOB", "CLOUD_RUN_EXECUTION"),
    ("worker pool", "CLOUD_RUN_WORKER_POOL", "CLOUD_RUN_REVISION"),
)

VARIABLES = tuple(variable for _, *variables in _KINDS for variable in variables)


@dataclass(frozen=True, slots=True)
class CloudRun:
    """A service, job or worker pool: its kind, its name, and the variable that names it."""

    kind: Kind
    name: str
    variable: str


def find_cloud_run(environment: Mapping[str, str] = os.environ) -> CloudRun | None:
    """Return the service, job or worker pool that this process runs in; None outside Cloud Run."""
    for kind, variable, _ in _KINDS:
        if name := environment.get(variable):
            return CloudRun(kind, name, variable)
    return None


def find_service(environment: Mapping[str, str] = os.environ) -> str:
    """Return the name of the service, job or worker pool that this process runs in, `local` outside Cloud Run."""
    place = find_cloud_run(environment)
    return "local" if place is None else place.name


def find_revision(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the revision that this process belongs to. The execution of a Cloud Run job is none: it has an end."""
    revisions = (environment.get(variable) for kind, _, variable in _KINDS if kind != "job")
    return next((revision for revision in revisions if revision), None)


def find_owner(environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the revision or execution that this process belongs to, also if the variable was set by hand."""
    return next((owner for _, _, variable in _KINDS if (owner := environment.get(variable))), None)
