"""The names of this instance, for people: its revision (`instance_id`), and which of the instances it is (`instance`).

The lock never compares these names: all instances of a revision have the same `instance_id`, and all workers of an
instance may have the same `instance`.
"""

from __future__ import annotations

import os
import secrets
import threading
import uuid
from collections.abc import Mapping

from firecron.base.cloud_run import find_cloud_run, find_owner, find_revision, find_service
from firecron.base.metadata import ask_metadata

_LENGTH = 12
_TIMEOUT = 1.0


def new_holder() -> str:
    """Return a random token for a holder, short enough for the console to show it whole."""
    return secrets.token_urlsafe(12)


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

    @property
    def instance(self) -> str:
        """The instance's name of 12 characters. The first caller may wait a second for it."""
        self.known.wait(_TIMEOUT)
        self.known.set()  # after one wait no caller waits again
        return self._instance

    def after_fork(self) -> None:
        """Keep the name that is known now: a forked child has no thread that asks."""
        self.known = threading.Event()
        self.known.set()

    def ask(self, environment: Mapping[str, str]) -> None:
        """Ask the metadata server. Its answer counts only if no caller has read another name before."""
        try:
            instance = (ask_metadata("instance/id", environment) or "")[:_LENGTH]
            # Without an answer the random name stays.
            if instance.isalnum() and not self.known.is_set():
                self._instance = instance
        finally:
            self.known.set()
