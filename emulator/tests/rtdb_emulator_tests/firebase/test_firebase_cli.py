"""The Firebase CLI starts, fills, exports and ends this emulator as it does its own."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import requests

from rtdb_emulator_tests.firebase.conftest import INSTANCE, Firebase

# What runs beside the emulator: a client that the rules bind.
CLIENT = f"""
import os, requests
url = "http://" + os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] + "/orders{{}}.json?ns={INSTANCE}"
answers = [
    requests.get(url.format("/first"), timeout=10).json(),
    requests.put(url.format("/second"), data='{{"total": 2}}', timeout=10).status_code,
    requests.put(url.format("/third"), data='{{"total": "much"}}', timeout=10).status_code,
]
open("answers.txt", "w").write(repr(answers))
"""


def exported(folder: Path) -> object:
    """The database's data in an export of the CLI."""
    metadata = json.loads((folder / "firebase-export-metadata.json").read_text("utf-8"))
    return json.loads((folder / metadata["database"]["path"] / f"{INSTANCE}.json").read_text("utf-8"))


def test_a_script_runs_against_imported_data_and_rules(firebase: Firebase, project: Path) -> None:
    """`emulators:exec` loads the rules of firebase.json and an export, and exports what there is at the end."""
    (project / "client.py").write_text(CLIENT, "utf-8")
    data = project / "before" / "database_export"
    data.mkdir(parents=True)
    metadata = {"version": "15.0.0", "database": {"version": "4.11.2", "path": "database_export"}}
    (data.parent / "firebase-export-metadata.json").write_text(json.dumps(metadata), "utf-8")
    (data / f"{INSTANCE}.json").write_text('{"orders": {"first": {"total": 1, ".priority": 3}}}', "utf-8")
    options = ("--only", "database", "--import", "before", "--export-on-exit", "after")
    process = firebase("emulators:exec", f"{sys.executable} client.py", *options)
    said, _ = process.communicate()
    assert process.returncode == 0, said
    assert (project / "answers.txt").read_text("utf-8") == "[{'total': 1}, 200, 401]"
    assert exported(project / "after") == {"orders": {"first": {".priority": 3, "total": 1}, "second": {"total": 2}}}


def test_ctrl_c_exports_and_ends_everything(firebase: Firebase, project: Path) -> None:
    """`emulators:start` serves until SIGINT, and then exports what the clients have written; nothing goes on."""
    process = firebase("emulators:start", "--only", "database", "--export-on-exit", "after")
    assert process.stdout is not None
    said = ""
    while "All emulators ready" not in said:
        line = process.stdout.readline()
        assert line, said
        said += line
    port = json.loads((project / "firebase.json").read_text("utf-8"))["emulators"]["database"]["port"]
    url = f"http://127.0.0.1:{port}/orders/one.json?ns={INSTANCE}"
    assert requests.put(url, data='{"total": 5}', timeout=10).status_code == 200
    process.send_signal(signal.SIGINT)
    rest, _ = process.communicate()
    assert process.returncode == 0, said + rest
    assert exported(project / "after") == {"orders": {"one": {"total": 5}}}


def test_rules_that_can_not_be_used_end_the_cli(firebase: Firebase, project: Path) -> None:
    """The CLI says what this emulator says of the rules, and does not begin."""
    (project / "database.rules.json").write_text('{"rules": {".read": "auth.uid ==="}}', "utf-8")
    process = firebase("emulators:exec", "true", "--only", "database")
    said, errors = process.communicate()
    assert process.returncode == 1
    assert "database.rules.json:1:" in said + errors
