"""A flag, which becomes true once and stays true; and what has to happen in a forked child.

Sockets, threads and leases belong to the parent, and stay there. A thread that only the parent has may hold a lock. So
what has any of these makes it in a method, which a forked child calls once more: this is the only guard against forks.

The first line of a program loads this module, so it imports nothing that is slow to load (`threads` does).
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from types import MethodType
from typing import cast
from weakref import ref


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


# By a mark: the object and its method. A WeakMethod won't do: its callback may raise at the end of a program.
begins: dict[object, tuple[ref[object], Callable[[object], object]]] = {}


def in_each_process(begin: Callable[[], object]) -> None:
    """Call this method now, and in each forked child for as long as its object lives.

    It makes what belongs to one process: locks, and what is known of threads, sockets and leases. In the child it is
    called on the only thread, which may be in the middle of any other method of the object: so the object stays, and
    what a method goes on with there is free and empty.
    """
    begin()
    in_each_child(begin)


def in_each_child(begin: Callable[[], object]) -> None:
    """Call this method in each forked child for as long as its object lives, in the order in which they came here."""
    method, mark = cast("MethodType", begin), object()
    forget = begins.pop  # the module's own names may be gone at the end of a program
    begins[mark] = ref(method.__self__, lambda _: forget(mark, None)), method.__func__


def begin_child() -> None:
    """Begin anew in a forked child. What raises keeps nothing else from it, and is raised at the end."""
    raised: BaseException | None = None
    for owner, method in list(begins.values()):
        one = owner()
        try:
            if one is not None:
                method(one)
        except BaseException as error:
            raised = raised or error
    if raised is not None:
        raise raised


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=begin_child)
