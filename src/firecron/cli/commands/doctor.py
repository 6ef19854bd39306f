"""`firecron doctor`: check what firecron depends on. `firecron rules`: print the security rules to deploy.

`doctor` prints a line for each finding, with its remedy. `rules` prints the rules for a prefix and a user, and reads no
database.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, cast

import typer
from rich.console import Group
from rich.table import Table
from rich.text import Text

from firecron.cli.contexts import here
from firecron.cli.options import Json, OnlyAppPath, load
from firecron.cli.output import Exit, Failure, answering, silence_log, with_remedy
from firecron.ops.doctor import examine
from firecron.ops.findings import Finding, Kind, Level, totals, worst
from firecron.settings import load as load_settings

# --- doctor

_CODES: dict[Kind | None, Exit] = {
    None: Exit.FINE,
    "configuration": Exit.USAGE,
    "unreachable": Exit.UNREACHABLE,
    "denied": Exit.REFUSED,
    "malformed": Exit.REFUSED,
    "other": Exit.FAILED,
}
_STYLES: dict[Level, str] = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def doctor(app: OnlyAppPath = None, as_json: Json = False) -> None:
    """Find out what is wrong here, and how to fix it.

    Checks what firecron depends on: versions, environment, settings, database, credentials, latency, clock, write
    access, security rules, locks, instances. With APP, checks that application's settings and database, and its jobs as
    well. The command writes a lock of its own and removes it. The last line counts the findings.

    \b
    Exit codes:
       0  no problem; there may be warnings
       1  a problem of another kind than these
       2  a problem of the configuration
      69  the database can't be reached
      78  denied, or a malformed node
    """
    with answering(as_json=as_json) as output:
        silence_log()
        loaded = None if app is None else load(app)
        found = list(examine() if loaded is None else examine(crons=loaded.crons, unclaimed=loaded.unclaimed))
        code = _CODES[worst(found)]
        # On a terminal a table, and a line each elsewhere.
        lines = _table(found) if output.out.is_terminal else Text("\n").join(map(_line, found))
        shown = Group(lines, Text(totals(found), "bold"))
        output.give({"code": int(code), "findings": [finding.to_json() for finding in found]}, shown)
        raise SystemExit(code)


def _line(finding: Finding) -> Text:
    said = with_remedy(finding.message, finding.remedy)
    return Text(f"{finding.level:<7}  {finding.check:<11}  {' '.join(said.splitlines())}")


def _table(found: list[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in found:
        said = Text(finding.message)
        if finding.remedy is not None:
            said.append(f"\n→ {finding.remedy.words}")
            if finding.remedy.command is not None:
                said.append("\n  ").append(here(finding.remedy.command), "bold")
        table.add_row(Text(finding.level, style=_STYLES[finding.level]), finding.check, said)
    return table


# --- rules

_NAME = "database.rules.json"
# The user that the packaged file names, and with this ending the one that may only read.
_UID = "firecron"
_READER = "-reader"
# The user of a program that only makes schedules.
_SCHEDULER = "-scheduler"
_USERS = re.compile(rf"'{_UID}({_READER}|{_SCHEDULER})?'")
_COMMENT_OR_STRING = re.compile(r'//[^\n]*|("(?:[^"\\]|\\.)*")')
Prefix = Annotated[str | None, typer.Option("--prefix", help="Path above all nodes, such as ops/cron.")]
Uid = Annotated[str | None, typer.Option("--uid", help="User that may write; else FIRECRON_UID, else firecron.")]


def rules(prefix: Prefix = None, uid: Uid = None, as_json: Json = False) -> None:
    """Print the security rules that limit firecron to its own nodes.

    The options give the prefix and the user; otherwise the environment does (FIRECRON_PREFIX, FIRECRON_UID). The output
    is JSON, with --json in one line. Deploying it replaces all rules of the database.

    They also let a second user read these nodes, and write nothing: the user's name followed by -reader, such as
    firecron-reader. A third one, whose name ends in -scheduler, may put and remove stored schedules, and nothing else.
    """
    with answering(as_json=as_json):
        given = {"prefix": prefix, "uid": uid}
        settings = load_settings(**{name: value for name, value in given.items() if value is not None})
        named = settings.uid or _UID
        if named.endswith(_READER):
            writer = named.removesuffix(_READER) or _UID
            raise Failure(
                f"the user {named!r} may only read by these rules: name the one that may write, --uid {writer}",
                Exit.USAGE,
            )
        document = adapted(shipped(), settings.prefix, named)
        typer.echo(json.dumps(document, ensure_ascii=False, indent=None if as_json else 2))


def shipped() -> str:
    """Return the text of the rules file: JSON with comments, and with newlines in strings."""
    package = Path(__file__).parents[2]
    packaged = package / _NAME
    # An editable install has no packaged copy: the file is where firebase.json says.
    return (packaged if packaged.exists() else package.parents[1] / "emulator" / _NAME).read_text("utf-8")


def adapted(text: str, prefix: str, uid: str) -> dict[str, object]:
    """Return the rules of `text` for the user `uid`, and the reader that is named after it, below `prefix`."""
    literal = uid.replace("\\", "\\\\").replace("'", "\\'")
    document = json.loads(_COMMENT_OR_STRING.sub(lambda found: found[1] or "", text), strict=False)
    rules = _mapped(
        document["rules"], lambda rule: _USERS.sub(lambda user: f"'{literal}{user[1] or ''}'", " ".join(rule.split()))
    )
    for key in reversed(prefix.split("/") if prefix else []):
        rules = {key: rules}
    return {"rules": rules}


def _mapped(node: object, change: Callable[[str], str]) -> object:
    if isinstance(node, dict):
        return {key: _mapped(child, change) for key, child in node.items()}
    if isinstance(node, list):
        return node  # the fields of an index
    return change(cast("str", node))
