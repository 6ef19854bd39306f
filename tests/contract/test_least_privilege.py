"""The rules that are shipped: what firecron's user may do under them, and what nobody may, request by request."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
import requests
from tests.contract.least_privilege import NOW, RULES, Row
from tests.contract.least_privilege_rows import FORBIDDEN, LEGAL
from tests.contract.rule_mutants import Mutant, mutants

from rtdb_emulator import Emulator
from rtdb_emulator.database import ADMIN, Access, Database
from rtdb_emulator.errors import Denied
from rtdb_emulator.paths import split_path
from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator.rules import Rules


@pytest.fixture(scope="module")
def rtdb_emulator() -> Iterator[Emulator]:
    with Emulator(now=lambda: NOW) as emulator:
        yield emulator


@pytest.fixture(scope="module")
def session() -> Iterator[requests.Session]:
    with requests.Session() as session:
        yield session


def ask(rtdb: Rtdb, session: requests.Session, row: Row) -> int:
    """The status of a request, as the Admin SDK sends it for a user."""
    rtdb.set(row.path, row.before)
    rtdb.set_rules(RULES)
    reply = session.request(
        row.method,
        f"{rtdb.emulator.url}/{row.path}.json",
        params={"ns": rtdb.namespace, "auth_variable_override": json.dumps(row.auth)},
        headers={"Authorization": "Bearer owner"},
        data=None if row.body is None else json.dumps(row.body),
        timeout=10,
    )
    return reply.status_code


@pytest.mark.parametrize("row", LEGAL, ids=str)
def test_what_firecron_does_passes(rtdb: Rtdb, session: requests.Session, row: Row) -> None:
    """A request that the library makes by its contract is done, and what it brings is stored."""
    assert ask(rtdb, session, row) == 200
    stored = rtdb.get(row.path)
    match row.method, row.body:
        case "DELETE", _:
            assert stored is None
        case "PUT", dict(body) if ".sv" not in body:
            assert stored == body
        case "PATCH", dict(body):
            fields = stored if isinstance(stored, dict) else {}
            assert {key: fields.get(key) for key in body} == {
                key: NOW if isinstance(value, dict) else value for key, value in body.items()
            }


@pytest.mark.parametrize("row", FORBIDDEN, ids=str)
def test_what_firecron_never_does_is_refused(rtdb: Rtdb, session: requests.Session, row: Row) -> None:
    """A request that would do harm is answered with 401, and the data stay as they are."""
    rtdb.set(row.path, row.before)
    before = rtdb.get()
    assert ask(rtdb, session, row) == 401
    assert rtdb.get() == before


def answers(rules: Rules) -> list[bool]:
    """Whether each of the rows passes, without the way over HTTP."""
    return [passes(rules, row) for row in [*LEGAL, *FORBIDDEN]]


def passes(rules: Rules, row: Row) -> bool:
    database = Database("x", lambda: NOW, rules)
    path, access = split_path(row.path), Access(admin=False, auth=row.auth)
    database.write(path, row.before, ADMIN)
    try:
        match row.method, row.body:
            case "GET", _:
                database.read(path, access)
            case "PATCH", dict(body):
                database.update(path, body, access)
            case _:
                database.write(path, row.body, access)
    except Denied:
        return False
    return True


RIGHT = [True] * len(LEGAL) + [False] * len(FORBIDDEN)
UNCHANGED, *MUTANTS = mutants(RULES)


@pytest.mark.parametrize("rules", [Rules.parse(RULES.read_text("utf-8")), UNCHANGED.rules], ids=["as is", "rewritten"])
def test_the_rows_mean_the_same_without_http(rules: Rules) -> None:
    """What is judged of the mutants below is what the requests above are told."""
    assert answers(rules) == RIGHT


@pytest.mark.parametrize("mutant", MUTANTS, ids=str)
def test_each_condition_of_the_rules_matters(mutant: Mutant) -> None:
    """With one condition taken for true, or one number a little off, some row is answered otherwise."""
    assert answers(mutant.rules) != RIGHT
