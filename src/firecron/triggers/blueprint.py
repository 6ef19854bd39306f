"""The trigger as a Flask blueprint: a request is served on the thread that Flask gives it.

app.register_blueprint(crons.trigger_blueprint(...), url_prefix="/cron")
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

from firecron.base.tracing import trace_of
from firecron.errors import ConfigurationError
from firecron.triggers.handler import Call, Handler
from firecron.triggers.responses import Answer
from firecron.triggers.schedule_time import HEADER

if TYPE_CHECKING:
    import flask

# All methods, so that the handler and not Flask refuses the wrong ones.
_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT"]


def make_blueprint(handler: Handler, name: str) -> flask.Blueprint:
    """Return the blueprint. Flask needs a different `name` for each trigger in one application."""
    try:
        import flask
    except ModuleNotFoundError as error:
        if error.name != "flask":
            raise
        raise ConfigurationError("Flask is not installed: pip install 'firecron[flask]'") from None

    def serve(path: str = "") -> flask.Response:
        headers = flask.request.headers
        trace = trace_of({name.lower(): value for name, value in headers.items()})
        call = Call(flask.request.method, f"/{path}", headers.get("Authorization"), headers.get(HEADER), trace)
        received = handler.receive(call)
        answer = received if isinstance(received, Answer) else received()
        return flask.Response(json.dumps(answer.body), answer.status, answer.headers, content_type="application/json")

    blueprint = flask.Blueprint(name, __name__)
    for rule in ("/", "/<path:path>"):
        blueprint.add_url_rule(rule, "serve", serve, methods=_METHODS)
    return blueprint
