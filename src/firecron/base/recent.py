"""The latest value of each of many keys. Their number is limited: the key that was put longest ago is forgotten."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """The values of the `most` keys that were put last, oldest first."""

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
