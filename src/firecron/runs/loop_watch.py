"""The loop watch: notices that a task blocks its event loop instead of awaiting.

Another thread calls `look` from time to time, which sends a probe through the loop. If the probe is overdue while the
loop is running that task, the task blocks the loop.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from firecron.base.clocks import Timing

# Milliseconds from the loop's last sign of life to the next probe, and from a probe to when it is overdue.
_PAUSE = 1_000
_OVERDUE = 2_000
# A task that blocks for longer than this many milliseconds may never end, so it is reported while it still blocks.
_LONGEST = 30_000


class LoopWatch:
    """Watches `loop` for one task. `tell` is called with the number of milliseconds for which the task blocked it."""

    def __init__(self, loop: asyncio.AbstractEventLoop, timing: Timing, tell: Callable[[int], None]) -> None:
        self._loop = loop
        self._timing = timing
        self._tell = tell
        self._alive_at = timing.mono()
        self._sent_at: float | None = None
        self._blocked = 0.0

    def begin(self) -> None:
        """Begin to watch. Called on the loop, before the task begins."""
        self._alive_at = self._timing.mono()

    def look(self, task: asyncio.Task[None] | None) -> None:
        """Send a probe, or check whether the last one is overdue. Raise RuntimeError if the loop is closed."""
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
        """Report for how long the task has blocked the loop, if it has."""
        if self._blocked:
            self._tell(round(self._blocked))

    def _return(self) -> None:
        """Note that the probe has come through. Called on the loop."""
        now = self._timing.mono()
        if self._blocked:
            self._blocked = now - self._alive_at
        self._alive_at = now
        self._sent_at = None
