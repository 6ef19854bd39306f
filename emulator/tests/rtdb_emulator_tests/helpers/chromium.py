"""Which Chromium the tests use: `make browser` of the checkout finds or installs one (`tools/browser.py`)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[4] / ".venv-browser"
STARTER = FOLDER / "chromium"
MISSING = "there is no Chromium: run `make browser`, or name one in the variable CHROMIUM"

_NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")


def find() -> str | None:
    """The path of a Chromium; None if there is none."""
    if named := os.environ.get("CHROMIUM"):
        return named
    if STARTER.exists():  # the one on the path, if any, didn't work then
        return str(STARTER)
    return next(filter(None, map(shutil.which, _NAMES)), None)


def problem(chromium: str | None, timeout: float = 60) -> str | None:
    """Why the tests can't use this Chromium; None if it runs."""
    if chromium is None:
        return MISSING
    try:
        subprocess.run([chromium, "--version"], capture_output=True, timeout=timeout, check=True)
    except (OSError, subprocess.SubprocessError) as error:
        return f"this Chromium does not run: {error}"
    return None
