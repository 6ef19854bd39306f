"""A Flask service with a job. An application factory makes the application."""

from __future__ import annotations

import os

from flask import Flask

import firecron.logging
from firecron import FireCron, Run, distributed_cron


@distributed_cron("expire-sessions", "*/2 * * * * *", overlap="allow")
def expire_sessions(run: Run) -> None:
    print(f"process {os.getpid()} expires sessions for {run.idempotency_key}", flush=True)


crons = FireCron(expire_sessions)


def create_app() -> Flask:
    firecron.logging.setup(os.environ.get("LOG_LEVEL", "INFO"))
    app = Flask(__name__)
    crons.init_app(app)

    @app.get("/")
    def last_runs() -> dict[str, object]:
        """Return the runs of all processes on all instances, as the database has them."""
        return {job.name: crons.history.read(job.name) for job in crons.registry.jobs()}

    @app.get("/alive")
    def alive() -> dict[str, bool]:
        return {"alive": True}

    return app
