"""`firecron emulator` and `firecron demo` where the emulator is missing, and what else firecron has to do with it."""

from __future__ import annotations

import json
import re
import socket
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.cli.calls import call

from rtdb_emulator.cli import DEFAULT_PORT
from rtdb_emulator.rules import Rules
from rtdb_emulator_tests.helpers.processes import Run

ROOT = Path(__file__).resolve().parents[2]


@pytest.mark.parametrize("arguments", [("emulator",), ("emulator", "--", "true"), ("demo",)])
def test_without_the_emulator_it_says_what_to_install(
    arguments: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The emulator is a distribution of its own: where it is missing, one line names the extra that brings it."""
    monkeypatch.setitem(sys.modules, "rtdb_emulator", None)
    for name in [name for name in sys.modules if name.startswith("rtdb_emulator.") or name == "firecron.demo.show"]:
        monkeypatch.delitem(sys.modules, name)
    result = call(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert result.stderr == "firecron: rtdb_emulator is not installed: pip install 'firecron[emulator]'\n"


@pytest.mark.parametrize("command", [[], ["--", "true"]], ids=["alone", "with a command"])
def test_a_taken_port_is_told_by_firecron(run: Run, command: list[str]) -> None:
    """`firecron emulator` speaks as firecron of a port that somebody else has, and says what would do."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        finished = run("-m", "firecron", "emulator", "--port", port, *command)
    assert (finished.returncode, finished.stdout) == (2, "")
    assert re.fullmatch(rf"firecron: can't listen on 127.0.0.1:{port}: .* 0 for any free one.*\n", finished.stderr)


@pytest.fixture(scope="module")
def config() -> Any:
    return json.loads((ROOT / "firebase.json").read_text(encoding="utf-8"))


def test_the_official_emulator_listens_where_this_one_does(config: Any) -> None:
    """FIREBASE_DATABASE_EMULATOR_HOST need not change with the emulator that is started."""
    assert config["emulators"]["database"]["port"] == DEFAULT_PORT == 9000


def test_the_official_emulator_shows_its_ui(config: Any) -> None:
    """The data can be looked at in a browser."""
    assert config["emulators"]["ui"]["enabled"] is True


def test_the_rules_that_it_names_parse(config: Any) -> None:
    """The path is relative to firebase.json, and the file is in the dialect of rules: JSON with comments."""
    Rules.parse((ROOT / config["database"]["rules"]).read_text(encoding="utf-8"))
