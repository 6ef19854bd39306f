"""Calling the command in this process, and reading what it answers."""

from __future__ import annotations

import json
from typing import cast

import jsonschema
from tests.cli.schemas import ERROR, Schema
from typer.testing import CliRunner, Result

from firecron.cli.commands import app


def call(*arguments: str) -> Result:
    """`firecron` with these arguments, with neither a terminal nor anything to read."""
    result = CliRunner().invoke(app, list(arguments))
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result


def answer(schema: Schema, *arguments: str) -> dict[str, object]:
    """The one JSON value that it answers with, checked against the schema; it has to succeed."""
    result = call(*arguments, "--json")
    assert (result.exit_code, result.stderr) == (0, ""), result.stdout
    return checked(schema, result.stdout)


def complaint(code: int, *arguments: str) -> str:
    """Its complaint, in JSON and for people the same, when it ends with this code."""
    result = call(*arguments, "--json")
    assert result.exit_code == code, (result.stdout, result.stderr)
    value = checked(ERROR, result.stdout)
    assert value["code"] == code
    assert result.stderr == f"firecron: {value['error']}\n"
    return str(value["error"])


def checked(schema: Schema, text: str) -> dict[str, object]:
    assert text.endswith("\n")
    assert text.count("\n") == 1, text
    value = json.loads(text)
    jsonschema.validate(value, schema)
    return cast("dict[str, object]", value)
