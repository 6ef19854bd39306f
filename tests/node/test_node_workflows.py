"""The workflows of `.github`, which run elsewhere: actionlint reads their expressions and their steps."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

HERE = Path(__file__).parent
ROOT = HERE.parents[1]


def problems(node: str, *paths: Path) -> list[str]:
    """What it finds in these workflows."""
    command = [node, str(HERE / "workflows.mjs"), *map(str, paths)]
    return subprocess.run(command, check=True, capture_output=True, text=True, timeout=50).stdout.splitlines()


def test_the_workflows_have_no_problem(node_executable: str) -> None:
    """It knows each key, expression, runner and event of all three."""
    paths = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
    assert len(paths) == 3
    assert problems(node_executable, *paths) == []


@pytest.mark.parametrize(
    ("there", "broken"),
    [("${{ matrix.python }}", "${{ matrix.pithon }}"), ("runs-on: ubuntu-latest", "runs-on: ubuntu-12")],
)
def test_a_problem_is_found(node_executable: str, tmp_path: Path, there: str, broken: str) -> None:
    """A value that nothing has, or a runner that is none, would be found."""
    text = (ROOT / ".github" / "workflows" / "ci.yml").read_text("utf-8")
    path = tmp_path / "ci.yml"
    path.write_text(text.replace(there, broken), "utf-8")
    assert problems(node_executable, path)
