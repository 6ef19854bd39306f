"""Tries to run each tick of a list, and tells of its runs: pings go to `PING_URL`, check-ins into the journal."""

from __future__ import annotations

import os
import sys
from datetime import datetime, timedelta

import sentry_sdk
from sentry_sdk.envelope import Envelope
from sentry_sdk.transport import Transport
from tests.process.tick_jobs import note

from firecron import FireCron, Run, distributed_cron
from firecron.pings import pings
from firecron.sentry import monitor


class Journal(Transport):
    """Instead of the network."""

    def capture_envelope(self, envelope: Envelope) -> None:
        for item in envelope.items:
            payload = item.payload.json or {}
            note("check-in", id=payload.get("check_in_id"), status=payload.get("status"))


@distributed_cron("Report", "* * * * *", expected_runtime=5)
def report(run: Run) -> None:
    note("start", slot=str(run.slot))


if __name__ == "__main__":
    sentry_sdk.init(dsn="http://key@127.0.0.1:1/1", transport=Journal(), default_integrations=False)
    crons = FireCron(report)
    endings = [pings(crons, healthchecks=os.environ["PING_URL"]), monitor(crons)]
    first, number = datetime.fromisoformat(sys.argv[1]), int(sys.argv[2])
    for minutes in range(number):
        # While another instance runs the tick, the next one would end it for this one.
        for _ in range(10_000):
            refusal = crons.registry.trigger("Report", slot=first + timedelta(minutes=minutes)).refusal
            if refusal is None or refusal.reason != "held":
                break
    for end in endings:
        end()
