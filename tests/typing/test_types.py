"""What type checkers make of the public names in a program that uses them."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).with_name("signatures.py")
CHECKERS = {
    "mypy": (["mypy", "--cache-dir", "cache"], "[tool.mypy]\nstrict = true\n"),
    "pyright": (
        ["basedpyright", "--pythonpath", sys.executable],
        '[tool.basedpyright]\ntypeCheckingMode = "strict"\nreportUnnecessaryTypeIgnoreComment = "error"\n',
    ),
}


@pytest.mark.parametrize(("command", "project"), CHECKERS.values(), ids=CHECKERS.keys())
def test_a_strict_program_that_uses_firecron_type_checks(tmp_path: Path, command: list[str], project: str) -> None:
    """A strict checker accepts every right use with the types that it had, and none of the wrong ones."""
    (tmp_path / "pyproject.toml").write_text(project, "utf-8")
    shutil.copy(PROGRAM, tmp_path)
    finished = subprocess.run(
        [sys.executable, "-m", *command, PROGRAM.name],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
        timeout=50,
    )
    assert finished.returncode == 0, finished.stdout + finished.stderr
