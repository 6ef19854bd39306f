"""The command `firecron`: it shows locks, runs and jobs, and it pauses, unlocks and runs them.

The command works on the database that the environment names, as the library does. `--json` prints the same facts for
programs. The library imports nothing of this room.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

_EXTRA = {"typer", "rich", "shellingham"}


def main(arguments: Sequence[str] | None = None, name: str | None = None) -> None:
    """Run the command line. If the extra is missing, say what to install and exit with code 2.

    `arguments` and the `name` of the program are those of this process unless given.
    """
    try:
        from firecron.cli.commands import app
    except ModuleNotFoundError as error:
        if error.name not in _EXTRA:
            raise
        sys.stderr.write(f"firecron: {error.name} is not installed: pip install 'firecron[cli]'\n")
        raise SystemExit(2) from None
    app(arguments, name)
