"""Who this instance is, for people: the revision that an operator knows, and which of its instances.

Neither is ever compared: all instances of a revision share the one, and workers of an instance may share the other.
"""

from __future__ import annotations

import os
import secrets
import threading
from collections.abc import Mapping

from firecron.base.cloud_run import find_cloud_run, find_owner
from firecron.base.metadata import ask_metadata

_LENGTH = 12
_TIMEOUT = 1.0


def new_holder() -> str:
    """A random token, short enough to be shown whole in the console."""
    return secrets.token_urlsafe(12)


class Identity:
    """`instance_id` is known at once; `instance` is asked of the metadata server on Cloud Run, once, on a thread of
    its own. `known` is set when it is known, or waited for no more.
    """

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self.instance_id = find_owner(environment) or "local"
        self._instance = secrets.token_hex(_LENGTH // 2)
        self.known = threading.Event()
        if find_cloud_run(environment):
            threading.Thread(target=self.ask, args=(environment,), name="firecron-identity", daemon=True).start()
        else:
            self.known.set()

    @property
    def instance(self) -> str:
        """12 characters; the first caller may wait a second for them."""
        self.known.wait(_TIMEOUT)
        self.known.set()  # who has waited once doesn't wait again
        return self._instance

    def after_fork(self) -> None:
        """In a forked child the asking thread isn't there: what is known by now has to do."""
        self.known = threading.Event()
        self.known.set()

    def ask(self, environment: Mapping[str, str]) -> None:
        """Ask the metadata server; its answer counts only while nobody was told another name."""
        try:
            instance = (ask_metadata("instance/id", environment) or "")[:_LENGTH]
            # Without an answer the random id does as well.
            if instance.isalnum() and not self.known.is_set():
                self._instance = instance
        finally:
            self.known.set()
