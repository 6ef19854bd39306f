"""A flag: something that becomes true and stays so."""

from __future__ import annotations

import threading


class Flag(threading.Event):
    """An event to wait for, and true or false by itself: `if run.lost:`, `run.lost.wait(1)`."""

    def __bool__(self) -> bool:
        return self.is_set()

    # By themselves, so that a signal's handler finds on the stack that it interrupts them: an Event's lock is not
    # reentrant (see `stopper`).

    def set(self) -> None:
        super().set()

    def wait(self, timeout: float | None = None) -> bool:
        return super().wait(timeout)
