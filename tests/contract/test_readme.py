"""What the emulator's README shows is true: every example in it runs."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from tests.conftest import Run, RunPytest

ROOT = Path(__file__).parents[2]
DOCUMENTS = ["README.md", "emulator/README.md"]


def blocks(document: str, language: str) -> list[str]:
    """The fenced blocks of a document in one language."""
    text = Path(ROOT, document).read_text("utf-8")
    return re.findall(rf"^```{language}\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)


EXAMPLES = [
    pytest.param(block, id=f"{document}-{number}")
    for document in DOCUMENTS
    for number, block in enumerate(blocks(document, "python"), 1)
]


@pytest.mark.usefixtures("rtdb")
@pytest.mark.parametrize("example", EXAMPLES)
def test_the_example_works(run: Run, run_pytest: RunPytest, example: str) -> None:
    """An example with tests in it passes under pytest, another one runs as a script; neither warns."""
    tests = example.count("def test_")
    finished = run_pytest(example) if tests else run("-W", "error", "-c", example)
    assert (finished.returncode, finished.stderr) == (0, ""), finished.stdout
    if tests:
        assert f"{tests} passed" in finished.stdout


def test_the_command_has_the_options_shown(run: Run) -> None:
    """Each option of `rtdb-emulator` that the README shows is one that its help lists."""
    text = Path(ROOT, "emulator/README.md").read_text("utf-8")
    shown = set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", text))
    assert {"--port", "--rules", "--import", "--export-on-exit", "--project"} <= shown
    assert shown <= set(re.findall(r"--[a-z][a-z-]*", run("-m", "rtdb_emulator", "--help").stdout))
