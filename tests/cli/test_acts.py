"""`firecron acts`, and what each command of an operator leaves there."""

from __future__ import annotations

from typing import Any

import pytest
from tests.cli.calls import answer, call, complaint
from tests.cli.schemas import ACTS
from tests.cli.test_locks import DIED
from tests.cli.test_operate import held, working

from firecron.ops.views import claimed_user
from rtdb_emulator.pytest_plugin import Rtdb


def acts(*arguments: str) -> list[dict[str, Any]]:
    return list(answer(ACTS, "acts", *arguments)["acts"])


def said(*arguments: str) -> list[tuple[object, ...]]:
    """What the acts say, without who and when."""
    return [(act["act"], act["name"], act["why"]) for act in acts(*arguments)]


def test_each_command_leaves_an_act(rtdb: Rtdb) -> None:
    """With who, when and why; a command that changes nothing leaves none. Each command has its own idea of the time, so
    the order of acts that follow at once is not judged.
    """
    held()
    for command in (("pause", "job", "--why", "a"), ("pause", "job"), ("pause", "job")):
        assert call(*command).exit_code == 0
    for command in (("resume", "job", "--why", "b"), ("resume", "job")):
        assert call(*command).exit_code == 0
    for _ in range(2):
        assert call("unlock", "job", "--yes", "--why", "c").exit_code == 0
    with working():
        for _ in range(2):
            assert call("cancel", "job", "--why", "d").exit_code == 0
    expected = [("pause", "job", "a"), ("resume", "job", "b"), ("unlock", "job", "c"), ("cancel", "job", "d")]
    assert sorted(said(), key=str) == sorted(expected, key=str)
    assert {act["who"] for act in acts()} == {claimed_user()}
    assert acts() == sorted(acts(), key=lambda act: str(act["key"]))


def test_a_leader_is_deposed(rtdb: Rtdb) -> None:
    """To cancel a leader's term is an act of its own."""
    with working():
        rtdb.set("/cron-locks/job/kind", "leader")
        assert call("cancel", "job").exit_code == 0
    assert said() == [("depose", "job", None)]


def test_acts_on_one_name(rtdb: Rtdb) -> None:
    """With a name only its acts are shown; a name that is misspelt gets a hint, one that none can have is refused."""
    rtdb.set("/cron-locks", {"job": DIED, "other": DIED})
    for name in ("job", "other", "job"):
        call("pause", name, "--why", name)
    assert said("other") == [("pause", "other", "other")]
    assert len(said()) == 3
    assert "did you mean other?" in complaint(2, "acts", "othr")
    assert "can't name a lock" in complaint(2, "acts", "../x")


def test_without_acts(rtdb: Rtdb) -> None:
    """An empty list for programs, and for people a word with the database."""
    assert acts() == []
    assert call("acts").stdout.startswith(f"There is no act in the emulator at {rtdb.emulator.url}")


def test_an_act_is_one_line_of_plain_text(rtdb: Rtdb) -> None:
    """Markup, control characters and text from right to left can't deceive a terminal."""
    hostile = "[bold]x[/]\x1b[31m\nroot\u202e"
    node = {"act": hostile, "name": hostile, "who": hostile, "why": hostile, "at": 1_794_992_400_000}
    rtdb.set("/cron-acts", {"2026-11-18T09:00:00Z-000-a1b2c3": node, "odd": "x"})
    first, second = call("acts").stdout.splitlines()
    assert first.count("[bold]x[/]\N{REPLACEMENT CHARACTER}[31m ⏎ root\N{REPLACEMENT CHARACTER}") == 4
    assert second == "at an unknown time  ? ? by ?"
    assert all(character.isprintable() for character in first + second)
    assert {str(act["why"]).isprintable() for act in acts()} == {True}


@pytest.mark.parametrize("command", [("pause", "job"), ("unlock", "job", "--yes"), ("cancel", "job")], ids=" ".join)
def test_an_act_that_can_not_be_recorded_undoes_nothing(
    rtdb: Rtdb, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command succeeds, and says on standard error that its act is missing."""
    monkeypatch.setenv("FIRECRON_UID", "firecron")
    rtdb.set_rules({"rules": {".read": True, "cron-locks": {".write": True}, "cron-instances": {".write": True}}})
    with working():
        result = call(*command)
    assert result.exit_code == 0
    assert acts() == []
    assert "is done, but is not among the acts" in result.stderr
