"""Play two calls of a scheduled function for one tick on this machine: the first runs the job, the second is refused.

Run it with `firecron emulator -- python two_calls.py`. The function is served by functions-framework, as in production.
"""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.request import Request, urlopen

JOB = "write-report"


def main() -> int:
    if not os.environ.get("FIREBASE_DATABASE_EMULATOR_HOST"):
        raise SystemExit("FIREBASE_DATABASE_EMULATOR_HOST is not set: run firecron emulator -- python two_calls.py")
    # Imported here, because without an emulator nothing of this is needed.
    from functions_framework import create_app
    from werkzeug.serving import make_server

    from firecron import Schedule
    from firecron.locks import LockService

    now = datetime.now(UTC)
    tick = [*Schedule("0 6 * * *", "Europe/Berlin").between(now - timedelta(days=2), now)][-1]
    app = create_app(target="write_report", source=str(Path(__file__).with_name("main.py")), signature_type="http")
    server = make_server("127.0.0.1", 0, app)
    serving = threading.Thread(target=server.serve_forever)
    serving.start()
    try:
        for _ in range(2):
            call(f"http://127.0.0.1:{server.port}/", tick)
    finally:
        server.shutdown()
        serving.join()
        server.server_close()
    database = LockService().database
    history = database.node(f"{database.paths.runs}/{JOB}")
    print("history:", json.dumps(history, indent=2))
    return 0 if isinstance(history, dict) and len(history) == 1 else 1


def call(url: str, tick: datetime) -> None:
    """Send what Cloud Scheduler sends. A repeated call carries the same time."""
    headers = {
        "X-CloudScheduler": "true",
        "X-CloudScheduler-JobName": "firebase-schedule-write_report-europe-west1",
        "X-CloudScheduler-ScheduleTime": f"{tick:%Y-%m-%dT%H:%M:%SZ}",
    }
    with urlopen(Request(url, method="POST", headers=headers), timeout=30) as reply:  # noqa: S310
        print(f"POST /: {reply.status}", flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
