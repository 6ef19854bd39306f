"""A map from keys to members that never changes: adding or taking one gives another map, and shares most of the first.

A few members are a dict, which is copied; many are a `Table`, which copies one of its buckets and shares the others. So
a write costs by what it writes, whatever lies beside it, and walking over all members costs what it does for a dict.

Knows nothing of nodes. Iteration has no order. A table and those that are made of it share the orders of keys that were
asked for: `Table.in_order` moves one along with the members that have changed since.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Generator, ItemsView, Iterable, Iterator, Mapping, ValuesView
from itertools import chain, islice
from typing import Any, Generic, TypeAlias, TypeVar, final

from rtdb_emulator.steps import at_once

T = TypeVar("T")
# Where a key with its member stands in an order: a tuple that sorts.
Place: TypeAlias = tuple[Any, ...]
Buckets: TypeAlias = tuple[dict[str, T], ...]

# The most members of a dict, and the members of a bucket in a new table.
SMALL = 128
# A bucket may grow to this many times as much before the table is made anew.
_CROWDED = 4
# The most members that an order is moved along with: after more changes it costs less to sort the keys again.
_MOST_MOVED = 200
# The most orders of one table that are kept.
_MOST_ORDERS = 8


@final
class Table(Generic[T]):
    """Members in buckets by the hash of their key; the number of buckets is a power of two."""

    __slots__ = ("_orders", "_size", "buckets")

    def __init__(
        self, buckets: Buckets[T], size: int, orders: dict[str, tuple[Buckets[T], list[str]]] | None = None
    ) -> None:
        self.buckets = buckets
        self._size = size
        # By their names: the keys in an order, with the buckets that they are the keys of. A table in here would refer
        # to itself, and its count of references would never free it.
        self._orders = {} if orders is None else orders

    def get(self, key: str) -> T | None:
        return self.buckets[hash(key) & (len(self.buckets) - 1)].get(key)

    def __getitem__(self, key: str) -> T:
        return self.buckets[hash(key) & (len(self.buckets) - 1)][key]

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[str]:
        return chain.from_iterable(self.buckets)

    def items(self) -> Iterable[tuple[str, T]]:
        return chain.from_iterable(map(_items, self.buckets))

    def values(self) -> Iterable[T]:
        return chain.from_iterable(map(_values, self.buckets))

    def with_member(self, key: str, member: T) -> Members[T]:
        number = hash(key) & (len(self.buckets) - 1)
        old = self.buckets[number]
        size = self._size + (key not in old)
        bucket = {**old, key: member}
        if size > SMALL * _CROWDED * len(self.buckets):
            return made_of(chain(self.items(), ((key, member),)), size)
        return Table(self._replaced(number, bucket), size, self._orders)

    def without(self, key: str) -> Members[T]:
        """Return the members without this key, which must be there."""
        number = hash(key) & (len(self.buckets) - 1)
        bucket = {**self.buckets[number]}
        del bucket[key]
        if self._size - 1 <= SMALL // 2:
            return {other: member for other, member in self.items() if other != key}
        return Table(self._replaced(number, bucket), self._size - 1, self._orders)

    def differing(self, other: Table[T]) -> Iterator[tuple[Mapping[str, T], Mapping[str, T]]]:
        """Yield the pairs of buckets that differ. Tables with different numbers of buckets are one pair."""
        if len(self.buckets) != len(other.buckets):
            yield dict(self.items()), dict(other.items())
            return
        for mine, theirs in zip(self.buckets, other.buckets, strict=True):
            if mine is not theirs:
                yield mine, theirs

    def in_order(self, name: str, place: Callable[[str, T], Place]) -> list[str] | None:
        """Return the keys in the order of that name, without sorting all of them; None if that can't be done.

        `place` says where a key with its member stands in this order. No two keys stand at one place.
        """
        kept = self._orders.get(name)
        if kept is None:
            return None
        buckets, keys = kept
        if buckets is not self.buckets:
            moved = self._moved(buckets, keys, place)
            if moved is None:
                return None
            keys = moved
            self._orders[name] = self.buckets, keys
        return keys

    def keep_order(self, name: str, keys: list[str]) -> None:
        """Keep the keys in an order, for `in_order`."""
        if name not in self._orders and len(self._orders) >= _MOST_ORDERS:
            self._orders.pop(next(iter(self._orders)), None)
        self._orders[name] = self.buckets, keys

    def _moved(self, buckets: Buckets[T], keys: list[str], place: Callable[[str, T], Place]) -> list[str] | None:
        """Return the keys of this table in an order, from those of earlier buckets; None if too many have changed."""
        if len(buckets) != len(self.buckets):
            return None
        changed: list[tuple[str, T | None, T | None]] = []
        for old, new in zip(buckets, self.buckets, strict=True):
            if old is not new:
                both = ((key, old.get(key), new.get(key)) for key in {**old, **new})
                changed += [(key, then, now) for key, then, now in both if then is not now]
                if len(changed) > _MOST_MOVED:
                    return None
        leaving: list[Place] = []
        coming: list[tuple[Place, str]] = []
        for key, then, now in changed:
            left = None if then is None else place(key, then)
            taken = None if now is None else place(key, now)
            if left != taken:
                leaving += [] if left is None else [left]
                coming += [] if taken is None else [(taken, key)]
        if not leaving and not coming:
            return keys
        keys = keys.copy()
        mask = len(buckets) - 1
        move(
            keys,
            leaving,
            coming,
            lambda key: place(key, buckets[hash(key) & mask][key]),
            lambda key: place(key, self[key]),
        )
        return keys

    def _replaced(self, number: int, bucket: dict[str, T]) -> Buckets[T]:
        return (*self.buckets[:number], bucket, *self.buckets[number + 1 :])


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
    return at_once(filling(members, size, size + 1))


def filling(members: Iterable[tuple[str, T]], size: int, piece: int) -> Generator[None, None, Table[T]]:
    """Make the same in steps, each of so many members."""
    buckets: list[dict[str, T]] = [{} for _ in range(1 << max(0, (size // SMALL).bit_length()))]
    mask = len(buckets) - 1
    rest = iter(members)
    while some := list(islice(rest, piece)):
        for key, member in some:
            buckets[hash(key) & mask][key] = member
        yield
    return Table(tuple(buckets), sum(map(len, buckets)))


def move(
    keys: list[str],
    leaving: Iterable[Place],
    coming: Iterable[tuple[Place, str]],
    before: Callable[[str], Place],
    after: Callable[[str], Place],
) -> None:
    """Take the keys of these places out of a list in their order, and put others in.

    `before` and `after` say where a key stands. First all leave, then all come: so each key in the list stands where
    one of the two has it.
    """
    for place in leaving:
        del keys[bisect_left(keys, place, key=before)]
    for place, key in coming:
        keys.insert(bisect_left(keys, place, key=after), key)


def _values(bucket: dict[str, T]) -> ValuesView[T]:
    return bucket.values()


def _items(bucket: dict[str, T]) -> ItemsView[str, T]:
    return bucket.items()
