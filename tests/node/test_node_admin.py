"""firebase-admin for Node against the emulator."""

from __future__ import annotations

import json

import pytest
from tests.node.conftest import Play

from rtdb_emulator.pytest_plugin import Rtdb

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
