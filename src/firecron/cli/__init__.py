"""The command `firecron`: it shows locks, runs and jobs, and it pauses, unlocks and runs them.

The command works on the database that the environment names, as the library does. `--json` prints the same facts for
programs. The library imports nothing of this room.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

_EXTRA = ("typer", "rich", "shellingham")


def main(arguments: Sequence[str] | None = None, name: str | None = None) -> None:
    """Run the command line. If the extra is missing, say what to install and exit with code 2.

    `arguments` and the `name` of the program are those of this process unless given.
    """
    # Looked for here, because a command is imported only when it is called.
    for package in _EXTRA:
        if find_spec(package) is None:
            sys.stderr.write(f"firecron: {package} is not installed: pip install 'firecron[cli]'\n")
            raise SystemExit(2)
    from firecron.cli.commands import app

    app(arguments, name)
