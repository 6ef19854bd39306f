"""How long a hold of a thousand jobs takes, and taking it back, with 20 ms added to each request: `make bench`.

All jobs have run, so each lock has a node to be read and replaced. The emulator is a process of its own.
"""

from __future__ import annotations

import os
import sys
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path

import goals
from serving import serving

from firecron.lock.database import Database
from firecron.ops.holds import Holds
from firecron.settings import load

JOBS = 1_000
DELAY = 0.02
SERVE = str(Path(__file__).with_name("serve.py"))


def main() -> None:
    with serving([sys.executable, SERVE, str(DELAY)]) as (port, _):
        os.environ["FIREBASE_DATABASE_EMULATOR_HOST"] = f"127.0.0.1:{port}"
        database = Database(settings=load())
        now = database.now(database.deadline())
        entry = {"line": "0 9 * * *", "timezone": "UTC", "since": now, "service": "api", "ticks": True, "where": "jobs"}
        lock = {"acquiredAt": now, "expiresAt": now, "releasedAt": now, "slot": "2026-11-18T09:00:00Z", "fence": now}
        names = [f"job-{number}" for number in range(JOBS)]
        for path, node in ((database.paths.jobs, entry), (database.paths.locks, lock)):
            database.store.merge(path, dict.fromkeys(names, node), database.deadline())
        holds = Holds(database)
        began = time.perf_counter()
        made = holds.hold(datetime.now(UTC) + timedelta(hours=1), "measuring")
        held = time.perf_counter()
        done = holds.unhold(made.hold.name)
        resumed = time.perf_counter()
        assert (len(made.held), len(done.resumed)) == (JOBS, JOBS)
        database.close()
    print(f"{JOBS:,} jobs, {DELAY * 1000:.0f} ms a request:")
    for what, seconds in (("held", held - began), ("taken back", resumed - held)):
        print(f"  {what:<11} {seconds:6.2f} s (wanted: at most 3)")
        goals.at_most(f"{JOBS:,} jobs {what}, {DELAY * 1000:.0f} ms a request", seconds, 3, "s")


if __name__ == "__main__":
    main()
