"""A FastAPI application that ticks, and is triggered from outside."""

from __future__ import annotations

import os

from fastapi import FastAPI
from tests.process.tick_jobs import make_crons

from firecron.triggers.access import OidcVerifier

crons = make_crons()
app = FastAPI(lifespan=crons.lifespan)
verifier = OidcVerifier(["https://api.example"], ["scheduler@example.com"], certs_url=os.environ["TRIGGER_CERTS"])
app.mount("/cron", crons.trigger_app(verifier=verifier))


@app.get("/")
def look() -> dict[str, object]:
    return {"pid": os.getpid()}
