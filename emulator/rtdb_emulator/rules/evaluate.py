"""Evaluation: an expression is compiled once, into nested functions of a `Scope`.

Promises: a `Rule` of a checked expression is true or false for a `Scope` with any data and `auth`. A run-time error
anywhere in a rule makes the whole rule false, as on the live service. Operands are evaluated from left to right; those
of `&&`, `||` and `?:` are evaluated only if they can change the result.

A value is a string, a number, a boolean, None for null, a list or dict of `auth`, or `OBJECT`, which stands for a
database node with children, and equals nothing. Each operator and method returns a value or raises `RuleFailed`, for
any arguments. No text grows longer than `MAX_TEXT`, so that no rule can use up the memory.

Numbers work as in JavaScript, but 64-bit integers stay exact, as the database stores them. A larger integer becomes a
double. Strings are ordered by code point, as in the database.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Final, TypeAlias, TypeGuard

from rtdb_emulator.ordering import Scalar
from rtdb_emulator.rules.syntax import (
    Array,
    Call,
    Chain,
    Choice,
    Expression,
    Index,
    Literal,
    Member,
    Name,
    Regex,
    Step,
    Unary,
    parts,
)
from rtdb_emulator.tree import Node, Path

# --- what one rule can read: facts that the caller gives


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


# --- operators on values

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


# --- properties and methods
#
# Each function returns a value or raises `RuleFailed`, for any arguments. `check` has checked the names and the number
# of arguments.


def _property_of(of: object, name: str) -> object:
    """Return a property, or None if there is none: `auth.uid` is null without a signed-in user.

    Raises RuleFailed for the `length` of a value without one.
    """
    match of:
        case dict():
            return of.get(name)
        case QueryFacts() if name in QUERY_FIELDS:
            return QUERY_FIELDS[name](of)
        case str() if name == "length":
            return length(of)
        case list() if name.isascii() and name.isdigit() and len(name) <= len(str(len(of))):
            return of[int(name)] if int(name) < len(of) else None
    if name == "length":
        raise RuleFailed
    return None


def _snapshot_of(value: object) -> Snapshot:
    if isinstance(value, Snapshot):
        return value
    raise RuleFailed


def _all_exist(snapshot: Snapshot, names: object) -> bool:
    if not isinstance(names, list):
        raise RuleFailed
    # All names are read first: an invalid name makes the rule fail even after a missing child.
    paths = [_path(name) for name in names]
    return not any(snapshot.node.at(path).is_empty for path in paths)


def _path(value: object) -> Path:
    return tuple(key for key in text_of(value).split("/") if key)


def _child(snapshot: Snapshot, path: object) -> Snapshot:
    for key in _path(path):
        snapshot = snapshot.child(key)
    return snapshot


def _parent(snapshot: Snapshot) -> Snapshot:
    if snapshot.above is None:
        raise RuleFailed
    return snapshot.above


def _value(snapshot: Snapshot) -> object:
    return OBJECT if snapshot.node.members else snapshot.node.value


SNAPSHOT_METHODS: Mapping[str, Callable[..., object]] = {
    "val": _value,
    "getPriority": lambda snapshot: snapshot.node.priority,
    "parent": _parent,
    "child": _child,
    "exists": lambda snapshot: not snapshot.node.is_empty,
    "hasChild": lambda snapshot, path: not snapshot.node.at(_path(path)).is_empty,
    "hasChildren": lambda snapshot: bool(snapshot.node.members),
    "isNumber": lambda snapshot: is_number(snapshot.node.value),
    "isString": lambda snapshot: isinstance(snapshot.node.value, str),
    "isBoolean": lambda snapshot: isinstance(snapshot.node.value, bool),
}
STRING_METHODS: Mapping[str, Callable[..., object]] = {
    "contains": lambda text, other: text_of(other) in text,
    "beginsWith": lambda text, other: text.startswith(text_of(other)),
    "endsWith": lambda text, other: text.endswith(text_of(other)),
    "replace": replaced,
    "toLowerCase": str.lower,
    "toUpperCase": str.upper,
}


# --- a rule, and the functions that it is compiled into

Evaluation: TypeAlias = Callable[[Scope], object]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule: its expression, its place, and its evaluation.

    `number` counts the rules of one document, `place` is line and column, `path` is the path of the rule's node. A
    variable is the key at that place of a request's path.
    """

    kind: str
    path: Path
    number: int
    place: tuple[int, int]
    expression: Expression
    variables: Mapping[str, int]
    evaluate: Evaluation

    def outcome(self, scope: Scope) -> bool | None:
        """Return whether the rule holds; None if it breaks, which counts as false."""
        try:
            return self.evaluate(scope) is True
        except RuleFailed:
            return None

    @property
    def reads_data(self) -> bool:
        """Whether the rule reads the tree, so that a write may change its outcome."""
        waiting = [self.expression]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Name) and part.name in ("data", "root"):
                return True
            waiting += parts(part)
        return False

    @property
    def is_constant(self) -> bool:
        return isinstance(self.expression, Literal)


