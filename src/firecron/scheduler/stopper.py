"""The stopper: stops everything on the calling thread, or on another thread where the call would wait for itself.

A call may come from inside firecron: from a signal's handler that interrupts it, from a listener, or from a job. There
a stop could block itself: the interrupted line may hold a lock that the stop needs, and a job can't end before its call
returns. A lock doesn't show which thread holds it, so the stopper looks at the call stack.
"""

from __future__ import annotations

import atexit
import threading
from collections.abc import Callable
from types import FrameType

# Programs around the engine: they hold none of its locks.
_OUTSIDE = ("firecron.cli.", "firecron.demo.")


class Stopper:
    """Calls `work`, which stops everything and may be called twice. Without threads, the calling thread does it."""

    def __init__(self, work: Callable[[], None], *, has_threads: bool) -> None:
        self._work = work
        self._has_threads = has_threads
        self._here = threading.local()

    def stop(self, caller: FrameType | None) -> None:
        """Stop here, or, if the caller is inside firecron, on a thread that the end of the process waits for."""
        if not (self._has_threads and is_inside(caller)):
            self.stop_here()
        elif not getattr(self._here, "is_at_it", False):
            # The stop at the end of the process does the work that this thread has not done yet, and waits for it.
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
    """Return whether this frame, or one of its callers, is inside a function of firecron's engine."""
    while frame is not None:
        module = f"{frame.f_globals.get('__name__')}."
        if module.startswith("firecron.") and not module.startswith(_OUTSIDE):
            return True
        frame = frame.f_back
    return False
