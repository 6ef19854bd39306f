"""Build the tree of rules from a document: each key has its meaning, each expression is parsed, checked and compiled.

Promises: `build` returns a tree of `RuleNode`s, or raises a `RulesError` for the first error in the rules. The tree has
each rule at its place. `authorize` chooses the rules that decide a request.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from rtdb_emulator.rules.check import check_rule
from rtdb_emulator.rules.document import Array, Constant, Object, Value
from rtdb_emulator.rules.evaluate import Rule, compiled
from rtdb_emulator.rules.grammar import parse_expression
from rtdb_emulator.rules.source import RulesError, Text, error_at, position
from rtdb_emulator.tree import Path

_RULES = (".read", ".write", ".validate")
_FORBIDDEN = re.compile(r"[.$#/\[\]]")
_VARIABLE = re.compile(r"\$\w[\w$]*\Z")


@dataclass(frozen=True, slots=True)
class RuleNode:
    """The rules at one place. `validates_below` says whether there is a `.validate` further down."""

    read: Rule | None
    write: Rule | None
    validate: Rule | None
    index_on: frozenset[str]
    children: Mapping[str, RuleNode]
    wildcard: RuleNode | None
    validates_below: bool

    def child(self, key: str) -> RuleNode | None:
        """Return the rules for the child of that name: its own rules, or those of the `$` child."""
        return self.children.get(key, self.wildcard)


def build(document: Value, source: str) -> tuple[RuleNode, list[Rule]]:
    """Return the tree of a whole document, which is `{"rules": {…}}`, and its rules in the order of their numbers."""
    builder = _Builder(source)
    if not isinstance(document, Object) or set(document.members) != {"rules"}:
        raise builder.error(document, 'Expected an object whose only member is "rules".')
    return builder.node(document.members["rules"][1], {}, ()), builder.rules


class _Builder:
    def __init__(self, source: str) -> None:
        self.source = source
        self.rules: list[Rule] = []

    def error(self, value: Value, message: str) -> RulesError:
        return error_at(self.source, value.at, message)

    def node(self, value: Value, variables: Mapping[str, int], path: Path) -> RuleNode:
        if not isinstance(value, Object):
            raise self.error(value, "Expected '{'.")
        rules: dict[str, Rule] = {}
        index_on: frozenset[str] = frozenset()
        children: dict[str, RuleNode] = {}
        wildcard: tuple[str, RuleNode] | None = None
        for name, (key, member) in value.members.items():
            if name in _RULES:
                rules[name] = self.rule(name, member, variables, path)
            elif name == ".indexOn":
                index_on = self.index_on(member)
            elif _VARIABLE.match(name):
                if wildcard:
                    raise self.error(key, f"Cannot have multiple default rules ('{wildcard[0]}' and '{name}').")
                if name in variables:
                    raise self.error(key, f"'{name}' is already the name of a key further up; choose another name.")
                wildcard = name, self.node(member, {**variables, name: len(path)}, (*path, name))
            else:
                if isinstance(member, Object) and _FORBIDDEN.search(name):
                    raise self.error(key, 'String can\'t contain ".", "#", "$", "/", "[", or "]"')
                children[name] = self.node(member, variables, (*path, name))
        below = [*children.values(), *([wildcard[1]] if wildcard else [])]
        return RuleNode(
            read=rules.get(".read"),
            write=rules.get(".write"),
            validate=rules.get(".validate"),
            index_on=index_on,
            children=children,
            wildcard=wildcard[1] if wildcard else None,
            validates_below=any(node.validate or node.validates_below for node in below),
        )

    def index_on(self, value: Value) -> frozenset[str]:
        items = value.items if isinstance(value, Array) else (value,)
        names = [item.value for item in items if isinstance(item, Text)]
        if len(names) < len(items):
            raise self.error(value, "Invalid indexOn expression. Must be either a string or an array of strings")
        return frozenset(names)

    def rule(self, kind: str, value: Value, variables: Mapping[str, int], path: Path) -> Rule:
        if isinstance(value, Constant) and isinstance(value.value, bool):
            text = Text.alone("true" if value.value else "false")
        elif isinstance(value, Text):
            text = value
        else:
            raise self.error(value, "Invalid rule expression.  Expected 'true', 'false', or an expression string.")
        expression = parse_expression(text)
        check_rule(expression, text, kind=kind, variables=variables)
        place = position(self.source, value.at)
        evaluate = compiled(expression, variables)
        self.rules.append(Rule(kind, path, len(self.rules), place, expression, variables, evaluate))
        return self.rules[-1]
