"""Whether this is Cloud Run, and which kind: told by the variables that it sets, each kind its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

Kind: TypeAlias = Literal["service", "job", "worker pool"]

# Of each kind: the variable with its name, and the one that an instance's owner is named by.
_KINDS: tuple[tuple[Kind, str, str], ...] = (
    ("service", "K_SERVICE", "K_REVISION"),
    ("job", "CLOUD_RUN_JOB", "CLOUD_RUN_EXECUTION"),
    ("worker pool", "CLOUD_RUN_WORKER_POOL", "CLOUD_RUN_REVISION"),
)

VARIABLES = tuple(variable for _, *variables in _KINDS for variable in variables)


@dataclass(frozen=True, slots=True)
class CloudRun:
    """A service, job or worker pool, its name, and the variable that says so."""

    kind: Kind
    name: str
    variable: str


def find_cloud_run(environment: Mapping[str, str] = os.environ) -> CloudRun | None:
    """What of Cloud Run this process runs in; None elsewhere."""
    for kind, variable, _ in _KINDS:
        if name := environment.get(variable):
            return CloudRun(kind, name, variable)
    return None


def find_owner(environment: Mapping[str, str] = os.environ) -> str | None:
    """The revision or execution that this process belongs to, also where the variable was set by somebody else."""
    return next((owner for _, _, variable in _KINDS if (owner := environment.get(variable))), None)
