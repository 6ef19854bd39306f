"""`firecron rules`: print the security rules to deploy, for a prefix and a user. Reads no database."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import typer

from firecron.cli.options import Json
from firecron.cli.output import Output, answering
from firecron.settings import load

HELP = """Print the security rules that limit firecron to its own nodes.

The options give the prefix and the user; otherwise the environment does (FIRECRON_PREFIX, FIRECRON_UID). The output is
JSON, with --json in one line. Deploying it replaces all rules of the database.
"""

_NAME = "database.rules.json"
# The user that the packaged file names.
_UID = "firecron"
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|("(?:[^"\\]|\\.)*")')

Prefix = Annotated[str | None, typer.Option("--prefix", help="Path above all nodes, such as ops/cron.")]
Uid = Annotated[str | None, typer.Option("--uid", help="User that may write; else FIRECRON_UID, else firecron.")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("rules", help=HELP, epilog="Example: firecron rules --prefix ops/cron > database.rules.json")(_rules)


def _rules(prefix: Prefix = None, uid: Uid = None, as_json: Json = False) -> None:
    with answering(Output(as_json=as_json)):
        given = {"prefix": prefix, "uid": uid}
        settings = load(**{name: value for name, value in given.items() if value is not None})
        document = adapted(shipped(), settings.prefix, settings.uid or _UID)
        typer.echo(json.dumps(document, ensure_ascii=False, indent=None if as_json else 2))


def shipped() -> str:
    """Return the text of the rules file: JSON with comments, and with newlines in strings."""
    package = Path(__file__).parents[2]
    packaged = package / _NAME
    # An editable install has no packaged copy: the file is where firebase.json says.
    return (packaged if packaged.exists() else package.parents[1] / "emulator" / _NAME).read_text("utf-8")


def adapted(text: str, prefix: str, uid: str) -> dict[str, object]:
    """Return the rules of `text` for the user `uid`, below `prefix`."""
    literal = uid.replace("\\", "\\\\").replace("'", "\\'")
    document = json.loads(_COMMENT_OR_STRING.sub(lambda found: found[1] or "", text), strict=False)
    rules = _mapped(document["rules"], lambda rule: " ".join(rule.split()).replace(f"'{_UID}'", f"'{literal}'"))
    for key in reversed(prefix.split("/") if prefix else []):
        rules = {key: rules}
    return {"rules": rules}


def _mapped(node: object, change: Callable[[str], str]) -> object:
    if isinstance(node, dict):
        return {key: _mapped(child, change) for key, child in node.items()}
    return change(cast("str", node))
