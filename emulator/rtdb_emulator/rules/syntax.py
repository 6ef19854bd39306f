"""The syntax tree of a rule expression, and its text.

Parentheses only determine the tree's shape; they are not in it, and the text has those that it needs. A run of
operators of one precedence is one `Chain`, so a rule with hundreds of `||` is not hundreds of levels deep. Two
expressions are equal if they differ only in spaces and parentheses: `at`, the offset in the expression, is not
compared.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import TypeAlias

from rtdb_emulator.jsondata import render
from rtdb_emulator.rules.values import OBJECT, QueryFacts, Snapshot
from rtdb_emulator.table import Table
from rtdb_emulator.tree import Node


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


# --- expressions as text again, and values as rules would write them

_LONGEST = 100
# An object with more children is shown by their number.
_MOST_KEYS = 50


def show(expression: Expression) -> str:
    match expression:
        case Literal(value):
            return show_value(value)
        case Regex(_, _, written):
            return written
        case Name(name):
            return name
        case Array(items):
            return f"[{', '.join(map(show, items))}]"
        case Member(target, name):
            return f"{_operand(target)}.{name}"
        case Index(target, key):
            return f"{_operand(target)}[{show(key)}]"
        case Call(callee, arguments):
            return f"{show(callee)}({', '.join(map(show, arguments))})"
        case Unary(operator, operand):
            return f"{operator}{_operand(operand)}"
        case Chain(first, steps):
            return " ".join([_operand(first), *(f"{step.operator} {_operand(step.operand)}" for step in steps)])
        case Choice(condition, then, otherwise):
            return f"{_operand(condition)} ? {_operand(then)} : {_operand(otherwise)}"


def show_value(value: object) -> str:
    """Return the text of an expression's value, cut if it is long."""
    if value is OBJECT:
        return "an object"
    if isinstance(value, Snapshot):
        return _node(value.node)
    if isinstance(value, QueryFacts):
        return "the query"
    if isinstance(value, str):
        return _cut(json.dumps(value, ensure_ascii=False))
    return _cut(json.dumps(value, ensure_ascii=False, default=str))


def _node(node: Node) -> str:
    if isinstance(node.members, Table) or len(node.members) > _MOST_KEYS:
        return f"an object of {len(node.members)} children"
    return _cut(json.dumps(render(node), ensure_ascii=False))


def _operand(expression: Expression) -> str:
    """Return the text of an operand: in parentheses if it has operators, unless it is a comparison."""
    text = show(expression)
    compared = isinstance(expression, Chain) and expression.steps[0].operator not in (
        "&&",
        "||",
        "+",
        "-",
        "*",
        "/",
        "%",
    )
    return f"({text})" if isinstance(expression, Choice | Chain) and not compared else text


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
