"""Asking rules about a row without the way over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, cast

from tests.stores.least_privilege import Row

from rtdb_emulator.database import ADMIN, Access, Database
from rtdb_emulator.paths import split_path
from rtdb_emulator.rules import QueryFacts, Rules, Write
from rtdb_emulator.rules.authorize import Request
from rtdb_emulator.rules.coverage import Coverage
from rtdb_emulator.tree import Node, Path


class Question(Protocol):
    """Whether rules let a request pass; it counts what they were evaluated to."""

    def __call__(self, rules: Rules, coverage: Coverage | None = None) -> bool: ...


class Recorder:
    """Rules that let everything pass, and remember what they were asked, so that others can be asked the same."""

    ask: Question
    all = ()
    _of: Callable[[Rules, Coverage | None], Request]

    def request(
        self, before: Node, after: Node | None, *, auth: object | None, now: int, coverage: Coverage
    ) -> Recorder:
        self._of = lambda rules, counted: rules.request(before, after, auth=auth, now=now, coverage=counted)
        self._writes: list[Write] = []
        return self

    def may_read(self, path: Path, query: QueryFacts | None) -> bool:
        of = self._of
        self.ask = lambda rules, coverage=None: of(rules, coverage).may_read(path, query)
        return True

    def grants_write(self, write: Write) -> bool:
        of, writes = self._of, self._writes
        writes.append(write)

        def ask(rules: Rules, coverage: Coverage | None = None) -> bool:
            asked = of(rules, coverage)
            return all(asked.grants_write(one) and asked.is_valid(one) for one in writes)

        self.ask = ask
        return True

    def is_valid(self, write: Write) -> bool:
        return True


def question(row: Row) -> Question:
    """Whether rules let the row pass, without the way over HTTP."""
    recorder = Recorder()
    database = Database("x", lambda: row.now, cast("Rules", recorder))
    path, access = split_path(row.path), Access(admin=False, auth=row.auth)
    for place, node in {row.path: row.before, **row.beside}.items():
        database.write(split_path(place), node, ADMIN)
    match row.method, row.body:
        case "GET", _:
            database.read(path, access)
        case "PATCH", dict(body):
            database.update(path, body, access)
        case _:
            database.write(path, row.body, access)
    return recorder.ask


def evaluated(ask: Question, rules: Rules) -> Sequence[str]:
    """The rules that the question has evaluated, by their places: it makes no difference to it what others say."""
    coverage = Coverage(rules.all)
    ask(rules, coverage)
    return ["/".join((*row.rule.path, row.rule.kind)) for row in coverage.rows if any(row.counts)]
