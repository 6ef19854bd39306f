"""Which database a command works on: named contexts, and the options that name one."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.cli.calls import answer, call, complaint, stored
from tests.cli.schemas import CONTEXT, CONTEXTS
from tests.unit.lock.records import released_node

from firecron.cli.commands import COMMANDS, GROUPS, load
from firecron.cli.contexts import file_of_contexts
from rtdb_emulator.pytest_plugin import Rtdb

URL = "https://orders.firebaseio.com"
# They have a prefix of their own, or need no database.
OTHERS = {"demo", "emulator", "jobs", "next", "export", "rules", "context", "schedule"}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The user's folder for settings."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def local(rtdb: Rtdb, namespace: str = "other") -> str:
    """The address of another database of the emulator."""
    return f"http://{os.environ['FIREBASE_DATABASE_EMULATOR_HOST']}?ns={namespace}"


def test_a_context_is_added_listed_shown_and_removed() -> None:
    """Each command answers with it, and the file has the address and the prefix, and nothing else."""
    made = answer(CONTEXT, "context", "add", "prod", "--database", URL, "--prefix", "ops/cron")
    assert made == {"context": {"name": "prod", "database": URL, "prefix": "ops/cron"}}
    assert json.loads(file_of_contexts().read_text("utf-8")) == {
        "contexts": {"prod": {"database": URL, "prefix": "ops/cron"}}
    }
    assert answer(CONTEXTS, "context", "list") == {"file": str(file_of_contexts()), "contexts": [made["context"]]}
    assert answer(CONTEXT, "context", "show", "prod") == made
    assert call("context", "show", "prod").stdout == f"{URL}, below ops/cron/\n"
    assert answer(CONTEXT, "context", "remove", "prod") == made
    assert "There is no context" in call("context", "list").stdout


def test_a_context_is_replaced_on_purpose_alone() -> None:
    """The same once more is no change; another database by the same name needs --force."""
    call("context", "add", "prod", "--database", URL)
    assert call("context", "add", "prod", "--database", URL).exit_code == 0
    said = complaint(2, "context", "add", "prod", "--database", "https://else.firebaseio.com")
    assert "there is a context prod already" in said
    assert call("context", "add", "prod", "--database", "https://else.firebaseio.com", "--force").exit_code == 0


@pytest.mark.parametrize(
    ("name", "database", "why"),
    [
        ("1st", URL, "can't name a context"),
        ("prod", "https://ann:hunter2@orders.firebaseio.com", "has an @"),
        ("prod", f"{URL}?auth=hunter2", "remove the others"),
        ("prod", "orders.firebaseio.com", "must begin with https://"),
        ("prod", "http://127.0.0.1:9000", "add ?ns="),
    ],
)
def test_what_can_not_be_used_or_is_secret_is_not_kept(name: str, database: str, why: str) -> None:
    """A password in an address is refused, and not quoted."""
    said = complaint(2, "context", "add", name, "--database", database)
    assert why in said
    assert "hunter2" not in said
    assert not file_of_contexts().exists()


def test_an_unknown_context_is_said_with_what_there_is(folder: Path) -> None:
    """A misspelt name never means the database of the environment."""
    assert "add it: firecron context add prod --database URL" in complaint(2, "status", "--context", "prod")
    call("context", "add", "prod", "--database", URL)
    assert "did you mean prod?" in complaint(2, "status", "--context", "prd")
    file_of_contexts().write_text("{", "utf-8")
    assert "mend it, or delete it" in complaint(2, "status", "--context", "prod")


def test_a_command_works_on_the_database_of_its_options(rtdb: Rtdb, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a context, by the options, or by both, of which the option counts; afterwards all is as it was."""
    monkeypatch.setenv("FIRECRON_PREFIX", "env")
    rtdb.set("/env/cron-locks/here", released_node())
    before = dict(os.environ)
    call("context", "add", "other", "--database", local(rtdb), "--prefix", "ops")
    call("pause", "there", "--context", "other", "--yes")
    call("pause", "beside", "--context", "other", "--prefix", "more", "--yes")
    call("pause", "plain", "--database", local(rtdb), "--prefix", "", "--yes")
    assert list(stored(rtdb, "/env/cron-locks")) == ["here"]
    found = [call("locks", "--database", local(rtdb), "--prefix", prefix).stdout for prefix in ("ops", "more", "")]
    assert [text.partition(":")[0] for text in found] == ["there", "beside", "plain"]
    assert dict(os.environ) == before


def test_a_command_to_copy_names_the_same_database(rtdb: Rtdb) -> None:
    """What `status` and `doctor` say to do would else be done to another database."""
    call("context", "add", "other", "--database", local(rtdb))
    call("pause", "digest", "--context", "other", "--yes", "--why", "x")
    entry = {"line": "0 9 * * *", "timezone": "UTC", "grace": 60, "service": "api", "where": "jobs", "since": 1}
    other = {"ticks": True, "declaredAt": 1, "overlap": "skip", "catchUp": "skip", "oncePerTick": True}
    rtdb.emulator.set("other", "/cron-jobs/digest", {**entry, **other})
    assert "firecron resume digest --context other" in call("status", "--context", "other").stdout
    call("resume", "digest", "--context", "other")
    for _ in range(2):
        held = call("hold", "--until", "1h", "--why", "x", "--context", "other").stdout
    name = held.rpartition("firecron unhold ")[2].split()[0]
    again = f"firecron unhold {name} --context other"
    assert again in held
    assert again in call("status", "--context", "other").stdout
    assert again in complaint(2, "unhold", "--context", "other")


@pytest.mark.parametrize("command", sorted(COMMANDS.keys() - OTHERS))
def test_every_command_on_a_database_takes_the_options(command: str) -> None:
    """None is forgotten: they are added as a command is loaded."""
    names = {name for option in load(command).params for name in option.opts}
    assert {"--database", "--prefix", "--context"} <= names


def test_every_command_is_in_a_group() -> None:
    """And in one alone, so that the help lists it."""
    listed = [name for names in GROUPS.values() for name in names]
    assert sorted(listed) == sorted(COMMANDS)
