"""The syntax tree of a rule expression.

Parentheses only determine the tree's shape; they are not in it. A run of operators of one precedence is one `Chain`, so
a rule with hundreds of `||` is not hundreds of levels deep. Two expressions are equal if they differ only in spaces and
parentheses: `at`, the offset in the expression, is not compared.
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
    """`written` is what stands in the rule, with its slashes."""

    pattern: re.Pattern[str]
    at: int = field(compare=False)
    written: str = field(compare=False, default="")


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
    """`target.name`, or `target['name']`. `at` is the name's offset."""

    target: Expression
    name: str
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Index:
    """`target[key]`, with a key that is known only at evaluation."""

    target: Expression
    key: Expression
    at: int = field(compare=False)


@dataclass(frozen=True, slots=True)
class Call:
    """`callee(arguments)`. `at` is the offset of the opening parenthesis."""

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
    """One operator of a chain, and its right operand. `at` is the operator's offset."""

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
    """Return the direct parts of an expression."""
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
    """Return the offset of an expression's first character, without regard to parentheses."""
    match expression:
        case Member() | Index() | Call() | Chain() | Choice():
            return start(parts(expression)[0])
        case _:
            return expression.at


def height(expression: Expression) -> int:
    """Return the number of nested levels of an expression: 1 for a name."""
    highest = 0
    stack = [(expression, 1)]
    while stack:
        current, level = stack.pop()
        highest = max(highest, level)
        stack.extend((part, level + 1) for part in parts(current))
    return highest
