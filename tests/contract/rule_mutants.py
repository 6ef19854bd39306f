"""Security rules, each time with one condition taken for true, or one number moved by one."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from rtdb_emulator.rules import Rules
from rtdb_emulator.rules.grammar import parse_expression
from rtdb_emulator.rules.source import Text
from rtdb_emulator.rules.syntax import Call, Chain, Choice, Expression, Literal, Member, Name, Regex, Unary

# A rules document as JSON.
Document: TypeAlias = Any

TRUE = Literal(True, 0)
TESTS = frozenset({"exists", "hasChild", "hasChildren", "isBoolean", "isNumber", "isString", "matches"})


@dataclass(frozen=True, slots=True)
class Mutant:
    where: str
    what: str
    rules: Rules

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def mutants(file: Path) -> list[Mutant]:
    """All mutants of a rules file; the first is none, only written anew, and so must mean the same."""
    document: Document = Rules.parse(file.read_text("utf-8")).as_json()
    parsed = {keys: parse_expression(Text.alone(rule)) for keys, rule in _rules_of(document, ())}
    for keys, expression in parsed.items():
        _put(document, keys, expression)
    found = [Mutant("", "nothing", Rules.parse(document))]
    for keys, expression in parsed.items():
        for part, mutated in _mutations(expression):
            changed = copy.deepcopy(document)
            _put(changed, keys, mutated)
            found.append(Mutant("/".join(keys[1:]), written(part), Rules.parse(changed)))
    return found


def _put(document: Document, keys: tuple[str, ...], rule: Expression) -> None:
    node = document
    for key in keys[:-1]:
        node = node[key]
    node[keys[-1]] = written(rule)


def _rules_of(node: Document, keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, child in node.items():
        if isinstance(child, dict):
            yield from _rules_of(child, (*keys, key))
        else:
            yield (*keys, key), child


def _mutations(expression: Expression) -> Iterator[tuple[Expression, Expression]]:
    """Each part that is replaced, and the whole with it replaced."""
    if _is_condition(expression):
        yield expression, TRUE
    match expression:
        case Literal(value) if isinstance(value, float) and value > 0:
            yield expression, replace(expression, value=value + 1)
        case Unary(operand=operand):
            yield from ((part, replace(expression, operand=new)) for part, new in _mutations(operand))
        case Chain(first, steps):
            yield from ((part, replace(expression, first=new)) for part, new in _mutations(first))
            for number, step in enumerate(steps):
                for part, new in _mutations(step.operand):
                    others = (*steps[:number], replace(step, operand=new), *steps[number + 1 :])
                    yield part, replace(expression, steps=others)
        case Choice():
            for name in ("condition", "then", "otherwise"):
                for part, new in _mutations(getattr(expression, name)):
                    yield part, replace(expression, **{name: new})


def _is_condition(expression: Expression) -> bool:
    match expression:
        case Call(Member(name=name)):
            return name in TESTS
        case Chain(steps=steps):
            return steps[0].operator not in ("+", "-")
        case Choice(then=then):
            return _is_condition(then)
        case Unary(operator="!"):
            return True
        case _:
            return False


def written(expression: Expression) -> str:
    """The text of an expression, with all its parentheses."""
    match expression:
        case Literal(value):
            return json.dumps(value)
        case Regex(pattern):
            return f"/{pattern.pattern.replace(chr(92) + 'Z', '$')}/"
        case Name(name):
            return name
        case Member(target, name):
            return f"{written(target)}.{name}"
        case Call(callee, arguments):
            return f"{written(callee)}({', '.join(map(written, arguments))})"
        case Unary(operator, operand):
            return f"{operator}({written(operand)})"
        case Chain(first, steps):
            rest = "".join(f" {step.operator} {written(step.operand)}" for step in steps)
            return f"({written(first)}{rest})"
        case Choice(condition, then, otherwise):
            return f"({written(condition)} ? {written(then)} : {written(otherwise)})"
        case _:
            raise AssertionError(f"the rules have no such expression so far: {expression}")
