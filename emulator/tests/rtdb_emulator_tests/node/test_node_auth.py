"""Who a real Node client is: sign-in, rules, and the admin SDK."""

from __future__ import annotations

import json

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.node.conftest import Begin, Play

OWN = {
    "rules": {
        "users": {
            "$user": {
                ".read": "auth.uid == $user || auth.token.admin == true",
                ".write": "auth.uid == $user || auth.token.admin == true",
                ".validate": "newData.isString()",
            }
        }
    }
}
DENIED = "PERMISSION_DENIED"


def test_rules_know_the_user_and_the_claims(play: Play, rtdb: Rtdb) -> None:
    """A user may do what the rules give to the uid or to the claim, and nobody else may do anything."""
    rtdb.set_rules(OWN)
    answers = play("auth.users")
    allowed = {"write": "ok", "read": "ok", "listen": "ok"}
    assert answers["alice"] == allowed
    assert answers["admin"] == allowed
    refused = answers["nobody"]
    assert refused["write"] == {"code": DENIED, "message": "PERMISSION_DENIED: Permission denied"}
    assert refused["read"]["message"] == "Permission denied"
    assert refused["listen"] == DENIED
    assert rtdb.get() == {"users": {"alice": "admin"}}


def test_a_connection_is_its_users_from_sign_in_to_sign_out(play: Play, rtdb: Rtdb) -> None:
    """Signing in gives a connection what the rules give the user; signing out takes it away, from listeners too."""
    rtdb.set_rules(OWN)
    answer = play("auth.signsInAndOut")
    assert (answer["before"]["code"], answer["during"], answer["after"]["code"]) == (DENIED, "ok", DENIED)
    assert answer["heard"] == ["during", DENIED]
    assert rtdb.get() == {"users": {"alice": "during"}}


def test_rules_that_change_end_a_listener(begin: Begin, rtdb: Rtdb) -> None:
    """A listener that the new rules refuse ends with an error and hears nothing more; the others go on."""
    rtdb.set_rules({"rules": {".read": "auth != null"}})
    rtdb.set("/", {"shut": "old", "open": "old"})
    with begin("auth.rulesChange") as scene:
        assert scene.hear() == "listening"
        rtdb.set_rules({"rules": {"open": {".read": "auth != null"}}})
        scene.tell("changed")
        assert scene.end() == {"shut": ["old", DENIED], "open": ["old", "public"]}


RULES = """{
  // Each user has a number.
  "rules": {"users": {"$user": {
    ".read": "auth.uid == $user",
    ".write": "auth.uid == $user && auth.token.email.endsWith('@example.com')",
    ".validate": "newData.isNumber()"
  }}}
}"""


def test_a_suite_of_rules_runs(begin: Begin, rtdb: Rtdb) -> None:
    """Rules are loaded, users are granted and refused what they say, the database is filled past them, and cleared."""
    with begin("rules.suite", rules=RULES) as scene:
        assert scene.hear() == "filled"
        assert rtdb.get() == {"users": {"alice": 3, "bob": 2}}
        scene.tell("clear")
    assert rtdb.get() is None


def test_bad_rules_are_refused_with_what_is_wrong(play: Play) -> None:
    """Rules that can't be read make `initializeTestEnvironment` fail, with the emulator's own words."""
    failed = play("rules.badRules")
    assert "error" in json.loads(failed["message"])


SHUT = {"rules": {"users": {"$user": {".read": "auth.uid == $user", ".write": "auth.uid == $user"}}}}


def test_an_administrator_is_past_all_rules(play: Play, rtdb: Rtdb) -> None:
    """firebase-admin writes, transacts and listens where the rules give nobody anything."""
    rtdb.set_rules({"rules": {"private": {".indexOn": ".value"}}})
    assert play("admin.past") == {"committed": True, "first": "b", "value": 11}
    stored = rtdb.get("/private")
    assert isinstance(stored, dict)
    assert {key: stored[key] for key in "ab"} == {"a": 11, "b": 2}


@pytest.mark.parametrize(("override", "allowed"), [({"uid": "alice"}, ["alice", "read"]), (None, [])])
def test_an_override_is_what_the_rules_see(
    play: Play, rtdb: Rtdb, override: dict[str, str] | None, allowed: list[str]
) -> None:
    """With `databaseAuthVariableOverride` an administrator may do no more than that user, and with null than nobody."""
    rtdb.set_rules(SHUT)
    answers = play("admin.overridden", override=override)
    assert [name for name, answer in answers.items() if answer == "ok"] == allowed
    assert rtdb.get() == ({"users": {"alice": 1}} if allowed else None)


def test_an_administrator_replaces_the_rules(play: Play, rtdb: Rtdb) -> None:
    """`setRules` replaces the database's rules, and `getRulesJSON` reads them."""
    text = json.dumps(SHUT)
    assert play("admin.rules", text=text) == SHUT
