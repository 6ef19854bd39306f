"""An instance of many jobs that ping; the URL is in `PING_URL`."""

from __future__ import annotations

import os

from tests.process.tick_jobs import note

from firecron import FireCron, Run, distributed_cron
from firecron.pings import pings

JOBS = 25


def job(number: int) -> object:
    @distributed_cron(f"Job-{number}", "* * * * * *", lock_ttl=10, expected_runtime=5)
    def work(run: Run) -> None:
        note("start", job=run.name, slot=run.slot.isoformat() if run.slot else None)

    return work


crons = FireCron(*map(job, range(JOBS)))
pings(crons, healthchecks=os.environ["PING_URL"])
