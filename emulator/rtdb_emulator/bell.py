"""Something that has changed, told to whoever waits for it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Bell:
    """Rings for all that are at it; any thread may ring, and each is called on the thread that does."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []

    def ring(self) -> None:
        with self._lock:  # nobody is called who has left
            for call in self._waiting:
                call()

    @contextmanager
    def waiting(self, call: Callable[[], None]) -> Iterator[None]:
        """Have `call` called each time; it must not block, and not ring."""
        with self._lock:
            self._waiting.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(call)
