"""A Flask application with a page, whose jobs run when a visitor says so."""

from __future__ import annotations

import os

from flask import Flask
from tests.process.tick_jobs import make_crons

from firecron import Access

crons = make_crons()
app = Flask(__name__)
page = crons.status_blueprint(access=lambda visitor: Access("ops@example.com", can_act=True))
app.register_blueprint(page, url_prefix="/crons")


@app.get("/")
def look() -> dict[str, object]:
    return {"pid": os.getpid()}
