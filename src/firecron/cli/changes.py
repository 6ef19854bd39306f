"""Waiting for a change: `--watch` looks again as soon as the database tells of one, instead of every few seconds.

Where it doesn't tell, because the rules refuse it, a proxy holds it back or `FIRECRON_WATCH=0`, the looks come at the
interval that was asked for.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from firecron.lock.service import LockService
from firecron.lock.streams import Follow

# Seconds between two looks: at least, however much changes; and at most, because what is shown has an age.
_LEAST = 0.2
_MOST = 10.0


class Changes:
    """The changes of some nodes. A call returns when there is one, or when it is time for a look anyway."""

    def __init__(self, locks: LockService, *paths: str) -> None:
        self._locks = locks
        self._changed = threading.Condition()
        self._follows = [Follow(path, self._wake) for path in paths]
        self._seen: list[object] = []

    def are_told(self) -> bool:
        """Whether the database tells of all of them now."""
        return all(follow.heard is not None for follow in self._follows)

    @contextmanager
    def followed(self) -> Iterator[Changes]:
        """Follow the nodes inside the block."""
        try:
            for follow in self._follows:
                self._locks.streams.add(follow)
            yield self
        finally:
            for follow in self._follows:
                self._locks.streams.discard(follow)

    def __call__(self, seconds: float) -> None:
        """Wait for the next change, or for `seconds` if changes are not told."""
        if not self._locks.streams.can_tell:
            time.sleep(seconds)
            return
        started = time.monotonic()
        with self._changed:
            while (left := self._left(seconds) - (time.monotonic() - started)) > 0:
                self._changed.wait(left)
            self._seen = self._heard()

    def _left(self, seconds: float) -> float:
        if self._heard() != self._seen:
            return min(_LEAST, seconds)
        return max(_MOST, seconds) if self.are_told() else seconds

    def _heard(self) -> list[object]:
        return [follow.heard and follow.heard.number for follow in self._follows]

    def _wake(self) -> None:
        with self._changed:
            self._changed.notify_all()
