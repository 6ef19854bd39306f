"""The NestJS original's lock service beside firecron: `examples/nestjs-migration`, with the clients of `make node`."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.nodejs import CLIENTS, needed

# Seconds, after which it hangs. It takes 3; but the two wait for each other thousands of times, and a machine that is
# busy with others makes each of these long.
BOUND = 110

EXAMPLE = Path(__file__).parents[2] / "examples" / "nestjs-migration"


@pytest.fixture
def node_executable() -> str:
    """The Node.js that has the original's client; without one, the test is skipped."""
    return needed()


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy of the example, with what `npm install` would put there."""
    folder = tmp_path / "nestjs-migration"
    shutil.copytree(EXAMPLE, folder, ignore=shutil.ignore_patterns("__pycache__", "node_modules"))
    (folder / "node_modules").symlink_to(CLIENTS / "node_modules")
    return folder


@pytest.mark.timeout(BOUND + 10)
def test_the_original_and_firecron_keep_each_other_out(rtdb: Rtdb, example: Path, node_executable: str) -> None:
    """Whichever of the two holds the lock, the other is refused; of 500 runs of both together no two are at work at the
    same time, each has its share of them, and they leave no node.
    """
    inherited = {key: value for key, value in os.environ.items() if not key.startswith(("PYTEST_", "COV_"))}
    path = f"{Path(node_executable).parent}{os.pathsep}{inherited['PATH']}"
    finished = subprocess.run(
        [sys.executable, "side_by_side.py"],
        cwd=example,
        env=inherited | {"PATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=BOUND,
        check=False,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
    said = finished.stdout
    asked = re.findall(r"^(firecron|the original|an original.*) asks: (it has it|refused)", said, re.MULTILINE)
    assert asked == [
        ("the original", "it has it"),
        ("firecron", "refused"),
        ("firecron", "it has it"),
        ("the original", "refused"),
        ("the original", "it has it"),
        ("an original whose clock is 2 s late", "refused"),
    ]
    assert "refused (held)" in said
    ((theirs, firecrons),) = re.findall(
        r"^both at once: (\d+) runs of the original, (\d+) of firecron", said, re.MULTILINE
    )
    assert int(theirs) + int(firecrons) == 500
    assert min(int(theirs), int(firecrons)) >= 100
    assert rtdb.get("/cron-locks/expire-sessions") is None
    # What the minimum hold has left.
    lock = rtdb.get("/cron-locks/send-daily-digest")
    assert isinstance(lock, dict)
    assert lock["expiresAt"] > lock["releasedAt"] + 10_000
    assert lock["instanceId"] == "local"


def test_the_example_has_the_client_that_is_tested() -> None:
    """The firebase-admin that the example installs is that of these tests."""
    ours, theirs = (json.loads((folder / "package.json").read_text("utf-8")) for folder in (CLIENTS, EXAMPLE))
    assert theirs["dependencies"]["firebase-admin"] == ours["dependencies"]["firebase-admin"]
