"""The text of a source: where its nodes are in it, in bytes."""

from __future__ import annotations

import ast


def without_words(source: bytes) -> str:
    """The syntax tree of a source as a text, without comments, docstrings and layout."""
    tree = ast.parse(source)
    for node in ast.walk(tree):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            node.body = [one for one in node.body if not (isinstance(one, ast.Expr) and _is_text(one.value))]
    return ast.dump(tree)


def _is_text(value: ast.expr) -> bool:
    return isinstance(value, ast.Constant) and isinstance(value.value, str)


class Source:
    """The bytes of a file."""

    def __init__(self, source: bytes) -> None:
        self.source = source
        self._starts = [0]
        for line in source.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))

    def get(self, start: int, end: int) -> str:
        """The text between two offsets."""
        return self.source[start:end].decode()

    def shown(self, start: int, end: int, text: str | None = None, at: tuple[int, int] = (0, 0)) -> str:
        """The text between two offsets on one line, with another text in the place `at`."""
        whole = self.get(start, end) if text is None else self.get(start, at[0]) + text + self.get(at[1], end)
        return " ".join(whole.split())

    def span(self, node: ast.AST) -> tuple[int, int]:
        """Where a node begins and ends."""
        assert isinstance(node, ast.expr | ast.stmt | ast.keyword)
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = self._starts[node.lineno - 1] + node.col_offset
        return start, self._starts[node.end_lineno - 1] + node.end_col_offset

    def lines(self, start: int, end: int) -> tuple[int, ...]:
        """The numbers of the lines between two offsets."""
        return tuple(range(self._line(start), self._line(max(start, end - 1)) + 1))

    def _line(self, offset: int) -> int:
        return self.source.count(b"\n", 0, offset) + 1


def lines_of(node: ast.stmt | ast.expr) -> range:
    """The numbers of a node's lines."""
    assert node.end_lineno is not None
    return range(node.lineno, node.end_lineno + 1)


def name_of(node: ast.AST) -> str:
    """The name that is read or bound here, of an attribute its own; empty where there is none."""
    return node.attr if isinstance(node, ast.Attribute) else node.id if isinstance(node, ast.Name) else ""