def compiled(expression: Expression, variables: Mapping[str, int]) -> Evaluation:
    match expression:
        case Literal(value) | Regex(value):
            return lambda scope: value
        case Name(name) if name in variables:
            place = variables[name]
            return lambda scope: scope.path[place]
        case Name(name):
            return _NAMES[name]
        case Member(target, name):
            of = compiled(target, variables)
            return lambda scope: _property_of(of(scope), name)
        case Index(target, key):
            return _index(compiled(target, variables), compiled(key, variables))
        case Call(Member(target, name), arguments):
            return _call(compiled(target, variables), name, arguments, variables)
        case Unary(operator, operand):
            value_of = compiled(operand, variables)
            return (lambda scope: not value_of(scope)) if operator == "!" else (lambda scope: negative(value_of(scope)))
        case Chain(first, steps):
            return _chain(compiled(first, variables), steps, variables)
        case Choice(condition, then, otherwise):
            return _choice(*(compiled(part, variables) for part in (condition, then, otherwise)))
        case Array() | Call():
            raise AssertionError(f"{expression} can't be evaluated; check_rule refuses it")


_NAMES: Mapping[str, Evaluation] = {
    "auth": lambda scope: scope.auth,
    "now": lambda scope: scope.now,
    "query": lambda scope: scope.query,
    "root": lambda scope: scope.root,
    "data": lambda scope: scope.data,
    "newData": lambda scope: scope.new_data,
}


def _index(target: Evaluation, key: Evaluation) -> Evaluation:
    def evaluate(scope: Scope) -> object:
        of, which = target(scope), key(scope)
        return _property_of(of, number_text(which) if is_number(which) else text_of(which))

    return evaluate


def _choice(condition: Evaluation, then: Evaluation, otherwise: Evaluation) -> Evaluation:
    return lambda scope: then(scope) if condition(scope) else otherwise(scope)


def _chain(first: Evaluation, steps: tuple[Step, ...], variables: Mapping[str, int]) -> Evaluation:
    operands = [(step.operator, compiled(step.operand, variables)) for step in steps]
    if operands[0][0] in ("&&", "||"):
        return _logical(operands[0][0] == "||", [first, *(operand for _, operand in operands)])
    applied = [(_BINARY[operator], operand) for operator, operand in operands]
    if len(applied) == 1:
        apply, second = applied[0]
        return lambda scope: apply(first(scope), second(scope))

    def evaluate(scope: Scope) -> object:
        left = first(scope)
        for apply, operand in applied:
            left = apply(left, operand(scope))
        return left

    return evaluate


def _logical(decisive: bool, operands: list[Evaluation]) -> Evaluation:
    """Return an evaluation that ends at the first operand that is `decisive`."""

    def evaluate(scope: Scope) -> object:
        for operand in operands:
            if operand(scope) is decisive:
                return decisive
        return not decisive

    return evaluate


_BINARY: Mapping[str, Callable[[object, object], object]] = {
    "==": equal,
    "===": equal,
    "!=": lambda left, right: not equal(left, right),
    "!==": lambda left, right: not equal(left, right),
    "<": less,
    "<=": less_or_equal,
    ">": lambda left, right: less(right, left),
    ">=": lambda left, right: less_or_equal(right, left),
    "+": add,
    "-": lambda left, right: arithmetic("-", left, right),
    "*": lambda left, right: arithmetic("*", left, right),
    "/": lambda left, right: arithmetic("/", left, right),
    "%": lambda left, right: arithmetic("%", left, right),
}


def _call(target: Evaluation, name: str, arguments: tuple[Expression, ...], variables: Mapping[str, int]) -> Evaluation:
    if name == "matches":
        return _matches(target, arguments)
    if name == "hasChildren" and arguments:
        return _has_children(target, arguments[0], variables)
    given = [compiled(argument, variables) for argument in arguments]
    if name in SNAPSHOT_METHODS:
        of_snapshot = SNAPSHOT_METHODS[name]
        return lambda scope: of_snapshot(_snapshot_of(target(scope)), *[argument(scope) for argument in given])
    of_string = STRING_METHODS[name]
    return lambda scope: of_string(text_of(target(scope)), *[argument(scope) for argument in given])


def _matches(target: Evaluation, arguments: tuple[Expression, ...]) -> Evaluation:
    match arguments:
        case (Regex(pattern),):
            return lambda scope: pattern.search(text_of(target(scope))) is not None
    raise AssertionError(f"matches() with {arguments}; check_rule refuses it")


def _has_children(target: Evaluation, argument: Expression, variables: Mapping[str, int]) -> Evaluation:
    if isinstance(argument, Array):
        items = [compiled(item, variables) for item in argument.items]
        return lambda scope: _all_exist(_snapshot_of(target(scope)), [item(scope) for item in items])
    names = compiled(argument, variables)
    return lambda scope: _all_exist(_snapshot_of(target(scope)), names(scope))
