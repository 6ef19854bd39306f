"""A Flask application whose jobs start with it, in whatever process makes it."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager

from flask import Flask, g
from tests.process.tick_jobs import flask_app, make_crons, note

from firecron import Run

logging.basicConfig(level=logging.INFO)


@contextmanager
def counted(run: Run) -> Iterator[None]:
    """Uses the application's context, of which each run has its own."""
    g.runs = g.get("runs", 0) + 1
    yield
    note("around", job=run.name, app=flask_app(), runs=g.runs)


crons = make_crons(around=[counted])
app = Flask(__name__)
crons.init_app(app)
note("made", starts=crons.registry.state("short") == "ticking")


@app.get("/")
def look() -> dict[str, object]:
    return {"pid": os.getpid(), "state": crons.registry.state("short")}
