"""`firecron doctor`: check what firecron depends on; print a line per finding, with its remedy."""

from __future__ import annotations

import typer
from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from firecron.cli.loading import load
from firecron.cli.options import Json, OnlyAppPath
from firecron.cli.output import Exit, Output, answering
from firecron.cli.reporting import silence_log
from firecron.ops.doctor import examine
from firecron.ops.finding import Finding, Kind, Level, worst

HELP = """Find out what is wrong here, and how to fix it.

Checks what firecron depends on: versions, environment, settings, database, credentials, latency, clock, write access,
security rules, locks, instances. With APP, checks that application's settings and database, and its jobs as well.
The command writes a lock of its own and removes it.

\b
Exit codes:
   0  no problem; there may be warnings
   1  a problem of another kind than these
   2  a problem of the configuration
  69  the database can't be reached
  78  denied, or a malformed node
"""

_CODES: dict[Kind | None, Exit] = {
    None: Exit.FINE,
    "configuration": Exit.USAGE,
    "unreachable": Exit.UNREACHABLE,
    "denied": Exit.REFUSED,
    "malformed": Exit.REFUSED,
    "other": Exit.FAILED,
}
_STYLES: dict[Level, str] = {"ok": "green", "warning": "yellow", "problem": "bold red"}


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command("doctor", help=HELP, epilog="Example: firecron doctor myservice.main:crons")(_doctor)


def _doctor(app: OnlyAppPath = None, as_json: Json = False) -> None:
    output = Output(as_json=as_json)
    with answering(output):
        silence_log()
        loaded = None if app is None else load(app)
        found = list(examine() if loaded is None else examine(crons=loaded.crons, unclaimed=loaded.unclaimed))
        code = _CODES[worst(found)]
        output.give({"code": int(code), "findings": [_to_json(finding) for finding in found]}, _shown(output, found))
        raise SystemExit(code)


def _to_json(finding: Finding) -> dict[str, object]:
    return {
        "check": finding.check,
        "level": finding.level,
        "message": finding.message,
        "remedy": finding.remedy,
        "kind": finding.kind,
    }


def _shown(output: Output, found: list[Finding]) -> RenderableType:
    """Return the findings as a table on a terminal, and as one line each elsewhere."""
    return _table(found) if output.out.is_terminal else Text("\n").join(_line(finding) for finding in found)


def _line(finding: Finding) -> Text:
    said = finding.message if finding.remedy is None else f"{finding.message} → {finding.remedy}"
    return Text(f"{finding.level:<7}  {finding.check:<11}  {' '.join(said.splitlines())}")


def _table(found: list[Finding]) -> Table:
    table = Table.grid(padding=(0, 2))
    for _ in range(3):
        table.add_column(overflow="fold")
    for finding in found:
        said = Text(finding.message)
        if finding.remedy is not None:
            said.append(f"\n→ {finding.remedy}")
        table.add_row(Text(finding.level, style=_STYLES[finding.level]), finding.check, said)
    return table
