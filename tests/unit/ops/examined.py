"""What the doctor has found, sorted for tests."""

from __future__ import annotations

from collections.abc import Iterable

from typer.testing import CliRunner, Result

from firecron.cli.commands import app
from firecron.ops.findings import Finding


def by_check(found: Iterable[Finding]) -> dict[str, list[tuple[str, str]]]:
    """The findings' levels and messages."""
    sorted_out: dict[str, list[tuple[str, str]]] = {}
    for finding in found:
        sorted_out.setdefault(finding.check, []).append((finding.level, finding.message))
    return sorted_out


def levels(found: Iterable[Finding]) -> dict[str, list[str]]:
    return {check: [level for level, _ in lines] for check, lines in by_check(found).items()}


def doctor(*arguments: str) -> Result:
    return CliRunner().invoke(app, ["doctor", *arguments])
