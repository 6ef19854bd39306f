"""Queries: the children of a node that match, in an order that the node keeps.

`Query` says which they are, and is pure. A node with many children keeps the orders of its keys that queries have asked
for (`table`): the next query finds its window there by halves, and a write moves one key. `parse_query` checks the
parameters of a REST request, with RTDB's own error texts (`ws.messages` has the form of the sockets). The rules decide
whether a query has its index.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Callable, Collection, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass
from heapq import merge
from itertools import islice
from typing import TypeAlias

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import decode, parse
from rtdb_emulator.ordering import Scalar, SortKey, key_order, priority_order, value_order
from rtdb_emulator.paths import is_key, split_path
from rtdb_emulator.rules import QueryFacts
from rtdb_emulator.table import Table
from rtdb_emulator.tree import BY_KEY, Member, Node, Path, arranging_keys

# --- a query


@dataclass(frozen=True, slots=True)
class Bound:
    """One end of a range: a value, a key that breaks ties (or None), and whether the end belongs to the range."""

    value: Scalar | None
    key: str | None
    inclusive: bool


@dataclass(frozen=True, slots=True)
class Query:
    """A query. `order` is "$key", "$value", "$priority", or the path of a child."""

    order: str
    start: Bound | None = None
    end: Bound | None = None
    limit: int | None = None
    from_end: bool = False

    @property
    def index(self) -> str | None:
        """The `.indexOn` that this query needs, or None if it needs none."""
        return {"$key": None, "$priority": None, "$value": ".value"}.get(self.order, self.order)

    @property
    def facts(self) -> QueryFacts:
        """The query as the rules see it."""
        start, end = self.start, self.end
        # The types are compared too, because True == 1 in Python but not in RTDB.
        equal = start is not None and end is not None and start == end and type(start.value) is type(end.value)
        return QueryFacts(
            order_by_key=self.order == "$key",
            order_by_value=self.order == "$value",
            order_by_priority=self.order == "$priority",
            order_by_child=None if self.order.startswith("$") else self.order,
            start_at=start.value if start else None,
            end_at=end.value if end else None,
            equal_to=start.value if start and equal else None,
            limit_to_first=None if self.from_end else self.limit,
            limit_to_last=self.limit if self.from_end else None,
        )

    def keys(self, node: Node) -> list[str]:
        """Return the names of the children that match the query, in its order."""
        keys = keys_in_order(node, self.order)
        first, end = self.bounds(node, keys)
        if self.limit is not None and self.from_end:
            first = max(first, end - self.limit)
        elif self.limit is not None:
            end = min(end, first + self.limit)
        return keys[first:end]

    def visible(self, node: Node, changed: Collection[str] | None) -> list[str]:
        """Return the children that match; without a limit only those of `changed`, because no others come or go."""
        if changed is None or self.limit is not None:
            return self.keys(node)
        place, members = places(self.order), node.members
        found = [(place(key, member), key) for key in changed if (member := members.get(key)) is not None]
        return [key for at, key in sorted(found) if self.contains(at)]

    def bounds(self, node: Node, keys: list[str]) -> tuple[int, int]:
        """Return where the query's range begins and ends in the keys of a node, which are in the query's order."""
        place, members = places(self.order), node.members
        first, end = 0, len(keys)
        if self.start is not None:
            first = bisect_left(keys, True, key=lambda key: self._is_from_start(place(key, members[key])))
        if self.end is not None:
            end = bisect_left(keys, True, first, key=lambda key: not self._is_to_end(place(key, members[key])))
        return first, end

    def contains(self, place: Place) -> bool:
        """Whether the place lies between the bounds."""
        return self._is_from_start(place) and self._is_to_end(place)

    def _is_from_start(self, place: Place) -> bool:
        if self.start is None:
            return True
        distance = self._compare(place, self.start)
        return distance > 0 or (distance == 0 and self.start.inclusive)

    def _is_to_end(self, place: Place) -> bool:
        if self.end is None:
            return True
        distance = self._compare(place, self.end)
        return distance < 0 or (distance == 0 and self.end.inclusive)

    def _compare(self, place: Place, bound: Bound) -> int:
        """Return -1, 0 or 1 for a place below the bound, on it, or above it."""
        order = _bound_order(self.order, bound.value)
        if place[0] != order:
            return -1 if place[0] < order else 1
        if bound.key is None:
            return 0
        tie = key_order(bound.key)
        return (place[1] > tie) - (place[1] < tie)


def _bound_order(order: str, value: Scalar | None) -> SortKey:
    if order == "$key":
        return key_order(str(value))
    if order == "$priority":
        return priority_order(value)
    return value_order(value)


def order_by_child(path: object) -> str | None:
    """Return the order by a child's path; None if there can't be such a child."""
    keys = [key for key in path.split("/") if key] if isinstance(path, str) else []
    return "/".join(keys) if keys and all(map(is_key, keys)) else None


# --- the children in the order of a query

# Where a child stands: by what the query orders by, then by its key.
Place: TypeAlias = tuple[SortKey, SortKey]

# Keys that are sorted, or merged, at once.
RUN = 1_000


def places(order: str) -> Callable[[str, Member], Place]:
    """Return the function that says where a child stands in an order: "$key", "$value", "$priority", a child's path."""
    if order == BY_KEY:
        return lambda key, member: (key_order(key), key_order(key))
    if order == "$priority":
        return lambda key, member: (_priority_order(member), key_order(key))
    path = () if order == "$value" else split_path(order)
    return lambda key, member: (order_of_value(member, path), key_order(key))


