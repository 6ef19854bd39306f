"""Which Node.js `make node` takes."""

from __future__ import annotations

from pathlib import Path

import pytest
from tools.node_clients import machines_own


@pytest.mark.parametrize(
    ("script", "is_taken"),
    [
        ("echo v20.0.0", True),
        ("echo v18.20.0", False),
        ("echo 'no version is set for node' >&2; exit 126", False),
        ("echo 'no version is set for node'", False),
    ],
)
def test_the_machines_node_is_taken_if_it_runs_and_is_recent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, is_taken: bool
) -> None:
    """Else PyPI's is: a version manager's shim may be on the PATH without any Node.js behind it."""
    for name in ("node", "npm"):
        (tmp_path / name).write_text(f"#!/bin/sh\n{script}\n", "utf-8")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    expected = (str(tmp_path / "node"), [str(tmp_path / "npm")]) if is_taken else None
    assert machines_own() == expected
