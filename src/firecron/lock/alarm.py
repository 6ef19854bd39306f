"""An alarm: the keeper makes a call at some time, unless it has forgotten the alarm before.

The keeper knows it as a lease that is not renewed. So an alarm needs no thread and no clock of its own, and rings
wherever leases are kept: on the keeper's thread, and in a test without threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable


class Alarm:
    """Calls `ring` once the monotonic clock shows `ends` (in milliseconds). The call must not block."""

    renewal_due = math.inf

    def __init__(self, name: str, ends: float, ring: Callable[[], object]) -> None:
        self.name = name
        self.ends = ends
        self._ring = ring

    def keep(self, seconds: float) -> bool:
        """Return True: there is nothing to renew."""
        return True

    def lose(self, why: str) -> None:
        """Ring: the time has come."""
        self._ring()

    def disown(self) -> None:
        """Never ring in a forked child."""
        self._ring = lambda: None