def keys_in_order(node: Node, order: str) -> list[str]:
    """Return the names of the children in an order. The list is the node's own: don't change it."""
    if order == BY_KEY:
        return node.ordered_keys()
    place, members = places(order), node.members
    if not isinstance(members, Table):
        return sorted(members, key=lambda key: place(key, members[key]))
    keys = members.in_order(order, place)
    if keys is None:
        keys = sorted(members, key=lambda key: place(key, members[key]))
        members.keep_order(order, keys)
    return keys


def arranging(node: Node, order: str) -> Generator[None]:
    """Make the node keep an order of its many children, in steps; without a step if it is kept already."""
    members = node.members
    if order == BY_KEY:
        yield from arranging_keys(node)
        return
    place = places(order)
    if not isinstance(members, Table) or members.in_order(order, place) is not None:
        return
    runs: list[list[Place]] = []
    rest = iter(members.items())
    while run := sorted(place(key, member) for key, member in islice(rest, RUN)):
        runs.append(run)
        yield
    keys = yield from _merged(runs)
    members.keep_order(order, keys)


def _merged(runs: Iterable[list[Place]]) -> Generator[None, None, list[str]]:
    keys: list[str] = []
    places = merge(*map(_taken, runs))
    while more := [str(tie[-1]) for _, tie in islice(places, RUN)]:
        keys += more
        yield
    return keys


def _taken(run: list[Place]) -> Iterator[Place]:
    """Yield the places, and let go of each: to free all of them at once would take long."""
    run.reverse()
    while run:
        yield run.pop()


def _priority_order(member: Member) -> SortKey:
    return priority_order(member.priority if isinstance(member, Node) else None)


def order_of_value(member: Member, path: Path) -> SortKey:
    """Return the sort key of the value at a path below a child."""
    for key in path:
        below = member.members.get(key) if isinstance(member, Node) else None
        if below is None:
            return value_order(None)
        member = below
    if isinstance(member, Node):
        return value_order(member.value, is_object=bool(member.members))
    return value_order(member)


# --- the parameters of a REST request

PARAMETERS = frozenset(
    ("orderBy", "startAt", "startAfter", "endAt", "endBefore", "equalTo", "limitToFirst", "limitToLast")
)

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")


