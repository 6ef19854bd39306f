"""`examples/firebase-functions`, with the real functions-framework and firebase-functions (`make functions`)."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

from rtdb_emulator.pytest_plugin import Rtdb

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "firebase-functions"
PYTHON = ROOT / ".venv-functions" / "bin" / "python"
# In seconds.
BOUND = 60.0

pytestmark = pytest.mark.skipif(not PYTHON.exists(), reason="there is no functions-framework: make functions")


def play(rtdb: Rtdb, *command: str) -> str:
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    finished = subprocess.run(
        [PYTHON, *command],
        cwd=EXAMPLE,
        env={**inherited, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    return finished.stdout


def test_a_repeated_call_of_a_scheduled_function_is_refused(rtdb: Rtdb) -> None:
    """Of two calls for one tick the first runs the job and the second is refused; the history names who began it."""
    said = play(rtdb, "two_calls.py").splitlines()
    assert said[0].startswith("the report is written, for write-report:")
    assert said[1:4] == ["POST /: 200", "refused: slot_done", "POST /: 200"]
    history: Any = rtdb.get("/cron-runs/write-report")
    ((slot, run),) = history.items()
    assert (run["outcome"], run["trigger"], run["slot"]) == ("succeeded", "firebase", slot)
    entry: Any = rtdb.get("/cron-jobs/write-report")
    assert (entry["line"], entry["ticks"]) == ("0 6 * * *", False)


def test_a_call_by_hand_claims_no_tick(rtdb: Rtdb) -> None:
    """Without a job of Cloud Scheduler the time of the event is no tick: the run has none, and moves no slot."""
    script = (
        "from datetime import UTC, datetime\n"
        "from firebase_functions.scheduler_fn import ScheduledEvent\n"
        "import main\n"
        "main.run_tick('write-report', ScheduledEvent(job_name=None, schedule_time=datetime.now(UTC)))\n"
    )
    assert "the report is written, for write-report:manual:" in play(rtdb, "-c", script)
    history: Any = rtdb.get("/cron-runs/write-report")
    ((_, run),) = history.items()
    assert ("slot" in run, run["trigger"]) == (False, "firebase")
