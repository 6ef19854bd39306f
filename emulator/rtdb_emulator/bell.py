"""A signal that something has changed, for any number of waiting callables."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Bell:
    """Calls all that wait for it. Any thread may ring; the calls run on that thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._waiting: list[Callable[[], None]] = []

    def ring(self) -> None:
        with self._lock:  # after `waiting` ends, its call never runs
            for call in self._waiting:
                call()

    @contextmanager
    def waiting(self, call: Callable[[], None]) -> Iterator[None]:
        """Call `call` at each ring, until the block ends. It must not block, and not ring."""
        with self._lock:
            self._waiting.append(call)
        try:
            yield
        finally:
            with self._lock:
                self._waiting.remove(call)
