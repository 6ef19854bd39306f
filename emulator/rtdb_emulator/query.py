"""REST queries: parse the parameters of a request, and select the children of a node that match them.

`parse_query` checks the parameters, with RTDB's own error texts. `Query.select` is pure. The rules decide whether a
query has its index.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

from rtdb_emulator.errors import BadRequest
from rtdb_emulator.jsondata import decode, parse
from rtdb_emulator.ordering import Scalar, SortKey, key_order, priority_order, value_order
from rtdb_emulator.paths import is_key, split_path
from rtdb_emulator.rules import QueryFacts
from rtdb_emulator.tree import Node, Path

PARAMETERS = (
    "orderBy", "startAt", "startAfter", "endAt", "endBefore", "equalTo", "limitToFirst", "limitToLast"
)  # fmt: skip

_INTEGER = re.compile(r"[+-]?[0-9]{1,18}\Z")

Place: TypeAlias = tuple[SortKey, SortKey]


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

    @property
    def child_path(self) -> Path:
        """The path of the child that orders; empty where none does."""
        return () if self.order.startswith("$") else split_path(self.order)

    def select(self, node: Node) -> dict[str, Node]:
        """Return the children that match the query, in its order."""
        child_path = self.child_path
        placed = sorted(
            ((self.place(key, child, child_path), key, child) for key, child in node.children.items()),
            key=lambda item: item[0],
        )
        chosen = [(key, child) for place, key, child in placed if self.contains(place)]
        if self.limit is not None:
            chosen = chosen[-self.limit :] if self.from_end else chosen[: self.limit]
        return dict(chosen)

    def place(self, key: str, child: Node, child_path: Path) -> Place:
        """Where a child stands in the order: by what it is ordered by, then by its key."""
        if self.order == "$key":
            return (key_order(key), key_order(key))
        if self.order == "$priority":
            return (priority_order(child.priority), key_order(key))
        indexed = child.at(child_path)
        return (value_order(indexed.value, is_object=bool(indexed.children)), key_order(key))

    def contains(self, place: Place) -> bool:
        """Whether the place lies between the bounds."""
        if self.start is not None:
            distance = self._compare(place, self.start)
            if distance < 0 or (distance == 0 and not self.start.inclusive):
                return False
        if self.end is not None:
            distance = self._compare(place, self.end)
            if distance > 0 or (distance == 0 and not self.end.inclusive):
                return False
        return True

    def _compare(self, place: Place, bound: Bound) -> int:
        """Return -1, 0 or 1 for a place below the bound, on it, or above it."""
        order = _bound_order(self.order, bound.value)
        if place[0] != order:
            return -1 if place[0] < order else 1
        if bound.key is None:
            return 0
        tie = key_order(bound.key)
        return (place[1] > tie) - (place[1] < tie)


def parse_query(parameters: Mapping[str, str]) -> Query | None:
    """Return the query that the parameters of a GET describe, or None if they describe none."""
    given = [name for name in PARAMETERS if name in parameters]
    if not given:
        return None
    if "orderBy" not in parameters:
        raise BadRequest("orderBy must be defined when other query parameters are defined")
    order = _parse_order(parameters["orderBy"])
    limit, from_end = _parse_limit(parameters)
    start: Bound | None
    end: Bound | None
    if "equalTo" in parameters:
        if {"startAt", "startAfter", "endAt", "endBefore"} & set(given):
            raise BadRequest("equalTo cannot be specified in addition to startAfter, startAt, endAt, or endBefore")
        start = end = _parse_bound(order, parameters["equalTo"], inclusive=True)
    else:
        start = _parse_end(order, parameters, "startAt", "startAfter")
        end = _parse_end(order, parameters, "endAt", "endBefore")
    return Query(order, start, end, limit, from_end)


def parse_shallow(parameters: Mapping[str, str]) -> Query | None:
    """Return the query that the Firebase CLI sends with `shallow`: the first N keys, after a key without quotes."""
    given = set(PARAMETERS) & set(parameters)
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
    order = _decoded(text)
    if isinstance(order, str):
        if order in ("$key", "$value", "$priority"):
            return order
        keys = [segment for segment in order.split("/") if segment]
        if keys and all(is_key(key) for key in keys):
            return "/".join(keys)
    raise BadRequest("orderBy must be a valid JSON encoded path")


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


def _bound_order(order: str, value: Scalar | None) -> SortKey:
    if order == "$key":
        return key_order(str(value))
    if order == "$priority":
        return priority_order(value)
    return value_order(value)
