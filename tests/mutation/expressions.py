"""What can be done to an expression: comparisons, operators, conditions, constants and calls, broken one by one."""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from tests.mutation.source import Source, name_of

_BOUNDS: dict[type[ast.cmpop], tuple[str, ...]] = {
    ast.Lt: ("<=", ">="),
    ast.LtE: ("<", ">"),
    ast.Gt: (">=", "<="),
    ast.GtE: (">", "<"),
    ast.Eq: ("!=",),
    ast.NotEq: ("==",),
    ast.Is: ("is not",),
    ast.IsNot: ("is",),
    ast.In: ("not in",),
    ast.NotIn: ("in",),
}
_OPERATORS: dict[type[ast.operator], tuple[str, str]] = {
    ast.Add: (r"\+", "-"),
    ast.Sub: ("-", "+"),
    ast.Mult: (r"\*", "/"),
    ast.Div: ("/", "*"),
    ast.FloorDiv: ("//", "*"),
    ast.Mod: ("%", "*"),
    ast.BitOr: (r"\|", "&"),
    ast.BitAnd: ("&", "|"),
}
_COMPARED = re.compile(r"<=|>=|==|!=|<|>|\bis\s+not\b|\bis\b|\bnot\s+in\b|\bin\b")
_OTHERS = {"min": "max", "max": "min", "any": "all", "all": "any"}
# What is emitted or logged is for people, as are the texts of errors.
_TELLING = {"emit", "debug", "info", "warning", "error", "exception", "log"}
_WIRING = {"TypeVar", "ParamSpec", "field", "dataclass"}
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
_LARGEST_COUNT = 10


class Edit(NamedTuple):
    """This text in place of the bytes from `start` to `end`."""

    start: int
    end: int
    text: str


class Expressions:
    """The edits of the expressions of a source. `judged` are conditions and operands: what a flip does to them, a fixed
    condition does as well.
    """

    def __init__(self, text: Source) -> None:
        self._text = text
        self.judged: set[ast.AST] = set()

    def edits(self, node: ast.AST) -> Iterator[Edit]:
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.Compare):
            yield from self._compare(node)
        elif isinstance(node, ast.BinOp):
            yield from self._operator(node)
        elif isinstance(node, ast.BoolOp):
            yield from self._operands(node)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            if node in self.judged:
                self.judged.add(node.operand)
            else:
                yield self._part(node, self._alone(node.operand))
        elif isinstance(node, ast.IfExp):
            yield from self.fixed(node.test)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from self.fixed(test)
        elif isinstance(node, ast.Constant):
            yield from self._constant(node)
        elif isinstance(node, ast.Lambda):
            if not isinstance(node.body, ast.Constant):
                yield self._part(node.body, "None")
            yield from self.edits(node.body)
            return
        elif isinstance(node, ast.Call):
            if tells(node) or name_of(node.func) in _WIRING:
                return
            yield from self._call(node)
        for child in ast.iter_child_nodes(node):
            yield from self.edits(child)

    def _compare(self, node: ast.Compare) -> Iterator[Edit]:
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            gap = self._text.span(left)[1], self._text.span(right)[0]
            found = _COMPARED.search(self._text.get(*gap))
            assert found is not None
            bounds = _BOUNDS[type(op)]
            for new in bounds[:-1] if node in self.judged else bounds:
                yield Edit(gap[0] + found.start(), gap[0] + found.end(), new)

    def _operator(self, node: ast.BinOp) -> Iterator[Edit]:
        if type(node.op) not in _OPERATORS:
            return
        pattern, new = _OPERATORS[type(node.op)]
        gap = self._text.span(node.left)[1], self._text.span(node.right)[0]
        found = re.search(pattern, self._text.get(*gap))
        assert found is not None
        yield Edit(gap[0] + found.start(), gap[0] + found.end(), new)

    def _operands(self, node: ast.BoolOp) -> Iterator[Edit]:
        self.judged.update(node.values)
        word = " and " if isinstance(node.op, ast.And) else " or "
        for number in range(len(node.values)):
            kept = copy.copy(node.values)
            del kept[number]
            yield self._part(node, word.join(self._alone(value) for value in kept))

    def fixed(self, test: ast.expr, *, is_loop: bool = False) -> Iterator[Edit]:
        if isinstance(test, ast.Constant):
            return
        self.judged.add(test)
        values = ["True", "False"]
        if is_loop or (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)):
            values.remove("True")  # what never ends says little; and a left out operand shows what is always true
        elif isinstance(test, ast.BoolOp):
            values.remove("False")
        for value in values:
            yield self._part(test, value)

    def _constant(self, node: ast.Constant) -> Iterator[Edit]:
        value = node.value
        if isinstance(value, bool):
            yield self._part(node, str(not value))
        elif isinstance(value, float) or (isinstance(value, int) and value > _LARGEST_COUNT):
            if value:
                yield self._part(node, "0")  # of a measure, such as a timeout, only its absence shows
        elif isinstance(value, int):
            yield self._part(node, repr(value + 1))

    def _call(self, node: ast.Call) -> Iterator[Edit]:
        if isinstance(node.func, ast.Name) and node.func.id in _OTHERS:
            yield self._part(node.func, _OTHERS[node.func.id])
        # The order says nothing to some, and to some too much: nothing works with it.
        in_order = [] if name_of(node.func) in {*_OTHERS, "isinstance"} else node.args
        for left, right in pairwise(in_order):
            if not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
                texts = self._text.get(*self._text.span(right)), self._text.get(*self._text.span(left))
                between = self._text.get(self._text.span(left)[1], self._text.span(right)[0])
                yield from self._rewritten(
                    node, self._text.span(left)[0], self._text.span(right)[1], between.join(texts)
                )
        parts = [*node.args, *node.keywords]
        for number, part in enumerate(parts):
            if isinstance(part, ast.keyword) and part.arg not in (None, "description"):
                start, end = self._text.span(part)
                if number:
                    start = self._text.span(parts[number - 1])[1]
                elif len(parts) > 1:
                    end = self._text.span(parts[1])[0]
                yield from self._rewritten(node, start, end, "")

    def _rewritten(self, call: ast.Call, start: int, end: int, text: str) -> Iterator[Edit]:
        """The call with this in place of that, unless parentheses that belong to no node make it no call any more."""
        outer = self._text.span(call)
        try:
            ast.parse(f"({self._text.get(outer[0], start)}{text}{self._text.get(end, outer[1])})")
        except SyntaxError:
            return
        yield Edit(start, end, text)

    def _part(self, node: ast.AST, text: str) -> Edit:
        return Edit(*self._text.span(node), text)

    def _alone(self, node: ast.expr) -> str:
        text = self._text.get(*self._text.span(node))
        return text if isinstance(node, _ATOMS) else f"({text})"


def tells(node: ast.expr) -> bool:
    """Whether this call is of what only people read."""
    if isinstance(node, ast.Await):
        return tells(node.value)
    return isinstance(node, ast.Call) and name_of(node.func) in _TELLING
