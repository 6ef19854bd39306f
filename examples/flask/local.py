"""Run two gunicorn workers on this machine for some ticks, and show which worker ran which tick.

Run it with `firecron emulator -- python local.py`.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

parser = argparse.ArgumentParser(description=__doc__)
parser.add_argument("--ticks", type=int, default=5, help="number of ticks to wait for, one every two seconds")
wanted: int = parser.parse_args().ticks
if "FIREBASE_DATABASE_EMULATOR_HOST" not in os.environ:
    sys.exit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run this as firecron emulator -- python local.py")

# Port 0 is any free port.
settings = {"RUNTIME_INSTANCE": "production", "BIND": "127.0.0.1:0"}
server = subprocess.Popen(
    [sys.executable, "-m", "gunicorn", "app:create_app()"],
    cwd=Path(__file__).parent,
    env={"LOG_LEVEL": "WARNING", **os.environ, **settings},
    stdout=subprocess.PIPE,
    text=True,
)
too_late = threading.Timer(30 + 2 * wanted, server.kill)
too_late.start()
ran: dict[str, str] = {}
twice = 0
assert server.stdout is not None
for line in server.stdout:
    print(line, end="", flush=True)
    if match := re.match(r"process (\d+) expires sessions for (.+)", line):
        process, key = match.groups()
        twice += key in ran
        ran[key] = process
        if len(ran) == wanted:
            server.terminate()
server.wait()
too_late.cancel()
print(f"{len(ran)} ticks ran, {twice} of them twice")
sys.exit(0 if len(ran) >= wanted and twice == 0 and server.returncode == 0 else 1)
