"""Tries to run each tick of a list; those before the `good` one fail. People are told in the chat at `SLACK_URL`."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta

from tests.process.tick_jobs import note

from firecron import FireCron, Run, distributed_cron
from firecron.notify import notify

FIRST, NUMBER, GOOD = datetime.fromisoformat(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])


@distributed_cron("report", "* * * * *")
def report(run: Run) -> None:
    note("start", slot=str(run.slot))
    assert run.slot is not None
    if run.slot < FIRST + timedelta(minutes=GOOD):
        raise ValueError("no mail")


if __name__ == "__main__":
    crons = FireCron(report)
    end = notify(crons, slack=os.environ["SLACK_URL"])
    for minutes in range(NUMBER):
        # While another instance runs the tick, the next one would end it for this one.
        for _ in range(10_000):
            refusal = crons.registry.trigger("report", slot=FIRST + timedelta(minutes=minutes)).refusal
            if refusal is None or refusal.reason != "held":
                break
    end()
