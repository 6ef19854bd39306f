"""A project of the Firebase CLI, and the CLI itself."""

from __future__ import annotations

import json
import os
import socket
import sys
from collections.abc import Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import Protocol

import pytest

from rtdb_emulator_tests.helpers.nodejs import needed
from rtdb_emulator_tests.helpers.processes import Process, Start

HERE = Path(__file__).parent
PROJECT = "demo-shop"
# Seconds. The functions emulator starts a Node.js for each function: on a busy machine half a minute for six.
BOUND = 110.0
# The instance that the CLI gives the rules of a project to whose database it doesn't know.
INSTANCE = f"{PROJECT}-default-rtdb"


class Firebase(Protocol):
    def __call__(self, *arguments: str) -> Process: ...


@pytest.fixture
def ports() -> dict[str, int]:
    """A free port for each emulator."""
    with ExitStack() as taken:
        names = ("database", "hub", "logging", "functions", "eventarc", "tasks")
        sockets = [taken.enter_context(socket.create_server(("127.0.0.1", 0))) for _ in names]
        return {name: one.getsockname()[1] for name, one in zip(names, sockets, strict=True)}


@pytest.fixture
def project(tmp_path: Path, ports: Mapping[str, int]) -> Path:
    """A project with rules: everybody may read, and write an order with a total."""
    rules = {"rules": {".read": True, "orders": {"$id": {".write": "newData.child('total').isNumber()"}}}}
    emulators: dict[str, object] = {name: {"port": port} for name, port in ports.items()}
    config = {"database": {"rules": "database.rules.json"}, "emulators": {**emulators, "ui": {"enabled": False}}}
    (tmp_path / "firebase.json").write_text(json.dumps(config), "utf-8")
    (tmp_path / "database.rules.json").write_text(json.dumps(rules), "utf-8")
    return tmp_path


@pytest.fixture
def firebase(project: Path, start: Start, monkeypatch: pytest.MonkeyPatch) -> Firebase:
    """Starts the CLI in the project by `rtdb-emulator exec`: with a home of its own and without Java."""
    node = needed(HERE)
    programs = [str(Path(node).parent), str(HERE / "node_modules" / ".bin"), str(Path(sys.executable).parent)]
    monkeypatch.setenv("PATH", os.pathsep.join([*programs, "/usr/bin", "/bin"]))
    monkeypatch.setenv("HOME", str(project / "home"))
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("CI", "1")  # else it asks the network for news; of a demo project it asks nothing
    (project / "home").mkdir()

    def begin(*arguments: str) -> Process:
        command = ("-m", "rtdb_emulator", "exec", "--", "firebase", *arguments, "--project", PROJECT)
        return start(*command, bound=BOUND)

    return begin
