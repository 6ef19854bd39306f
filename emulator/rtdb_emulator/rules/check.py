"""The static types of rule expressions. An upload checks them before any rule is used.

Promises: a checked rule is boolean, and each method in it exists for the type of its target. Some types are known only
at a request (is this value a string?): evaluation checks these. The error texts are the live service's, word for word.
An error is located at its operator, name or argument.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import Enum, auto

from rtdb_emulator.rules.document import Text
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
    start,
)


class Kind(Enum):
    BOOLEAN = auto()
    NUMBER = auto()
    STRING = auto()
    NULL = auto()
    VALUE = auto()  # of the database: string, number, boolean or null, which is known only at the request
    ANY = auto()  # `auth` and its contents
    MIXED = auto()  # the two branches of ?: differ
    FIELD = auto()  # of `query`: like VALUE, but without members
    SNAPSHOT = auto()
    QUERY = auto()
    REGEX = auto()
    METHOD = auto()


@dataclass(frozen=True, slots=True)
class Method:
    """The type that a method returns, and the number of its arguments."""

    result: Kind
    arguments: int = 0


_OPEN = frozenset({Kind.VALUE, Kind.ANY, Kind.MIXED, Kind.FIELD})
_STRINGS = _OPEN | {Kind.STRING}
_NUMBERS = _OPEN | {Kind.NUMBER}
_ORDERED = _STRINGS | _NUMBERS
_COMPARABLE = _ORDERED | {Kind.BOOLEAN, Kind.NULL}

SNAPSHOT_METHODS: Mapping[str, Method] = {
    "val": Method(Kind.VALUE),
    "getPriority": Method(Kind.VALUE),
    "parent": Method(Kind.SNAPSHOT),
    "child": Method(Kind.SNAPSHOT, 1),
    "exists": Method(Kind.BOOLEAN),
    "hasChild": Method(Kind.BOOLEAN, 1),
    "hasChildren": Method(Kind.BOOLEAN, 1),
    "isNumber": Method(Kind.BOOLEAN),
    "isString": Method(Kind.BOOLEAN),
    "isBoolean": Method(Kind.BOOLEAN),
}
STRING_METHODS: Mapping[str, Method] = {
    "contains": Method(Kind.BOOLEAN, 1),
    "beginsWith": Method(Kind.BOOLEAN, 1),
    "endsWith": Method(Kind.BOOLEAN, 1),
    "matches": Method(Kind.BOOLEAN, 1),
    "replace": Method(Kind.STRING, 2),
    "toLowerCase": Method(Kind.STRING),
    "toUpperCase": Method(Kind.STRING),
}
_FIELDS = {
    "orderByKey": Kind.BOOLEAN,
    "orderByValue": Kind.BOOLEAN,
    "orderByPriority": Kind.BOOLEAN,
    "orderByChild": Kind.FIELD,
    "startAt": Kind.FIELD,
    "endAt": Kind.FIELD,
    "equalTo": Kind.FIELD,
    "limitToFirst": Kind.FIELD,
    "limitToLast": Kind.FIELD,
}
_SNAPSHOT_MEMBERS = dict.fromkeys(SNAPSHOT_METHODS, Kind.METHOD)
_STRING_MEMBERS = {"length": Kind.NUMBER, **dict.fromkeys(STRING_METHODS, Kind.METHOD)}
_MEMBERS: Mapping[Kind, Mapping[str, Kind]] = {
    Kind.SNAPSHOT: _SNAPSHOT_MEMBERS,
    Kind.QUERY: _FIELDS,
    **dict.fromkeys((Kind.STRING, Kind.VALUE, Kind.MIXED), _STRING_MEMBERS),
}
_NAMES = {
    "auth": Kind.ANY,
    "now": Kind.NUMBER,
    "root": Kind.SNAPSHOT,
    "data": Kind.SNAPSHOT,
    "newData": Kind.SNAPSHOT,
    "query": Kind.QUERY,
}
_ARITY = {
    0: "{}() expects no arguments.",
    1: "{}() expects 1 argument.",
    2: "{}() expects two arguments.",
    "matches": "{}() expects 1 regular expression literal argument.",
    "hasChildren": "{}() expects only a single argument (containing an array of child names).",
}


def check_rule(expression: Expression, text: Text, *, kind: str, variables: Mapping[str, int]) -> None:
    """Raise RulesError for a rule that isn't boolean, or has a type error. `kind` is the rule's kind (`.read`, …)."""
    if _Checker(text, kind, variables).kind_of(expression) is not Kind.BOOLEAN:
        raise text.error(start(expression), "Expression must evaluate to a boolean.")


class _Checker:
    def __init__(self, text: Text, rule: str, variables: Mapping[str, int]) -> None:
        self.text = text
        self.rule = rule
        self.variables = variables

    def kind_of(self, expression: Expression) -> Kind:
        match expression:
            case Literal(value):
                return _kind_of_literal(value)
            case Regex():
                return Kind.REGEX
            case Name():
                return self.name(expression)
            case Array():
                raise self.text.error(expression.at, "Unexpected array literal.")
            case Member(target, name):
                return self.member(self.kind_of(target), name, expression.at)
            case Index():
                return self.index(expression)
            case Call():
                return self.call(expression)
            case Unary():
                return self.unary(expression)
            case Chain():
                return self.chain(expression)
            case Choice():
                return self.choice(expression)

    def name(self, name: Name) -> Kind:
        if name.name == "newData" and self.rule == ".read":
            raise self.text.error(name.at, "newData is invalid in .read expressions.")
        if name.name in self.variables:
            return Kind.STRING
        if name.name not in _NAMES:
            raise self.text.error(name.at, f"Unknown variable '{name.name}'.")
        return _NAMES[name.name]

    def member(self, target: Kind, name: str, at: int) -> Kind:
        if target is Kind.ANY:
            # A string's length, or any other property. It is a method only if it is called.
            return Kind.NUMBER if name == "length" else Kind.ANY
        if target not in _MEMBERS:
            raise self.text.error(at, "Invalid property access: target is not an object.")
        if name not in _MEMBERS[target]:
            raise self.text.error(at, f"No such method/property '{name}'.")
        return _MEMBERS[target][name]

    def index(self, index: Index) -> Kind:
        target = self.kind_of(index.target)
        self.kind_of(index.key)
        if target is not Kind.ANY:
            raise self.text.error(start(index.key), "Invalid property access: target is not an object.")
        return Kind.ANY

    def call(self, call: Call) -> Kind:
        if isinstance(call.callee, Member):
            name = call.callee.name
            target = self.kind_of(call.callee.target)
            if target is Kind.ANY and name in STRING_METHODS:
                return self.method(name, STRING_METHODS[name], call)
            if self.member(target, name, call.callee.at) is Kind.METHOD:
                method = SNAPSHOT_METHODS[name] if target is Kind.SNAPSHOT else STRING_METHODS[name]
                return self.method(name, method, call)
        else:
            self.kind_of(call.callee)
        raise self.text.error(call.at, "Type error: Function call on target that is not a function.")

    def method(self, name: str, method: Method, call: Call) -> Kind:
        given = len(call.arguments)
        if given != method.arguments and not (name == "hasChildren" and not given):
            raise self.text.error(call.at, _ARITY.get(name, _ARITY[method.arguments]).format(name))
        for number, argument in enumerate(call.arguments, 1):
            if name == "matches":
                if not isinstance(argument, Regex):
                    raise self.text.error(start(argument), "matches() expects a regular expression literal argument.")
            elif name == "hasChildren":
                self.child_names(argument)
            elif self.kind_of(argument) not in _STRINGS:
                problem = (
                    "{}() expects a string argument."
                    if method.arguments == 1
                    else "Argument {1} of {0}() must be a string."
                )
                raise self.text.error(start(argument), problem.format(name, number))
        return method.result

    def child_names(self, argument: Expression) -> None:
        if not isinstance(argument, Array):
            if self.kind_of(argument) not in _OPEN:
                raise self.text.error(start(argument), "hasChildren() expects an array of child names.")
            return
        for item in argument.items:
            if self.kind_of(item) not in _STRINGS:
                raise self.text.error(start(item), "hasChildren() expects an array of strings.")

    def unary(self, unary: Unary) -> Kind:
        operand = self.kind_of(unary.operand)
        if unary.operator == "!":
            if operand is not Kind.BOOLEAN:
                raise self.text.error(unary.at, "! only operates on booleans.")
            return Kind.BOOLEAN
        if operand not in _NUMBERS:
            raise self.text.error(unary.at, "- only operates on numbers.")
        return Kind.NUMBER

    def chain(self, chain: Chain) -> Kind:
        left = self.kind_of(chain.first)
        for step in chain.steps:
            left = self.binary(step.operator, left, self.kind_of(step.operand), step.at)
        return left

    def binary(self, operator: str, left: Kind, right: Kind, at: int) -> Kind:
        if operator in ("&&", "||"):
            for side, kind in (("Left", left), ("Right", right)):
                if kind is not Kind.BOOLEAN:
                    raise self.text.error(at, f"{side} operand of {operator} must be boolean.")
            return Kind.BOOLEAN
        accepted = _ACCEPTED.get(operator, _NUMBERS)
        for side, kind in (("left", left), ("right", right)):
            if kind not in accepted:
                raise self.text.error(
                    at, f"Invalid {operator[:2]} expression: {side} operand {_must_be(operator, side)}."
                )
        if accepted is _NUMBERS:
            return Kind.NUMBER
        return _sum(left, right) if operator == "+" else Kind.BOOLEAN

    def choice(self, choice: Choice) -> Kind:
        if self.kind_of(choice.condition) is not Kind.BOOLEAN:
            raise self.text.error(start(choice.condition), "condition of ? must be boolean.")
        then, otherwise = self.kind_of(choice.then), self.kind_of(choice.otherwise)
        return then if then is otherwise else Kind.MIXED


_ACCEPTED = {
    **dict.fromkeys(("==", "===", "!=", "!=="), _COMPARABLE),
    **dict.fromkeys(("<", "<=", ">", ">=", "+"), _ORDERED),
}


def _kind_of_literal(value: str | float | bool | None) -> Kind:
    if value is None:
        return Kind.NULL
    if isinstance(value, bool):
        return Kind.BOOLEAN
    return Kind.STRING if isinstance(value, str) else Kind.NUMBER


def _must_be(operator: str, side: str) -> str:
    match operator:
        case "==" | "===" if side == "left":
            return "is not a number, boolean, string, null"  # without an "or": the service's own slip
        case "==" | "===" | "!=" | "!==":
            return "is not a number, boolean, string, or null"
        case "<" | "<=" | ">" | ">=":
            return "must be a number or string"
        case "+":
            return "is not a number or string"
        case _:
            return "is not a number"


def _sum(left: Kind, right: Kind) -> Kind:
    if left is right is Kind.NUMBER:
        return Kind.NUMBER
    return Kind.STRING if Kind.STRING in (left, right) else Kind.VALUE
