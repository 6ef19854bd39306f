"""`@firebase/rules-unit-testing` against the emulator."""

from __future__ import annotations

import json

from tests.node.conftest import Begin, Play

from rtdb_emulator.pytest_plugin import Rtdb

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
