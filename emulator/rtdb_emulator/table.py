"""A map from keys to members that never changes: adding or taking one gives another map, and shares most of the first.

A few members are a dict, which is copied; many are a `Table`, which copies one of its buckets and shares the others. So
a write costs by what it writes, whatever lies beside it, and walking over all members costs what it does for a dict.

Knows nothing of nodes. Iteration has no order; `Table.order` keeps the sorted keys, once they were sorted.
"""

from __future__ import annotations

from collections.abc import ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain
from typing import Generic, TypeAlias, TypeVar, final

T = TypeVar("T")

# The most members of a dict, and the members of a bucket in a new table.
SMALL = 128
# A bucket may grow to this many times as much before the table is made anew.
_CROWDED = 4


@final
class Table(Generic[T]):
    """Members in buckets by the hash of their key; the number of buckets is a power of two."""

    __slots__ = ("_buckets", "_size", "order")

    def __init__(self, buckets: tuple[dict[str, T], ...], size: int, order: list[str] | None = None) -> None:
        self._buckets = buckets
        self._size = size
        self.order = order

    def get(self, key: str) -> T | None:
        return self._buckets[hash(key) & (len(self._buckets) - 1)].get(key)

    def __getitem__(self, key: str) -> T:
        return self._buckets[hash(key) & (len(self._buckets) - 1)][key]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self._buckets)

    def items(self) -> Iterable[tuple[str, T]]:
        return chain.from_iterable(map(_items, self._buckets))

    def values(self) -> Iterable[T]:
        return chain.from_iterable(map(_values, self._buckets))

    def with_member(self, key: str, member: T) -> Members[T]:
        number = hash(key) & (len(self._buckets) - 1)
        old = self._buckets[number]
        size = self._size + (key not in old)
        bucket = {**old, key: member}
        if size > SMALL * _CROWDED * len(self._buckets):
            return made_of(chain(self.items(), ((key, member),)), size)
        return Table(self._replaced(number, bucket), size, self.order if key in old else None)

    def without(self, key: str) -> Members[T]:
        """Return the members without this key, which must be there."""
        number = hash(key) & (len(self._buckets) - 1)
        bucket = {**self._buckets[number]}
        del bucket[key]
        if self._size - 1 <= SMALL // 2:
            return {other: member for other, member in self.items() if other != key}
        return Table(self._replaced(number, bucket), self._size - 1)

    def differing(self, other: Table[T]) -> Iterator[tuple[Mapping[str, T], Mapping[str, T]]]:
        """Yield the pairs of buckets that differ. Tables with different numbers of buckets are one pair."""
        if len(self._buckets) != len(other._buckets):
            yield dict(self.items()), dict(other.items())
            return
        for mine, theirs in zip(self._buckets, other._buckets, strict=True):
            if mine is not theirs:
                yield mine, theirs

    def _replaced(self, number: int, bucket: dict[str, T]) -> tuple[dict[str, T], ...]:
        return (*self._buckets[:number], bucket, *self._buckets[number + 1 :])


Members: TypeAlias = dict[str, T] | Table[T]


def with_member(members: Members[T], key: str, member: T) -> Members[T]:
    """Return the members with this one, which replaces another member with its key."""
    if isinstance(members, Table):
        return members.with_member(key, member)
    return compact({**members, key: member})


def without(members: Members[T], key: str) -> Members[T]:
    """Return the members without this key, which must be there."""
    if isinstance(members, Table):
        return members.without(key)
    return {other: member for other, member in members.items() if other != key}


def compact(members: dict[str, T]) -> Members[T]:
    """Return the dict itself, or a table if it is large."""
    return members if len(members) <= SMALL else made_of(members.items(), len(members))


def made_of(members: Iterable[tuple[str, T]], size: int) -> Table[T]:
    """Return a table of at most `size` members; a later one replaces an earlier one with its key."""
    buckets: list[dict[str, T]] = empty_buckets(size)
    fill(buckets, members)
    return finished(buckets)


def empty_buckets(size: int) -> list[dict[str, T]]:
    """Return buckets for a table of `size` members: `fill` them in pieces, then `finished` makes the table."""
    return [{} for _ in range(1 << max(0, (size // SMALL).bit_length()))]


def fill(buckets: list[dict[str, T]], members: Iterable[tuple[str, T]]) -> None:
    mask = len(buckets) - 1
    for key, member in members:
        buckets[hash(key) & mask][key] = member


def finished(buckets: list[dict[str, T]], order: list[str] | None = None) -> Table[T]:
    return Table(tuple(buckets), sum(map(len, buckets)), order)


def _values(bucket: dict[str, T]) -> ValuesView[T]:
    return bucket.values()


def _items(bucket: dict[str, T]) -> ItemsView[str, T]:
    return bucket.items()
