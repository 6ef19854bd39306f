"""Where `start` must not start: processes that only look like the application.

Flask's and Django's reloaders run the program twice, and their other commands load it as well; a job that ticks in
`manage.py migrate` is nobody's wish. Servers need no mention here: each of their workers is a process, and ticks for
itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

_FLASK_SERVING = {"run"}
_DJANGO_SERVING = {"runserver", "runserver_plus", "testserver"}


def reason_not_to_start(
    environment: Mapping[str, str] = os.environ, arguments: Sequence[str] | None = None
) -> str | None:
    """Why jobs should not tick in this process; None if nothing speaks against it."""
    arguments = sys.argv if arguments is None else arguments
    program = Path(arguments[0]).name if arguments else ""
    command = next((argument for argument in arguments[1:] if not argument.startswith("-")), "")
    if environment.get("FLASK_RUN_FROM_CLI") == "true" or program == "flask":
        if not _FLASK_SERVING & set(arguments[1:]):
            return f"this is the Flask command {command!r}, not a server"
        if _is_debugging(environment, arguments) and environment.get("WERKZEUG_RUN_MAIN") != "true":
            return "this is the parent of Flask's reloader; they tick in its child"
    if program in ("manage.py", "django-admin") or program == "django":
        if command not in _DJANGO_SERVING:
            return f"this is the Django command {command!r}, not a server"
        if "--noreload" not in arguments and environment.get("RUN_MAIN") != "true":
            return "this is the parent of Django's reloader; they tick in its child"
    return None


def _is_debugging(environment: Mapping[str, str], arguments: Sequence[str]) -> bool:
    """Whether Flask's reloader is on."""
    if "--no-reload" in arguments:
        return False
    if "--reload" in arguments or "--debug" in arguments:
        return True
    return environment.get("FLASK_DEBUG", "").lower() not in ("", "0", "false", "no")
