"""What the engine finds instead of `threading`, `time`, `random` and the like: the same names, in virtual time.

Each class does what the standard library's class does, for the threads of `greenlets`. Each method is a point where
another thread may go on, before it does anything. Only what firecron uses is here. A name that is missing is an
AttributeError at the import, so nothing real is used by mistake.

A lock doesn't queue: whoever comes first after a release gets it. A condition wakes its waiters in their order, as
CPython's does.
"""

from __future__ import annotations

from collections import deque
from types import TracebackType
from typing import Self

from tests.simulation.greenlets import Thread, current

__all__ = [
    "Condition",
    "Event",
    "Lock",
    "RLock",
    "Semaphore",
    "Thread",
    "current_thread",
    "enumerate",
    "get_ident",
    "local",
    "main_thread",
]


class Lock:
    """A lock that any thread may release."""

    def __init__(self) -> None:
        self._is_locked = False
        self._waiting: list[Thread] = []

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        scheduler = current()
        scheduler.point()
        ends = None if timeout < 0 else scheduler.after(timeout)
        while not self._take():
            if not blocking or (ends is not None and scheduler.now >= ends):
                return False
            thread = scheduler.thread
            self._waiting.append(thread)
            # A release may come after the time is over, and before the thread goes on: it isn't in the line any more.
            is_woken = scheduler.block(None if ends is None else ends - scheduler.now)
            if not is_woken and thread in self._waiting:
                self._waiting.remove(thread)
        return True

    def _take(self) -> bool:
        was_free, self._is_locked = not self._is_locked, True
        return was_free

    def release(self) -> None:
        if not self._is_locked:
            raise RuntimeError("release unlocked lock")
        self._is_locked = False
        scheduler = current()
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            scheduler.wake(thread)
        scheduler.point()

    def locked(self) -> bool:
        return self._is_locked

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()


class RLock:
    """A lock that its owner may take again."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._owner: Thread | None = None
        self._count = 0

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        me = current().thread
        if self._owner is me:
            self._count += 1
            return True
        if not self._lock.acquire(blocking, timeout):
            return False
        self._owner, self._count = me, 1
        return True

    def release(self) -> None:
        if self._owner is not current().thread:
            raise RuntimeError("cannot release un-acquired lock")
        self._count -= 1
        if self._count == 0:
            self._owner = None
            self._lock.release()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.release()

    def is_mine(self) -> bool:
        return self._owner is current().thread

    def leave(self) -> int:
        """Release it however often it was taken. Return how often that was."""
        count, self._count, self._owner = self._count, 0, None
        self._lock.release()
        return count

    def return_to(self, count: int) -> None:
        """Take it as often as before `leave`."""
        self._lock.acquire()
        self._owner, self._count = current().thread, count


class Condition:
    """A condition with this reentrant lock, or one of its own."""

    def __init__(self, lock: RLock | None = None) -> None:
        self._lock = lock or RLock()
        self._waiting: deque[_Waiting] = deque()

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        return self._lock.acquire(blocking, timeout)

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> Self:
        self._lock.acquire()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        if not self._lock.is_mine():
            raise RuntimeError("cannot wait on un-acquired lock")
        scheduler = current()
        thread = scheduler.thread
        # In the line before the lock is released: a notification from then on counts.
        token = _Waiting(thread)
        self._waiting.append(token)
        count = self._lock.leave()
        ends = None if timeout is None else scheduler.after(timeout)
        try:
            while not token.is_notified and (ends is None or scheduler.now < ends):
                scheduler.block(None if ends is None else ends - scheduler.now)
        finally:
            if not token.is_notified:
                self._waiting.remove(token)
            self._lock.return_to(count)
        return token.is_notified

    def notify(self, n: int = 1) -> None:
        if not self._lock.is_mine():
            raise RuntimeError("cannot notify on un-acquired lock")
        scheduler = current()
        for _ in range(min(n, len(self._waiting))):
            token = self._waiting.popleft()
            token.is_notified = True
            scheduler.wake(token.thread)

    def notify_all(self) -> None:
        self.notify(len(self._waiting))


class _Waiting:
    def __init__(self, thread: Thread) -> None:
        self.thread = thread
        self.is_notified = False


class Event:
    """A flag that threads wait for."""

    def __init__(self) -> None:
        self._is_set = False
        self._waiting: list[Thread] = []

    def is_set(self) -> bool:
        current().point()
        return self._is_set

    def set(self) -> None:
        scheduler = current()
        scheduler.point()
        self._is_set = True
        waiting, self._waiting = self._waiting, []
        for thread in waiting:
            scheduler.wake(thread)

    def clear(self) -> None:
        self._is_set = False

    def wait(self, timeout: float | None = None) -> bool:
        scheduler = current()
        scheduler.point()
        ends = None if timeout is None else scheduler.after(timeout)
        while not self._is_set and (ends is None or scheduler.now < ends):
            thread = scheduler.thread
            self._waiting.append(thread)
            # `set` may come in between, as a release of a lock may.
            is_woken = scheduler.block(None if ends is None else ends - scheduler.now)
            if not is_woken and thread in self._waiting:
                self._waiting.remove(thread)
        return self._is_set


class Semaphore:
    """A number of permits."""

    def __init__(self, value: int = 1) -> None:
        self._value = value
        self._changed = Condition()

    def acquire(self, blocking: bool = True, timeout: float | None = None) -> bool:
        with self._changed:
            if self._value == 0 and blocking:
                self._changed.wait(timeout)
            if self._value == 0:
                return False
            self._value -= 1
            return True

    def release(self) -> None:
        with self._changed:
            self._value += 1
            self._changed.notify()


class local:
    """Attributes of which each thread has its own."""

    def __getattr__(self, name: str) -> object:
        try:
            return current().thread.locals[self][name]
        except KeyError:
            raise AttributeError(name) from None

    def __setattr__(self, name: str, value: object) -> None:
        current().thread.locals.setdefault(self, {})[name] = value


def current_thread() -> Thread:
    return current().thread


def main_thread() -> Thread | None:
    """Return the machine's first thread: its program's."""
    machine = current().machine
    return None if machine is None else machine.main


def enumerate() -> list[Thread]:
    machine = current().machine
    return [] if machine is None else machine.alive()


def get_ident() -> int:
    return current().thread.ident or 0
