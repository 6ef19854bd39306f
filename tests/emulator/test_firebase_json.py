"""firebase.json serves the official Firebase CLI and this project's emulator alike."""

import json
from pathlib import Path
from typing import Any

import pytest

from rtdb_emulator.cli import DEFAULT_PORT
from rtdb_emulator.rules import Rules

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def config() -> Any:
    return json.loads((ROOT / "firebase.json").read_text(encoding="utf-8"))


def test_the_official_emulator_listens_where_this_one_does(config: Any) -> None:
    """FIREBASE_DATABASE_EMULATOR_HOST need not change with the emulator that is started."""
    assert config["emulators"]["database"]["port"] == DEFAULT_PORT == 9000


def test_the_official_emulator_shows_its_ui(config: Any) -> None:
    """The data can be looked at in a browser."""
    assert config["emulators"]["ui"]["enabled"] is True


def test_the_rules_that_it_names_parse(config: Any) -> None:
    """The path is relative to firebase.json, and the file is in the dialect of rules: JSON with comments."""
    Rules.parse((ROOT / config["database"]["rules"]).read_text(encoding="utf-8"))
