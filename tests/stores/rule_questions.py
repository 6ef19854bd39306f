"""Asking rules about a row without the way over HTTP."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import cast

from tests.stores.least_privilege import Row

from rtdb_emulator.database import ADMIN, Access, Database
from rtdb_emulator.paths import split_path
from rtdb_emulator.rules import QueryFacts, Rules, Write
from rtdb_emulator.rules.coverage import Coverage
from rtdb_emulator.tree import Node, Path


class Recorder:
    """Rules that let everything pass, and remember what they were asked, so that others can be asked the same."""

    ask: Callable[[Rules], bool]
    all = ()

    def may_read(
        self, root: Node, path: Path, *, auth: object | None, now: int, query: QueryFacts | None, coverage: Coverage
    ) -> bool:
        self.ask = lambda rules: rules.may_read(root, path, auth=auth, now=now, query=query)
        return True

    def grants_write(
        self, before: Node, after: Node, writes: Sequence[Write], *, auth: object | None, now: int, coverage: Coverage
    ) -> bool:
        self.ask = lambda rules: rules.may_write(before, after, writes, auth=auth, now=now)
        return True

    def is_valid(
        self, before: Node, after: Node, writes: Sequence[Write], *, auth: object | None, now: int, coverage: Coverage
    ) -> bool:
        return True


def question(row: Row) -> Callable[[Rules], bool]:
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
