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

Left alone is what only people read (strings, docstrings, what is emitted, the texts of errors) and what nothing
evaluates (annotations). So is what another mutant of the same place stands for: a test that notices `a` in place of
`a and b` notices `a or b` as well.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from tests.mutation.expressions import Edit, Expressions, tells
from tests.mutation.source import Source, lines_of, name_of

_Function: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef

_LOCK = re.compile(r"(lock|changed|condition|guard)$", re.IGNORECASE)
_NO_LOCK = '__import__("contextlib").nullcontext()'
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
        """The file with the mutant in it; what comes after it stays on its lines."""
        line, newline, rest = source[self.end :].partition(b"\n")
        gone = source[self.start : self.end].count(b"\n") - self.text.count("\n")
        return source[: self.start] + self.text.encode() + line + b"\n" * gone + newline + rest


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
        self._text = Source(source)
        self._expressions = Expressions(self._text)
        # The lines of functions in which a name is read.
        self._readers: dict[str, set[int]] = {}

    def module(self, tree: ast.Module) -> Iterator[Mutant]:
        stem = self._file.rpartition("/")[2].removesuffix(".py")
        # What runs at the import is reached by each test that reaches something that runs later.
        statements = [statement for node in ast.walk(tree) if isinstance(node, _Function) for statement in node.body]
        bodies = tuple(sorted({line for statement in statements for line in lines_of(statement)}))
        for statement in statements:
            for node in ast.walk(statement):
                if isinstance(node, ast.Name | ast.Attribute):
                    self._readers.setdefault(name_of(node), set()).update(lines_of(node))
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
        start, end = self._text.span(node)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield from self._function(node, outer)
            return
        if (head := _head(node)) is not None:
            end = self._text.source.index(b":", start if head is node else self._text.span(head)[1]) + 1
        lines = self._later(node, outer, start, end) if outer.function is None else self._text.lines(start, end)
        at = replace(outer, start=start, end=end, lines=lines)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test):
            return
        yield from self._drop(node, at)
        yield from self._own(node, at)
        for name in ("body", "orelse", "finalbody"):
            yield from self._block(getattr(node, name, []), outer)
        for part in [*getattr(node, "handlers", []), *getattr(node, "cases", [])]:
            yield from self._block(part.body, outer)

    def _later(self, node: ast.stmt, outer: _At, start: int, end: int) -> tuple[int, ...]:
        """The lines by which tests reach what runs at the import: where the name is read that it binds, if it is. What
        binds none may be of use in some import alone.
        """
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        readers = {line for target in targets if target is not None for line in self._readers.get(name_of(target), ())}
        if targets == [None]:
            return tuple(sorted({*outer.lines, *self._text.lines(start, end)}))
        return tuple(sorted(readers)) or outer.lines

    def _function(self, node: _Function, outer: _At) -> Iterator[Mutant]:
        lines = tuple(sorted({line for statement in node.body for line in lines_of(statement)}))
        inner = replace(outer, place=f"{outer.place}.{node.name}", lines=lines, function=node)
        for default in [*node.args.defaults, *node.args.kw_defaults]:
            if default is not None:
                # The parameter and its default, as they are written.
                start, end = self._text.span(default)
                begin = self._text.source.rfind(b"\n", 0, start) + 1
                before = max(
                    self._text.source.rfind(b",", begin, start), self._text.source.rfind(b"(", begin, start), begin - 1
                )
                yield from self._spliced(self._expressions.edits(default), replace(inner, start=before + 1, end=end))
        yield from self._block(node.body, inner)

    def _drop(self, node: ast.stmt, at: _At) -> Iterator[Mutant]:
        """Leave the statement out, or do the other thing."""
        if isinstance(node, ast.Expr):
            if isinstance(node.value, ast.Call | ast.Await) and not tells(node.value):
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
            self._expressions.judged.add(node.value)
            for answer in ("return True", "return False"):
                yield self._whole(at, answer, answer)
        elif not (isinstance(node.value, ast.Constant) and node.value.value is None):
            yield self._whole(at, "return None", "return None")

    def _own(self, node: ast.stmt, at: _At) -> Iterator[Mutant]:
        """What is in the statement's own expressions."""
        if isinstance(node, ast.Raise):
            return  # an error's text, and what it is raised from
        if isinstance(node, ast.If | ast.While):
            fixed = self._expressions.fixed(node.test, is_loop=isinstance(node, ast.While))
            yield from self._spliced(fixed, at)
        if isinstance(node, ast.With | ast.AsyncWith):
            for item in node.items:
                if item.optional_vars is None and _LOCK.search(name_of(item.context_expr)):
                    yield from self._spliced([Edit(*self._text.span(item.context_expr), _NO_LOCK)], at)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "type_comment", "decorator_list", "body", "orelse", "finalbody", "handlers"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.expr):
                    yield from self._spliced(self._expressions.edits(child), at)
                elif isinstance(child, ast.withitem):
                    yield from self._spliced(self._expressions.edits(child.context_expr), at)

    def _whole(self, at: _At, text: str, shown: str) -> Mutant:
        old = self._text.shown(at.start, at.end)
        return Mutant(self._file, at.place, old, shown, at.start, at.end, text, at.lines)

    def _spliced(self, edits: Iterable[Edit], at: _At) -> Iterator[Mutant]:
        old = self._text.shown(at.start, at.end)
        for start, end, text in edits:
            new = self._text.shown(at.start, at.end, text, (start, end))
            yield Mutant(self._file, at.place, old, new, start, end, text, at.lines)


def _head(node: ast.stmt) -> ast.AST | None:
    """The last expression before the colon of a statement that has blocks, itself if it has none there."""
    if isinstance(node, ast.With | ast.AsyncWith):
        return node.items[-1].optional_vars or node.items[-1].context_expr
    for name in ("test", "iter", "subject"):
        if hasattr(node, name):
            found: ast.AST = getattr(node, name)
            return found
    return node if hasattr(node, "body") else None


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
