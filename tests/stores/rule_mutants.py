"""Security rules, each time with one condition taken for true, or one number moved by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from rtdb_emulator.rules import Rules
from rtdb_emulator.rules.authorize import RuleNode, build
from rtdb_emulator.rules.document import Text, as_json, read
from rtdb_emulator.rules.evaluate import Rule, compiled
from rtdb_emulator.rules.syntax import Call, Chain, Choice, Expression, Literal, Member, Unary, parse_expression, show

TRUE = Literal(True, 0)
TESTS = frozenset({"beginsWith", "exists", "hasChild", "hasChildren", "isBoolean", "isNumber", "isString", "matches"})
# A comparison this long is the one that adds up the digits of an instant.
LONG = 1000


@dataclass(frozen=True, slots=True)
class Mutant:
    """`make` makes the rules: where there are hundreds of mutants, only when they are asked."""

    where: str
    what: str
    make: Callable[[], Rules]

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


def mutants(file: Path) -> list[Mutant]:
    """All mutants of a rules file; the first is none, only compiled anew, and so must mean the same."""
    text = file.read_text("utf-8")
    document = read(text)
    root, numbered = build(document, text)

    def mutant(where: str, what: str, changed: Mapping[tuple[str, ...], Expression]) -> Mutant:
        def make() -> Rules:
            tree = root
            for keys, rule in changed.items():
                tree = _replaced(tree, keys, rule)
            return Rules(text, document, tree, numbered)

        return Mutant(where, what, make)

    parsed = {tuple(where.split("/")): parse_expression(Text.alone(rule)) for where, rule in rules_of(file)}
    seen: set[str] = set()
    return [
        mutant("", "nothing", parsed),
        *(
            mutant("/".join(keys), show(part), {keys: new})
            for keys, whole in parsed.items()
            for part, new in _mutations(whole, seen)
        ),
    ]


def _replaced(node: RuleNode, keys: tuple[str, ...], rule: Expression) -> RuleNode:
    """The tree with another rule at that place."""

    def within(node: RuleNode, depth: int) -> RuleNode:
        key = keys[depth]
        if depth == len(keys) - 1:
            match key:
                case ".read":
                    return replace(node, read=_saying(node.read, rule))
                case ".write":
                    return replace(node, write=_saying(node.write, rule))
                case _:
                    return replace(node, validate=_saying(node.validate, rule))
        if key.startswith("$"):
            assert node.wildcard is not None
            return replace(node, wildcard=within(node.wildcard, depth + 1))
        return replace(node, children={**node.children, key: within(node.children[key], depth + 1)})

    return within(node, 0)


def _saying(rule: Rule | None, expression: Expression) -> Rule:
    assert rule is not None
    return replace(rule, expression=expression, evaluate=compiled(expression, rule.variables))


def rules_of(file: Path) -> Iterator[tuple[str, str]]:
    """The place and the text of each rule of a file."""
    document = as_json(read(file.read_text("utf-8")))
    assert isinstance(document, dict)
    for (_, *keys), rule in _rules_of(document, ()):
        yield "/".join(keys), rule


def _rules_of(node: Mapping[str, object], keys: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], str]]:
    for key, child in node.items():
        if key == ".indexOn":
            continue  # it lets nothing pass
        if isinstance(child, dict):
            yield from _rules_of(child, (*keys, key))
        else:
            yield (*keys, key), str(child)


def _mutations(expression: Expression, seen: set[str]) -> Iterator[tuple[Expression, Expression]]:
    """Each part that is replaced, and the whole with it replaced. The parts of a long comparison that was `seen` in
    another rule already are left as they are: what they are for is the same there.
    """
    if _is_condition(expression):
        yield expression, TRUE
    match expression:
        case Literal(value) if isinstance(value, float) and value > 0:
            yield expression, replace(expression, value=value + 1)
        case Unary(operand=operand):
            yield from ((part, replace(expression, operand=new)) for part, new in _mutations(operand, seen))
        case Chain(first, steps):
            if steps[0].operator == ">=" and len(text := show(expression).replace("newData.val()", "$key")) > LONG:
                if text in seen:
                    return
                seen.add(text)
            yield from ((part, replace(expression, first=new)) for part, new in _mutations(first, seen))
            for number, step in enumerate(steps):
                for part, new in _mutations(step.operand, seen):
                    others = (*steps[:number], replace(step, operand=new), *steps[number + 1 :])
                    yield part, replace(expression, steps=others)
        case Choice():
            for name in ("condition", "then", "otherwise"):
                for part, new in _mutations(getattr(expression, name), seen):
                    yield part, replace(expression, **{name: new})


def _is_condition(expression: Expression) -> bool:
    match expression:
        case Call(Member(name=name)):
            return name in TESTS
        case Chain(steps=steps):
            return steps[0].operator not in ("+", "-", "*")
        case Choice(then=then):
            return _is_condition(then)
        case Unary(operator="!"):
            return True
        case _:
            return False
