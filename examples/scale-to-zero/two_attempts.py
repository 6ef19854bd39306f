"""Play Cloud Scheduler's two attempts at one tick on this machine: the first runs the job, the second is refused.

Run it with `firecron emulator -- python two_attempts.py`.
"""

from __future__ import annotations

import json
import os
import socket
import threading
from datetime import UTC, datetime, timedelta
from urllib.request import Request, urlopen

import uvicorn

from firecron import Schedule

JOB = "write-report"


def main() -> int:
    if not os.environ.get("FIREBASE_DATABASE_EMULATOR_HOST"):
        raise SystemExit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run firecron emulator -- python two_attempts.py")
    from reports import app

    now = datetime.now(UTC)
    last_tick = [*Schedule("0 6 * * *", "Europe/Berlin").between(now - timedelta(days=2), now)][-1]
    server = uvicorn.Server(uvicorn.Config(app, log_level="warning"))
    with socket.create_server(("127.0.0.1", 0)) as listening:
        serving = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
        serving.start()
        try:
            url = f"http://127.0.0.1:{listening.getsockname()[1]}/cron/"
            first, second = (attempt(url, last_tick) for _ in range(2))
            print("last runs:", json.dumps(ask(Request(url))["jobs"], indent=2))  # its own address
        finally:
            server.should_exit = True
            serving.join()
    return 0 if (first, second) == ("succeeded", "already_done") else 1


def attempt(url: str, tick: datetime) -> object:
    """Send what Cloud Scheduler sends. Its retry of a tick carries the same time."""
    headers = {"X-CloudScheduler": "true", "X-CloudScheduler-ScheduleTime": f"{tick:%Y-%m-%dT%H:%M:%SZ}"}
    answer = ask(Request(url + JOB, method="POST", headers=headers))  # noqa: S310
    print(f"POST /cron/{JOB}: {answer['result']}: {answer['message']}", flush=True)
    return answer["result"]


def ask(request: Request) -> dict[str, object]:
    with urlopen(request, timeout=30) as reply:  # noqa: S310
        answer: dict[str, object] = json.load(reply)
    return answer


if __name__ == "__main__":
    raise SystemExit(main())
