"""One instance of the demonstration's service: a job, and a line of JSON for each event."""

from __future__ import annotations

import json
import logging
import os
import signal
import sys
import time

import firebase_admin
from firebase_admin import db

from firecron import Event, FireCron, Run, distributed_cron

JOB = "send-digest"
LINE = "*/4 * * * * *"
WORK = 1.0


class Digests:
    def __init__(self, name: str) -> None:
        self.name = name

    @distributed_cron(JOB, LINE, lock_ttl=2, on_abandoned="rerun")
    def send_digest(self, run: Run) -> None:
        """Work for a while, then write a line to the database: it proves which instance ran this tick."""
        ends = time.monotonic() + WORK
        while time.monotonic() < ends:
            run.check()
            run.stopping.wait(0.05)
        assert run.slot is not None, "this job runs only by its schedule"
        db.reference(f"digests/{run.slot:%H%M%S}").push({"by": self.name, "attempt": run.attempt})


def main() -> None:
    logging.getLogger("firecron").addHandler(logging.NullHandler())
    name = sys.argv[1]
    firebase_admin.initialize_app(options={"databaseURL": os.environ["FIRECRON_DATABASE_URL"]})
    crons = FireCron(Digests(name))
    crons.events.subscribe(tell)
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM, signal.SIGINT})
    with crons:
        signal.sigwait({signal.SIGTERM, signal.SIGINT})


def tell(event: Event) -> None:
    print(json.dumps({"slug": event.slug, "name": event.name, **event.fields}), flush=True)


if __name__ == "__main__":
    main()
