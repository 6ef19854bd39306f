"""Real threads in tests: how long one is waited for before that is a failure, and a lock that tells who wants it."""

from __future__ import annotations

import threading

PATIENCE = 20


def named(name: str) -> set[threading.Thread]:
    """The threads of this name that are alive."""
    return {thread for thread in threading.enumerate() if thread.name == name}


def ended(thread: threading.Thread) -> bool:
    thread.join(PATIENCE)
    return not thread.is_alive()


def ended_stops() -> bool:
    """Whether the stops that were left to threads of their own have come to their end."""
    return all(map(ended, named("firecron-stop")))


class Watched:
    """A lock that says when somebody asks for it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked = threading.Semaphore(0)

    def acquire(self, timeout: float = -1) -> bool:
        self._asked.release()
        return self._lock.acquire(timeout=timeout)

    def release(self) -> None:
        self._lock.release()

    def wait(self) -> None:
        """Return once somebody has asked for it, once for each who did."""
        assert self._asked.acquire(timeout=PATIENCE), "nobody asks for the lock"
