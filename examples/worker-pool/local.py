"""Two workers on this machine: one is told to end, as in a roll-out, and the other one runs all further ticks.

Run it with `firecron emulator -- python local.py`.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from queue import Empty, Queue
from typing import TypeAlias

PATIENCE = 30.0

Lines: TypeAlias = "Queue[tuple[str, str]]"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ticks", type=int, default=3, help="number of ticks to wait for, before and after the end of one"
    )
    ticks: int = parser.parse_args().ticks
    if "FIREBASE_DATABASE_EMULATOR_HOST" not in os.environ:
        sys.exit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run this as firecron emulator -- python local.py")
    lines: Lines = Queue()
    keys: list[str] = []
    with worker("worker-a", lines) as first, worker("worker-b", lines):
        keys += [follow(lines) for _ in range(ticks)]
        first.terminate()
        print(f"worker-a was told to end, and ended with exit code {first.wait(PATIENCE)}")
        keys += [follow(lines) for _ in range(ticks)]
    duplicates = len(keys) - len(set(keys))
    print(f"{len(keys)} ticks ran, {duplicates} of them twice")
    return 0 if first.returncode == 0 and duplicates == 0 else 1


@contextmanager
def worker(name: str, lines: Lines) -> Iterator[subprocess.Popen[str]]:
    """Start what the pool's container starts, and put its lines into `lines`, each with the worker's name."""
    with subprocess.Popen(
        [sys.executable, "-m", "firecron", "work", "jobs:crons"],
        cwd=Path(__file__).parent,
        env={
            **os.environ,
            "RUNTIME_INSTANCE": "production",
            "CLOUD_RUN_WORKER_POOL": "feed",
            "CLOUD_RUN_REVISION": name,
            "FIRECRON_MARGIN": "0.2",
        },
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        threading.Thread(target=read, args=(process, name, lines), daemon=True).start()
        try:
            yield process
        finally:
            process.terminate()
            process.wait(PATIENCE)


def read(process: subprocess.Popen[str], name: str, lines: Lines) -> None:
    assert process.stdout is not None
    for line in process.stdout:
        # The other lines are the log, as JSON.
        if line.startswith("imported"):
            lines.put((name, line.rstrip()))


def follow(lines: Lines) -> str:
    """Wait for the next run, print it, and return its key."""
    try:
        name, line = lines.get(timeout=PATIENCE)
    except Empty:
        sys.exit(f"no tick ran within {PATIENCE:g} s")
    print(f"  {name}: {line}", flush=True)
    return line.split()[-1]


if __name__ == "__main__":
    raise SystemExit(main())
