"""The demonstration is true: what it shows and sums up is what happened."""

from __future__ import annotations

import json
import re
from pathlib import Path

from rtdb_emulator_tests.helpers.processes import Run

ROOT = Path(__file__).parents[2]


def test_the_demonstration_shows_a_takeover_and_no_duplicate(run: Run) -> None:
    """One instance is killed in mid-job, another takes its run over, and the database knows of no duplicate and no
    gap.
    """
    finished = run("-m", "firecron", "demo", "--ticks", "3", "--json")
    assert finished.returncode == 0
    # With --json the show goes to standard error.
    assert re.search(r"✗ api-\d is killed during its run", finished.stderr)
    assert re.search(r"↻ api-\d takes the run over \d\.\d s later", finished.stderr)
    slots, runs, duplicates, missed = map(int, re.findall(r"(\d+) │ +(\d+) │ +(\d+) │ +(\d+)", finished.stderr)[0])
    assert (runs, duplicates, missed) == (slots, 0, 0)
    assert slots >= 3
    count = json.loads(finished.stdout)
    takeover = count.pop("takeover")
    assert count == {"slots": slots, "runs": runs, "duplicates": duplicates, "missed": missed}
    assert takeover > 0


def test_the_number_of_ticks_is_checked(run: Run) -> None:
    """A number of ticks that would take too long, or show nothing, is refused in a line with exit code 2."""
    finished = run("-m", "firecron.demo", "--ticks", "1000")
    assert finished.returncode == 2
    assert "--ticks" in finished.stderr


def test_two_clients_of_the_sdk_race_in_the_example(run: Run) -> None:
    """In the example each round has one winner, and one write that the database refused."""
    finished = run(str(ROOT / "examples" / "race.py"))
    assert (finished.returncode, finished.stderr) == (0, "")
    assert finished.stdout.count("1 write refused") == 10
    assert "10 rounds, 10 claims" in finished.stdout
