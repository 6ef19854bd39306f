"""The endpoints beside the data: rules, coverage, the list of databases, and those that the Firebase CLI needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from rtdb_emulator.database import Access
from rtdb_emulator.errors import BadRequest, Denied
from rtdb_emulator.http.coverage_page import coverage_page
from rtdb_emulator.http.messages import HTML, Reply, RestRequest, error_reply
from rtdb_emulator.jsondata import encode
from rtdb_emulator.rules import Rules, RulesError
from rtdb_emulator.rules.coverage import percent
from rtdb_emulator.store import Store

Endpoint: TypeAlias = Callable[[str, RestRequest, Access, Store, str], Reply]

_OK = encode({"status": "ok"})


def _rules(method: str, request: RestRequest, access: Access, store: Store, namespace: str) -> Reply:
    _only_admin(access)
    database = store.database(namespace)
    if method == "GET":
        if request.parameters.get("format") == "strict":
            return Reply(200, encode(database.rules.as_json()))
        return Reply(200, database.rules.source.encode())
    if method != "PUT":
        return error_reply(405, f"{method} is not one of GET, PUT")
    try:
        rules = Rules.parse(request.body.decode())
    except UnicodeDecodeError:
        raise BadRequest("1:1: The rules are not UTF-8.\n") from None
    except RulesError as error:
        # The error may quote half of a surrogate pair, which isn't a character.
        raise BadRequest(f"{error}\n".encode(errors="replace").decode()) from None
    try:
        encode(rules.as_json())
    except UnicodeEncodeError:
        raise BadRequest("1:1: A string has half of a surrogate pair, which isn't a character.\n") from None
    if request.parameters.get("dryRun") != "true":
        database.set_rules(rules)
    return Reply(200, _OK)


def _databases(method: str, request: RestRequest, access: Access, store: Store, namespace: str) -> Reply:
    return Reply(200, encode([{"name": name} for name in store.names()]))


def _function_triggers(method: str, request: RestRequest, access: Access, store: Store, namespace: str) -> Reply:
    _only_admin(access)
    return Reply(200, _OK)


def _coverage(method: str, request: RestRequest, access: Access, store: Store, namespace: str) -> Reply:
    if method not in ("GET", "HEAD"):
        return error_reply(405, f"{method} is not GET")
    rows = store.database(namespace).coverage.rows
    if request.path.endswith(".json"):
        return Reply(200, encode({"percent": round(percent(rows), 1), "rules": [row.as_json() for row in rows]}))
    return Reply(200, coverage_page(namespace, rows).encode(errors="replace"), content_type=HTML)


def _only_admin(access: Access) -> None:
    if not access.admin:
        raise Denied


MANAGEMENT: dict[str, Endpoint] = {
    ".settings/rules.json": _rules,
    ".settings/functionTriggers.json": _function_triggers,
    ".inspect/databases.json": _databases,
    ".inspect/coverage.json": _coverage,
    ".inspect/coverage": _coverage,
}
