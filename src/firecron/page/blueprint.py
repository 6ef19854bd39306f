"""The page as a Flask blueprint: a request is served on the thread that Flask gives it.

    app.register_blueprint(crons.status_blueprint(access=access), url_prefix="/crons")

There are no streams: each would keep a thread of the server. The page polls instead.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from firecron.errors import ConfigurationError
from firecron.page.desk import Desk
from firecron.page.messages import PageRequest
from firecron.page.safety import MOST_BODY
from firecron.page.visitor import Headers
from firecron.page.wsgi import serve

if TYPE_CHECKING:
    import flask
    from flask.blueprints import BlueprintSetupState

# All methods, so that the desk and not Flask refuses the wrong ones.
_METHODS = ["DELETE", "GET", "HEAD", "OPTIONS", "PATCH", "POST", "PUT", "TRACE"]


def make_page_blueprint(desk: Desk, name: str) -> flask.Blueprint:
    """Return the blueprint. Flask needs a different `name` for each page in one application."""
    try:
        import flask
    except ModuleNotFoundError as error:
        if error.name != "flask":
            raise
        raise ConfigurationError("Flask is not installed: pip install 'firecron[flask]'") from None

    def answer(path: str | None = "") -> flask.Response:
        asked = flask.request
        request = PageRequest(
            asked.method,
            "" if path is None else f"/{path}",
            Headers(asked.headers.items()),
            query=asked.query_string.decode("latin-1"),
            full_path=f"{asked.script_root}{asked.path}",
            scheme=asked.scheme,
            original=asked,
        )
        # Where the program has read the body before, as some log it, Flask has kept it.
        reply = serve(desk, request, lambda: asked.stream.read(MOST_BODY + 1) or asked.get_data())
        return flask.Response(reply.body, reply.status, reply.headers)

    blueprint = flask.Blueprint(name, __name__)
    for rule in ("/", "/<path:path>"):
        # Two slashes are nothing here: Flask would redirect them to an absolute URL, which a proxy may not know.
        blueprint.add_url_rule(
            rule, "page", answer, methods=_METHODS, merge_slashes=False, provide_automatic_options=False
        )

    def add_mount(state: BlueprintSetupState) -> None:
        # Else Flask itself would redirect to an absolute URL.
        if state.url_prefix:
            state.add_url_rule(
                "",
                "mount",
                lambda: answer(None),
                methods=_METHODS,
                strict_slashes=True,
                provide_automatic_options=False,
            )

    blueprint.record(add_mount)
    return blueprint
