"""Users of the JavaScript SDK, and the rules."""

from __future__ import annotations

from tests.node.conftest import Begin, Play

from rtdb_emulator.pytest_plugin import Rtdb

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
