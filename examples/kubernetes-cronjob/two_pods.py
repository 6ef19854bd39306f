"""Run two pods for one tick on this machine, the second one late.

Run it with `firecron emulator -- python two_pods.py`.
"""

from __future__ import annotations

import os
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

PODS = ("nightly-report-eu", "nightly-report-us")


def main() -> int:
    if not os.environ.get("FIREBASE_DATABASE_EMULATOR_HOST"):
        sys.exit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run this as firecron emulator -- python two_pods.py")
    # One tick a day; today's tick is the start of this minute.
    line = f"{datetime.now(UTC):%-M %-H} * * *"
    return 0 if [start_pod(pod, line) for pod in PODS] == [0, 75] else 1


def start_pod(pod: str, line: str) -> int:
    """Run a pod's container to its end, and return its exit code."""
    command = ["exec", "--lock=nightly-report", "--ttl=60", f"--cron={line}", "--", "./job.sh"]
    print(f"{pod} starts: firecron {' '.join(command)}", flush=True)
    ended = subprocess.run(
        [sys.executable, "-m", "firecron", *command],
        cwd=Path(__file__).parent,
        env={**os.environ, "K_REVISION": pod},
        stderr=subprocess.STDOUT,
        check=False,
    )
    print(f"{pod} ended with exit code {ended.returncode}", flush=True)
    return ended.returncode


if __name__ == "__main__":
    raise SystemExit(main())
