"""Work that is under way on any thread, and that the end of the program may have to wait for.

Each piece of work has a mark from its beginning to its end. A mark may be removed twice, so code that Ctrl-C interrupts
at any line can remove its mark again.
"""

from __future__ import annotations

import threading

from firecron.base.clocks import Timing


class Outstanding:
    """The marks of the work that is under way. `changed` is notified whenever work ends."""

    def __init__(self, timing: Timing) -> None:
        self._timing = timing
        self.changed = threading.Condition()
        self._marks: set[object] = set()

    def __len__(self) -> int:
        return len(self._marks)

    def add(self, mark: object) -> None:
        """Note that the work of this mark begins."""
        with self.changed:
            self._marks.add(mark)

    def remove(self, mark: object) -> None:
        """Note that the work of this mark has ended."""
        with self.changed:
            self._marks.discard(mark)
            self.changed.notify_all()

    def wait(self, until: float) -> None:
        """Wait until no work is under way, or until `until` on the monotonic clock (in milliseconds)."""
        with self.changed:
            while self._marks and (left := until - self._timing.mono()) > 0:
                self._timing.wait(self.changed, left / 1000)

    def after_fork(self) -> None:
        """Drop all marks in a forked child: the work is the parent's."""
        self.changed = threading.Condition()
        self._marks = set()
