"""The endpoints beside the data: rules, the list of databases, readiness, and what the CLI expects to be there."""

from __future__ import annotations

import json

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.wire import OWNER, call
from rtdb_emulator_tests.test_rest_auth import token

RULES = "/.settings/rules.json"
SOURCE = """{
  // who may what
  "rules": {
    ".read": "auth !== null", /* é */
    ".write": false
  }
}
"""


def test_a_new_database_is_open_to_all(rtdb: Rtdb) -> None:
    """Until it is given rules a database has those of the emulator's default, which allow everything."""
    assert call(rtdb, "GET", RULES, None, OWNER).json() == {"rules": {".read": True, ".write": True}}
    assert call(rtdb, "PUT", "/n.json", "1").status_code == 200


def test_rules_are_kept_to_the_letter(rtdb: Rtdb) -> None:
    """GET shows the very source that PUT stored, comments as well; with `format=strict` it is plain JSON."""
    stored = call(rtdb, "PUT", RULES, SOURCE.encode(), OWNER)
    assert (stored.status_code, stored.json()) == (200, {"status": "ok"})
    shown = call(rtdb, "GET", RULES, None, OWNER)
    assert shown.content == SOURCE.encode()
    assert shown.headers["content-type"] == "application/json; charset=utf-8"
    strict = call(rtdb, "GET", f"{RULES}?format=strict", None, OWNER)
    assert json.loads(strict.content) == {"rules": {".read": "auth !== null", ".write": False}}


def test_rules_apply_at_once_and_to_one_database(rtdb: Rtdb) -> None:
    """What PUT stores decides the next request, in this database alone."""
    call(rtdb, "PUT", RULES, SOURCE.encode(), OWNER)
    assert call(rtdb, "GET", "/n.json").status_code == 401
    assert call(rtdb, "GET", f"/n.json?auth={token(sub='alice')}").status_code == 200
    assert call(rtdb, "PUT", f"/n.json?auth={token(sub='alice')}", "1").status_code == 401
    assert call(Rtdb(rtdb.emulator, f"{rtdb.namespace}-other"), "GET", "/n.json").status_code == 200


def test_a_dry_run_stores_nothing(rtdb: Rtdb) -> None:
    """PUT with `dryRun=true` checks rules and leaves those that are there."""
    assert call(rtdb, "PUT", f"{RULES}?dryRun=true", '{"rules":{}}', OWNER).json() == {"status": "ok"}
    assert call(rtdb, "PUT", f"{RULES}?dryRun=true", "{", OWNER).status_code == 400
    assert call(rtdb, "GET", "/n.json").status_code == 200


@pytest.mark.parametrize(
    ("source", "place"),
    [
        (b"", "1:1"),
        (b"{", "1:2"),
        (b'{"rules": {\n  ".read": "auth ="\n}}', "2:"),
        (b'{"rules": {\n  ".read": "nonsense"\n}}', "2:"),
        (b"\xff", "1:1"),
    ],
)
def test_wrong_rules_are_refused_with_their_place(rtdb: Rtdb, source: bytes, place: str) -> None:
    """Rules that can't be used are 400 with line, column and a line break, and the old ones stay."""
    response = call(rtdb, "PUT", RULES, source, OWNER)
    assert response.status_code == 400
    error = response.json()["error"]
    assert error.startswith(place)
    line, column, message = error.split(":", 2)
    assert line.isdigit()
    assert column.isdigit()
    assert message.startswith(" ")
    assert message.endswith("\n")
    assert call(rtdb, "PUT", "/n.json", "1").status_code == 200


@pytest.mark.parametrize("target", [RULES, "/.settings/functionTriggers.json"])
@pytest.mark.parametrize("method", ["GET", "PUT"])
def test_settings_are_for_admins(rtdb: Rtdb, method: str, target: str) -> None:
    """Without admin credentials the settings are 401, also for a user who may read and write all data."""
    for query in ("", f"?auth={token(sub='alice')}"):
        response = call(rtdb, method, target + query, '{"rules":{}}')
        assert (response.status_code, response.json()) == (401, {"error": "Permission denied"})
    override = call(rtdb, method, f"{target}?auth_variable_override=null", '{"rules":{}}', OWNER)
    assert override.status_code == 401


def test_rules_can_not_be_deleted(rtdb: Rtdb) -> None:
    """The rules endpoint has GET and PUT alone."""
    assert call(rtdb, "DELETE", RULES, None, OWNER).status_code == 405
    assert call(rtdb, "GET", "/n.json").status_code == 200


def test_the_databases_are_listed(rtdb: Rtdb) -> None:
    """`/.inspect/databases.json` names each database that was used."""
    call(rtdb, "GET", "/n.json")
    names = [entry["name"] for entry in call(rtdb, "GET", "/.inspect/databases.json").json()]
    assert rtdb.namespace in names
    assert names == rtdb.emulator.namespaces()


@pytest.mark.parametrize(("method", "status"), [("GET", 200), ("HEAD", 200), ("PUT", 404), ("DELETE", 404)])
def test_the_root_without_json_tells_readiness(rtdb: Rtdb, method: str, status: int) -> None:
    """GET of `/` is 200 with a text; a write to it forgot its `.json`."""
    response = call(rtdb, method, "/", "1")
    assert response.status_code == status
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert rtdb.get() is None


def test_an_empty_database_looks_empty_to_the_cli(rtdb: Rtdb) -> None:
    """The question by which the CLI finds out whether there is anything to export is answered by null."""
    assert call(rtdb, "GET", "/.json?shallow=true&limitToFirst=1", None, OWNER).json() is None
    assert call(rtdb, "GET", "/.json?format=export", None, OWNER).json() is None


@pytest.mark.parametrize("rules", [r'{"rules":{".read":"\ud800"}}', r'{"rules":{"\ud800":{".read":true}}}'])
def test_rules_with_half_a_character_are_refused(rtdb: Rtdb, rules: str) -> None:
    """Half of a surrogate pair in rules is a 400, also where the error would quote it, and the old rules stay."""
    assert call(rtdb, "PUT", RULES, rules, OWNER).status_code == 400
    assert call(rtdb, "GET", f"{RULES}?format=strict", None, OWNER).status_code == 200
