"""A tick on this machine that is killed in the middle of its hand-off, and begun again by another instance.

Run it with `firecron emulator -- python killed.py`.
"""

from __future__ import annotations

import os
import socket
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from pathlib import Path

import grpc
from stand_in import StandIn, unavailable

FOLDER = Path(__file__).parent
PATIENCE = 60.0
TENANTS = 8
QUEUE = "projects/demo/locations/local/queues/reports"


def main() -> int:
    if "FIREBASE_DATABASE_EMULATOR_HOST" not in os.environ:
        sys.exit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run this as firecron emulator -- python killed.py")
    stored_without_reply, goes_on = threading.Event(), threading.Event()

    def hang(_: grpc.ServicerContext) -> None:
        stored_without_reply.set()
        goes_on.wait(PATIENCE)

    # The second request is refused for a moment, and the fifth one stores its task and never answers.
    stand_in = StandIn(before={1: unavailable}, after={4: hang}, deliveries=2)
    with tempfile.TemporaryDirectory() as folder, stand_in:
        store = Path(folder) / "reports.db"
        worker, url = start_worker(store)
        first = start_instance("instance-a", stand_in.host, url)
        if not stored_without_reply.wait(PATIENCE):
            sys.exit(f"no tick has begun within {PATIENCE:g} s")
        first.kill()
        first.wait()
        goes_on.set()
        print(f"instance-a was killed; the queue has {len(stand_in.tasks)} tasks", flush=True)
        second = start_instance("instance-b", stand_in.host, url)
        try:
            said = first_line(second, "attempt")
            print(f"instance-b: {said}")
            tick = said.removeprefix("attempt 2 at ").partition(": ")[0]
            handled = wait_for_reports(store, tick)
        finally:
            for process in (second, worker):
                process.terminate()
                process.wait(PATIENCE)
    named = [name for name, task in stand_in.tasks.items() if f'"{tick}:'.encode() in task.http_request.body]
    print(f"{len(named)} tasks for {TENANTS} tenants; {stand_in.existing} were there already")
    print(f"{len(handled)} tenants have a report, {sum(count > 1 for count in handled.values())} of them twice")
    return 0 if len(named) == TENANTS and handled == Counter(dict.fromkeys(handled, 1)) else 1


def start_worker(store: Path) -> tuple[subprocess.Popen[str], str]:
    """Start the worker on a socket that is open already, so that no task finds it closed."""
    with socket.socket() as listening:
        listening.bind(("127.0.0.1", 0))
        listening.listen()
        port = listening.getsockname()[1]
        process = subprocess.Popen(
            [sys.executable, "-m", "uvicorn", "worker:app", "--fd", str(listening.fileno()), "--log-level", "warning"],
            cwd=FOLDER,
            env={**os.environ, "STORE": str(store)},
            pass_fds=[listening.fileno()],
            text=True,
        )
    return process, f"http://127.0.0.1:{port}/tasks/report"


def start_instance(name: str, tasks: str, url: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "firecron", "work", "hand_off:crons"],
        cwd=FOLDER,
        env={
            **os.environ,
            "RUNTIME_INSTANCE": "production",
            "CLOUD_RUN_WORKER_POOL": "reports",
            "CLOUD_RUN_REVISION": name,
            "FIRECRON_MARGIN": "0.2",
            "SCHEDULE": "*/5 * * * * *",
            "LOCK_TTL": "2",
            "CLOUD_TASKS_EMULATOR_HOST": tasks,
            "TASKS_QUEUE": QUEUE,
            "WORKER_URL": url,
        },
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )


def first_line(process: subprocess.Popen[str], beginning: str) -> str:
    """Wait for the process's first line that begins so, and return it. The other lines are the log, as JSON."""
    assert process.stdout is not None
    said = next((line.rstrip() for line in process.stdout if line.startswith(beginning)), None)
    return said or sys.exit("instance-b has ended, and ran nothing")


def wait_for_reports(store: Path, tick: str) -> Counter[str]:
    """Wait until each tenant has its report of the tick; return how many reports each one has."""
    end = time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with closing(sqlite3.connect(store, timeout=10)) as found:
            rows = found.execute("SELECT tenant FROM reports WHERE key LIKE ? || ':%'", (tick,)).fetchall()
        if len(rows) >= TENANTS:
            return Counter(tenant for (tenant,) in rows)
        time.sleep(0.1)
    sys.exit(f"the reports of {tick} are not there within {PATIENCE:g} s")


if __name__ == "__main__":
    raise SystemExit(main())
