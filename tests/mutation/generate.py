"""Mutants of a source file: each is one small change of one statement, made in the text, so that lines keep their
numbers.

    comparisons    flipped, and moved by one at the bound
    operators      + and -, * and /, | and &, min and max, any and all, `not` taken away
    conditions     an operand left out, always true, always false
    statements     left out, `continue` for `break`
    arguments      a keyword left out, two neighbours swapped
    answers        None, or the other truth
    constants      numbers and truths
    locks          not taken

Left alone is what only people read (strings, docstrings, what is
emitted, errors' texts) and
what nothing evaluates (annotations).
"""

from __future__ import annotations

import ast
import copy
import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TypeAlias

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

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
_LOCK = re.compile(r"(lock|changed|condition|guard)$", re.IGNORECASE)
# What is emitted or logged is for people, as are the texts of errors.
_TELLING = {"emit", "debug", "info", "warning", "error", "exception", "log"}
_WIRING = {"TypeVar", "ParamSpec", "field", "dataclass"}
_ATOMS = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Constant)
_LARGEST_COUNT = 10
_NOTHING = "nothing"


@dataclass(frozen=True)
class Mutant:
    """`text` in place of the bytes from `start` to `end` of a file of src. In `place` (a module and what is in it)
    it makes `new` of `old`, which is the text of a statement, or the head of one. `lines` are those that it changes.
    """

    file: str
    place: str
    old: str
    new: str
    start: int
    end: int
    text: str
    lines: tuple[int, ...]

    def __str__(self) -> str:
        return f"{self.place}: {self.old} -> {self.new}"

    def apply(self, source: bytes) -> bytes:
        """The file with the mutant in it."""
        return source[: self.start] + self.text.encode() + source[self.end :]


def generate(file: str, source: bytes) -> list[Mutant]:
    """All mutants of a file, those of which none is like another."""
    found: dict[str, Mutant] = {}
    for mutant in _Walk(file, source).module(ast.parse(source)):
        if mutant.old == mutant.new:
            continue
        unique, number = mutant, 1
        while str(unique) in found:
            number += 1
            unique = replace(mutant, old=f"{mutant.old} (#{number})")
        found[str(unique)] = unique
    return list(found.values())


@dataclass(frozen=True)
class _At:
    """Where the walk is: the statement whose text is shown, the lines that tests must reach, and the function."""

    place: str
    start: int
    end: int
    lines: tuple[int, ...]
    function: _Function | None = None


