"""A flag: a value that becomes true once and stays true."""

from __future__ import annotations

import threading


class Flag(threading.Event):
    """A `threading.Event` that is also true or false by itself: `if run.lost:`, `run.lost.wait(1)`."""

    def __bool__(self) -> bool:
        return self.is_set()

    # These two methods only call the Event's. They are here so that a signal handler can see in the stack whether it
    # interrupts one of them: an Event's lock is not reentrant (see `stopper`).

    def set(self) -> None:
        super().set()

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until it is true, and return whether it is.

        Args:
            timeout: How many seconds to wait at the most; None: without limit.
        """
        return super().wait(timeout)
