"""Notices that a task keeps an event loop from everything else: it blocks where it should await.

Asked now and then on another thread, which sends a probe through the loop. If a probe is overdue while the loop is in
that very task, then the task blocks.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from firecron.base.clocks import Timing

# Milliseconds, from a sign of life to the next probe, and from that to its return.
_PAUSE = 1_000
_OVERDUE = 2_000
# A task that blocks for longer may never end, so it is told of while it does.
_LONGEST = 30_000


class LoopWatch:
    """Watches `loop` for one task; `tell` is called with for how many milliseconds the task has blocked it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timing: Timing, tell: Callable[[int], None]) -> None:
        self._loop = loop
        self._timing = timing
        self._tell = tell
        self._alive_at = timing.mono()
        self._sent_at: float | None = None
        self._blocked = 0.0

    def begin(self) -> None:
        """On the loop: it begins with the task."""
        self._alive_at = self._timing.mono()

    def look(self, task: asyncio.Task[None] | None) -> None:
        """Send a probe, or see what has become of the last one. Raises RuntimeError if the loop is closed."""
        now, alive_at, sent_at = self._timing.mono(), self._alive_at, self._sent_at
        if sent_at is None:
            self.end()
            if now - alive_at >= _PAUSE:
                self._sent_at = now
                self._loop.call_soon_threadsafe(self._return)
        elif now - sent_at >= _OVERDUE and task is not None and asyncio.current_task(self._loop) is task:
            self._blocked = now - alive_at
            if self._blocked >= _LONGEST:
                self.end()

    def end(self) -> None:
        """Tell what was found."""
        if self._blocked:
            self._tell(round(self._blocked))

    def _return(self) -> None:
        """On the loop: the probe."""
        now = self._timing.mono()
        if self._blocked:
            self._blocked = now - self._alive_at
        self._alive_at = now
        self._sent_at = None
