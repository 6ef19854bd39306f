"""Values that are read once for all who look, and kept for a while: so reads don't grow with the number of browsers.

One thread reads a value at a time; the others wait for it. An error is shared as well, for three seconds at most: a
database that is away is asked once for all, too, and soon again.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar, cast

from firecron.base.clocks import Timing
from firecron.base.forks import tell_after_fork
from firecron.base.recent import Recent
from firecron.errors import StoreError

T = TypeVar("T")

_MOST = 100
# For how long an error is kept, in milliseconds. What is kept for minutes must not be missing for as long.
_ERROR_AGE = 3_000.0


class _Value(Generic[T]):
    """A value, or the error instead of it, and when it was read on the monotonic clock.

    `changes` counts the changes that were reported, and `seen` those before the last reading began.
    """

    def __init__(self) -> None:
        self.reading = threading.Lock()
        self.changes = 0
        self.seen = 0
        self.read_at: float | None = None
        self.value: T | None = None
        self.error: StoreError | None = None


class Shared(Generic[T]):
    """Values by their names. Each is read by `read` once it is older than `age` seconds. The last `most` are kept."""

    def __init__(self, read: Callable[[str], T], timing: Timing, age: float, *, most: int = _MOST) -> None:
        self._read = read
        self._timing = timing
        self._age = age * 1000
        self._most = most
        self.after_fork()
        tell_after_fork(self)

    def get(self, name: str = "") -> T:
        """Return the value. Raise the StoreError that came instead of it."""
        with self._lock:
            value = self._values.get(name)
            if value is None:
                value = _Value()
                self._values.put(name, value)
        with value.reading:
            is_new = value.read_at is not None and value.seen == value.changes
            age = self._age if value.error is None else min(self._age, _ERROR_AGE)
            if not is_new or self._timing.mono() - (value.read_at or 0) >= age:
                self._fill(name, value)
            if value.error is not None:
                # Each raise adds to the traceback, which would keep what every caller had in hand.
                raise value.error.with_traceback(None)
            return cast("T", value.value)

    def changed(self, name: str = "") -> None:
        """Read the value anew when it is asked for next. A reading that has begun may not have seen the change."""
        with self._lock:
            value = self._values.get(name)
            if value is not None:
                value.changes += 1

    def after_fork(self) -> None:
        """Begin anew in a forked child: a thread that only the parent has may be reading."""
        self._lock = threading.Lock()
        self._values: Recent[str, _Value[T]] = Recent()
        self._values.most = self._most

    def _fill(self, name: str, value: _Value[T]) -> None:
        value.seen = value.changes
        try:
            value.value, value.error = self._read(name), None
        except StoreError as error:
            value.value, value.error = None, error
        value.read_at = self._timing.mono()
