"""Real threads in tests: how long a test waits for one before it fails, and locks and clocks that tell of waits."""

from __future__ import annotations

import threading
import time

from firecron.testing import FakeTiming

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


class Resting(FakeTiming):
    """Time that is moved by hand, and tells when a thread waits; one whose time has come `ends` there."""

    def __init__(self) -> None:
        super().__init__()
        self.ends = False
        self.condition = threading.Condition()
        self._waits = threading.Semaphore(0)

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        self.condition = condition
        self._waits.release()
        super().wait(condition, seconds)
        if self.ends:
            raise SystemExit

    def rests(self) -> None:
        assert self._waits.acquire(timeout=PATIENCE), "the thread doesn't come to rest"


class Followed(FakeTiming):
    """Virtual time that real threads keep up with: it goes on only when all that waited for it have noticed."""

    def __init__(self, wall: float) -> None:
        super().__init__(wall=wall)
        self._changed = threading.Condition()
        # The threads that wait, each with the time that it has seen.
        self._resting: dict[threading.Thread, float] = {}

    def wait(self, condition: threading.Condition, seconds: float | None) -> None:
        me = threading.current_thread()
        with self._changed:
            self._resting[me] = self._seen.ahead
            self._changed.notify_all()
        try:
            super().wait(condition, seconds)
        finally:
            with self._changed:
                del self._resting[me]

    def rest(self, number: int) -> None:
        """Return once this number of threads wait for time to pass."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self._resting) >= number, PATIENCE), self._resting

    def pass_by(self, seconds: float, step: float = 0.5) -> None:
        """Let time pass in steps. After each step, each thread that waited waits again, or has ended."""
        for _ in range(round(seconds / step)):
            with self._changed:
                waiting = set(self._resting)
            self.advance(step)
            for thread in waiting:
                self.await_rest(thread)

    def await_rest(self, thread: threading.Thread) -> None:
        """Return once this thread has noticed what time it is and waits for more to pass, or has ended."""
        patience = time.monotonic() + PATIENCE
        with self._changed:
            while thread.is_alive() and self._resting.get(thread) != self._ahead:
                assert time.monotonic() < patience, f"{thread.name} goes on without waiting for time to pass"
                self._changed.wait(0.01)