class _Walk:
    def __init__(self, file: str, source: bytes) -> None:
        self._file = file
        self._source = source
        # Conditions and operands: what a flip does to them, a fixed condition does as well.
        self._judged: set[ast.AST] = set()
        # The lines of functions in which a name is read.
        self._readers: dict[str, set[int]] = {}
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def module(self, tree: ast.Module) -> Iterator[Mutant]:
        stem = self._file.rpartition("/")[2].removesuffix(".py")
        # What runs at the import is reached by each test that reaches something that runs later.
        statements = [statement for node in ast.walk(tree) if isinstance(node, _Function) for statement in node.body]
        bodies = tuple(sorted({line for statement in statements for line in _lines(statement)}))
        for statement in statements:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name | ast.Attribute):
                    self._readers.setdefault(_name(node), set()).update(_lines(node))
        yield from self._block(tree.body, _At(stem, 0, 0, bodies))

    # --- statements

    def _block(self, body: list[ast.stmt], at: _At) -> Iterator[Mutant]:
        for statement in body:
            yield from self._statement(statement, at)

    def _statement(self, node: ast.stmt, outer: _At) -> Iterator[Mutant]:
        if isinstance(node, ast.Import | ast.ImportFrom | ast.Assert | ast.Global | ast.Nonlocal | ast.Pass):
            return
        if isinstance(node, ast.ClassDef):
            yield from self._block(node.body, replace(outer, place=f"{outer.place}.{node.name}"))
            return
        start, end = self._span(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self._function(node, outer)
            return
        body = getattr(node, "body", None)
        if isinstance(node, ast.Match):
            end = self._span(node.subject)[1]
        elif body:
            end = start + len(self._source[start : self._span(body[0])[0]].rstrip())
        lines = self._later(node, outer) if outer.function is None else self._between(start, end)
        at = replace(outer, start=start, end=end, lines=lines)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        yield from self._drop(node, at)
        yield from self._own(node, at)
        for name in ("body", "orelse", "finalbody"):
            yield from self._block(getattr(node, name, []), outer)
        for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            yield from self._block(part.body, outer)

    def _later(self, node: ast.stmt, outer: _At) -> tuple[int, ...]:
        """The lines by which tests reach what runs at the import: where the name is read that it binds, if it is."""
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        readers = {line for target in targets if target is not None for line in self._readers.get(_name(target), ())}
        return tuple(sorted(readers)) or outer.lines

    def _function(self, node: _Function, outer: _At) -> Iterator[Mutant]:
        lines = tuple(sorted({line for statement in node.body for line in _lines(statement)}))
        inner = replace(outer, place=f"{outer.place}.{node.name}", lines=lines, function=node)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                # The parameter and its default, as they are written.
                start, end = self._span(default)
                begin = self._source.rfind(b"\n", 0, start) + 1
                before = max(self._source.rfind(b",", begin, start), self._source.rfind(b"(", begin, start), begin - 1)
                yield from self._expression(default, replace(inner, start=before + 1, end=end))
        yield from self._block(node.body, inner)

    def _drop(self, node: ast.stmt, at: _At) -> Iterator[Mutant]:
        """Leave the statement out, or do the other thing."""
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Call | ast.Await) and not _tells(node.value):
                yield self._whole(at, "pass", _NOTHING)
        elif isinstance(node, ast.Assign | ast.AugAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            is_kept = at.function is None or _is_wiring(node, at.function)
            if not is_kept and all(_is_bound_elsewhere(target, at.function) for target in targets):
                yield self._whole(at, "pass", _NOTHING)
        elif isinstance(node, ast.AnnAssign):
            if node.value is not None and not isinstance(node.target, ast.Name) and at.function is not None:
                yield self._whole(at, "pass", _NOTHING)
        elif isinstance(node, ast.Raise | ast.Delete | ast.Break):
            yield self._whole(at, "pass", _NOTHING)
        elif isinstance(node, ast.Continue):
            yield self._whole(at, "pass", _NOTHING)
            yield self._whole(at, "break", "break")
        elif isinstance(node, ast.Return):
            yield from self._answer(node, at)

    def _answer(self, node: ast.Return, at: _At) -> Iterator[Mutant]:
        assert at.function is not None
        if node.value is None:
            yield self._whole(at, "pass", _NOTHING)
        elif isinstance(at.function.returns, ast.Name) and at.function.returns.id == "bool":
            self._judged.add(node.value)
            for answer in ("return True", "return False"):
                yield self._whole(at, answer, answer)
        elif not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield self._whole(at, "return None", "return None")

    def _own(self, node: ast.stmt, at: _At) -> Iterator[Mutant]:
        """What is in the statement's own expressions."""
        if isinstance(node, ast.Raise):
            return  # an error's text, and what it is raised from
        if isinstance(node, ast.If | ast.While):
            yield from self._fixed(node.test, at, is_loop=isinstance(node, ast.While))
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is None and _LOCK.search(_name(item.context_expr)):
                    yield self._part(item.context_expr, '__import__("contextlib").nullcontext()', at)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "type_comment", "decorator_list", "body", "orelse", "finalbody", "handlers"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.expr):
                    yield from self._expression(child, at)
                elif isinstance(child, ast.withitem):
                    yield from self._expression(child.context_expr, at)

    # --- expressions

    def _expression(self, node: ast.AST, at: _At) -> Iterator[Mutant]:
        if isinstance(node, ast.JoinedStr):
            return
        if isinstance(node, ast.Compare):
            yield from self._compare(node, at)
        elif isinstance(node, ast.BinOp):
            yield from self._operator(node, at)
        elif isinstance(node, ast.BoolOp):
            yield from self._operands(node, at)
        elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not | ast.USub):
            if node in self._judged:
                self._judged.add(node.operand)
            else:
                yield self._part(node, self._alone(node.operand), at)
        elif isinstance(node, ast.IfExp):
            yield from self._fixed(node.test, at)
        elif isinstance(node, ast.comprehension):
            for test in node.ifs:
                yield from self._fixed(test, at)
        elif isinstance(node, ast.Constant):
            yield from self._constant(node, at)
        elif isinstance(node, ast.Lambda):
            if not isinstance(node.body, ast.Constant):
                yield self._part(node.body, "None", at)
            yield from self._expression(node.body, at)
            return
        elif isinstance(node, ast.Call):
            if _tells(node) or _name(node.func) in _WIRING:
                return
            yield from self._call(node, at)
        for child in ast.iter_child_nodes(node):
            yield from self._expression(child, at)

    def _compare(self, node: ast.Compare, at: _At) -> Iterator[Mutant]:
        sides = [node.left, *node.comparators]
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            gap = self._span(left)[1], self._span(right)[0]
            found = _COMPARED.search(self._text(*gap))
            assert found is not None
            bounds = _BOUNDS[type(op)]
            for new in bounds[:-1] if node in self._judged else bounds:
                yield self._spliced(gap[0] + found.start(), gap[0] + found.end(), new, at)

    def _operator(self, node: ast.BinOp, at: _At) -> Iterator[Mutant]:
        if type(node.op) not in _OPERATORS:
            return
        pattern, new = _OPERATORS[type(node.op)]
        gap = self._span(node.left)[1], self._span(node.right)[0]
        found = re.search(pattern, self._text(*gap))
        assert found is not None
        yield self._spliced(gap[0] + found.start(), gap[0] + found.end(), new, at)

    def _operands(self, node: ast.BoolOp, at: _At) -> Iterator[Mutant]:
        self._judged.update(node.values)
        word = " and " if isinstance(node.op, ast.And) else " or "
        for number in range(len(node.values)):
            kept = copy.copy(node.values)
            del kept[number]
            yield self._part(node, word.join(self._alone(value) for value in kept), at)

    def _fixed(self, test: ast.expr, at: _At, *, is_loop: bool = False) -> Iterator[Mutant]:
        if isinstance(test, ast.Constant):
            return
        self._judged.add(test)
        values = ["True", "False"]
        if is_loop or (isinstance(test, ast.BoolOp) and isinstance(test.op, ast.And)):
            values.remove("True")  # what never ends says little; and a left out operand shows what is always true
        elif isinstance(test, ast.BoolOp):
            values.remove("False")
        for value in values:
            yield self._part(test, value, at)

    def _constant(self, node: ast.Constant, at: _At) -> Iterator[Mutant]:
        value = node.value
        if isinstance(value, bool):
            yield self._part(node, str(not value), at)
        elif isinstance(value, int | float):
            # A count is off by one; of a measure, such as a timeout, only its absence shows.
            is_measure = isinstance(value, float) or value > _LARGEST_COUNT
            yield self._part(node, "0" if value and is_measure else repr(value + 1), at)

    def _call(self, node: ast.Call, at: _At) -> Iterator[Mutant]:
        if isinstance(node.func, ast.Name) and node.func.id in _OTHERS:
            yield self._part(node.func, _OTHERS[node.func.id], at)
        # The order says nothing to some, and to some too much: nothing works with it.
        in_order = [] if _name(node.func) in {*_OTHERS, "isinstance"} else node.args
        for left, right in pairwise(in_order):
            if not (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
                texts = self._text(*self._span(right)), self._text(*self._span(left))
                between = self._text(self._span(left)[1], self._span(right)[0])
                yield from self._rewritten(node, self._span(left)[0], self._span(right)[1], between.join(texts), at)
        parts = [*node.args, *node.keywords]
        for number, part in enumerate(parts):
            if isinstance(part, ast.keyword) and part.arg is not None:
                start, end = self._span(part)
                if number:
                    start = self._span(parts[number - 1])[1]
                elif len(parts) > 1:
                    end = self._span(parts[1])[0]
                yield from self._rewritten(node, start, end, "", at)

    def _rewritten(self, call: ast.Call, start: int, end: int, text: str, at: _At) -> Iterator[Mutant]:
        """The call with this in place of that, unless parentheses that belong to no node make it no call any more."""
        outer = self._span(call)
        try:
            ast.parse(f"({self._text(outer[0], start)}{text}{self._text(end, outer[1])})")
        except SyntaxError:
            return
        yield self._spliced(start, end, text, at)

    # --- text

    def _whole(self, at: _At, text: str, shown: str) -> Mutant:
        old = self._shown(at.start, at.end)
        return Mutant(self._file, at.place, old, shown, at.start, at.end, text, at.lines)

    def _part(self, node: ast.AST, text: str, at: _At) -> Mutant:
        return self._spliced(*self._span(node), text, at)

    def _spliced(self, start: int, end: int, text: str, at: _At) -> Mutant:
        old = self._shown(at.start, at.end)
        new = " ".join((self._text(at.start, start) + text + self._text(end, at.end)).split())
        return Mutant(self._file, at.place, old, new, start, end, text, at.lines)

    def _alone(self, node: ast.expr) -> str:
        text = self._text(*self._span(node))
        return text if isinstance(node, _ATOMS) else f"({text})"

    def _shown(self, start: int, end: int) -> str:
        return " ".join(self._text(start, end).split())

    def _text(self, start: int, end: int) -> str:
        return self._source[start:end].decode()

    def _span(self, node: ast.AST) -> tuple[int, int]:
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def _line(self, offset: int) -> int:
        return self._source.count(b"\n", 0, offset) + 1

    def _between(self, start: int, end: int) -> tuple[int, ...]:
        return tuple(range(self._line(start), self._line(max(start, end - 1)) + 1))


def _lines(node: ast.stmt | ast.expr) -> range:
    assert node.end_lineno is not None
    return range(node.lineno, node.end_lineno + 1)


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""


def _tells(node: ast.expr) -> bool:
    """Whether this call is of what only people read."""
    if isinstance(node, ast.Await):
        return _tells(node.value)
    return isinstance(node, ast.Call) and _name(node.func) in _TELLING


def _is_bound_elsewhere(target: ast.expr, function: _Function | None) -> bool:
    """Whether it has a value also without this assignment; without one, anything that reaches it notices."""
    if not isinstance(target, ast.Name):
        return not isinstance(target, ast.Tuple | ast.List)
    assert function is not None
    bound = [node for node in ast.walk(function) if isinstance(node, ast.Name) and node.id == target.id]
    return sum(isinstance(node.ctx, ast.Store) for node in bound) > 1


def _is_wiring(node: ast.stmt, function: _Function) -> bool:
    """Whether it only keeps an argument of a constructor: without it, anything that reads it notices."""
    return function.name == "__init__" and isinstance(node, ast.Assign) and isinstance(node.value, ast.Name)
