"""Run three instances of the service on this machine for some ticks, and show which instance ran which tick.

Run it with `firecron emulator -- python local.py`.
"""

from __future__ import annotations

import argparse
import json
import os
import socket
import subprocess
import sys
import time
from collections import defaultdict
from contextlib import ExitStack
from pathlib import Path
from typing import Any
from urllib.request import urlopen

INSTANCES = 3
PATIENCE = 30.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ticks", type=int, default=5, help="number of ticks to wait for, one every two seconds")
    ticks: int = parser.parse_args().ticks
    if "FIREBASE_DATABASE_EMULATOR_HOST" not in os.environ:
        sys.exit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run this as firecron emulator -- python local.py")
    with ExitStack() as ending:
        urls = [start_instance(ending) for _ in range(INSTANCES)]
        for url in urls:
            print(f"an instance is up: {url} is {ask(url)['instance']}")
        first = len(runs(urls))
        give_up = time.monotonic() + ticks * 2 + PATIENCE
        while len(runs(urls)) < first + ticks and time.monotonic() < give_up:
            time.sleep(0.1)
        found = runs(urls)
    for key, where in sorted(found.items()):
        print(f"  {key}  ran on {' AND '.join(where)}")
    duplicates = sum(len(where) - 1 for where in found.values())
    print(f"{len(found)} ticks ran, {duplicates} of them twice")
    return 0 if len(found) >= first + ticks and duplicates == 0 else 1


def start_instance(ending: ExitStack) -> str:
    """Start an instance on a free port, and return its address."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port, fd = listening.getsockname()[1], listening.fileno()
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "main:app", "--fd", str(fd), "--log-level", "warning"],
            cwd=Path(__file__).parent,
            env={**os.environ, "RUNTIME_INSTANCE": "production", "LOG_LEVEL": "WARNING"},
            pass_fds=[fd],
        )
    ending.callback(process.wait)
    ending.callback(process.terminate)
    return f"http://127.0.0.1:{port}"


def runs(urls: list[str]) -> dict[str, list[str]]:
    """Return the instances that ran each tick, as the instances themselves report it."""
    found: dict[str, list[str]] = defaultdict(list)
    for url in urls:
        for key in ask(url)["ran_here"]:
            found[key].append(url)
    return dict(found)


def ask(url: str) -> dict[str, Any]:
    try:
        with urlopen(url, timeout=PATIENCE) as reply:  # noqa: S310  # its own instance
            answer: dict[str, Any] = json.load(reply)
    except OSError as error:
        sys.exit(f"{url} can't be read: {error}")
    return answer


if __name__ == "__main__":
    raise SystemExit(main())
