"""A flag: something that becomes true and stays so."""

from __future__ import annotations

import threading


class Flag(threading.Event):
    """An event to wait for, and true or false by itself: `if run.lost:`, `run.lost.wait(1)`."""

    def __bool__(self) -> bool:
        return self.is_set()
