"""The Makefile's targets, as the pages and `.ci/run` have them."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest
from tests.docs.documents import PAGES, ROOT, prose
from tools.oldest_python import oldest

from rtdb_emulator_tests.helpers.markdown import blocks

README = PAGES[0]
STEPS = re.findall(r"^make (\S+)$", Path(ROOT, ".ci", "run").read_text("utf-8"), re.MULTILINE)


def test_the_readmes_second_command_is_what_has_to_pass() -> None:
    """The first shell block of the README shows the main job and passes the tests; `.ci/run` calls the second one."""
    first = next(block for block in blocks(README) if block.language == "sh")
    shown = re.findall(r"^make (\S+)  # \S", first.text, re.MULTILINE)
    assert (shown, len(first.text.splitlines())) == (["demo", "test"], 2)
    assert shown[1] in STEPS


def test_contributors_are_told_what_has_to_pass() -> None:
    """CONTRIBUTING names each step of `.ci/run`, in its order."""
    [sentence] = re.findall(r"`\.ci/run` is ([^;]+);", prose(ROOT / "CONTRIBUTING.md"))
    assert re.findall(r"`make (\S+)`", sentence) == STEPS


def test_contributors_have_a_row_for_each_target() -> None:
    """CONTRIBUTING has each target of the Makefile, and none that is gone."""
    targets = re.findall(r"^([a-z-]+):.*## ", Path(ROOT, "Makefile").read_text("utf-8"), re.MULTILINE)
    rows = re.findall(r"^\| `make (\S+)` \|", Path(ROOT, "CONTRIBUTING.md").read_text("utf-8"), re.MULTILINE)
    assert sorted(rows) == sorted(targets)


@pytest.mark.parametrize(
    ("own", "found", "said"),
    [
        ((3, 12, 1), "b", ""),
        ((3, 11, 7), "b", ""),
        ((3, 11, 2), None, "Python 3.11.2, for the other tests, is this machine's oldest 3.11"),
        ((3, 11, 0), None, "Python 3.11.0, for the other tests, is this machine's oldest 3.11"),
    ],
)
def test_the_oldest_python_3_11_is_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], own: tuple[int, ...], found: str | None, said: str
) -> None:
    """The oldest of those that run is taken, where the tests don't run on it anyway; a reason is said."""
    scripts = {"a": "echo 3 11 10", "b": "echo 3 11 2", "c": "echo no venv >&2; exit 1", "d": "echo a shim"}
    for folder, script in scripts.items():
        (tmp_path / folder).mkdir()
        program = tmp_path / folder / "python3.11"
        program.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        program.chmod(0o755)
    path = oldest((str(tmp_path / folder) for folder in ("none", *scripts)), own)
    assert path == (found and str(tmp_path / found / "python3.11"))
    err = capsys.readouterr().err
    assert said in err
    assert all(f"{tmp_path / folder / 'python3.11'} is passed over" in err for folder in "cd")


def test_a_machine_without_python_3_11_has_nothing_to_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """There is no path then, and the reason is said."""
    assert oldest([str(tmp_path)], sys.version_info[:3]) is None
    assert capsys.readouterr().err == "nothing to test: this machine has no python3.11 with the venv module\n"
