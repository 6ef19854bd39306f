"""Why an operation was denied: by which rule, which part of the rule, and with which values.

    except Denied as denied:
        if denied.refused is not None:
            lines = explain(denied.refused)

Rules are evaluated without notes. A refused operation keeps the tree and the other values of its evaluation, which
never change. To explain it, its rules are evaluated once more, part by part. A client may send much more than the lines
of a reason: an operation that carries much is explained at once (`Refused.bounded`), and keeps these lines instead.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal as OneOf

from rtdb_emulator.jsondata import render
from rtdb_emulator.ordering import Scalar
from rtdb_emulator.rules import Rules
from rtdb_emulator.rules.authorize import Asked, Write
from rtdb_emulator.rules.evaluate import OBJECT, QueryFacts, RuleFailed, Snapshot, compiled
from rtdb_emulator.rules.syntax import (
    Array,
    Call,
    Chain,
    Choice,
    Expression,
    Literal,
    Member,
    Name,
    Regex,
    Unary,
    parts,
    show,
    show_value,
)
from rtdb_emulator.table import Table
from rtdb_emulator.tree import EMPTY, Node, Path
from rtdb_emulator.tree import Member as Below

# The most characters of keys and texts that a refused operation keeps; another value counts as eight.
MOST_KEPT = 64 * 1024
# An object with more children is shown by their number.
_MOST_KEYS = 50
_BROKEN = object()


@dataclass(frozen=True, slots=True)
class Refused:
    """An operation that the rules have denied: the step, and all values of the evaluation.

    `why_read` is the reason why a write needed the right to read. `lines` is the reason of an operation that carried
    too much to keep, without its values.
    """

    step: OneOf["read", "write", "validate"]
    path: Path
    rules: Rules
    before: Node
    after: Node | None
    writes: tuple[Write, ...]
    auth: object
    now: int
    query: QueryFacts | None = None
    why_read: str = ""
    lines: tuple[str, ...] = ()

    def bounded(self) -> Refused:
        """Return the operation, or if it carries more than `MOST_KEPT`, its reason in place of its values."""
        if not _is_more(MOST_KEPT, self):
            return self
        return replace(self, before=EMPTY, after=None, writes=(), query=None, lines=tuple(explain(self)))


def explain(refused: Refused) -> list[str]:
    """Return the reason as lines: the operation and its user, then each rule that denied it, and its parts."""
    if refused.lines:
        return list(refused.lines)
    who = "a client not signed in" if refused.auth is None else f"auth = {show_value(refused.auth)}"
    asked = "read" if refused.step == "read" else "write"
    first = f"{asked} of {_shown(refused.path)} denied to {who}"
    return [first, *(f"  {line}" for line in _reasons(refused))]


def _reasons(refused: Refused) -> Iterator[str]:
    if refused.why_read:
        yield refused.why_read
    request = refused.rules.request(refused.before, refused.after, auth=refused.auth, now=refused.now)
    if refused.step == "read":
        yield from _not_granted(".read", refused.path, [*request.rules_on(refused.path, ".read", refused.query)])
        return
    for write in refused.writes:
        if refused.step == "write":
            if not request.grants_write(write):
                yield from _which(write, refused)
                yield from _not_granted(".write", write.path, [*request.rules_on(write.path, ".write")])
                return
            continue
        for asked in request.validating(write):
            if asked.rule.outcome(asked.scope) is not True:
                yield from _which(write, refused)
                yield from _denial(asked)
                return


def _which(write: Write, refused: Refused) -> Iterator[str]:
    if len(refused.writes) > 1:
        yield f"of its {len(refused.writes)} paths this is the first that is denied: {_shown(write.path)}"


def _not_granted(kind: str, path: Path, asked: Sequence[Asked]) -> Iterator[str]:
    if not asked:
        yield f"no {kind} rule stands on the way to {_shown(path)}"
    for one in asked:
        yield from _denial(one)


def _denial(asked: Asked) -> Iterator[str]:
    rule = asked.rule
    line, column = rule.place
    outcome = rule.outcome(asked.scope)
    said = _said(_BROKEN if outcome is None else outcome)
    yield f"{rule.kind} of {_shown(rule.path)} ({line}:{column}) is {said}: {show(rule.expression)}"
    if not rule.is_constant:
        yield from (f"  {found}" for found in _Parts(asked).why(rule.expression))


class _Parts:
    """The parts of one rule, evaluated by themselves."""

    def __init__(self, asked: Asked) -> None:
        self._scope = asked.scope
        self._variables = asked.rule.variables

    def value(self, expression: Expression) -> object:
        try:
            return compiled(expression, self._variables)(self._scope)
        except RuleFailed:
            return _BROKEN

    def why(self, expression: Expression) -> Iterator[str]:
        """Yield a line for each part that decides the value of the expression."""
        match expression:
            case Unary("!", operand):
                yield from self.why(operand)
            case Choice(condition, then, otherwise):
                yield from self.why(condition)
                if (chosen := self.value(condition)) is not _BROKEN:
                    yield from self.why(then if chosen else otherwise)
            case Chain(first, steps) if steps[0].operator in ("&&", "||"):
                decisive = steps[0].operator == "||"
                seen: list[Expression] = []
                for operand in (first, *(step.operand for step in steps)):
                    value = self.value(operand)
                    if value is decisive or value is _BROKEN:
                        yield from self.why(operand)
                        return
                    seen.append(operand)
                for operand in seen:
                    yield from self.why(operand)
            case _:
                yield f"{show(expression)} is {_said(self.value(expression))}"
                yield from (f"  {line}" for line in self.values(expression))

    def values(self, expression: Expression) -> list[str]:
        """Return the values of the parts of a comparison or a call, each once, the outermost first."""
        found: dict[str, str] = {}
        waiting = list(_operands(expression))
        while waiting:
            part = waiting.pop(0)
            if isinstance(part, Literal | Regex | Array):
                waiting += parts(part)
                continue
            value = self.value(part)
            if not (isinstance(part, Name) and part.name in ("root", "query")):
                found.setdefault(show(part), f"{'is' if value is _BROKEN else '='} {_said(value)}")
            if not isinstance(part, Name) and not _is_auth(part):
                waiting += _operands(part)
        return [f"{name} {value}" for name, value in found.items()]


def _operands(expression: Expression) -> tuple[Expression, ...]:
    """Return the parts of an expression that have a value; the name of a method has none."""
    if isinstance(expression, Call) and isinstance(expression.callee, Member):
        return (expression.callee.target, *expression.arguments)
    return parts(expression)


def _is_auth(expression: Expression) -> bool:
    while isinstance(expression, Member):
        expression = expression.target
    return isinstance(expression, Name) and expression.name == "auth"


def _said(value: object) -> str:
    """Return the text of an expression's value, cut if it is long."""
    if value is _BROKEN:
        return "broken by its values"
    if value is OBJECT:
        return "an object"
    if isinstance(value, QueryFacts):
        return "the query"
    if not isinstance(value, Snapshot):
        return show_value(value)
    node = value.node
    if isinstance(node.members, Table) or len(node.members) > _MOST_KEYS:
        return f"an object of {len(node.members)} children"
    return show_value(render(node))


def _shown(path: Path) -> str:
    return "/" + "/".join(path)


def _is_more(most: int, refused: Refused) -> bool:
    """Return whether an operation carries more than this. The count ends there: a write may have millions of nodes."""
    query = refused.query
    size = sum(len(text) for text in (query.start_at, query.end_at) if isinstance(text, str)) if query else 0
    size += sum(_size(key) for write in refused.writes for key in write.path)
    waiting: list[Below] = [write.carried for write in refused.writes]
    while waiting and size <= most:
        member = waiting.pop()
        if not isinstance(member, Node):
            size += _size(member)
            continue
        size += _size(member.value) + _size(member.priority)
        for key, below in member.members.items():
            size += _size(key)
            if size > most:
                break
            waiting.append(below)
    return size > most


def _size(value: Scalar | None) -> int:
    return len(value) if isinstance(value, str) else 8
