"""Stopping on the right thread: the one that asks, or, where that would wait for itself, another.

A call that comes from inside firecron (from a signal's handler that interrupts it, a listener, or a job) may be in the
way of what it wants: the interrupted line may hold a lock that the stop needs, and the job that calls can't end before
the call does. No lock tells whose thread holds it, so the stack is asked.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from types import FrameType

# Programs around the engine, which hold none of its locks.
_OUTSIDE = ("firecron.cli.", "firecron.demo.")


class Stopper:
    """Does `work`, which is to stop everything and may be done twice. Without threads it is always done here."""

    def __init__(self, work: Callable[[], None], *, has_threads: bool) -> None:
        self._work = work
        self._has_threads = has_threads
        self._here = threading.local()

    def stop(self, caller: FrameType | None) -> None:
        """Stop; if the caller is inside firecron, on a thread that the end of the process waits for."""
        if not (self._has_threads and is_inside(caller)):
            self.stop_here()
        elif not getattr(self._here, "is_at_it", False):
            # A stop at the end finds what this one has left to do, and waits for it.
            atexit.register(self.stop_here)
            threading.Thread(target=self.stop_here, name="firecron-stop", daemon=True).start()

    def stop_here(self) -> None:
        try:
            self._here.is_at_it = True
            self._work()
            atexit.unregister(self.stop_here)
        finally:
            self._here.is_at_it = False


def is_inside(frame: FrameType | None) -> bool:
    """Whether a function of firecron's engine is under way in this frame, or in one that it was called from."""
    while frame is not None:
        module = f"{frame.f_globals.get('__name__')}."
        if module.startswith("firecron.") and not module.startswith(_OUTSIDE):
            return True
        frame = frame.f_back
    return False
