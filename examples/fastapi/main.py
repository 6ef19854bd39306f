"""A service with two jobs. However many instances it has, each tick of a job runs on exactly one of them."""

from __future__ import annotations

import os
from collections import deque

from fastapi import FastAPI, HTTPException

import firecron.logging
from firecron import CronExpression, FireCron, Run, StoreError, distributed_cron


class Prices:
    def __init__(self) -> None:
        self.ran_here: deque[str] = deque(maxlen=100)

    # Every two seconds, for show. The run is very short and needs no lease, so runs may overlap: overlap="allow" claims
    # and releases the tick in one write.
    @distributed_cron("refresh-prices", "*/2 * * * * *", overlap="allow")
    async def refresh(self, run: Run) -> None:
        self.ran_here.append(run.idempotency_key)


class Mailer:
    async def send_digest(self, idempotency_key: str) -> None:
        print(f"the digest goes out, with the idempotency key {idempotency_key}", flush=True)


class Digests:
    def __init__(self, mailer: Mailer) -> None:
        self.mailer = mailer

    # If the instance dies, another one runs the tick again. A mail service that has seen the key sends nothing twice.
    @distributed_cron(
        "send-daily-digest",
        CronExpression.EVERY_DAY_AT_9AM,
        timezone="America/New_York",
        lock_ttl=60,
        on_abandoned="rerun",
    )
    async def send_daily_digest(self, run: Run) -> None:
        await self.mailer.send_digest(run.idempotency_key)


firecron.logging.setup(os.environ.get("LOG_LEVEL", "INFO"))
prices = Prices()
crons = FireCron(prices, Digests(Mailer()))
app = FastAPI(lifespan=crons.lifespan)


@app.get("/")
def last_runs() -> dict[str, object]:
    """Return the last runs on all instances, as the database has them, and the runs of this instance."""
    try:
        history = {job.name: list(crons.history.read(job.name).items())[-5:] for job in crons.registry.jobs()}
    except StoreError as error:
        raise HTTPException(503, str(error)) from error
    return {
        "instance": crons.locks.identity.instance,
        "ran_here": list(prices.ran_here),
        "next": {job.name: crons.registry.next_slots(job.name)[0] for job in crons.registry.jobs()},
        "last_runs": {name: dict(runs) for name, runs in history.items()},
    }


@app.get("/alive")
def alive() -> dict[str, bool]:
    return {"alive": True}
