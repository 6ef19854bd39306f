"""A Flask application whose jobs start with it, in whatever process makes it."""

from __future__ import annotations

import logging
import os

from flask import Flask
from tests.process.tick_jobs import make_crons, note

logging.basicConfig(level=logging.INFO)

crons = make_crons()
app = Flask(__name__)
crons.init_app(app)
note("made", starts=crons.registry.state("short") == "ticking")


@app.get("/")
def look() -> dict[str, object]:
    return {"pid": os.getpid(), "state": crons.registry.state("short")}
