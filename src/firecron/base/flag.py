"""A flag, which becomes true once and stays true; and what has to happen in a forked child.

Sockets, threads and leases belong to the parent, and stay there: a thing that has some drops them in its `after_fork`.

The first line of a program loads this module, so it imports nothing that is slow to load (`threads` does).
"""

from __future__ import annotations

import os
import threading
from typing import Protocol
from weakref import WeakSet


class Flag(threading.Event):
    """A `threading.Event` that is also true or false by itself: `if run.lost:`, `run.lost.wait(1)`.

    It is shown as what it is: `print(run.lost)` prints True or False.
    """

    def __bool__(self) -> bool:
        return self.is_set()

    def __repr__(self) -> str:
        return repr(self.is_set())

    # These two methods only call the Event's. They are here so that a signal handler can see in the stack whether it
    # interrupts one of them: an Event's lock is not reentrant (see `app.Stopper`).

    def set(self) -> None:
        super().set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is true, and return whether it is.

        Args:
            timeout: How many seconds to wait at the most; None: without limit.
        """
        return super().wait(timeout)


# --- forks


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
