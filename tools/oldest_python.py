"""The oldest Python 3.11 on this machine, for `make test-oldest`: prints its path.

The first versions of 3.11 have errors that later ones don't have, and Debian 12 has 3.11.2. If this program runs on the
oldest 3.11 itself, or there is none, it prints nothing, and the reason on stderr.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

NAME = "python3.11"
# `make` needs the first two modules for an environment.
_ASK = "import ensurepip, venv, sys; print(*sys.version_info[:3])"


def main() -> None:
    folders = [*os.get_exec_path(), *os.defpath.split(os.pathsep)]
    print(oldest(folders, sys.version_info[:3]) or "")


def oldest(folders: Iterable[str], own: tuple[int, ...]) -> str | None:
    """Return the path of the oldest 3.11 in these folders; None where the tests run on it anyway, or there is none."""
    found = [(version, path) for folder in folders if (version := _version(path := str(Path(folder, NAME))))]
    if not found:
        print(f"nothing to test: this machine has no {NAME} with the venv module", file=sys.stderr)
        return None
    version, path = min(found, key=lambda one: one[0])
    if version >= own:
        number = ".".join(map(str, own))
        print(f"nothing to test: Python {number}, for the other tests, is this machine's oldest 3.11", file=sys.stderr)
        return None
    return path


def _version(path: str) -> tuple[int, ...] | None:
    if not os.access(path, os.X_OK):
        return None
    try:
        asked = subprocess.run([path, "-c", _ASK], capture_output=True, text=True, timeout=60, check=True)
        return tuple(map(int, asked.stdout.split()))
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        print(f"{path} is passed over: {error}", file=sys.stderr)
        return None


if __name__ == "__main__":
    main()
