"""The shape of a parsed rule expression.

Parentheses leave no trace but the shape itself. A run of operators of one precedence is one `Chain`, so that a rule of
hundreds of `||` is not hundreds of levels deep. Two expressions are equal when they are written alike up to spaces and
parentheses: `at`, the offset in the expression, doesn't count.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class Literal:
    value: str | float | bool | None
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Regex:
    pattern: re.Pattern[str]
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Array:
    items: tuple[Expression, ...]
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Name:
    name: str
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Member:
    """`target.name`, which `target['name']` is as well; `at` is the name's."""

    target: Expression
    name: str
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """`target[key]` with a key that only evaluation knows."""

    target: Expression
    key: Expression
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`at` is the opening parenthesis's."""

    callee: Expression
    arguments: tuple[Expression, ...]
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Unary:
    operator: str
    operand: Expression
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Step:
    """One operator of a chain and its right operand; `at` is the operator's."""

    operator: str
    operand: Expression
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Chain:
    """Operators of one precedence, from left to right."""

    first: Expression
    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Choice:
    condition: Expression
    then: Expression
    otherwise: Expression


Expression: TypeAlias = Literal | Regex | Array | Name | Member | Index | Call | Unary | Chain | Choice


def parts(expression: Expression) -> tuple[Expression, ...]:
    """The expressions right inside this one."""
    match expression:
        case Array(items):
            return items
        case Member(target):
            return (target,)
        case Index(target, key):
            return (target, key)
        case Call(callee, arguments):
            return (callee, *arguments)
        case Unary(_, operand):
            return (operand,)
        case Chain(first, steps):
            return (first, *(step.operand for step in steps))
        case Choice(condition, then, otherwise):
            return (condition, then, otherwise)
        case _:
            return ()


def start(expression: Expression) -> int:
    """The offset of an expression's first character, parentheses aside."""
    match expression:
        case Member() | Index() | Call() | Chain() | Choice():
            return start(parts(expression)[0])
        case _:
            return expression.at


def height(expression: Expression) -> int:
    """How many levels of expressions lie inside each other: 1 for a name."""
    highest = 0
    stack = [(expression, 1)]
    while stack:
        current, level = stack.pop()
        highest = max(highest, level)
        stack.extend((part, level + 1) for part in parts(current))
    return highest
