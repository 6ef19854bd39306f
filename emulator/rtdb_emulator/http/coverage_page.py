"""The coverage of rules as a page: each rule with its counts, first the rules with outcomes that were never seen."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

from rtdb_emulator.rules.coverage import Row, percent
from rtdb_emulator.rules.show import show

_HEAD = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>Rules coverage</title>
<style>
body { font-family: sans-serif; margin: 2em }
table { border-collapse: collapse }
th, td { border: 1px solid #ccc; padding: .3em .6em; text-align: left; vertical-align: top }
td.count { text-align: right }
tr.missed { background: #fee }
</style>
"""


def coverage_page(namespace: str, rows: Sequence[Row]) -> str:
    lines = [
        _HEAD,
        f"<h1>Rules of {escape(namespace)}: {percent(rows):.1f} % of their outcomes were seen</h1>",
        "<table><tr><th>where</th><th>rule</th><th>true</th><th>false</th><th>broken</th></tr>",
        *map(_line, sorted(rows, key=lambda row: row.seen == row.possible)),
        "</table></html>\n",
    ]
    return "\n".join(lines)


def _line(row: Row) -> str:
    line, column = row.rule.place
    where = escape(f"/{'/'.join(row.rule.path)} {row.rule.kind} ({line}:{column})")
    counts = "".join(f'<td class="count">{count}</td>' for count in row.counts)
    missed = ' class="missed"' if row.seen < row.possible else ""
    return f"<tr{missed}><td>{where}</td><td><code>{escape(show(row.rule.expression))}</code></td>{counts}</tr>"
