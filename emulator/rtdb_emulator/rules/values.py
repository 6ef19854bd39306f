"""The values of rules at run time: the operators on them, and the facts of a request that rules can read.

A value is a string, a number, a boolean, None for null, a list or dict of `auth`, or `OBJECT`. `OBJECT` stands for a
database node with children, and equals nothing. Promises: each operator returns a value or raises `RuleFailed`, for any
arguments. No text grows longer than `MAX_TEXT`, so that no rule can use up the memory.

Numbers work as in JavaScript, but 64-bit integers stay exact, as the database stores them. A larger integer becomes a
double. Strings are ordered by code point, as in the database.

The caller gives all facts: the user, the time, the query, and the data before and after the request. This module has no
clock and no tree.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeGuard

from rtdb_emulator.ordering import Scalar
from rtdb_emulator.tree import Node, Path

MAX_TEXT: Final = 10 * 1024 * 1024  # the longest string that the database stores

_INT64 = range(-(2**63), 2**63)
_PLAIN_FROM, _PLAIN_BELOW = 1e-6, 1e21


class RuleFailed(Exception):
    """The rule has a value of a type that it can't use. The rule then counts as false."""


class _Object:
    """The value of a node that has children."""


OBJECT: Final = _Object()


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def text_of(value: object) -> str:
    """Return the value, which must be a string."""
    if isinstance(value, str):
        return value
    raise RuleFailed


def equal(left: object, right: object) -> bool:
    """Return whether two values are equal, without any conversion: values of different types differ.

    Objects and lists equal nothing, not even themselves.
    """
    if left is None or isinstance(left, bool):
        return left is right
    if isinstance(left, str):
        return isinstance(right, str) and left == right
    return is_number(left) and is_number(right) and left == right


def less(left: object, right: object) -> bool:
    if is_number(left) and is_number(right):
        return left < right
    return text_of(left) < text_of(right)


def less_or_equal(left: object, right: object) -> bool:
    if is_number(left) and is_number(right):
        return left <= right
    return text_of(left) <= text_of(right)


def add(left: object, right: object) -> object:
    """Return the sum of two numbers or, if one of the two is a string, their concatenated texts."""
    if is_number(left) and is_number(right):
        return _computed("+", left, right)
    if not isinstance(left, str) and not isinstance(right, str):
        raise RuleFailed
    first, second = _joinable(left), _joinable(right)
    if len(first) + len(second) > MAX_TEXT:
        raise RuleFailed
    return first + second


def arithmetic(operator: str, left: object, right: object) -> int | float:
    """Return the result of `-`, `*`, `/` or `%` for two numbers."""
    if is_number(left) and is_number(right):
        return _computed(operator, left, right)
    raise RuleFailed


def negative(value: object) -> int | float:
    return arithmetic("-", 0, value)


def replaced(text: object, old: object, new: object) -> str:
    """Return the text with every occurrence of `old` replaced by `new`. Both are plain text, not patterns."""
    whole, found, put = text_of(text), text_of(old), text_of(new)
    if len(whole) + whole.count(found) * (len(put) - len(found)) > MAX_TEXT:
        raise RuleFailed
    return whole.replace(found, put)


def length(text: str) -> int:
    """Return the length in UTF-16 units, as JavaScript counts."""
    return len(text) if text.isascii() else len(text) + sum(char > "\uffff" for char in text)


def number_text(number: float) -> str:
    """Return the number as JavaScript writes it."""
    number = _bounded(number)
    if math.isnan(number):
        return "NaN"
    if math.isinf(number):
        return "Infinity" if number > 0 else "-Infinity"
    if number == int(number) and abs(number) < _PLAIN_BELOW:
        return str(int(number))
    if _PLAIN_FROM <= abs(number) < _PLAIN_BELOW:
        return f"{Decimal(repr(number)):f}"
    digits, _, exponent = repr(number).partition("e")
    return f"{digits}e{int(exponent):+d}"


def _joinable(value: object) -> str:
    return number_text(value) if is_number(value) else text_of(value)


def _bounded(number: float) -> int | float:
    """Return the number; an integer of more than 64 bits becomes a double."""
    if not isinstance(number, int) or number in _INT64:
        return number
    try:
        return float(number)
    except OverflowError:
        return math.inf if number > 0 else -math.inf


def _computed(operator: str, left: float, right: float) -> int | float:
    left, right = _bounded(left), _bounded(right)
    match operator:
        case "+":
            return _bounded(left + right)
        case "-":
            return _bounded(left - right)
        case "*":
            return _bounded(left * right)
    if right == 0:
        return math.nan
    if operator == "%":
        return _remainder(left, right)
    return left / right


def _remainder(left: float, right: float) -> int | float:
    """Return the remainder, with the sign of the left operand."""
    if isinstance(left, int) and isinstance(right, int):
        size = abs(left) % abs(right)
        return -size if left < 0 else size
    return math.nan if math.isinf(left) else math.fmod(left, right)


# --- the facts of a request


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
