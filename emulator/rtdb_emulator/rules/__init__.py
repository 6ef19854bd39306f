"""Security rules: parsed once, they then decide whether a request may read or write.

    rules = Rules.parse('{"rules": {"users": {"$uid": {".write": "$uid === auth.uid"}}}}')
    request = rules.request(before, after, auth={"uid": "u1"}, now=now_ms)
    allowed = request.grants_write(write) and request.is_valid(write)  # Write(("users", "u1"), leaf(1))

Promises: `Rules.parse` returns rules or raises `RulesError`, for any text. The other methods, and those of a request,
never raise, for any data and `auth`. Rules are immutable, so threads may share them. Pure: no I/O, and the time is an
argument.

This package doesn't know tokens and administrators: the caller gives `auth` as the rules see it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final, final

from rtdb_emulator.rules.authorize import Request, RuleNode, Write, build
from rtdb_emulator.rules.coverage import Coverage
from rtdb_emulator.rules.document import RulesError, Value, as_json, read
from rtdb_emulator.rules.evaluate import QueryFacts, Rule
from rtdb_emulator.tree import Node, Path

__all__ = ["OPEN", "QueryFacts", "Rules", "RulesError", "Write"]


@final
class Rules:
    """The rules of one namespace; make them with `parse`."""

    __slots__ = ("_document", "_root", "all", "source")

    def __init__(self, source: str, document: Value, root: RuleNode, rules: Sequence[Rule]) -> None:
        self.source = source
        self.all = rules
        self._document = document
        self._root = root

    @classmethod
    def parse(cls, source: str | Mapping[str, object]) -> Rules:
        """Return the rules of a text, or of a mapping `{"rules": {…}}`, which is written as JSON first."""
        text = source if isinstance(source, str) else _dumped(source)
        return cls(text, *_built(text))

    def as_json(self) -> dict[str, object]:
        """Return the document as new plain data, without comments."""
        found = as_json(self._document)
        assert isinstance(found, dict)  # parse accepts nothing but an object
        return found

    @property
    def are_open(self) -> bool:
        """Whether the rules let every client read and write everything, as a database without rules does."""
        return self.as_json() == {"rules": {".read": True, ".write": True}}

    def request(
        self, before: Node, after: Node | None, *, auth: object | None, now: int, coverage: Coverage | None = None
    ) -> Request:
        """Return a request, which these rules decide. `after` is the whole tree after all its writes."""
        return Request(self._root, before, after, auth, now, coverage)

    def reads_data(self, path: Path) -> bool:
        """Return whether a `.read` from the root down to the path asks for data: then a write may revoke a read."""
        node: RuleNode | None = self._root
        for key in (*path, ""):
            if node is None:
                break
            if node.read is not None and node.read.reads_data:
                return True
            node = node.child(key)
        return False

    def index_on(self, path: Path) -> frozenset[str]:
        """Return the indexes that the rules declare at exactly this path."""
        node: RuleNode | None = self._root
        for key in path:
            node = node and node.child(key)
        return node.index_on if node else frozenset()

    def __repr__(self) -> str:
        return f"Rules({self.source!r})"


# The tests of a suite set the same rules again and again, and to parse long ones takes longer than most tests. `parse`
# returns rules of their own all the same: by them a database is known that was given some.
@lru_cache(maxsize=16)
def _built(text: str) -> tuple[Value, RuleNode, Sequence[Rule]]:
    document = read(text)
    root, rules = build(document, text)
    return document, root, tuple(rules)


def _dumped(rules: Mapping[str, object]) -> str:
    try:
        return json.dumps(dict(rules), indent=2)
    except (TypeError, ValueError, RecursionError) as error:
        raise RulesError(1, 1, f"The mapping can't be written as JSON ({error}); use dicts, lists, strings.") from error


OPEN: Final = Rules.parse('{"rules": {".read": true, ".write": true}}')
"""The rules of a namespace until it gets its own."""
