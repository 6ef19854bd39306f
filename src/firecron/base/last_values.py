"""What is remembered of many things that come from outside, within bounds: `LastValues` values, and log lines
(`Seldom`).

Log lines that somebody outside can cause as often as they like: of each kind one a minute is logged, with a count.

The first line of a kind is logged at once. Of those that follow within a minute, none is. The first one after the
minute has their number. The last lines of a burst are counted in the next one, if there ever is one.

A kind may come from outside as well. After `MOST_KINDS` kinds all others are one kind.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator
from typing import Generic, TypeVar

from firecron.base.clocks import Deadline
from firecron.base.flag import in_each_process

K = TypeVar("K")
V = TypeVar("V")


class LastValues(Generic[K, V]):
    """The latest value of each of the `most` keys that were put last, oldest first."""

    most = 10_000

    def __init__(self) -> None:
        self._values: OrderedDict[K, V] = OrderedDict()

    def __contains__(self, key: K) -> bool:
        return key in self._values

    def __iter__(self) -> Iterator[K]:
        return iter(self._values)

    def get(self, key: K) -> V | None:
        return self._values.get(key)

    def put(self, key: K, value: V) -> None:
        """Remember the value, and make its key the newest."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self.most:
            self._values.popitem(last=False)

    def forget(self, key: K) -> None:
        self._values.pop(key, None)


# --- log lines

MOST_KINDS = 100
_OTHERS = ""
_PAUSE = 60.0


class Seldom:
    """Counts the lines of each kind. `deadline` makes the deadline in so many seconds."""

    def __init__(self, deadline: Callable[[float], Deadline]) -> None:
        self._deadline = deadline
        self._silences: dict[str, Deadline] = {}
        self._counts: dict[str, int] = {}
        in_each_process(self._begin_process)

    def _begin_process(self) -> None:
        self._lock = threading.Lock()

    def count(self, kind: str) -> int | None:
        """Return how many lines of this kind the present one stands for; None if it is not to be logged."""
        with self._lock:
            if kind not in self._silences and len(self._silences) >= MOST_KINDS:
                kind = _OTHERS
            self._counts[kind] = self._counts.get(kind, 0) + 1
            silence = self._silences.get(kind)
            if silence is not None and silence.remaining() > 0:
                return None
            self._silences[kind] = self._deadline(_PAUSE)
            return self._counts.pop(kind)


def how_often(count: int) -> str:
    """Return the words to add to a line that stands for several."""
    return "" if count == 1 else f"; with {count - 1:,} more since the last such line"
