"""The doctor at the security rules: it tries what they should refuse, and finds those that are older."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path
from typing import Any, cast

import firebase_admin
import pytest
from tests.unit.ops.examined import by_check, levels

from firecron.cli.commands.doctor import adapted
from firecron.ops.doctor import examine
from firecron.ops.findings import Finding, worst
from rtdb_emulator.pytest_plugin import Rtdb

DEPLOY = "deploy the security rules of this version: firecron rules"
RULES = Path(__file__).parents[3] / "emulator" / "database.rules.json"


def user(rtdb: Rtdb) -> None:
    """Be the user that the rules know."""
    options = {"databaseURL": rtdb.url, "databaseAuthVariableOverride": {"uid": "firecron"}}
    firebase_admin.initialize_app(options=options)


def rules() -> dict[str, object]:
    """The project's rules, as `firecron rules` prints them."""
    return cast("dict[str, object]", adapted(RULES.read_text("utf-8"), "", "firecron")["rules"])


def warned() -> Finding:
    """The one warning about the rules."""
    (told,) = [finding for finding in examine() if finding.check == "rules" and finding.level == "warning"]
    return told


def test_our_own_rules_keep_it_in_bounds(rtdb: Rtdb) -> None:
    """Under the auth override with the project's rules the forbidden writes are refused, and strangers read nothing."""
    rtdb.set_rules(RULES)
    user(rtdb)
    found = by_check(examine())
    assert found["rules"] == [
        ("ok", "this process is the user 'firecron', and security rules apply to it"),
        ("ok", "the rules refused a write outside of its paths, and one to a lock that another holder has"),
    ]
    assert found["strangers"] == [("ok", "without credentials nothing can be read")]
    assert found["writing"] == [("ok", "a lock was acquired, released, and removed")]
    written: Any = rtdb.get("/")
    assert list(written) == ["cron-instances"]


def test_the_user_of_the_settings_is_examined(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """FIRECRON_UID alone makes this process the user whose rules are tried."""
    rtdb.set_rules(RULES)
    monkeypatch.setenv("FIRECRON_UID", "firecron")
    assert by_check(examine())["rules"][0][1].startswith("this process is the user 'firecron'")


def test_rules_that_open_other_paths_are_warned_of_alone(rtdb: Rtdb) -> None:
    """A write elsewhere that rules let pass is not told as a lock that was overwritten."""
    rtdb.set_rules(
        RULES.read_text("utf-8").replace('"cron-locks": {', '"$other": {".write": true}, "cron-locks": {', 1)
    )
    user(rtdb)
    assert by_check(examine())["rules"][1:] == [("warning", "the rules let it write outside of its own paths")]


@pytest.mark.parametrize("block", [None, {".read": "auth.uid === 'firecron'"}])
def test_rules_that_are_older_than_the_catalogue_are_warned_of(rtdb: Rtdb, block: dict[str, object] | None) -> None:
    """Where entries can't be read or written, that is a warning with the remedy; where they can, nothing is left."""
    shipped = rules()
    rtdb.set_rules({"rules": shipped})
    user(rtdb)
    assert all(finding.level == "ok" for finding in examine() if finding.check == "rules")
    assert rtdb.get("/cron-jobs") is None
    others = {name: rules for name, rules in shipped.items() if name != "cron-jobs"}
    rtdb.set_rules({"rules": others if block is None else {**others, "cron-jobs": block}})
    told = warned()
    assert ("cron-jobs" in told.message, str(told.remedy)) == (True, DEPLOY)


OLDER = ["cron-groups", "cron-steps", "cron-errors", "cron-acts", "cron-hold", "cron-mutes", "cron-told", "cron-asks"]
OLDER += ["cron-schedules"]


@pytest.mark.parametrize("older_than", OLDER)
def test_rules_that_are_older_than_a_node_are_warned_of(rtdb: Rtdb, older_than: str) -> None:
    """Where rules don't know it, that is a warning with the remedy."""
    rtdb.set_rules({"rules": {name: block for name, block in rules().items() if name != older_than}})
    user(rtdb)
    told = warned()
    assert (older_than in told.message, str(told.remedy)) == (True, DEPLOY)


def test_rules_that_open_everything_are_warned_of(rtdb: Rtdb) -> None:
    """Where rules let a user do what they should refuse, that is a warning, and what was written is taken back."""
    user(rtdb)
    found = levels(examine())
    assert found["rules"] == ["ok", "warning", "warning"]
    assert found["writing"] == ["ok"]
    written: Any = rtdb.get("/")
    assert list(written) == ["cron-instances"]


KEEPING: dict[str, object] = {
    "rules": {
        "cron-locks": {".read": True, ".write": True},
        "cron-instances": {".read": True, ".write": True},
        "$other": {".read": True, ".write": "newData.exists()"},
    }
}


@pytest.mark.parametrize("goes_on", [True, False], ids=["to the end", "until it fails"])
def test_a_probe_that_cannot_be_deleted_is_named(rtdb: Rtdb, *, goes_on: bool) -> None:
    """A node that rules let the doctor create but not delete is named in a warning, also if a later step fails."""
    rtdb.set_rules(KEEPING)
    user(rtdb)
    with nullcontext() if goes_on else rtdb.faults.answer(503, path="/cron-locks"):
        found = list(examine())
    written: Any = rtdb.get("/")
    [name] = [name for name in written if name.startswith("firecron-doctor-")]
    [told] = [finding for finding in found if str(finding.remedy) == f"delete {name} in the Firebase console"]
    assert told.level == "warning"
    assert "the rules let it write outside of its own paths" in [finding.message for finding in found]
    assert worst(found) == (None if goes_on else "unreachable")


def test_strangers_that_cannot_be_told_are_a_problem(rtdb: Rtdb) -> None:
    """If the request without credentials gets no sensible answer, it isn't taken for a refusal."""
    with rtdb.faults.answer(503, path="/cron-locks"):
        [*_, last] = examine()
    assert (last.check, last.kind) == ("strangers", "unreachable")


@pytest.mark.parametrize("is_production", [False, True])
def test_a_reader_is_told_what_it_may_do(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch, *, is_production: bool) -> None:
    """Who may only read is told so, in a warning; where jobs tick it is a problem. The rest is examined, unwritten."""
    rtdb.set_rules(RULES)
    monkeypatch.setenv("FIRECRON_UID", "firecron-reader")
    if is_production:
        monkeypatch.setenv("RUNTIME_INSTANCE", "production")
    found = list(examine())
    [told] = by_check(found)["rules"]
    assert told[0] == ("problem" if is_production else "warning")
    assert "the user 'firecron-reader', and the rules let it read, but not write" in told[1]
    assert worst(found) == ("denied" if is_production else None)
    assert levels(found)["instances"] == levels(found)["locks"] == levels(found)["strangers"] == ["ok"]
    assert rtdb.get("/") is None
