"""The JavaScript in the emulator's README runs, as its readers would run it."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from rtdb_emulator.pytest_plugin import Rtdb
from rtdb_emulator_tests.helpers.markdown import Block, blocks
from rtdb_emulator_tests.helpers.nodejs import CLIENTS

README = Path(__file__).parents[3] / "README.md"
SCRIPTS = [block for block in blocks(README) if block.language == "javascript"]
EMULATOR_HOST = "FIREBASE_DATABASE_EMULATOR_HOST"


def is_admins(script: Block) -> bool:
    return '"firebase-admin/' in script.text


@pytest.fixture
def rtdb_namespace() -> str:
    """The database that the README's scripts name."""
    return "shop"


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: str(script.line))
def test_a_script_runs_to_its_end(script: Block, node_executable: str, rtdb: Rtdb) -> None:
    """Each script ends by itself and without an error, and has written to the emulator that it names."""
    # The Admin SDK finds the emulator by its variable, the others by what the script says.
    environment = {key: value for key, value in os.environ.items() if is_admins(script) or key != EMULATOR_HOST}
    finished = subprocess.run(
        [node_executable, "--input-type=module", "-"],
        input=script.text.replace("9000", str(rtdb.emulator.port)),
        cwd=CLIENTS,
        env=environment,
        capture_output=True,
        text=True,
        timeout=40,
        check=False,
    )
    assert finished.returncode == 0, finished.stderr
    assert rtdb.get() in ({"visits": 1}, {"users": {"alice": "hers"}})


def test_every_kind_of_client_has_its_script() -> None:
    """The README has a script for the JavaScript SDK, for rules tests and for the Admin SDK."""
    text = "".join(script.text for script in SCRIPTS)
    assert all(
        package in text for package in ('"firebase/app"', '"@firebase/rules-unit-testing"', '"firebase-admin/app"')
    )
