"""What a type checker makes of the public names."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def test_signatures_survive_and_misuse_is_an_error(tmp_path: Path) -> None:
    """mypy accepts every right use with the types that it had, and none of the wrong ones."""
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--follow-imports=silent",
        "--cache-dir",
        str(tmp_path),
        str(HERE / "signatures.py"),
    ]
    finished = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=50)
    assert (finished.returncode, finished.stdout) == (0, "Success: no issues found in 1 source file\n"), finished.stderr
