"""What was last learned of each of many keys: the oldest is forgotten, since keys that are made of data have no end."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values of the `most` keys that were put last, the oldest first."""

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
        """Remember the value as the newest."""
        self._values.pop(key, None)
        self._values[key] = value
        if len(self._values) > self.most:
            self._values.popitem(last=False)

    def forget(self, key: K) -> None:
        self._values.pop(key, None)
