"""A FastAPI application whose jobs live inside its own lifespan."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI, Request
from tests.process.tick_jobs import make_crons, note

crons = make_crons()


@asynccontextmanager
async def resources(app: object) -> AsyncIterator[dict[str, str]]:
    note("opened")
    yield {"resource": "open"}
    note("closed")


app = FastAPI(lifespan=crons.lifespan_with(resources))


@app.get("/")
async def look(request: Request) -> dict[str, object]:
    return {"pid": os.getpid(), "resource": request.state.resource}
