"""Calling the command in this process, and reading what it answers."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import firebase_admin
import jsonschema
import pytest
from tests.cli.schemas import ERROR, Schema
from typer.testing import CliRunner, Result

from firecron.cli.commands import app
from firecron.jobs import decorator as declarations
from rtdb_emulator.pytest_plugin import Rtdb


def call(*arguments: str, input: str | None = None) -> Result:
    """`firecron` with these arguments, with neither a terminal nor anything to read."""
    result = CliRunner().invoke(app, list(arguments), input=input)
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(schema: Schema, *arguments: str) -> dict[str, Any]:
    """The one JSON value that it answers with, checked against the schema; it has to succeed."""
    result = call(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.stdout
    return checked(schema, result.stdout)


def complaint(code: int, *arguments: str, input: str | None = None) -> str:
    """Its complaint, in JSON and for people the same, when it ends with this code."""
    result = call(*arguments, "--json", input=input)
    assert result.exit_code == code, (result.stdout, result.stderr)
    value = checked(ERROR, result.stdout)
    assert value["code"] == code
    remedy = value["remedy"]
    do = "" if remedy is None else " → " + ": ".join(filter(None, (remedy["words"], remedy["command"])))
    assert result.stderr == f"firecron: {value['error']}{do}\n", result.stderr
    return f"{value['error']}{do}"


def checked(schema: Schema, text: str) -> dict[str, Any]:
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    value: dict[str, Any] = json.loads(text)
    jsonschema.validate(value, schema)
    return value


@contextmanager
def modules(texts: Mapping[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Modules of these names in the current folder, until the block ends."""
    for name, text in texts.items():
        Path(folder, f"{name}.py").write_text(text, "utf-8")
    monkeypatch.chdir(folder)
    # What other modules of this process have declared is not these tests' business.
    monkeypatch.setattr(declarations, "REMEMBERED", {})
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    yield
    for name in texts:
        sys.modules.pop(name, None)


def stored(rtdb: Rtdb, path: str) -> dict[str, Any]:
    """The node at this path, which has children."""
    node = rtdb.get(path)
    assert isinstance(node, dict), node
    return node


def become_nobody(rtdb: Rtdb, rules: dict[str, object]) -> None:
    """From now on these rules count: an admin would pass them by."""
    firebase_admin.initialize_app(options={"databaseURL": rtdb.url, "databaseAuthVariableOverride": None})
    rtdb.set_rules({"rules": rules})
