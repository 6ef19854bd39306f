"""The facts of a request that rules can read: the user, the time, the query, and the data before and after it.

The caller gives all of them: this module has no clock and no tree.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rtdb_emulator.ordering import Scalar
from rtdb_emulator.rules.values import equal
from rtdb_emulator.tree import Node, Path


@dataclass(frozen=True, slots=True)
class QueryFacts:
    """A read's query, as rules see it in `query`. A plain read has the defaults.

    On the wire, `equalTo(v)` is a start and an end at v. So rules see both forms in all three fields.
    """

    order_by_key: bool = False
    order_by_value: bool = False
    order_by_priority: bool = False
    order_by_child: str | None = None
    start_at: Scalar | None = None
    end_at: Scalar | None = None
    equal_to: Scalar | None = None
    limit_to_first: int | None = None
    limit_to_last: int | None = None


PLAIN_READ = QueryFacts()


class Snapshot:
    """A node, and the snapshot above it."""

    __slots__ = ("above", "node")

    def __init__(self, node: Node, above: Snapshot | None = None) -> None:
        self.node = node
        self.above = above

    def child(self, key: str) -> Snapshot:
        return Snapshot(self.node.child(key), self)


@dataclass(frozen=True, slots=True)
class Scope:
    """Everything that one rule can read. `new_data` is None for a read. `path` is the path of the rule's own node."""

    auth: object
    now: int
    query: QueryFacts
    root: Snapshot
    data: Snapshot
    new_data: Snapshot | None
    path: Path


def _bound(own: Scalar | None, query: QueryFacts) -> Scalar | None:
    return query.equal_to if own is None else own


def _equal_to(query: QueryFacts) -> Scalar | None:
    if query.equal_to is None and equal(query.start_at, query.end_at):
        return query.start_at
    return query.equal_to


QUERY_FIELDS: Mapping[str, Callable[[QueryFacts], Scalar | None]] = {
    "orderByKey": lambda query: query.order_by_key,
    "orderByValue": lambda query: query.order_by_value,
    "orderByPriority": lambda query: query.order_by_priority,
    "orderByChild": lambda query: query.order_by_child,
    "startAt": lambda query: _bound(query.start_at, query),
    "endAt": lambda query: _bound(query.end_at, query),
    "equalTo": _equal_to,
    "limitToFirst": lambda query: query.limit_to_first,
    "limitToLast": lambda query: query.limit_to_last,
}
