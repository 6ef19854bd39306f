"""A FastAPI application that ticks, and has a page."""

from __future__ import annotations

import os

from fastapi import FastAPI
from tests.process.tick_jobs import make_crons

from firecron import Access

crons = make_crons()
app = FastAPI(lifespan=crons.lifespan)
app.mount("/crons", crons.status_app(access=lambda visitor: Access("ops@example.com", can_act=True)))


@app.get("/")
def look() -> dict[str, object]:
    return {"pid": os.getpid()}
