"""`firecron rules`: what it prints are the rules of the repository, for a prefix and a user."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from tests.cli.calls import call, complaint
from tests.stores.least_privilege import OVERRIDE, READER, RULES, Row
from tests.stores.least_privilege_forbidden import FORBIDDEN
from tests.stores.least_privilege_legal import LEGAL
from tests.stores.rule_questions import question

from firecron.cli.commands.doctor import shipped
from rtdb_emulator.rules import Rules


def printed(*arguments: str) -> object:
    """What it prints, which is JSON; `--json` prints the same in one line."""
    result = call("rules", *arguments)
    assert (result.exit_code, result.stderr) == (0, "")
    in_one_line = call("rules", *arguments, "--json").stdout
    assert in_one_line.count("\n") == 1
    value: object = json.loads(result.stdout)
    assert json.loads(in_one_line) == value
    return value


def moved(row: Row, prefix: str, uid: str) -> Row:
    """The row below a prefix, for another user."""
    ours = {"uid": uid} if row.auth == OVERRIDE else {"uid": f"{uid}-reader"}
    auth = ours if row.auth in (OVERRIDE, READER) else row.auth
    beside = {f"{prefix}/{path}": node for path, node in row.beside.items()}
    return replace(row, path=f"{prefix}/{row.path}", auth=auth, beside=beside)


def test_the_rules_are_the_repositorys() -> None:
    """The text that the command adapts is the file that firebase.json names."""
    assert shipped() == RULES.read_text("utf-8")


@pytest.mark.parametrize(("prefix", "uid"), [("", "firecron"), ("ops/cron", "firecron"), ("a", "o'neill \\ cron")])
def test_the_printed_rules_do_the_same_for_a_prefix_and_a_user(prefix: str, uid: str) -> None:
    """Below the prefix, the printed rules let pass and refuse the same requests of that user as the file does."""
    rules = Rules.parse(json.dumps(printed("--prefix", prefix, "--uid", uid)))
    for rows, shall_pass in ((LEGAL, True), (FORBIDDEN, False)):
        for row in rows:
            assert question(moved(row, prefix, uid))(rules) is shall_pass, row


def test_the_environment_names_the_prefix_and_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without options the rules are for the environment's prefix and user; an option wins."""
    monkeypatch.setenv("FIRECRON_PREFIX", "ops/cron")
    monkeypatch.setenv("FIRECRON_UID", "cron")
    assert printed() == printed("--prefix", "ops/cron", "--uid", "cron")
    assert printed("--prefix", "", "--uid", "firecron") != printed()
    monkeypatch.delenv("FIRECRON_PREFIX")
    monkeypatch.delenv("FIRECRON_UID")
    assert printed("--prefix", "", "--uid", "firecron") == printed()


def test_the_reader_is_not_made_the_writer(monkeypatch: pytest.MonkeyPatch) -> None:
    """In the environment of a process that may only read, the rules need the name of the user that may write."""
    monkeypatch.setenv("FIRECRON_UID", "cron-reader")
    assert "may only read by these rules: name the one that may write, --uid cron" in complaint(2, "rules")
    assert "auth.uid === 'cron-reader'" in json.dumps(printed("--uid", "cron"))


def test_a_prefix_that_is_no_path_is_wrong_usage() -> None:
    """A prefix with a character that RTDB refuses ends the command with 2, and a message that names the prefix."""
    assert "a.b" in complaint(2, "rules", "--prefix", "a.b")
