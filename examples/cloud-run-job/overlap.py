"""Two overlapping executions of the job on this machine, and a write that comes too late.

Run it with `firecron emulator -- python overlap.py`.
"""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import tempfile
from contextlib import closing
from pathlib import Path

from nightly_import import Fenced, write

FOLDER = Path(__file__).parent


def main() -> int:
    if "FIREBASE_DATABASE_EMULATOR_HOST" not in os.environ:
        sys.exit("there is no emulator: run this as firecron emulator -- python overlap.py")
    with tempfile.TemporaryDirectory() as folder:
        stock = Path(folder) / "stock.db"
        first = start("import-a", stock)
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write("apples,12\n")
        first.stdin.flush()
        line = first.stdout.readline()
        print("import-a:", line, end="")
        # import-a holds the lock now, and waits for the rest of its feed.
        second, said = finish(start("import-b", stock), "apples,1\n")
        print("import-b:", said, end="")
        first_ended, said = finish(first, "pears,7\n")
        print("import-a:", said, end="")
        third, said = finish(start("import-c", stock), "apples,11\npears,6\n")
        print("import-c:", said.replace("\n", "\nimport-c: ", 1), end="")
        if (first_ended, second, third) != (0, 0, 0):
            return 1
        return show_late_write(stock, fence=int(line.split()[-1]))


def start(execution: str, stock: Path) -> subprocess.Popen[str]:
    """Start an execution that reads its feed from its standard input."""
    return subprocess.Popen(
        [sys.executable, "nightly_import.py", "/dev/stdin"],
        cwd=FOLDER,
        env={**os.environ, "CLOUD_RUN_EXECUTION": execution, "STOCK": str(stock)},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,  # the log, which has the same facts
        text=True,
    )


def finish(process: subprocess.Popen[str], rest: str) -> tuple[int, str]:
    """Give an execution the rest of its feed; return its exit code and what it printed."""
    said, _ = process.communicate(rest, timeout=30)
    return process.returncode, said


def show_late_write(stock: Path, fence: int) -> int:
    """Try the write that import-a would make if it had been frozen before it and woke up now."""
    with closing(sqlite3.connect(stock)) as late:
        try:
            write(late, "apples", 12, fence)
        except Fenced as error:
            print(f"import-a, had it slept until now: refused, because {error}")
        levels = dict(late.execute("SELECT item, level FROM stock ORDER BY item").fetchall())
    print(f"the stock: {levels}")
    return 0 if levels == {"apples": 11, "pears": 6} else 1


if __name__ == "__main__":
    raise SystemExit(main())
