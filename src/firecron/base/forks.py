"""What has to happen in a forked child. Sockets, threads and leases belong to the parent, and stay there."""

from __future__ import annotations

import os
from typing import Protocol
from weakref import WeakSet


class ForkAware(Protocol):
    def after_fork(self) -> None:
        """Drop what belongs to the parent. Called in the child, on its only thread."""


aware: WeakSet[ForkAware] = WeakSet()


def tell_after_fork(thing: ForkAware) -> None:
    """Call the thing's `after_fork` after every fork, for as long as the thing lives."""
    aware.add(thing)


def _after_fork() -> None:
    for thing in list(aware):
        thing.after_fork()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
