"""A service that scales to zero: Cloud Scheduler wakes it for each tick, and the job runs inside the request.

The same lock as everywhere: two attempts at one tick, or a tick on an instance that is up anyway, make one run.
"""

from __future__ import annotations

from fastapi import FastAPI

import firecron.logging
from firecron import FireCron, Run, distributed_cron


class Reports:
    @distributed_cron("write-report", "0 6 * * *", timezone="Europe/Berlin", lock_ttl=60)
    async def write_report(self, run: Run) -> None:
        print(f"the report is written, for {run.idempotency_key}", flush=True)


firecron.logging.setup()
# Nothing ticks in here: between requests there is no CPU to tick with.
crons = FireCron(Reports(), enabled=False)
app = FastAPI(lifespan=crons.lifespan)
# The service is private: Cloud Run has verified the token before a request comes in.
app.mount("/cron", crons.trigger_app(trust_cloud_run_iam=True))


@app.get("/alive")
def alive() -> dict[str, bool]:
    return {"alive": True}
