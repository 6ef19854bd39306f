"""The tree of rules, and those of them that decide a request.

Each key of the document has its meaning, each expression is parsed, checked and compiled. Promises: `build` returns a
tree of `RuleNode`s, with each rule at its place, or raises a `RulesError` for the first error in the rules.

The rules on the path of a request grant a read or a write, those of the written data validate it. Promises: only what a
rule grants is allowed. A `.read` or `.write` that holds grants its whole subtree, and no rule further down revokes it.
A `.validate` that doesn't hold refuses the write. A rule is evaluated at its own place in the tree: `data` is the node
there before the request, `newData` the node after it.

This module doesn't know administrators: a caller that skips the rules doesn't call it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from rtdb_emulator.rules.check import check_rule
from rtdb_emulator.rules.coverage import Coverage
from rtdb_emulator.rules.document import Array, Constant, Object, RulesError, Text, Value, error_at, position
from rtdb_emulator.rules.evaluate import PLAIN_READ, QueryFacts, Rule, Scope, Snapshot, compiled
from rtdb_emulator.rules.syntax import parse_expression
from rtdb_emulator.tree import Node, Path

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


# --- the rules that decide a request


@dataclass(frozen=True, slots=True)
class Write:
    """One place that a request replaces. `carried` is the new value, with server values resolved; `EMPTY` deletes."""

    path: Path
    carried: Node


@dataclass(frozen=True, slots=True)
class _Place:
    """A node of the rules, with the data at its place."""

    rules: RuleNode
    path: Path
    data: Snapshot
    new_data: Snapshot | None

    def child(self, key: str) -> _Place | None:
        rules = self.rules.child(key)
        if rules is None:
            return None
        new_data = self.new_data and self.new_data.child(key)
        return _Place(rules, (*self.path, key), self.data.child(key), new_data)

    def rule(self, kind: str) -> Rule | None:
        """Return the rule that stands here. Where nothing is afterwards there is nothing to validate."""
        if kind == ".read":
            return self.rules.read
        if kind == ".write":
            return self.rules.write
        return None if self.new_data is None or self.new_data.node.is_empty else self.rules.validate


class Asked(NamedTuple):
    """A rule that decides a request, and its scope. `path` is the path of the data, with keys in place of variables."""

    rule: Rule
    path: Path
    scope: Scope


class Request:
    """One request, decided by one tree of rules. `coverage` counts the outcomes of the rules."""

    def __init__(
        self,
        rules: RuleNode,
        before: Node,
        after: Node | None,
        auth: object,
        now: int,
        coverage: Coverage | None = None,
    ) -> None:
        self._root = _Place(rules, (), Snapshot(before), None if after is None else Snapshot(after))
        self._auth = auth
        self._now = now
        self._coverage = coverage

    def may_read(self, path: Path, query: QueryFacts | None = None) -> bool:
        """Return whether a `.read` from the root down to the path grants the read. `query` is None for a plain read."""
        return any(map(self._holds, self.rules_on(path, ".read", query)))

    def grants_write(self, write: Write) -> bool:
        """Return whether the `.write` rules grant a write: half of what it needs."""
        return any(map(self._holds, self.rules_on(write.path, ".write")))

    def is_valid(self, write: Write) -> bool:
        """Return whether the `.validate` rules accept a write: the other half."""
        return all(map(self._holds, self.validating(write)))

    def rules_on(self, path: Path, kind: str, query: QueryFacts | None = None) -> Iterator[Asked]:
        """Yield the rules of a kind from the root down to the path."""
        for place in self._on(path):
            if rule := place.rule(kind):
                yield self._asked(rule, place, query or PLAIN_READ)

    def validating(self, write: Write) -> Iterator[Asked]:
        """Yield the `.validate` rules on the path of a write, and for the data that it carries. Other nodes are not
        validated.
        """
        places = [*self._on(write.path)]
        for place in places:
            if rule := place.rule(".validate"):
                yield self._asked(rule, place, PLAIN_READ)
        # If the rules end above the written place, no rule further down can refuse the write.
        if len(places) > len(write.path):
            yield from self._below(places[-1], write.carried)

    def _below(self, place: _Place, carried: Node) -> Iterator[Asked]:
        if not place.rules.validates_below:
            return
        for key, node in carried.children.items():
            child = place.child(key)
            if child is not None:
                if rule := child.rule(".validate"):
                    yield self._asked(rule, child, PLAIN_READ)
                yield from self._below(child, node)

    def _on(self, path: Path) -> Iterator[_Place]:
        """Yield the places on the path that have rules, from the root down."""
        place = self._root
        yield place
        for key in path:
            below = place.child(key)
            if below is None:
                return
            place = below
            yield place

    def _holds(self, asked: Asked) -> bool:
        outcome = asked.rule.outcome(asked.scope)
        if self._coverage is not None:
            self._coverage.count(asked.rule, outcome)
        return outcome is True

    def _asked(self, rule: Rule, place: _Place, query: QueryFacts) -> Asked:
        scope = Scope(self._auth, self._now, query, self._root.data, place.data, place.new_data, place.path)
        return Asked(rule, place.path, scope)