def parse_query(parameters: Mapping[str, str]) -> Query | None:
    """Return the query that the parameters of a GET describe, or None if they describe none."""
    given = PARAMETERS.intersection(parameters)
    if not given:
        return None
    if "orderBy" not in parameters:
        raise BadRequest("orderBy must be defined when other query parameters are defined")
    order = _parse_order(parameters["orderBy"])
    limit, from_end = _parse_limit(parameters)
    start: Bound | None
    end: Bound | None
    if "equalTo" in parameters:
        if {"startAt", "startAfter", "endAt", "endBefore"} & given:
            raise BadRequest("equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore")
        start = end = _parse_bound(order, parameters["equalTo"], inclusive=True)
    else:
        start = _parse_end(order, parameters, "startAt", "startAfter")
        end = _parse_end(order, parameters, "endAt", "endBefore")
    return Query(order, start, end, limit, from_end)


def parse_shallow(parameters: Mapping[str, str]) -> Query | None:
    """Return the query that the Firebase CLI sends with `shallow`: the first N keys, after a key without quotes."""
    given = PARAMETERS.intersection(parameters)
    if given - {"limitToFirst", "startAfter"}:
        raise BadRequest("Mixing 'shallow' and querying parameters is not supported")
    if not given:
        return None
    limit, _ = _parse_limit(parameters)
    start = None
    if "startAfter" in parameters:
        text = parameters["startAfter"]
        key = _decoded(text)
        start = Bound(key if isinstance(key, str) else text, None, inclusive=False)
    return Query("$key", start, None, limit)


def _parse_order(text: str) -> str:
    asked = _decoded(text)
    order = asked if asked in ("$key", "$value", "$priority") else order_by_child(asked)
    if not isinstance(order, str):
        raise BadRequest("orderBy must be a valid JSON encoded path")
    return order


def _parse_limit(parameters: Mapping[str, str]) -> tuple[int | None, bool]:
    names = [name for name in ("limitToFirst", "limitToLast") if name in parameters]
    if len(names) == 2:
        raise BadRequest("Only one of limitToFirst and limitToLast may be specified")
    if not names:
        return None, False
    name = names[0]
    text = parameters[name].strip() or "0"
    if not _INTEGER.match(text):
        raise BadRequest(f"{name} must be an integer")
    limit = int(text)
    if limit <= 0:
        raise BadRequest(f"{name} must be positive")
    return limit, name == "limitToLast"


def _parse_end(order: str, parameters: Mapping[str, str], at: str, beyond: str) -> Bound | None:
    if at in parameters and beyond in parameters:
        raise BadRequest(f"Only one of {at} and {beyond} may be specified")
    if at in parameters:
        return _parse_bound(order, parameters[at], inclusive=True)
    if beyond in parameters:
        return _parse_bound(order, parameters[beyond], inclusive=False)
    return None


def _parse_bound(order: str, text: str, *, inclusive: bool) -> Bound:
    # A bound is one JSON primitive, or two: `3,"k"` is the value 3 and the key k. Brackets make it one JSON text.
    parts = _decoded(f"[{text}]")
    if not isinstance(parts, list) or len(parts) not in (1, 2) or isinstance(parts[0], list | dict):
        raise BadRequest("Constraint index field must be a JSON primitive")
    # Parsed like data: a number in a bound gets its one form too, and a value that data can't have is refused.
    value = parse(parts[0], now=0).value
    key = parts[1] if len(parts) == 2 else None
    if len(parts) == 2 and not (isinstance(key, str) and is_key(key)):
        raise BadRequest("Constraint key field must be a valid key name")
    if order == "$key" and (not isinstance(value, str) or key is not None):
        raise BadRequest("Provided key index type is invalid, must be string")
    if order == "$priority" and isinstance(value, bool):
        raise BadRequest("Provided priority index type is invalid, must be string, number or null")
    return Bound(value, key, inclusive)


def _decoded(text: str) -> object:
    """Return the JSON value of a parameter, or None if it is not JSON."""
    try:
        return decode(text.encode(errors="surrogatepass"))
    except BadRequest:
        return None
