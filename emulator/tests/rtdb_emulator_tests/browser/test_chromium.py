"""Which Chromium the tests can use."""

from __future__ import annotations

from pathlib import Path

import pytest

from rtdb_emulator_tests.helpers.chromium import MISSING, find, problem


def _program(folder: Path, script: str) -> str:
    path = folder / "chromium"
    path.write_text(f"#!/bin/sh\n{script}\n", "utf-8")
    path.chmod(0o755)
    return str(path)


@pytest.mark.parametrize(("script", "said"), [("exit 127", "exit status 127"), ("exec sleep 60", "timed out")])
def test_a_chromium_that_does_not_run_is_a_reason_to_skip(tmp_path: Path, script: str, said: str) -> None:
    """A library may be missing, or the program may hang: the reason names the program and what it did."""
    chromium = _program(tmp_path, script)
    why = problem(chromium, timeout=0.5)
    assert why is not None
    assert chromium in why
    assert said in why


def test_no_chromium_is_a_reason_to_skip(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """There is none, or the one that CHROMIUM names is not there."""
    assert problem(None) == MISSING
    monkeypatch.setenv("CHROMIUM", str(tmp_path / "absent"))
    assert str(tmp_path / "absent") in (problem(find()) or "")


def test_a_chromium_that_runs_is_used(tmp_path: Path) -> None:
    """Then there is no reason to skip."""
    assert problem(_program(tmp_path, "echo Chromium 149")) is None
