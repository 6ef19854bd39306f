"""An instance that takes what is asked for: it says when a run begins. Asks are valid for as long as its argument says,
in milliseconds.
"""

from __future__ import annotations

import sys
import time

from firecron import FireCron, Run, distributed_cron
from firecron.lock import asks
from firecron.settings import load

asks.VALID = int(sys.argv[1])


@distributed_cron("job", "0 0 1 1 *", lock_ttl=3)
def job(run: Run) -> None:
    print(f"began {run.idempotency_key}", flush=True)


settings = load(margin=0.5, clock_interval=300, heartbeat=1)
with FireCron(job, settings=settings, enabled=True):
    print("ready", flush=True)
    time.sleep(60)
