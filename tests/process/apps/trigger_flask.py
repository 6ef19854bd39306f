"""A Flask application that only runs jobs when it is told to."""

from __future__ import annotations

import os

from flask import Flask
from tests.process.tick_jobs import make_crons

from firecron.triggers.access import OidcVerifier

crons = make_crons()
app = Flask(__name__)
verifier = OidcVerifier(["https://api.example"], ["scheduler@example.com"], certs_url=os.environ["TRIGGER_CERTS"])
app.register_blueprint(crons.trigger_blueprint(verifier=verifier), url_prefix="/cron")


@app.get("/")
def look() -> dict[str, object]:
    return {"pid": os.getpid()}
