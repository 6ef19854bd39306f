"""The server's time: this machine's, or a clock that stands still until a test sets it."""

from __future__ import annotations

import time
from datetime import datetime
from typing import Self, final


def wall_clock() -> int:
    """This machine's time in milliseconds."""
    return time.time_ns() // 1_000_000


@final
class Clock:
    """A clock for `Emulator(now=…)`, which stands still until `set` or `advance`. Tests may set it over HTTP as well.

    Args:
        now: The first time that it shows, in milliseconds.
    """

    def __init__(self, now: int) -> None:
        self._now = now

    def __call__(self) -> int:
        return self._now

    @classmethod
    def parse(cls, text: str) -> Self:
        """Return a clock that shows the time in a text. Raises ValueError for a text without a time.

        Args:
            text: Milliseconds such as "1700000000000", or a time of ISO 8601 with its offset such as
                "2024-03-10T01:59:00Z".
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
            now: The time in milliseconds.
        """
        self._now = now

    def advance(self, milliseconds: int) -> None:
        """Show a later time.

        Args:
            milliseconds: How much later the new time is.
        """
        self._now += milliseconds
