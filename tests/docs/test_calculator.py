"""The calculator's formula gives what was measured: the tables of the pages on cost, which `tests/bench` prints."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from tests.docs.documents import ROOT

from rtdb_emulator_tests.helpers.nodejs import node

SCRIPT = ROOT / "docs" / "static" / "calculator.js"
COST = (ROOT / "docs" / "reference" / "cost.md").read_text("utf-8")
LARGE = (ROOT / "docs" / "explanation" / "large-fleets.md").read_text("utf-8")
PAGE = (ROOT / "docs" / "reference" / "calculator.md").read_text("utf-8")
NEVER = 1e12
EACH = {"minute": 60, "hour": 3600, "day": 86400, "10 s": 10}


def calculated(function: str, given: Sequence[Mapping[str, float]]) -> list[Any]:
    """What a function of the script returns for each of these."""
    executable = node() or shutil.which("node")
    if executable is None:
        pytest.skip("there is no Node.js: make node")
    call = f"{json.dumps(given)}.map((one) => c.{function}(one))"
    program = f"const c = require({json.dumps(str(SCRIPT))}); console.log(JSON.stringify({call}))"
    done = subprocess.run([executable, "-e", program], capture_output=True, text=True, timeout=30, check=True)
    found: list[Any] = json.loads(done.stdout)
    return found


def numbers(text: str) -> list[float]:
    return [float(word.replace(",", "")) for word in re.findall(r"[\d,.]*\d", text)]


def test_an_idle_month_is_as_measured() -> None:
    """Each row of the table of idle months, within a twentieth and the table's own rounding."""
    section = COST.partition("\n## An idle month\n")[2].partition("\n## ")[0]
    rows = [numbers(line) for line in re.findall(r"^ +[\d,]+ +[\d,]+ +\d.*$", section, re.MULTILINE)]
    assert len(rows) == 12
    months = calculated("month", [{"jobs": row[0], "instances": row[1], "interval": NEVER} for row in rows])
    for row, month in zip(rows, months, strict=True):
        *_, moved, sent, dollars = row
        assert month["moved"] == pytest.approx(moved, rel=0.05, abs=0.05), row
        assert month["sent"] == pytest.approx(sent, rel=0.05, abs=0.05), row
        assert month["dollars"] == pytest.approx(dollars, rel=0.05, abs=1), row


def test_a_tick_is_as_measured() -> None:
    """Requests and bytes of a tick in fleets of each size, where all ask and where a dozen do, within a tenth."""
    lines = re.findall(r"^(\d+) instances, contenders=(\d): +(\d+) requests and +([\d,]+) bytes", LARGE, re.MULTILINE)
    assert len(lines) == 4
    given = [{"instances": int(size), "interval": 1 if asked == "0" else 60} for size, asked, _, _ in lines]
    for (*_, requests, size), tick in zip(lines, calculated("tick", given), strict=True):
        assert tick["requests"] == pytest.approx(float(requests), rel=0.1)
        assert tick["bytes"] == pytest.approx(numbers(size)[0], rel=0.1)


def test_the_pages_own_table_is_the_formulas() -> None:
    """The examples on the page, to the digits that it shows."""
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in re.findall(r"^\| \d.*$", PAGE, re.MULTILINE)]
    assert len(rows) == 7
    given = [
        {"jobs": numbers(jobs)[0], "instances": float(instances), "interval": EACH[each]}
        for jobs, instances, each, *_ in rows
    ]
    for row, month in zip(rows, calculated("month", given), strict=True):
        shown = [numbers(cell)[0] for cell in row[3:]]
        for text, number in zip(shown, (month[key] for key in ("requests", "moved", "sent", "dollars")), strict=True):
            assert abs(text - number) <= (0.05 if text < 10 else 0.5), row


def test_a_longer_run_costs_its_renewals() -> None:
    """A run of a minute with a ttl of 60 s renews three times; a short one doesn't renew."""
    short, long = calculated("tick", [{"instances": 1, "interval": 60, "runtime": runtime} for runtime in (19, 60)])
    assert (short["requests"], long["requests"]) == (3, 6)
