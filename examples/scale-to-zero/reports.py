"""A service that scales to zero: Cloud Scheduler wakes it for each tick, and the job runs inside the request.

The lock works as everywhere: if Cloud Scheduler sends a tick twice, or a running instance has the tick too, the job
runs once.
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
# No job ticks in this service: between requests it has no CPU.
crons = FireCron(Reports(), enabled=False)
app = FastAPI(lifespan=crons.lifespan)
# The service is private: Cloud Run has verified the token before a request arrives.
app.mount("/cron", crons.trigger_app(trust_cloud_run_iam=True))


@app.get("/alive")
def alive() -> dict[str, bool]:
    return {"alive": True}
