"""The server's time: this machine's, or one that stands still until it is told otherwise."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Self, final


def wall_clock() -> int:
    """This machine's time in milliseconds."""
    return time.time_ns() // 1_000_000


@final
class Clock:
    """A clock for `Emulator(now=…)`; it can be set over HTTP too.

    Args:
        now: The milliseconds that it shows at first.
    """

    def __init__(self, now: int) -> None:
        self._now = now

    def __call__(self) -> int:
        return self._now

    @classmethod
    def parse(cls, text: str) -> Self:
        """A clock that shows so many milliseconds, or a time of ISO 8601 with its offset; ValueError for neither.

        Args:
            text: Such as "1700000000000" or "2024-03-10T01:59:00Z".
        """
        if text.isascii() and text.isdigit():
            return cls(int(text))
        try:
            moment = datetime.fromisoformat(text)
        except ValueError:
            moment = None
        if moment is None or moment.tzinfo is None:
            raise ValueError(f"{text!r} is neither milliseconds nor a time such as 2024-03-10T01:59:00Z")
        return cls(round(moment.timestamp() * 1000))

    def set(self, now: int) -> None:
        """Show this time.

        Args:
            now: The milliseconds.
        """
        self._now = now

    def advance(self, milliseconds: int) -> None:
        """Show a later time.

        Args:
            milliseconds: How much later.
        """
        self._now += milliseconds
