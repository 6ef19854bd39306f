"""Expressions as text again, with the parentheses that they need, and values as rules would write them."""

from __future__ import annotations

import json

from rtdb_emulator.jsondata import render
from rtdb_emulator.rules.scope import QueryFacts, Snapshot
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
    Unary,
)
from rtdb_emulator.rules.values import OBJECT
from rtdb_emulator.table import Table
from rtdb_emulator.tree import Node

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
