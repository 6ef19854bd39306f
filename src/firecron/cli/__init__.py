"""The command `firecron`: what is held, by whom, what ran, and how to stop it, free it and run it again.

It works on the database that the environment names, as the library does; `--json` prints the same for programs. Nothing
of it is imported by the library.
"""

from __future__ import annotations

import sys

_EXTRA = {"typer", "click", "rich", "shellingham"}


def main() -> None:
    """The entry point; says what to install where the extra is missing."""
    try:
        from firecron.cli.root import run
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        sys.stderr.write(f"firecron: {error.name} is not installed: pip install 'firecron[cli]'\n")
        raise SystemExit(2) from None
    raise SystemExit(run())
