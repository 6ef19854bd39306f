"""What a cold command line costs: `make bench`, or `python tests/bench/commands.py`.

The processor time of whole processes, the interpreter's own among it, as `imports.py` measures it. `status` reads an
emulator that is empty, and whose own work is not counted. Beside them is a command of typer's that does nothing, and
loads pydantic to read its argument, which these don't. firecron loads it to check settings that are given, and numbers.
"""

from __future__ import annotations

import os
import tempfile

import goals
from imports import cost

from rtdb_emulator import Emulator

COMMAND = "import sys; sys.argv[0] = 'firecron'; from firecron.cli import main; main({})"
NOTHING = "import typer; app = typer.Typer(); app.command()(lambda line: None); app(['line'])"
TIMES = 5
WANTED = {("--help",): 100, ("--version",): 100, ("next", "30 2 * * *"): 150, ("status",): 250}


def main() -> None:
    with tempfile.TemporaryDirectory() as compiled, Emulator() as emulator:
        environment = {
            **os.environ,
            "PYTHONPYCACHEPREFIX": compiled,
            "PYTHONDONTWRITEBYTECODE": "",
            "FIREBASE_DATABASE_EMULATOR_HOST": emulator.host,
        }
        nothing = cost(NOTHING, environment, TIMES)
        print(f"\na command of typer's that reads an argument and does nothing: {nothing:.0f} ms")
        for arguments, wanted in WANTED.items():
            found = cost(COMMAND.format([*arguments]), environment, TIMES)
            print(f"firecron {arguments[0]}: {found:.0f} ms (wanted: at most {wanted})")
            goals.at_most(f"firecron {arguments[0]}, processor time", found, wanted, "ms")


if __name__ == "__main__":
    main()
