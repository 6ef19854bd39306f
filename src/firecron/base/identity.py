"""The names of this instance, for people: its revision (`instance_id`), and which of the instances it is (`instance`).

The lock never compares these names: all instances of a revision have the same `instance_id`, and all workers of an
instance may have the same `instance`.

On Cloud Run the revision is in the environment, and the metadata server knows the rest, such as the instance's id and
the project. Elsewhere there is no such server, and a network may answer with its sign-in page. So a request takes one
second at most, and without an answer, or if another server answers, its result is None.
"""

from __future__ import annotations

import os
import re
import secrets
import threading
import uuid
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, TypeAlias

# --- Cloud Run
#
# Each kind of Cloud Run sets environment variables of its own.

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


# --- the metadata server

# In seconds: what a request may take, and how long the first caller waits for the name of the instance.
_TIMEOUT = 1.0
_HOST = "metadata.google.internal"
_VALUE = re.compile(r"[A-Za-z0-9.:-]+")


def ask_metadata(path: str, environment: Mapping[str, str] = os.environ) -> str | None:
    """Return the value at a path below `/computeMetadata/v1/`; None without one. This blocks for one second at most."""
    import requests

    host = environment.get("GCE_METADATA_HOST", _HOST)
    headers = {"Metadata-Flavor": "Google"}
    try:
        reply = requests.get(f"http://{host}/computeMetadata/v1/{path}", headers=headers, timeout=_TIMEOUT)
    except requests.RequestException:
        return None  # this machine is not on Google Cloud, or its network is down
    value = reply.text.strip()
    return value if reply.ok and _VALUE.fullmatch(value) else None


# --- names

_LENGTH = 12


def attempt_id(key: str, attempt: object) -> uuid.UUID:
    """Return the id of one attempt at a tick, for services that tell runs apart by ids of this form."""
    return uuid.uuid5(uuid.NAMESPACE_URL, f"{key}:{attempt}")


class Identity:
    """The `instance_id` and the `instance` of this process.

    `instance_id` is known at once, and so are the `service` and its `revision`, for people as well. On Cloud Run a
    thread asks the metadata server for `instance`, once. `known` is set when the server has answered, or when the wait
    for the answer is over.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.instance_id = find_owner(environment) or "local"
        self.service = find_service(environment)
        self.revision = find_revision(environment)
        self._instance = secrets.token_hex(_LENGTH // 2)
        self.known = threading.Event()
        if find_cloud_run(environment):
            threading.Thread(target=self.ask, args=(environment,), name="firecron-identity", daemon=True).start()
        else:
            self.known.set()

    @cached_property
    def instance(self) -> str:
        """The instance's name of 12 characters. The first caller may wait a second for it."""
        self.known.wait(_TIMEOUT)
        self.known.set()  # after one wait no caller waits again
        return self._instance

    def settled(self) -> Identity:
        """Return the same with the name that is known now, for a forked child: it has no thread that asks."""
        child = copy(self)
        child.known = threading.Event()
        child.known.set()
        return child

    def ask(self, environment: Mapping[str, str]) -> None:
        """Ask the metadata server. Its answer counts only if no caller has read another name before."""
        try:
            instance = (ask_metadata("instance/id", environment) or "")[:_LENGTH]
            # Without an answer the random name stays.
            if instance.isalnum() and not self.known.is_set():
                self._instance = instance
        finally:
            self.known.set()
